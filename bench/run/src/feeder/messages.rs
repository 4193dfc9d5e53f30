//! Messages of the workers: commits, syncs and idle times, as the feeder counts them.

use super::Feeder;
use crate::drive::Drive;
use crate::ends::{Ending, Since};
use crate::ledger::{self, Leavers};
use crate::meter::Message;
use omega_core::{MachineId, TaskId};

impl Feeder {
    /// Receives the waiting messages.
    pub(super) fn receive(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.note(message);
        }
    }

    /// Runs the workers. Returns whether there was a message.
    pub(super) fn wait_for(&mut self, workers: &mut impl Drive) -> bool {
        self.lane.check();
        if self.window.owes_a_wake() {
            workers.wake();
        }
        let message = workers.wait(&self.messages);
        message.map(|message| self.note(message)).is_some()
    }

    /// Counts the content of a message.
    pub(super) fn note(&mut self, message: Message) {
        match message {
            Message::Committed { worker, base, version, placed, evicted, refused } => {
                self.window.seen(worker, base);
                self.note_in_ledger(worker, &placed, &evicted);
                self.placements += placed.len() as u64;
                self.conflicts += refused as u64;
                self.evictions += evicted.len() as u64;
                if !evicted.is_empty() {
                    // Their schedulers have not tried them yet, and may not have them.
                    self.changed = self.changed.max(version);
                    self.stirred = true;
                }
                for task in evicted {
                    let known = self.evicted.entry(task).or_default();
                    known.last = known.last.max(version);
                    known.times += 1;
                }
                self.schedule_ends((version, placed));
            }
            Message::Idle { worker, state } => {
                self.window.seen(worker, state.version);
                self.idle[worker] = state;
            }
            Message::Synced { worker, version } => self.window.seen(worker, version),
            Message::Several(messages) => messages.into_iter().for_each(|one| self.note(one)),
            Message::Done(done) => {
                self.lane.answered(done.purposes.len());
                if let Err(error) = self.note_done(done) {
                    self.failed.get_or_insert(error);
                }
                // Schedulers now see these changes.
                self.note_version();
                self.stirred = true;
            }
        }
    }

    fn note_in_ledger(
        &mut self,
        worker: usize,
        placed: &[(TaskId, MachineId)],
        evicted: &[TaskId],
    ) {
        let Feeder { ledger, cell, now_ms, .. } = self;
        ledger.placed(worker, placed, *now_ms, |task, machine| {
            cell.read(|cell| ledger::preferences(cell, task, machine))
        });
        if !evicted.is_empty() {
            let leavers = Leavers { tasks: evicted, placed };
            cell.read(|cell| ledger.evicted(worker, &leavers, *now_ms, cell));
        }
    }

    /// Schedules the ends of placed tasks; tasks of a job with equal run times end together.
    pub(in super::super) fn schedule_ends(&mut self, (version, tasks): Since) {
        let Feeder { runs, ends, now_ms, .. } = self;
        let end_of = |task: TaskId| {
            let run = runs.get(task.job.0 as usize)?.of(task.index)?;
            Some(now_ms.saturating_add(run))
        };
        for of_job in tasks.chunk_by(|(a, _), (b, _)| a.job == b.job) {
            let mut rest: Ending = of_job.to_vec();
            // Usually all of them: a job is many tasks with one run time.
            while let Some((first, _)) = rest.first() {
                let at = end_of(*first);
                let (now, later) = rest.into_iter().partition(|(task, _)| end_of(*task) == at);
                rest = later;
                if let Some(at_ms) = at {
                    ends.add(at_ms, (version, now));
                }
            }
        }
    }
}
