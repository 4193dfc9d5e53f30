//! Plans applied on cells that behave like served ones: pre-checks against an older state, and lost replies.

use crate::rebalance_reference::running;
use crate::small::{cell, job, submit};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, SharedCell};
use omega_core::{Command, Commit, MachineId, SchedulerId, TaskId, Text, Transaction, Version};
use omega_schedulers::rebalance::{Fate, Move, Objectives, Rebalancer, Settings, Step, Term, Why};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cell that checks transactions sent together first against the state before all of them, like the pre-check of a
/// leader, and loses the replies of the first `lost` committed ones.
struct Served<'a> {
    cell: &'a SharedCell,
    lost: AtomicUsize,
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
        let count_down = |lost: usize| lost.checked_sub(1);
        match self.lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down) {
            Ok(_) => Err(HandleError::Unknown),
            Err(_) => Ok(commit),
        }
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
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

/// A chain of tasks on machines with room for one each, with an empty machine at its end: each moves into the room that
/// the one before it leaves.
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
    let served = Served { cell, lost: AtomicUsize::new(lost) };
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
