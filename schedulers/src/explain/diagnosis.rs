//! A diagnosis: the machines that each filter rejects, the nearest misses, and the remedies.

use super::obstacle::{Obstacle, obstacles};
use super::remedy::{self, Remedy, Shortage};
use crate::framework::plugin::tasks;
use crate::framework::plugin::{Filter, Tasks};
use crate::framework::profile::Profile;
use omega_cellstate::{BLOCK, GroupRef, View};
use omega_core::MachineId;
use std::cmp::Reverse;

/// Maximum number of different misses in a diagnosis. So many are enough to show which obstacles occur most.
const MISSES_MAX: usize = 5;

/// Infeasible machines that have the same obstacles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// First of the machines.
    pub example: MachineId,
    /// Number of the machines.
    pub machines: usize,
    /// Obstacles of each of these machines; never empty.
    pub obstacles: Vec<Obstacle>,
}

/// Explanation of why a task finds no machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Number of machines.
    pub machines: usize,
    /// Number of machines feasible now.
    pub feasible: usize,
    /// For each filter of the profile that applies to the task: its name, and the number of machines that it rejects. A
    /// machine is counted for the first filter that rejects it.
    pub removed: Vec<(&'static str, usize)>,
    /// The infeasible machines with the fewest obstacles other than lack of room, in this order. Among machines with
    /// equally many obstacles, the machine with the smallest shortage comes first. A shortage is the largest missing
    /// share of a requested amount.
    pub nearest: Vec<Miss>,
    /// Single changes that would help. The remedy for a lack of room comes first ([`Remedy::Room`] or
    /// [`Remedy::LargerMachine`]). The other changes are ordered by the number of machines that each makes feasible,
    /// the largest number first.
    pub remedies: Vec<Remedy>,
}

/// An infeasible machine.
struct Near {
    /// Number of obstacles other than lack of room, and the shortage.
    distance: (usize, u64),
    row: usize,
    obstacles: Vec<Obstacle>,
}

/// Explains why a group's tasks find no machine on a view.
///
/// The function examines all obstacles of each machine. This is fast enough for reports, but too slow for the
/// scheduling loop.
#[must_use]
pub fn diagnose(view: &View, profile: &Profile, group: GroupRef) -> Diagnosis {
    diagnose_while(view, profile, group, &|| true).unwrap_or_default()
}

/// Explains like [`diagnose`], and calls `goes_on` before each machine. Once it returns false, the work ends, and the
/// result is `None`.
#[must_use]
pub fn diagnose_while(
    view: &View,
    profile: &Profile,
    group: GroupRef,
    goes_on: &dyn Fn() -> bool,
) -> Option<Diagnosis> {
    let tasks = tasks(view, group);
    let filters: Vec<&dyn Filter> =
        profile.evaluator.filters().filter(|f| f.applies(&tasks)).collect();
    let rows = (0..view.rows()).filter(|row| view.machine(*row).is_some());
    let removed = removed(&tasks, &filters, goes_on)?;
    let mut diagnosis = Diagnosis { removed, ..Diagnosis::default() };
    let mut misses = Vec::new();
    for row in rows {
        if !goes_on() {
            return None;
        }
        diagnosis.machines += 1;
        let obstacles = obstacles(&tasks, group, &filters, row);
        if obstacles.is_empty() {
            diagnosis.feasible += 1;
            continue;
        }
        let others = obstacles.iter().filter(|obstacle| !obstacle.is_room()).count();
        let shortage = Shortage::of(view.machine_id(row), &obstacles).share(&tasks);
        misses.push(Near { distance: (others, shortage), row, obstacles });
    }
    misses.sort_by_key(|miss| (miss.distance, miss.row));
    diagnosis.remedies = remedies(&tasks, &misses);
    diagnosis.nearest = nearest(view, misses);
    Some(diagnosis)
}

/// Returns, for each filter, the number of machines that it rejects among those that the filters before it accept.
/// `None` if the work is to end.
fn removed(
    tasks: &Tasks<'_>,
    filters: &[&dyn Filter],
    goes_on: &dyn Fn() -> bool,
) -> Option<Vec<(&'static str, usize)>> {
    let mut removed: Vec<_> = filters.iter().map(|filter| (filter.name(), 0)).collect();
    for index in 0..tasks.view.blocks() {
        if !goes_on() {
            return None;
        }
        let block = tasks.view.block(index);
        let is_there = |lane: &usize| block.machine(*lane).is_some();
        let lanes = (0..BLOCK).take_while(|lane| block.first_row() + lane < tasks.view.rows());
        let mut word = lanes.filter(is_there).fold(0u64, |word, lane| word | 1 << lane);
        for (filter, (_, count)) in filters.iter().zip(&mut removed) {
            if word == 0 {
                break;
            }
            let left = word & filter.filter(tasks, block, word);
            *count += (word.count_ones() - left.count_ones()) as usize;
            word = left;
        }
    }
    Some(removed)
}

/// Returns the nearest misses, where machines with equal obstacles are one miss.
fn nearest(view: &View, misses: Vec<Near>) -> Vec<Miss> {
    let mut nearest: Vec<Miss> = Vec::new();
    for miss in misses {
        if let Some(known) = nearest.iter_mut().find(|known| known.obstacles == miss.obstacles) {
            known.machines += 1;
        } else if nearest.len() < MISSES_MAX {
            let example = view.machine_id(miss.row);
            nearest.push(Miss { example, machines: 1, obstacles: miss.obstacles });
        }
    }
    nearest
}

/// The single changes that would help. `misses` has the nearest machines first.
fn remedies(tasks: &Tasks<'_>, misses: &[Near]) -> Vec<Remedy> {
    let lacks_room_only = |miss: &&Near| miss.distance.0 == 0;
    let mut remedies: Vec<Remedy> =
        room(tasks, misses.iter().filter(lacks_room_only)).into_iter().collect();
    let mut lifts = Vec::new();
    for miss in misses {
        if let [obstacle] = miss.obstacles.as_slice()
            && !obstacle.is_room()
        {
            remedy::count(&mut lifts, obstacle);
        }
    }
    lifts.sort_by_key(|(_, machines)| Reverse(*machines));
    let lift = |(obstacle, machines)| Remedy::Lift { obstacle, machines };
    remedies.extend(lifts.into_iter().map(lift));
    remedies
}

/// Returns the remedy for a lack of room; `None` if no machine lacks only room. `short` has the machines that lack only
/// room, the smallest lack first.
fn room<'a>(tasks: &Tasks<'_>, short: impl Iterator<Item = &'a Near> + Clone) -> Option<Remedy> {
    let empty = |miss: &Near| Shortage::when_empty(tasks, miss.row);
    let mut large = short.clone().filter(|miss| empty(miss).is_none()).peekable();
    if let Some(nearest) = large.peek() {
        let machine = tasks.view.machine_id(nearest.row);
        let shortage = Shortage::of(machine, &nearest.obstacles);
        return Some(Remedy::Room { shortage, hold: large.count() });
    }
    let shortage = short.map(empty).min_by_key(|shortage| shortage.share(tasks))?;
    Some(Remedy::LargerMachine { shortage })
}
