//! What a scheduler's thread measures, and what it tells the feeder.

use super::lane::Done;
use crossbeam_channel::Sender;
use hdrhistogram::Histogram;
use omega_core::transaction::Item;
use omega_core::{Commit, JobId, MachineId, Reason, TaskId, Transaction, Version};
use omega_schedulers::{Observer, Queue};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What a worker, or the lane, tells the feeder.
#[derive(Debug)]
pub(crate) enum Message {
    /// A transaction that was decided at a version was answered at another: these tasks have machines, these have none any
    /// more, so many claims were refused.
    Committed {
        worker: usize,
        base: Version,
        version: Version,
        placed: Vec<(TaskId, MachineId)>,
        evicted: Vec<TaskId>,
        refused: usize,
    },
    /// A worker has tried all that there was at a version.
    Idle { worker: usize, state: IdleState },
    /// A worker has seen a version, and its jobs wait for some time to pass.
    Synced { worker: usize, version: Version },
    /// Commands of the feeder were answered.
    Done(Done),
}

/// Where a worker stands that has nothing to try at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdleState {
    /// What it has seen of the cell.
    pub(crate) version: Version,
    /// How many of its tasks find no room.
    pub(crate) unplaceable: usize,
    /// Whether it has tried them since room came free last, and not only before.
    pub(crate) settled: bool,
}

/// Measures one scheduler.
#[derive(Debug)]
pub(crate) struct Meter {
    worker: usize,
    messages: Sender<Message>,
    pub(crate) decision_ns: Histogram<u64>,
    pub(crate) decisions: u64,
    pub(crate) placements: u64,
    pub(crate) transactions: u64,
    pub(crate) claims: u64,
    pub(crate) conflicts: u64,
    pub(crate) reasons: Vec<(Reason, u64)>,
    /// Why claims of a job were refused last, if not for what others did in the meantime.
    pub(crate) refused: HashMap<JobId, Reason>,
    pub(crate) deciding: Duration,
    pub(crate) wasted: Duration,
    began: Instant,
    /// Time spent deciding what is in the open transaction.
    open: Duration,
    told: Option<IdleState>,
    /// The version that was told last of a worker whose jobs wait for time to pass.
    synced: Version,
    /// Decisions since something was placed, or was heard of the cell.
    unschedulable: u64,
}

/// After so many tries of each job that waits, with nothing else going on, no more is expected: the
/// waits between them have grown to a second by then.
const TRIES_UNSCHEDULABLE: u64 = 12;

impl Meter {
    pub(crate) fn new(worker: usize, messages: Sender<Message>) -> Meter {
        // A nanosecond to a minute, to two digits: every valid argument.
        let decision_ns = Histogram::new_with_bounds(1, 60_000_000_000, 2);
        Meter {
            worker,
            messages,
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
            synced: Version(0),
            unschedulable: 0,
        }
    }

    /// Whether nothing will come of what waits. A plugin that refuses until some time has passed,
    /// and always, would keep a run from its end.
    fn settled(&self, queue: &Queue) -> bool {
        queue.is_settled()
            || self.unschedulable >= TRIES_UNSCHEDULABLE * queue.waiting().len() as u64
    }

    /// Notes that a front has made a round since [`Observer::deciding`], and placed so many tasks.
    pub(super) fn stepped(&mut self, placed: u64) {
        let took = self.began.elapsed();
        self.deciding += took;
        if placed > 0 {
            self.decisions += 1;
            self.decision_ns.saturating_record(took.as_nanos() as u64);
        }
    }

    /// Tells where a front stands, unless that was told.
    pub(super) fn tell(&mut self, state: IdleState) {
        if self.told != Some(state) {
            self.told = Some(state);
            drop(self.messages.send(Message::Idle { worker: self.worker, state }));
        }
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
        eprintln!(
            "omega: a decision has panicked, and job {} is not placed: {panic}; please report this bug",
            job.0
        );
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
        self.transactions += 1;
        self.claims += txn.claims.len() as u64;
        let mut conflicts = commit.conflicts.iter().peekable();
        let mut placed = Vec::with_capacity(txn.claims.len());
        for (claim, index) in txn.claims.iter().zip(0..) {
            match conflicts.next_if(|conflict| conflict.item == Item::Claim(index)) {
                Some(conflict) => self.count_conflict(claim.task.job, conflict.reason),
                None => placed.push((claim.task, claim.machine)),
            }
        }
        let refused = txn.claims.len() - placed.len();
        let share = refused as f64 / txn.claims.len().max(1) as f64;
        self.wasted += std::mem::take(&mut self.open).mul_f64(share);
        self.placements += placed.len() as u64;
        self.told = None;
        self.unschedulable = 0;
        // The feeder is gone only once the run is over.
        let version = commit.version;
        let evicted = evicted(txn, commit);
        drop(self.messages.send(Message::Committed {
            worker: self.worker,
            base: txn.base,
            version,
            placed,
            evicted,
            refused,
        }));
    }

    fn idle(&mut self, version: Version, queue: &Queue) {
        if self.told.is_some_and(|told| told.version != version) {
            self.unschedulable = 0;
        }
        let state = IdleState {
            version,
            unplaceable: queue.unplaceable_tasks(),
            settled: self.settled(queue),
        };
        if queue.only_unplaceable() {
            self.tell(state);
        } else if self.synced != version {
            self.synced = version;
            drop(self.messages.send(Message::Synced { worker: self.worker, version }));
        }
    }
}

/// The tasks that a transaction evicted.
fn evicted(txn: &Transaction, commit: &Commit) -> Vec<TaskId> {
    let taken = |(_, i): &(&TaskId, u32)| commit.conflict_of(Item::Eviction(*i)).is_none();
    txn.evictions.iter().zip(0..).filter(taken).map(|(task, _)| *task).collect()
}
