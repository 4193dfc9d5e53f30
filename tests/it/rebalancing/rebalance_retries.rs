//! Plans that are applied to cells that behave like the cell of a server: pre-checks against an older state, and lost
//! replies.

use crate::cell::small::{cell, job, submit};
use crate::rebalancing::rebalance_reference::running;
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, SharedCell};
use omega_core::{Command, Commit, MachineId, SchedulerId, TaskId, Text, Transaction, Version};
use omega_schedulers::rebalance::{
    Fate, Move, Objectives, Plan, Pursuit, Rebalancer, Settings, Step, Term, Why,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cell that, like a leader with its pre-check, first checks each transaction of a batch against the state before the
/// batch. It loses the replies to the first `lost` committed transactions, and executes nothing of its next `down`
/// batches.
struct Served<'a> {
    cell: &'a SharedCell,
    lost: AtomicUsize,
    down: AtomicUsize,
}

/// Subtracts one from a counter that is not 0. Returns whether the counter was not 0.
fn count_down(counter: &AtomicUsize) -> bool {
    let less = |count: usize| count.checked_sub(1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
}

impl Served<'_> {
    fn of(cell: &SharedCell, lost: usize) -> Served<'_> {
        let [lost, down] = [lost, 0].map(AtomicUsize::new);
        Served { cell, lost, down }
    }
}

impl CellHandle for Served<'_> {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(&self, since: Version, of: &Interest, delta: &mut Delta) -> Result<(), HandleError> {
        self.cell.sync(since, of, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        let commit = self.cell.commit(txn)?;
        if count_down(&self.lost) { Err(HandleError::Unknown) } else { Ok(commit) }
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        if count_down(&self.down) {
            return txns.iter().map(|_| Err(HandleError::Unavailable)).collect();
        }
        let check = |txn: &&Transaction| {
            let before = SharedCell::new(self.cell.read(Cell::clone));
            before.commit(txn)
        };
        let checks: Vec<_> = txns.iter().map(check).collect();
        let both = txns.iter().zip(checks);
        both.map(|(txn, check)| match check {
            Ok(commit) if commit.conflicts.is_empty() => self.commit(txn),
            refused => refused,
        })
        .collect()
    }
}

/// A chain of tasks on machines with room for one task each; the last machine is empty. Each task is moved into the
/// room that the task before it leaves.
fn chain(length: u32) -> (SharedCell, Vec<Step>) {
    let cell = cell(&vec![4; length as usize + 1]);
    let id = submit(&cell, job("a", length, 3));
    for index in 0..length {
        let task = TaskId { job: id, index };
        cell.apply(Command::AdoptTask { task, machine: MachineId::first(index) }).unwrap();
    }
    let step = |index: u32| Step {
        moves: [Move {
            task: TaskId { job: id, index },
            group: 0,
            from: MachineId::first(index),
            to: MachineId::first(index + 1),
        }]
        .into_iter()
        .collect(),
        why: Why::Gain(Term::Balance),
        gain: 1,
    };
    let steps = (0..length).rev().map(step).collect();
    (cell, steps)
}

fn carried_out(cell: &SharedCell, lost: usize, steps: &[Step]) -> Result<Vec<Fate>, HandleError> {
    let served = Served::of(cell, lost);
    let mut rebalancer = Rebalancer::new(&served, Settings::new(Objectives::balance())).unwrap();
    rebalancer.apply_plan_wave(&served, steps)
}

#[test]
fn steps_whose_room_is_still_occupied_when_checked_are_tried_again() {
    let (cell, steps) = chain(5);
    assert_eq!(carried_out(&cell, 0, &steps), Ok(vec![Fate::Moved; 5]));
    cell.read(|cell| {
        let machines = running(cell);
        assert!(machines.iter().all(|(.., machine)| machine.row() > 0), "all have moved on");
        cell.audit().unwrap();
    });
}

#[test]
fn a_step_whose_answer_is_lost_is_found_to_be_done() {
    let (cell, steps) = chain(5);
    assert_eq!(carried_out(&cell, 3, &steps), Ok(vec![Fate::Moved; 5]));
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_step_that_never_fits_is_refused_and_ends() {
    let (cell, mut steps) = chain(3);
    let full = submit(&cell, job("full", 1, 4));
    let task = TaskId { job: full, index: 0 };
    cell.apply(Command::AdoptTask { task, machine: MachineId::first(3) }).unwrap();
    let fates = carried_out(&cell, 0, &steps).unwrap();
    assert!(fates.iter().all(|fate| matches!(fate, Fate::Refused(_))), "{fates:?}");
    steps[0].moves[0].from = MachineId::first(0);
    assert_eq!(carried_out(&cell, 0, &steps[..1]), Ok(vec![Fate::Stale]));
}

/// A rebalancer, and its plan to move tasks away from the full machine of [`crowd`].
fn crowded(served: &Served<'_>) -> (Rebalancer, Plan) {
    let mut rebalancer = Rebalancer::new(served, Settings::new(Objectives::balance())).unwrap();
    let plan = rebalancer.plan(served, &mut || true).unwrap();
    assert!(plan.steps().count() > 5, "{} steps", plan.steps().count());
    (rebalancer, plan)
}

/// A cell with a full machine and seven empty ones.
fn crowd() -> SharedCell {
    let cell = cell(&[40; 8]);
    let id = submit(&cell, job("a", 40, 1));
    for index in 0..40 {
        let task = TaskId { job: id, index };
        cell.apply(Command::AdoptTask { task, machine: MachineId::first(0) }).unwrap();
    }
    cell
}

#[test]
fn a_plan_goes_on_after_the_cell_did_not_answer() {
    let cell = crowd();
    let served = Served::of(&cell, 3);
    let (mut rebalancer, plan) = crowded(&served);
    served.down.store(5, Ordering::Relaxed);
    let mut failures = 0;
    let mut wait = |failed| {
        failures += 1;
        failed < 10
    };
    let pursued = rebalancer.pursue(&served, &plan, Pursuit { replans: 3, wait: &mut wait });
    assert_eq!((pursued.moved, pursued.failed), (plan.steps().count(), None));
    assert!(failures > 0, "it waited");
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_plan_ends_with_its_outcome_if_the_cell_stays_away() {
    let cell = crowd();
    let served = Served::of(&cell, 0);
    let (mut rebalancer, plan) = crowded(&served);
    served.down.store(usize::MAX, Ordering::Relaxed);
    let mut wait = |failed| failed < 3;
    let pursued = rebalancer.pursue(&served, &plan, Pursuit { replans: 3, wait: &mut wait });
    assert_eq!(pursued.failed, Some(HandleError::Unavailable));
    assert_eq!((pursued.moved, pursued.untried), (0, plan.steps().count()));
}

#[test]
fn what_conflicts_is_planned_again() {
    let cell = crowd();
    let served = Served::of(&cell, 0);
    let (mut rebalancer, plan) = crowded(&served);
    // Another scheduler takes the room on the machines to which the first steps move tasks.
    let other = submit(&cell, job("b", 3, 40));
    for index in 0..3 {
        let task = TaskId { job: other, index };
        cell.apply(Command::AdoptTask { task, machine: MachineId::first(index + 1) }).unwrap();
    }
    let pursued = rebalancer.pursue(&served, &plan, Pursuit { replans: 3, wait: &mut |_| false });
    assert!(pursued.replans > 0, "{pursued:?}");
    assert_eq!((&pursued.left[..], pursued.failed), (&[][..], None));
    let above =
        |cell: &Cell| running(cell).iter().filter(|(.., machine)| machine.row() == 0).count();
    assert!(cell.read(above) <= 32, "at most the safety level is left");
    cell.read(Cell::audit).unwrap();
}
