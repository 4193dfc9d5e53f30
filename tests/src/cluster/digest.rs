//! A hash of all events of a run, by which two runs of a seed are compared: in one process, in two, or on two
//! computers.
//!
//! It includes all outputs of replicas, byte by byte and with their times, and at the end the operations of disks and
//! the states. So any difference between two runs changes the hash.

use super::host::Host;
use super::plan::Micros;
use omega_store::log::ReplicaId;
use omega_store::node::Write;
use omega_store::replica::{Output, PeerMessage};
use omega_store::wire;
use xxhash_rust::xxh3::xxh3_64;

/// Hash of a run; see the head of the file.
#[derive(Debug, Default)]
pub(super) struct Digest {
    value: u64,
    /// A buffer that is reused to save allocations.
    bytes: Vec<u8>,
}

impl Digest {
    /// The hash of everything so far.
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// Adds the effects that a replica requests at this time.
    pub(super) fn output(&mut self, now: Micros, of: ReplicaId, output: &Output) {
        self.number(now);
        self.number(of.0);
        for (to, message) in &output.messages {
            self.number(to.0);
            self.message(message);
        }
        output.writes.iter().for_each(|write| self.write(write));
        self.number(output.compact.map_or(0, |base| base.index.0));
        self.number(output.files.len() as u64);
        for (id, answer) in &output.replies {
            self.message(&PeerMessage::Reply { id: *id, reply: answer.clone() });
        }
    }

    /// Adds the final state of a host.
    pub(super) fn host(&mut self, host: &Host) {
        let counts = host.disk.counts();
        [counts.reads, counts.writes, counts.syncs, counts.bytes_written, host.disk.used()]
            .into_iter()
            .for_each(|count| self.number(count));
        if let Some(running) = &host.running {
            let state = running.replica.applied().lock();
            self.number(state.position.index.0);
            self.number(state.cell.state_hash());
        }
    }

    fn number(&mut self, number: u64) {
        // The multiplier of Fibonacci hashing, which is odd and has no pattern.
        let mixed = self.value.rotate_left(29) ^ number;
        self.value = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn message(&mut self, message: &PeerMessage) {
        self.bytes.clear();
        wire::encode(message, &mut self.bytes).expect("what is sent has bytes");
        self.number(xxh3_64(&self.bytes));
    }

    fn write(&mut self, write: &Write) {
        self.number(write.number);
        self.number(write.restart.map_or(0, |base| base.index.0));
        if let Some(state) = write.batch.hard_state {
            self.number(state.term.0);
            self.number(state.vote.map_or(0, |vote| vote.0));
            self.number(state.commit.0);
        }
        for entry in &write.batch.entries {
            self.number(entry.position.index.0);
            self.number(entry.position.term.0);
            self.number(xxh3_64(&entry.data));
        }
    }
}
