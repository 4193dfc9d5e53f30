//! Faults injected into a simulated disk, and the numbers of its operations.

use std::io;

/// Numbers of operations since the disk was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of reads.
    pub reads: u64,
    /// Writes, truncations and allocations.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Files and folders created, renamed and removed.
    pub names: u64,
    /// Syncs of folders.
    pub folder_syncs: u64,
    /// Bytes written and allocated.
    pub bytes_written: u64,
}

/// The kind of operation that a fault affects, and the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read fails.
    Read,
    /// A write, truncation or allocation fails: any part of it may have been done.
    Write,
    /// A sync of a file fails: any part of the unsynced changes may be durable, and no later sync writes the rest.
    Sync,
    /// Creation, rename or removal of a file or folder fails, and nothing was changed.
    Name,
    /// A sync of a folder fails, and nothing was synced.
    FolderSync,
    /// The power fails during any operation except a read. All operations fail from then on until
    /// [`super::SimulatedDisk::crash`].
    PowerCut,
}

/// Effect of a fault on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Fine,
    Fails,
    /// The power fails during the operation: its change is made but not synced, and it returns no result.
    PowerGoes,
}

/// Faults that have not happened yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub(super) counts: Counts,
    /// Faults, each with the number of operations of its kind that succeed before.
    waiting: Vec<(Operation, u64)>,
    pub(super) no_power: bool,
}

impl Faults {
    pub(super) fn add(&mut self, operation: Operation, before: u64) {
        self.waiting.push((operation, before));
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.no_power = false;
    }

    /// Counts an operation, and returns the effect of the faults on it.
    pub(super) fn next(&mut self, operation: Operation) -> io::Result<Fate> {
        if self.no_power {
            return Err(injected());
        }
        let counts = &mut self.counts;
        *match operation {
            Operation::Read => &mut counts.reads,
            Operation::Write => &mut counts.writes,
            Operation::Sync => &mut counts.syncs,
            Operation::Name | Operation::PowerCut => &mut counts.names,
            Operation::FolderSync => &mut counts.folder_syncs,
        } += 1;
        let mut fate = Fate::Fine;
        self.waiting.retain_mut(|(kind, before)| {
            let power = *kind == Operation::PowerCut && operation != Operation::Read;
            if !power && *kind != operation {
                return true;
            }
            if *before > 0 {
                *before -= 1;
                return true;
            }
            fate = if power { Fate::PowerGoes } else { Fate::Fails };
            false
        });
        self.no_power |= fate == Fate::PowerGoes;
        Ok(fate)
    }
}

/// Error of a disk that fails on demand.
pub(super) fn injected() -> io::Error {
    io::Error::other("injected: input/output error")
}
