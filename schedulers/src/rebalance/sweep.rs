//! The order of a pass: first the misplaced tasks, then machine by machine.
//!
//! A pass is a descent. It begins with the machine whose tasks would gain most by leaving. As long as the move of some
//! task off this machine gains, the best such move is made. Then the next machine follows. A sweep does this for all
//! machines, and sweeps are repeated until a sweep finds no move.
//!
//! The first sweep makes only moves with a large gain, and each later sweep requires a quarter of the gain that the
//! previous sweep required. So if the number of moves is limited, the best moves are made. If no single move gains, two
//! tasks may be exchanged. A task moves at most once, so a pass ends.

use super::account::Proposed;
use super::plan::{Ended, Hindrance, Stuck};
use super::search::{Look, Occupant, Search, step, suits};
use omega_cellstate::PlacedTask;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of tasks examined on one machine. Tasks whose departure gains most come first.
const TRIES: usize = 32;

/// Divisor of the required gain: each sweep requires a quarter of the gain of the previous sweep.
const QUARTER: i64 = 4;

/// Number of sweeps that require a gain. The last of them requires a 256th of the largest gain. If the last sweeps
/// required less, each of them would examine nearly all tasks.
const SWEEPS: usize = 5;

/// Number of tasks of a row, by reason, that stay although their departure would gain.
type Reasons = SmallVec<[(Hindrance, usize); 4]>;

/// Called before each machine; returns whether to continue.
pub(super) type GoOn<'a> = &'a mut dyn FnMut() -> bool;

/// State of a pass: the misplaced tasks, and for each row the reasons why its tasks stay.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    reasons: BTreeMap<usize, Reasons>,
    must_leave: Vec<Misplaced>,
}

/// A misplaced task.
#[derive(Clone, Copy, Debug)]
struct Misplaced {
    at: Occupant,
    /// Reason why the last attempt to move the task failed.
    why: Option<Hindrance>,
}

impl Sweep {
    /// Runs until no move gains, a bound is reached, or the caller ends the pass.
    pub(super) fn run(&mut self, search: &mut Search<'_>, go_on: GoOn<'_>) -> Ended {
        self.must_leave = must_leave(search);
        loop {
            let ended = self.wave(search, go_on);
            if ended != Ended::NothingBetter {
                return ended;
            }
            if search.wave.is_empty() || !search.awaits {
                return Ended::NothingBetter;
            }
            if !search.next_wave() {
                return Ended::Waves;
            }
        }
    }

    /// Makes all moves of one wave.
    fn wave(&mut self, search: &mut Search<'_>, go_on: GoOn<'_>) -> Ended {
        for index in 0..self.must_leave.len() {
            let at = self.must_leave[index].at;
            if search.moved.contains(&at.task.id) {
                continue;
            }
            if let Some(ended) = over(search, go_on) {
                return ended;
            }
            self.must_leave[index].why = leave(search, at).err();
        }
        let most = most_to_gain(search);
        let much = std::iter::successors(Some(most), |least| Some(least / QUARTER));
        for least in much.take(SWEEPS).filter(|least| *least > 0) {
            if let Err(ended) = self.sweep(search, least, go_on) {
                return ended;
            }
        }
        search.changed.fill(true);
        loop {
            match self.sweep(search, 0, go_on) {
                Ok(0) => return Ended::NothingBetter,
                Ok(_) => {}
                Err(ended) => return ended,
            }
        }
    }

    /// Makes one sweep over the machines, with steps that gain at least `least`. If `least` is 0, only machines that
    /// have changed are visited. Returns the number of steps.
    fn sweep(
        &mut self,
        search: &mut Search<'_>,
        least: i64,
        go_on: GoOn<'_>,
    ) -> Result<usize, Ended> {
        let mut found = 0;
        for row in by_pressure(search) {
            if let Some(ended) = over(search, go_on) {
                return Err(ended);
            }
            if least == 0 && !std::mem::take(&mut search.changed[row]) {
                continue;
            }
            while self.best_of(search, row, least) {
                found += 1;
            }
        }
        Ok(found)
    }

    /// Makes the best move of a task off a row, if it gains at least `least`. If `least` is 0 and no move gains, tries
    /// exchanges. Returns whether tasks were moved.
    fn best_of(&mut self, search: &mut Search<'_>, row: usize, least: i64) -> bool {
        let leavers = leavers(search, row);
        let look = Look::UntilFeasible(search.settings.machines_each);
        let mut reasons = Reasons::new();
        let mut best: Option<(Proposed, i64)> = None;
        for (off, task) in &leavers {
            match search.best_move(Occupant { row, task: *task }, *off, least, look) {
                Ok((_, gain)) if best.is_some_and(|(_, most)| gain <= most) => {}
                Ok((proposed, gain)) => best = Some((proposed, gain)),
                Err(why) if *off > 0 => count(&mut reasons, why),
                Err(_) => {}
            }
        }
        let made = match best {
            Some((proposed, _)) => step(search, &[proposed]),
            None => false,
        };
        if made || least > 0 {
            return made;
        }
        self.reasons.insert(row, reasons);
        super::exchange::swap(search, row, &leavers)
    }

    /// The misplaced tasks that stay, and the numbers of other tasks that stay, by reason.
    pub(super) fn into_hindrances(
        self,
        search: &Search<'_>,
    ) -> (Vec<Stuck>, Vec<(Hindrance, usize)>) {
        let stays = |one: &&Misplaced| !search.moved.contains(&one.at.task.id);
        let stuck = |Misplaced { at: Occupant { row, task }, why }: &Misplaced| Stuck {
            task: task.id,
            group: task.group,
            machine: search.view.machine_id(*row),
            why: why.unwrap_or(Hindrance::NotReached),
        };
        let mut counts = Reasons::new();
        for (why, number) in self.reasons.into_values().flatten() {
            (0..number).for_each(|_| count(&mut counts, why));
        }
        counts.sort_by_key(|(why, number)| (Reverse(*number), *why));
        (self.must_leave.iter().filter(stays).map(stuck).collect(), counts.into_vec())
    }
}

fn count(reasons: &mut Reasons, why: Hindrance) {
    match reasons.iter_mut().find(|(known, _)| *known == why) {
        Some((_, number)) => *number += 1,
        None => reasons.push((why, 1)),
    }
}

/// The reason to end the pass now, if there is one.
fn over(search: &Search<'_>, go_on: GoOn<'_>) -> Option<Ended> {
    if search.left.is_spent() {
        return Some(Ended::Moves);
    }
    if search.considered >= search.settings.bounds.steps {
        return Some(Ended::Steps);
    }
    (!go_on()).then_some(Ended::Told)
}

/// The misplaced tasks, the largest first, because small tasks find room more easily.
fn must_leave(search: &mut Search<'_>) -> Vec<Misplaced> {
    let mut found = Vec::new();
    for row in 0..search.view.rows() {
        for task in search.unmoved(row) {
            let Some(known) = search.know(task) else { continue };
            if !search.misplaced.contains(&task.id) || suits(search.view, row, search.need(known)) {
                continue;
            }
            let size = search.account.objective().of_move(&search.need(known).request);
            found.push((Reverse(size), Misplaced { at: Occupant { row, task }, why: None }));
        }
    }
    found.sort_by_key(|(size, one)| (*size, one.at.task.id));
    found.into_iter().map(|(_, one)| one).collect()
}

/// Moves a misplaced task to the machine where it costs least. If no machine has room, another task moves away to make
/// room. Returns the reason if the task stays.
fn leave(search: &mut Search<'_>, at: Occupant) -> Result<(), Hindrance> {
    let known = search.know(at.task).ok_or(Hindrance::NoMachine)?;
    let off = search.gain_of_leaving(at.row, at.task, known);
    match search.best_move(at, off, 1, Look::Everywhere) {
        Ok((proposed, _)) if step(search, &[proposed]) => Ok(()),
        Err(Hindrance::NoMachine) if super::exchange::make_room(search, at) => Ok(()),
        Ok(_) => Err(Hindrance::NotWorth),
        Err(why) => Err(why),
    }
}

/// Returns the largest gain that any single task would bring by leaving its row.
fn most_to_gain(search: &mut Search<'_>) -> i64 {
    let mut most = 0;
    for row in 0..search.view.rows() {
        let of_row = leavers(search, row).first().map_or(0, |(off, _)| *off);
        most = of_row.max(most);
    }
    most
}

/// Returns the rows that tasks could leave with a gain, sorted by the mean gain per task, the largest first.
fn by_pressure(search: &Search<'_>) -> Vec<usize> {
    let pressure = |row| search.account.pressure(search.view.tasks_on(row), row);
    let rows = (0..search.view.rows()).map(|row| (Reverse(pressure(row)), row));
    let mut rows: Vec<_> = rows.filter(|(pressure, _)| pressure.0 > 0).collect();
    rows.sort_unstable();
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Returns the tasks of a row whose departure gains most, each with its gain, the largest first.
fn leavers(search: &mut Search<'_>, row: usize) -> SmallVec<[(i64, PlacedTask); 32]> {
    let mut leavers = SmallVec::new();
    for task in search.unmoved(row) {
        if let Some(known) = search.know(task) {
            leavers.push((search.gain_of_leaving(row, task, known), task));
        }
    }
    leavers.sort_by_key(|(off, task): &(i64, PlacedTask)| (Reverse(*off), task.id));
    leavers.truncate(TRIES);
    leavers
}
