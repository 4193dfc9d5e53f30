//! An independent check of histories, which uses neither version numbers nor the log. It searches for an order of the
//! commands, consistent with their times, in which a single cell gives the same results.
//!
//! The search is that of Wing and Gong with the cache of Lowe: each possible next command is tried, and a set of
//! commands that led to the same state before is not tried again. Its time is exponential in the number of unknown
//! outcomes, so it checks only the beginnings of runs. The search has sixty lines; libraries for it would add a hundred
//! dependencies.
//!
//! Rejections are left out, because a deposed leader may reject a command by its outdated state.

use omega_cellstate::Cell;
use omega_core::{Command, Conflict, JobId, MachineId, Outcome, Rejection, SchedulerId, Version};
use omega_tests::cluster::checker::{ClientCall, Fate, History};
use omega_tests::cluster::run_with_history;
use std::collections::BTreeSet;

/// Maximum number of commands that are examined together. It is limited because a set of commands has one bit for each.
const WINDOW: usize = 100;

/// Number of commands after which the search of a history is abandoned.
const TRIED_MAX: usize = 20_000;

/// Result without version numbers.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Conflicts(Vec<Conflict>),
    Machine(MachineId),
    Job(JobId),
    Scheduler(SchedulerId),
    Rejected(Rejection),
    Done,
}

fn plain(outcome: &Result<Outcome, Rejection>) -> Plain {
    match outcome {
        Ok(Outcome::Commit(commit)) => Plain::Conflicts(commit.conflicts.clone()),
        Ok(Outcome::Machine(id)) => Plain::Machine(*id),
        Ok(Outcome::Job(id)) => Plain::Job(*id),
        Ok(Outcome::Scheduler { id, .. }) => Plain::Scheduler(*id),
        Ok(_) => Plain::Done,
        Err(rejection) => Plain::Rejected(rejection.clone()),
    }
}

/// A command that a client sent, for the search.
#[derive(Clone, Debug)]
struct Operation {
    command: Command,
    invoked: u64,
    /// Time and content of its reply; `None` if there was no reply, so it may take effect at any time or never.
    answered: Option<(u64, Plain)>,
}

/// Converts a recorded command to an operation of the search.
fn operation(asked: &ClientCall) -> Option<Operation> {
    let mut command = asked.command.clone();
    let mut items = usize::MAX;
    if let Command::Commit(txn) = &mut command {
        // Version numbers are not trusted.
        txn.base = Version(0);
        items = txn.items();
    }
    // The search has other times, so a report does not name the run of its task.
    let names_run = match &mut command {
        Command::ReportTask { placed_ms, .. } | Command::ReportEnd { placed_ms, .. } => {
            std::mem::take(placed_ms) > 0
        }
        _ => false,
    };
    let answered = match &asked.fate {
        Fate::NotDone | Fate::Answered(Err(Rejection::Transaction(_))) => return None,
        Fate::Unknown => None,
        Fate::Answered(outcome) => match plain(outcome) {
            Plain::Conflicts(conflicts) if conflicts.len() == items => return None,
            // Perhaps it was about an earlier run.
            Plain::Rejected(Rejection::TaskNotThere(..)) if names_run => return None,
            plain => Some((asked.completed, plain)),
        },
    };
    Some(Operation { command, invoked: asked.invoked, answered })
}

/// The first commands of a history. If a command was answered after the last of these commands was sent, its answer is
/// removed: in the shortened history, the command may not have been applied.
fn beginning(history: &History) -> Vec<Operation> {
    let mut all: Vec<Operation> = history.calls.iter().filter_map(operation).collect();
    all.sort_by_key(|one| one.invoked);
    all.truncate(WINDOW);
    let end = all.last().map_or(0, |one| one.invoked);
    for one in &mut all {
        one.answered.take_if(|(completed, _)| *completed > end);
    }
    // Commands that must take effect early are tried first, and commands that may never take effect are tried last.
    all.sort_by_key(|one| one.answered.as_ref().map_or(u64::MAX, |(completed, _)| *completed));
    all
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Order,
    NoOrder,
    TooHard,
}

/// Searches for a valid order of the operations.
fn search(operations: &[Operation], cell: &Cell) -> Verdict {
    let mut seen = BTreeSet::new();
    let mut stack = vec![(0u128, cell.clone())];
    let mut tried = 0;
    while let Some((done, cell)) = stack.pop() {
        let left = || operations.iter().enumerate().filter(|(i, _)| done >> i & 1 == 0);
        let ends = left().filter_map(|(_, one)| Some(one.answered.as_ref()?.0));
        let Some(first_end) = ends.min() else { return Verdict::Order };
        let mut next = Vec::new();
        for (i, one) in left().filter(|(_, one)| one.invoked <= first_end) {
            tried += 1;
            let mut cell = cell.clone();
            let outcome = plain(&cell.apply(one.command.clone()));
            let fits = one.answered.as_ref().is_none_or(|(_, told)| *told == outcome);
            if fits && seen.insert((done | 1 << i, cell.state_hash())) {
                next.push((done | 1 << i, cell));
            }
        }
        if tried > TRIED_MAX {
            return Verdict::TooHard;
        }
        stack.extend(next.into_iter().rev());
    }
    Verdict::NoOrder
}

/// The beginning of the run of a seed, and an empty cell.
fn record(seed: u64) -> (Vec<Operation>, Cell) {
    let (_, history, truth) = run_with_history(seed).unwrap_or_else(|bad| panic!("{bad}"));
    (beginning(&history), Cell::new(truth.cell().kinds().clone()))
}

#[test]
fn there_is_an_order_in_which_a_lone_cell_gives_the_same_answers() {
    let mut found = 0;
    for seed in 100..140 {
        let (operations, cell) = record(seed);
        let verdict = search(&operations, &cell);
        assert_ne!(verdict, Verdict::NoOrder, "seed {seed}: no order gives these answers");
        found += usize::from(verdict == Verdict::Order);
    }
    assert!(found >= 30, "only {found} of 40 histories could be decided");
}

#[test]
fn there_is_no_order_for_answers_that_nobody_gave() {
    let mut refuted = 0;
    for seed in 100..120 {
        let (mut operations, cell) = record(seed);
        let told = operations.iter_mut().find_map(|one| match &mut one.answered {
            Some((_, Plain::Machine(id))) => Some(id),
            _ => None,
        });
        let Some(told) = told else { continue };
        told.incarnation += 1;
        let verdict = search(&operations, &cell);
        assert_ne!(verdict, Verdict::Order, "seed {seed}: a false answer was believed");
        refuted += usize::from(verdict == Verdict::NoOrder);
    }
    assert!(refuted > 0, "no false answer was refuted");
}
