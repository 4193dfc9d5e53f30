//! Handling of workers' messages: the feeder counts commits, syncs and idle times.

use super::Feeder;
use crate::driver::drive::Drive;
use crate::driver::ledger::{self, Leavers};
use crate::driver::message::{Committed, Message};
use omega_core::{MachineId, TaskId, Version};

impl Feeder {
    /// Handles all messages that have arrived.
    pub(super) fn receive(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.note(message);
        }
    }

    /// Runs the workers, and handles a message. Returns whether there was a message.
    pub(super) fn wait_for(&mut self, workers: &mut impl Drive) -> bool {
        self.commands.check();
        if self.watch.owes_a_wake() {
            workers.wake();
        }
        let message = workers.wait(&self.messages);
        message.map(|message| self.note(message)).is_some()
    }

    /// Counts the content of a message.
    pub(super) fn note(&mut self, message: Message) {
        match message {
            Message::Committed(committed) => self.note_commit(committed),
            Message::Idle { worker, state } => self.watch.idle(worker, state),
            Message::Several(messages) => messages.into_iter().for_each(|one| self.note(one)),
            Message::Done(done) => {
                self.commands.answered(done.purposes.len());
                if let Err(error) = self.note_done(done) {
                    self.failed.get_or_insert(error);
                }
                // The schedulers can now see the applied changes.
                self.note_version();
                self.watch.stir();
            }
        }
    }

    fn note_commit(&mut self, committed: Committed) {
        self.watch.seen(committed.worker, committed.base);
        self.note_in_ledger(&committed);
        self.counts.committed(&committed);
        let Committed { version, at_ms, placed, evicted, .. } = committed;
        if !evicted.is_empty() {
            // A scheduler cannot try the evicted tasks before it has synced to this version.
            self.watch.must_see(version);
            self.watch.stir();
        }
        self.write_placed(version, at_ms, &placed);
        self.agenda.schedule_ends(at_ms, (version, placed), &self.cell);
    }

    /// Writes tasks that were placed or moved to the file of placements, if there is one.
    pub(super) fn write_placed(
        &mut self,
        version: Version,
        at_ms: u64,
        tasks: &[(TaskId, MachineId)],
    ) {
        let Some(file) = self.placed.as_mut().filter(|_| !tasks.is_empty()) else { return };
        file.add(version, at_ms, tasks);
        if let Err(error) = file.write(self.watch.version_seen_by_all()) {
            self.failed.get_or_insert(error);
        }
    }

    fn note_in_ledger(&mut self, committed: &Committed) {
        let Committed { worker, at_ms, placed, evicted, .. } = committed;
        let Feeder { ledger, cell, .. } = self;
        ledger.placed(*worker, placed, *at_ms, |task, machine| {
            cell.read(|cell| ledger::preferences(cell, task, machine))
        });
        if !evicted.is_empty() {
            let leavers = Leavers { tasks: evicted, placed };
            cell.read(|cell| ledger.evicted(*worker, &leavers, *at_ms, cell));
        }
    }
}
