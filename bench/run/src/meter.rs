//! Measurements of a worker, which are reported to the feeder.

use crate::clock::RunClock;
use crate::driver::message::{Committed, IdleState, Message};
use crossbeam_channel::Sender;
use hdrhistogram::Histogram;
use omega_core::transaction::Item;
use omega_core::{Commit, JobId, Reason, TaskId, Transaction, Version};
use omega_schedulers::{Observer, Queue};
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of messages that a busy worker collects before it sends them. Each send may wake the feeder, which takes
/// longer than a transaction with one claim.
pub(super) const AT_ONCE: usize = 64;

/// Number of placed tasks in unsent messages at which a busy worker sends them. It is a small part of the window of
/// pending tasks, so that the feeder submits jobs while the worker places others.
const TASKS_AT_ONCE: usize = 256;

/// Measurements of one worker, with its unsent messages.
#[derive(Debug)]
pub(crate) struct Meter {
    worker: usize,
    clock: Arc<RunClock>,
    messages: Sender<Message>,
    /// Messages that were not sent yet. There are fewer than `at_once`, and none while the worker is idle.
    unsent: Vec<Message>,
    /// Number of placed tasks in the messages that were not sent yet.
    unsent_tasks: usize,
    at_once: usize,
    pub(crate) decision_ns: Histogram<u64>,
    pub(crate) decisions: u64,
    pub(crate) placements: u64,
    pub(crate) transactions: u64,
    pub(crate) claims: u64,
    pub(crate) conflicts: u64,
    pub(crate) reasons: Vec<(Reason, u64)>,
    /// For each job, the last of these reasons for which a claim was rejected: an exceeded quota, an exhausted cluster
    /// resource, or an incomplete gang.
    pub(crate) refused: HashMap<JobId, Reason>,
    pub(crate) deciding: Duration,
    pub(crate) wasted: Duration,
    began: Instant,
    /// Time spent on decisions for the open transaction.
    open: Duration,
    told: Option<IdleState>,
    /// The cell's version and the queue's changes when the worker was last idle.
    seen: Option<(Version, u64)>,
    /// Number of decisions since the last placement or the last change of the cell.
    unschedulable: u64,
}

/// Number of tries of each pending job, without a change in between, after which no try is expected to succeed. By then
/// the backoff between tries has grown to a second.
const TRIES_UNSCHEDULABLE: u64 = 12;

impl Meter {
    /// Creates a meter that sends `at_once` messages together while its worker is busy.
    pub(crate) fn new(
        worker: usize,
        clock: Arc<RunClock>,
        messages: Sender<Message>,
        at_once: usize,
    ) -> Meter {
        // The range from a nanosecond to a minute, to two digits, is valid for the histogram.
        let decision_ns = Histogram::new_with_bounds(1, 60_000_000_000, 2);
        Meter {
            worker,
            clock,
            messages,
            unsent: Vec::new(),
            unsent_tasks: 0,
            at_once,
            decision_ns: decision_ns.expect("the bounds are valid"),
            decisions: 0,
            placements: 0,
            transactions: 0,
            claims: 0,
            conflicts: 0,
            reasons: Vec::new(),
            refused: HashMap::new(),
            deciding: Duration::ZERO,
            wasted: Duration::ZERO,
            began: Instant::now(),
            open: Duration::ZERO,
            told: None,
            seen: None,
            unschedulable: 0,
        }
    }

    /// Whether no pending job is expected to be placed: the queue is settled, or many tries in a row placed nothing.
    /// Without the second condition, a plugin that rejects claims for some time would prevent the run's end.
    fn settled(&self, queue: &Queue) -> bool {
        queue.is_settled()
            || self.unschedulable >= TRIES_UNSCHEDULABLE * queue.waiting_jobs() as u64
    }

    /// Records that a frontend has made a round since [`Observer::deciding`], and the number of tasks that it placed.
    pub(super) fn stepped(&mut self, placed: u64) {
        let took = self.began.elapsed();
        self.deciding += took;
        if placed > 0 {
            self.decisions += 1;
            self.decision_ns.saturating_record(took.as_nanos() as u64);
        }
    }

    /// Sends the state of a frontend if it has changed.
    pub(super) fn tell(&mut self, state: IdleState) {
        if self.told != Some(state) {
            self.told = Some(state);
            self.unsent.push(Message::Idle { worker: self.worker, state });
        }
        self.flush();
    }

    /// Sends all messages.
    pub(super) fn flush(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent);
        self.unsent_tasks = 0;
        let message = match unsent.len() {
            0 => return,
            1 => unsent.remove(0),
            _ => Message::Several(unsent),
        };
        // The feeder only drops the channel after the run is over.
        drop(self.messages.send(message));
    }

    fn count_conflict(&mut self, job: JobId, reason: Reason) {
        self.conflicts += 1;
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((reason, 1)),
        }
        use Reason::{CellExhausted, GangIncomplete, QuotaExceeded};
        if matches!(reason, QuotaExceeded(_) | CellExhausted(_) | GangIncomplete) {
            self.refused.insert(job, reason);
        }
    }
}

impl Observer for Meter {
    fn set_aside(&mut self, job: JobId, panic: &str) {
        let line = format!(
            "omega: a decision has panicked, so job {} is not placed: {panic}: this is a bug in \
             Omega, please report it",
            job.0
        );
        // The run goes on, even if its reader has closed standard error.
        drop(writeln!(std::io::stderr(), "{line}"));
    }

    fn deciding(&mut self) {
        self.began = Instant::now();
    }

    fn decided(&mut self, _job: JobId, _asked: usize, placed: usize) {
        let took = self.began.elapsed();
        self.decisions += 1;
        self.unschedulable += 1;
        self.deciding += took;
        self.decision_ns.saturating_record(took.as_nanos() as u64);
        if placed > 0 {
            self.open += took;
        }
    }

    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        // The message may be sent late, so it has the time of the answer.
        let at_ms = self.clock.workload_ms();
        self.transactions += 1;
        self.claims += txn.claims.len() as u64;
        let mut placed = Vec::with_capacity(txn.claims.len());
        for (index, claim) in txn.claims.iter().enumerate() {
            match commit.conflict_of_claim(index) {
                Some(reason) => self.count_conflict(claim.task.job, reason),
                None => placed.push((claim.task, claim.machine)),
            }
        }
        let refused = txn.claims.len() - placed.len();
        let share = refused as f64 / txn.claims.len().max(1) as f64;
        self.wasted += std::mem::take(&mut self.open).mul_f64(share);
        self.placements += placed.len() as u64;
        self.told = None;
        self.unschedulable = 0;
        let version = commit.version;
        let evicted = evicted(txn, commit);
        let (worker, base) = (self.worker, txn.base);
        let committed = Committed { worker, base, version, at_ms, placed, evicted, refused };
        self.unsent_tasks += committed.placed.len();
        self.unsent.push(Message::Committed(committed));
        if self.unsent.len() >= self.at_once || self.unsent_tasks >= TASKS_AT_ONCE {
            self.flush();
        }
    }

    fn idle(&mut self, version: Version, queue: &Queue) {
        // The figures of a long queue cost time, so they are computed only after a change.
        let seen = (version, queue.changes());
        if self.seen == Some(seen) {
            return self.flush();
        }
        self.seen = Some(seen);
        if self.told.is_some_and(|told| told.version != version) {
            self.unschedulable = 0;
        }
        let state = IdleState {
            version,
            unplaceable: queue.unplaceable_tasks(),
            has_tried_all: queue.only_unplaceable(),
            owes_retry: queue.owes_retry(),
            settled: self.settled(queue),
        };
        self.tell(state);
    }
}

/// The tasks that a transaction evicted.
fn evicted(txn: &Transaction, commit: &Commit) -> Vec<TaskId> {
    let taken = |(_, i): &(&TaskId, u32)| commit.conflict_of(Item::Eviction(*i)).is_none();
    txn.evictions.iter().zip(0..).filter(taken).map(|(task, _)| *task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pace;
    use omega_core::{
        Claim, Conflict, KindId, MachineId, SchedulerId, SequenceNumber, TransactionId,
    };

    fn clock() -> Arc<RunClock> {
        Arc::new(RunClock::start(Pace::Fastest))
    }

    fn task(job: u64) -> TaskId {
        TaskId { job: JobId(job), index: 0 }
    }

    #[test]
    fn a_message_that_is_sent_late_has_the_time_of_the_answer() {
        let (sender, messages) = crossbeam_channel::unbounded();
        let clock = clock();
        let mut meter = Meter::new(0, clock.clone(), sender, 64);
        let claims = vec![Claim::new(task(2), MachineId::first(0), SequenceNumber(0))];
        let id = TransactionId { scheduler: SchedulerId(0), number: 1 };
        let txn = Transaction::new(id, Version(1), claims);
        clock.reach(5_000);
        meter.committed(&txn, &Commit { version: Version(2), conflicts: Vec::new() });
        assert!(messages.is_empty(), "the meter collects messages");
        clock.reach(9_000);
        meter.flush();
        let Ok(Message::Committed(told)) = messages.try_recv() else { panic!("it is sent") };
        assert_eq!(told.at_ms, 5_000);
    }

    #[test]
    fn a_rejected_eviction_does_not_hide_a_rejected_claim() {
        let (sender, messages) = crossbeam_channel::unbounded();
        let mut meter = Meter::new(0, clock(), sender, 1);
        let claim = |job| Claim::new(task(job), MachineId::first(0), SequenceNumber(0));
        let id = TransactionId { scheduler: SchedulerId(0), number: 1 };
        let claims = vec![claim(2), claim(3)];
        let evictions = vec![task(0), task(1)];
        let txn = Transaction { evictions, ..Transaction::new(id, Version(1), claims) };
        let quota = Reason::QuotaExceeded(KindId::CPU);
        let conflicts = vec![
            Conflict { item: Item::Eviction(0), reason: Reason::PrecedenceTooLow },
            Conflict { item: Item::Claim(1), reason: quota },
        ];
        meter.committed(&txn, &Commit { version: Version(2), conflicts });
        assert_eq!((meter.claims, meter.placements, meter.conflicts), (2, 1, 1));
        assert_eq!(meter.reasons, [(quota, 1)]);
        assert_eq!(meter.refused.get(&JobId(3)), Some(&quota));
        let Ok(Message::Committed(told)) = messages.try_recv() else { panic!("it is sent") };
        assert_eq!(told.placed, [(task(2), MachineId::first(0))]);
        assert_eq!((told.evicted, told.refused), (vec![task(1)], 1));
    }
}
