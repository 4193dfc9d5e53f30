//! A cell in this process, shared between threads.
//!
//! One lock protects the state machine. A commit holds the lock for a few hundred nanoseconds, and a sync for a few
//! nanoseconds per changed machine. Many readers copy most changes without the lock, as `delta/shared.rs` explains.
//! Decisions, which take most of a scheduler's time, use a private view and no lock.
//!
//! A waiting thread spins before it sleeps. It spins for longer than `parking_lot` would, because the lock is usually
//! released before a thread could fall asleep and wake up.

use crate::cell::Cell;
use crate::delta::build::Wanted;
use crate::delta::shared::{SharedDeltas, Unread};
use crate::delta::{Delta, Interest};
use crate::handle::{CellHandle, CommitsAndSync, HandleError};
use crate::snapshot::SnapshotState;
use crate::state::reply_cache::Digest;
use omega_core::{Command, Commit, Outcome, Rejection, SchedulerId, Text, Transaction, Version};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of pieces of a snapshot that are copied each time that the lock is held. Copying them takes as long as a few
/// hundred commits.
const PIECES: usize = 4;

/// Number of times that a thread tries a taken lock before it sleeps. These tries take about a hundred microseconds. A
/// sleep takes about as long: an idle processor halts, and on a virtual machine it takes 80 microseconds to wake. So
/// spinning at most doubles the wait.
const LOOKS: u32 = 4000;

/// A cell in this process, which clones share.
#[derive(Clone, Debug)]
pub struct SharedCell {
    /// The only lock of the cell, which protects its whole state. While it is locked, only the state machine and the
    /// shared deltas are called.
    locked: Arc<Mutex<Locked>>,
    /// Held while a snapshot is taken, because a cell can run only one capture at a time. It must be locked before
    /// `locked`.
    capturing: Arc<Mutex<()>>,
}

/// The data behind the lock.
#[derive(Debug)]
struct Locked {
    cell: Cell,
    shared: SharedDeltas,
}

impl Locked {
    /// Fills a delta, or only its head. In the second case, the caller appends shared deltas after it has released the
    /// lock.
    fn begin_sync(
        &mut self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> PendingSync {
        let Locked { cell, shared } = self;
        let unread = shared.begin_sync(cell, since).filter(|_| delta.lineage == cell.lineage);
        let Some(unread) = unread else {
            cell.delta_since(since, interest, delta);
            return PendingSync { to: delta.to, remaining: None };
        };
        cell.write_head(since, delta);
        PendingSync { to: delta.to, remaining: Some((unread, cell.wanted(interest))) }
    }
}

/// A sync with a [`SharedCell`] that no longer needs the cell's lock, but has not filled its delta yet.
#[derive(Debug)]
#[must_use = "the delta is incomplete until `finish`"]
pub struct PendingSync {
    /// The version of the cell at the sync.
    to: Version,
    remaining: Option<(Unread, Wanted)>,
}

impl PendingSync {
    /// Whether the delta lacks changes.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.remaining.is_some()
    }

    /// Fills the delta that the sync was begun with.
    ///
    /// # Panics
    /// The delta is of another sync.
    pub fn finish(self, delta: &mut Delta) {
        assert_eq!(delta.to, self.to, "the delta of this sync");
        if let Some((unread, wanted)) = self.remaining {
            unread.append_to(delta, wanted);
        }
    }
}

impl SharedCell {
    /// Shares a cell.
    #[must_use]
    pub fn new(cell: Cell) -> SharedCell {
        let locked = Locked { cell, shared: SharedDeltas::default() };
        SharedCell { locked: Arc::new(Mutex::new(locked)), capturing: Arc::default() }
    }

    /// Locks the cell.
    fn lock(&self) -> MutexGuard<'_, Locked> {
        for _ in 0..LOOKS {
            if let Some(locked) = self.locked.try_lock() {
                return locked;
            }
            std::hint::spin_loop();
        }
        self.locked.lock()
    }

    /// The state at one version. It is copied piece by piece, and commits may happen between the pieces.
    #[must_use]
    pub fn snapshot_state(&self) -> SnapshotState {
        let _one_at_a_time = self.capturing.lock();
        self.lock().cell.begin_capture();
        loop {
            let mut locked = self.lock();
            if let Some(captured) = locked.cell.capture_more(PIECES) {
                drop(locked);
                return captured.into_snapshot_state();
            }
            // A thread that waits for the lock gets it before the next pieces are copied.
            MutexGuard::unlock_fair(locked);
        }
    }

    /// Applies one command.
    ///
    /// # Errors
    /// Those of [`Cell::apply`].
    pub fn apply(&self, command: Command) -> Result<Outcome, Rejection> {
        self.lock().cell.apply(command)
    }

    /// Applies commands in order under one lock. The results are in the order of the commands. All commands are
    /// collected before the lock is taken.
    pub fn apply_all(
        &self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Vec<Result<Outcome, Rejection>> {
        let commands: Vec<Command> = commands.into_iter().collect();
        let cell = &mut self.lock().cell;
        commands.into_iter().map(|command| cell.apply(command)).collect()
    }

    /// Applies commands in order under one lock, and passes each result to `answered`. Commits wait until all commands
    /// are applied. Neither commands nor results are collected, so this is the cheapest way to apply many small
    /// commands.
    ///
    /// `commands` and `answered` must not use the cell.
    pub fn apply_each(
        &self,
        commands: impl IntoIterator<Item = Command>,
        mut answered: impl FnMut(Result<Outcome, Rejection>),
    ) {
        let cell = &mut self.lock().cell;
        commands.into_iter().for_each(|command| answered(cell.apply(command)));
    }

    /// Commits transactions, and calls `then` before another thread can change the cell.
    fn commit_then<T>(
        &self,
        txns: &[&Transaction],
        then: impl FnOnce(&mut Locked) -> T,
    ) -> (Vec<Result<Commit, HandleError>>, T) {
        let digests: SmallVec<[Digest; 16]> = txns.iter().map(|txn| Digest::of(txn)).collect();
        let mut commits = Vec::with_capacity(txns.len());
        let mut locked = self.lock();
        let commit = |(txn, digest): (&&Transaction, Digest)| {
            Ok(locked.cell.commit_digested(txn, digest)?)
        };
        commits.extend(txns.iter().zip(digests).map(commit));
        let then = then(&mut locked);
        drop(locked);
        (commits, then)
    }

    /// Does the part of [`CellHandle::sync`] that needs the cell's lock.
    pub fn begin_sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> PendingSync {
        delta.clear();
        self.lock().begin_sync(since, interest, delta)
    }

    /// Does the part of [`CellHandle::commit_and_sync`] that needs the cell's lock.
    pub fn commit_and_begin_sync(
        &self,
        txns: &[&Transaction],
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> (Vec<Result<Commit, HandleError>>, PendingSync) {
        delta.clear();
        self.commit_then(txns, |locked| locked.begin_sync(since, interest, delta))
    }

    /// Calls `look` with the cell, and returns the result of `look`. The cell is locked during the call, so commits
    /// wait, and `look` must not use this handle or its clones: that would wait for ever.
    pub fn read<T>(&self, look: impl FnOnce(&Cell) -> T) -> T {
        look(&self.lock().cell)
    }
}

impl CellHandle for SharedCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        match self.apply(Command::RegisterScheduler { name }) {
            Ok(Outcome::Scheduler { id, next_transaction }) => Ok((id, next_transaction)),
            Ok(_) => unreachable!("registering a scheduler gives a scheduler"),
            Err(rejection) => Err(HandleError::NotRegistered(rejection)),
        }
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.begin_sync(since, interest, delta).finish(delta);
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        let digest = Digest::of(txn);
        Ok(self.lock().cell.commit_digested(txn, digest)?)
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        self.commit_then(txns, |_| ()).0
    }

    fn commit_and_sync(
        &self,
        txns: &[&Transaction],
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> CommitsAndSync {
        let (commits, pending) = self.commit_and_begin_sync(txns, since, interest, delta);
        pending.finish(delta);
        CommitsAndSync { commits, synced: Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{
        Amounts, Claim, Job, JobId, Kinds, Machine, MachineId, Reason, SequenceNumber, TaskGroup,
        TaskId, TransactionId,
    };

    #[test]
    fn each_answer_is_shown_in_order() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let machine = |name: &str| Machine::new(name, Amounts::new([10]));
        let names = ["a", "b", "a"];
        let mut answers = Vec::new();
        let commands = names.map(|name| Command::RegisterMachine(machine(name)));
        cell.apply_each(commands, |answer| answers.push(answer.is_ok()));
        assert_eq!(answers, [true, true, false]);
        assert_eq!(cell.read(|cell| cell.machines().count()), 2);
    }

    /// A cell with one machine that has room for ten tasks, and a job of twenty tasks.
    fn small_cell() -> SharedCell {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([10])))).unwrap();
        let job = Job::batch("j", TaskGroup::new(20, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        cell
    }

    /// A transaction that claims the machine for some of the tasks.
    fn claiming(
        scheduler: SchedulerId,
        number: u64,
        tasks: impl Iterator<Item = u32>,
    ) -> Transaction {
        let claim = |index| {
            let task = TaskId { job: JobId(0), index };
            Claim::new(task, MachineId::first(0), SequenceNumber(0))
        };
        let id = TransactionId { scheduler, number };
        Transaction::new(id, Version(0), tasks.map(claim).collect())
    }

    #[test]
    fn transactions_together_are_checked_one_after_the_other() {
        let cell = small_cell();
        let (scheduler, first) = cell.register("s".into()).unwrap();
        let txns = [claiming(scheduler, first, 0..8), claiming(scheduler, first + 1, 8..12)];
        let commits = cell.commit_all(&[&txns[0], &txns[1]]);
        let reasons = |i: usize| -> Vec<Reason> {
            let commit = commits[i].as_ref().unwrap();
            commit.conflicts.iter().map(|conflict| conflict.reason).collect()
        };
        assert_eq!(reasons(0), []);
        assert_eq!(reasons(1).len(), 2, "the machine takes ten of twelve");
    }

    /// Threads compete for more room than a machine has. They must fill the machine exactly, and its list must have
    /// each placed task once.
    #[test]
    fn threads_that_race_for_a_machine_fill_it_and_no_more() {
        let cell = small_cell();
        // Each worker claims all tasks, one by one, and each begins with a different task.
        let work = |worker: u32| {
            let (scheduler, first) = cell.register(format!("s{worker}").into()).unwrap();
            let mut placed = 0;
            for i in 0..20 {
                let task = (i + worker * 5) % 20;
                let txn = claiming(scheduler, first + u64::from(i), task..task + 1);
                placed += usize::from(cell.commit(&txn).unwrap().is_complete());
            }
            placed
        };
        let work = &work;
        let placed = std::thread::scope(|scope| {
            let workers = [0, 1, 2, 3].map(|worker| scope.spawn(move || work(worker)));
            workers.map(|worker| worker.join().unwrap()).iter().sum::<usize>()
        });
        assert_eq!(placed, 10);
        let tasks = cell.read(|cell| cell.machine(MachineId::first(0)).unwrap().tasks.len());
        assert_eq!(tasks, 10);
    }
}
