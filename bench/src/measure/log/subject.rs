//! A measured log: a log engine of Omega, or another store that is used as a log.

use omega_store::CellId;
use omega_store::log::segment::LogOwner;
use omega_store::log::{Batch, Entry, EntryKind, LogEngine, LogIndex, Position, ReplicaId, Term};

pub(super) const OWNER: LogOwner = LogOwner { cell: CellId(1), replica: ReplicaId(1) };

/// Bytes of an entry: as many as a transaction with a dozen claims has.
pub(super) const ENTRY_BYTES: usize = 256;

/// Bytes read at once: the size of a leader's message.
const READ_BYTES: usize = 1 << 20;

/// A log of entries with one term, from index 1 on.
pub(super) trait Subject {
    /// Appends a batch and makes it durable.
    fn append(&mut self, batch: &Batch);
    /// Reads all entries. Returns the number of entries.
    fn read(&mut self) -> u64;
    /// Removes the first `count` entries.
    fn forget(&mut self, count: u64);
    /// Number of entries in the store.
    fn held(&self) -> u64;
    /// The index of the next entry.
    fn next(&self) -> u64;
    /// Number of bytes of the log on the disk.
    fn bytes_on_disk(&self) -> u64;
}

/// A log engine of `omega-store`.
pub(super) struct Engine {
    log: Box<dyn LogEngine>,
    /// Bytes of data after which the log is truncated; 0 for never.
    compact_bytes: usize,
    since: usize,
}

impl Engine {
    pub(super) fn new(log: Box<dyn LogEngine>, compact_bytes: usize) -> Engine {
        Engine { log, compact_bytes, since: 0 }
    }

    /// Appends this many bytes, to create old segments.
    pub(super) fn fill(&mut self, bytes: u64) {
        for _ in 0..bytes.div_ceil((4096 * ENTRY_BYTES) as u64) {
            let batch = batch(self.next(), 4096);
            self.append(&batch);
        }
        let held = self.held();
        self.forget(held);
    }
}

impl Subject for Engine {
    fn append(&mut self, batch: &Batch) {
        self.log.append(batch).expect("the disk works");
        self.log.sync().expect("the disk works");
        self.since += batch.entries.len() * ENTRY_BYTES;
        if self.compact_bytes > 0 && self.since >= self.compact_bytes {
            self.since = 0;
            let held = self.held();
            self.forget(held);
        }
    }

    fn read(&mut self) -> u64 {
        let mut next = self.log.bounds().base.index.next();
        let mut entries = Vec::new();
        let mut count = 0;
        while next <= self.log.bounds().last.index {
            entries.clear();
            self.log.read(next, READ_BYTES, &mut entries).expect("the disk works");
            count += entries.len() as u64;
            next = LogIndex(next.0 + entries.len() as u64);
        }
        count
    }

    fn forget(&mut self, count: u64) {
        let index = LogIndex(self.log.bounds().base.index.0 + count);
        self.log.compact(Position { index, term: Term(1) }).expect("the disk works");
        self.log.sync().expect("the disk works");
    }

    fn held(&self) -> u64 {
        let bounds = self.log.bounds();
        bounds.last.index.0 - bounds.base.index.0
    }

    fn next(&self) -> u64 {
        self.log.bounds().last.index.0 + 1
    }

    fn bytes_on_disk(&self) -> u64 {
        self.log.bytes_on_disk()
    }
}

/// A batch of entries that begins at an index.
pub(super) fn batch(first: u64, count: usize) -> Batch {
    let entry = |index: u64| {
        let position = Position { index: LogIndex(index), term: Term(1) };
        let mut data = vec![index as u8; ENTRY_BYTES];
        data[..8].copy_from_slice(&index.to_le_bytes());
        Entry { position, kind: EntryKind::Commands, data: data.into() }
    };
    Batch { entries: (first..).take(count).map(entry).collect(), hard_state: None }
}
