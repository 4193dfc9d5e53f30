//! Explanation of a pending task: the machines that each reason excludes, the nearest misses, and the changes that
//! would help.
//!
//! [`explain`] counts one reason for each machine, which is fast enough for a report of all pending jobs. [`diagnose`]
//! finds *all* obstacles of each machine. If a machine has a single obstacle, removing this obstacle makes the machine
//! feasible. Both return typed values; `text.rs` converts them to text.

mod diagnosis;
mod obstacle;
mod remedy;
mod text;

pub use diagnosis::{Diagnosis, Miss, diagnose, diagnose_while};
pub use obstacle::{Obstacle, obstacles};
pub use remedy::{Remedy, Shortage};
pub use text::{describe, describe_obstacle, describe_remedy};

use crate::framework::plugin::Tasks;
use crate::framework::plugin::tasks;
use crate::framework::profile::Profile;
use crate::plugins::missing_of_cell;
use omega_cellstate::{BLOCK, GroupRef, View};
use omega_core::{KindId, Reason};

/// Reasons for which the machines of a cell reject a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Number of machines.
    pub machines: usize,
    /// Number of machines feasible now.
    pub feasible: usize,
    /// Rejected machines by reason, the most frequent first. A machine that is short of several kinds is counted for
    /// each of them.
    pub refused: Vec<(Reason, usize)>,
    /// Filters that the profile adds to the cell's check: the name of each, and the number of machines that it rejects.
    /// The filter that rejects the most machines comes first.
    pub filtered: Vec<(&'static str, usize)>,
}

/// Counts the machines that accept a group's tasks on a view, and the other machines by reason.
///
/// The function checks every machine. This is fast enough for reports, but too slow for the scheduling loop.
#[must_use]
pub fn explain(view: &View, profile: &Profile, group: GroupRef) -> Explanation {
    explain_while(view, profile, group, &|| true).unwrap_or_default()
}

/// Counts machines like [`explain`], and calls `goes_on` before each machine. Once it returns false, the work ends, and
/// the result is `None`.
#[must_use]
pub fn explain_while(
    view: &View,
    profile: &Profile,
    group: GroupRef,
    goes_on: &dyn Fn() -> bool,
) -> Option<Explanation> {
    let mut explanation = Explanation::default();
    let tasks = tasks(view, group);
    let filters: Vec<_> =
        profile.evaluator.filters().filter(|filter| filter.applies(&tasks)).collect();
    for row in (0..view.rows()).filter(|row| view.machine(*row).is_some()) {
        if !goes_on() {
            return None;
        }
        explanation.machines += 1;
        match view.check_fit(row, group) {
            Ok(_) => {}
            Err(Reason::NoRoom(_)) => {
                short_kinds(&tasks, row).for_each(|kind| {
                    add(&mut explanation.refused, Reason::NoRoom(kind));
                });
                continue;
            }
            Err(reason) => {
                add(&mut explanation.refused, reason);
                continue;
            }
        }
        let (block, bit) = (view.block(row / BLOCK), 1 << (row % BLOCK));
        match filters.iter().find(|filter| filter.filter(&tasks, block, bit) & bit == 0) {
            Some(filter) if filter.refuses_all() => match of_the_cell(&tasks) {
                Some(reason) => add(&mut explanation.refused, reason),
                None => add(&mut explanation.filtered, filter.name()),
            },
            Some(filter) => add(&mut explanation.filtered, filter.name()),
            None => explanation.feasible += 1,
        }
    }
    explanation.refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    explanation.filtered.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(explanation)
}

/// Returns the reason why the cell would reject the tasks on every machine; `None` if there is no such reason.
fn of_the_cell(tasks: &Tasks<'_>) -> Option<Reason> {
    let exhausted = missing_of_cell(tasks).next().map(|(kind, _)| Reason::CellExhausted(kind));
    let over = tasks.view.quota_lack(tasks.compiled);
    exhausted.or_else(|| over.map(|lack| Reason::QuotaExceeded(lack.kind)))
}

/// Returns the resource kinds that the machine in this row lacks: less is free than a task requests.
fn short_kinds(tasks: &Tasks<'_>, row: usize) -> impl Iterator<Item = KindId> {
    let view = tasks.view;
    let requests = (0..).map(KindId).zip(&tasks.need.request);
    let short = move |(kind, request): (KindId, &i64)| {
        (*request > 0 && view.free(row, kind) < *request).then_some(kind)
    };
    requests.filter_map(short)
}

fn add<T: PartialEq>(counts: &mut Vec<(T, usize)>, item: T) {
    match counts.iter_mut().find(|(known, _)| *known == item) {
        Some((_, count)) => *count += 1,
        None => counts.push((item, 1)),
    }
}
