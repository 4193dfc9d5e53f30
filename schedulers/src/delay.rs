//! Delay scheduling: tasks with preferred machines wait for one of them, for a bounded time. (Zaharia et al., "Delay
//! Scheduling", EuroSys 2010.)
//!
//! ```text
//!                 machine_wait                     rack_wait
//!   preferred only ──────────▶ also near preferred ────────▶ anywhere
//! ```
//!
//! A machine with a task's data is usually busy only briefly, and running a task far from its data costs more than a
//! short wait. So a job does not use free room on other machines for a while. The wait begins when a task could be
//! placed only on machines that are not preferred. While no machine has room, no wait begins. The frontend `yarn` has
//! the same rule, counted in rounds instead of time. All tasks of a job share one wait, which keeps the job's total
//! wait bounded. The scheduler wakes the job when the wait ends.
//!
//! The filter reads the locality level that the scheduler stored with the group: see [`LocalityLevel`].

use crate::framework::plugin::{Filter, Reads, Tasks, lanes};
use crate::queue::Nanos;
use omega_cellstate::{BLOCK, Block, GroupRef, LocalityLevel, View};
use omega_core::{JobId, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bounded waits of jobs for preferred machines. As a filter, `Delay` accepts only the machines of the locality level
/// that a waiting job accepts at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    machine_wait: Nanos,
    rack: Option<(Text, Nanos)>,
}

impl Delay {
    /// Creates a delay: tasks wait up to `machine_wait` for a preferred machine. If `rack` is given, a second wait of
    /// the time in `rack` follows. During the second wait, a task also accepts machines with the same value of the
    /// label in `rack` as a preferred machine.
    #[must_use]
    pub fn new(machine_wait: Nanos, rack: Option<(Text, Nanos)>) -> Delay {
        Delay { machine_wait, rack }
    }

    /// Returns the locality level that a group accepts when its job has waited for `waited`.
    pub(crate) fn reach(&self, view: &View, group: GroupRef, waited: Nanos) -> LocalityLevel {
        let preferred = &view.need(group).preferred;
        if preferred.iter().all(|(_, set)| view.is_empty_set(*set)) {
            return LocalityLevel::Anywhere;
        }
        if waited < self.machine_wait {
            return LocalityLevel::Preferred { left: self.machine_wait - waited };
        }
        let Some((label, wait)) = &self.rack else { return LocalityLevel::Anywhere };
        let end = self.machine_wait.saturating_add(*wait);
        let Some(left) = end.checked_sub(waited).filter(|left| *left > 0) else {
            return LocalityLevel::Anywhere;
        };
        let values = values_near(view, group, label);
        if values.is_empty() {
            LocalityLevel::Anywhere
        } else {
            LocalityLevel::Near { values, left }
        }
    }
}

/// Returns the values of a label on the machines that the group prefers, ascending.
fn values_near(view: &View, group: GroupRef, label: &str) -> Arc<[u32]> {
    let Some(level) = view.level(label) else { return Arc::new([]) };
    let tasks = crate::framework::plugin::tasks(view, group);
    let mut values = BTreeSet::new();
    for index in 0..view.blocks() {
        let block = view.block(index);
        let rows = lanes(preferred(&tasks, block)).map(|lane| index * BLOCK + lane);
        values.extend(rows.filter_map(|row| level.of(row)));
    }
    values.into_iter().collect()
}

/// The machines of a block that a preference of the tasks selects.
fn preferred(tasks: &Tasks<'_>, block: Block<'_>) -> u64 {
    tasks.need.preferred.iter().fold(0, |word, (_, set)| word | block.set(*set))
}

/// Whether the machine in a row is one of the group's preferred machines; `None` if the group has
/// no preference.
pub(crate) fn is_preferred(view: &View, group: GroupRef, row: usize) -> Option<bool> {
    let tasks = crate::framework::plugin::tasks(view, group);
    let word = preferred(&tasks, view.block(row / BLOCK));
    (!tasks.need.preferred.is_empty()).then_some(word >> (row % BLOCK) & 1 == 1)
}

impl Filter for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    /// The result depends on machine affinity and on the job's wait, so it cannot be cached.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_DESCRIPTIONS | Reads::JOB
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        *tasks.reach != LocalityLevel::Anywhere
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let wanted = among & preferred(tasks, block);
        match (tasks.reach, &self.rack) {
            (LocalityLevel::Anywhere, _) => among,
            (LocalityLevel::Near { values, .. }, Some((label, _))) => {
                let Some(level) = tasks.view.level(label) else { return wanted };
                let is_near = |lane: &usize| {
                    let value = level.of(block.first_row() + lane);
                    value.is_some_and(|value| values.binary_search(&value).is_ok())
                };
                lanes(among & !wanted).filter(is_near).fold(wanted, |word, lane| word | 1 << lane)
            }
            _ => wanted,
        }
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn why(&self, tasks: &Tasks<'_>, _: usize) -> Option<String> {
        let left = tasks.reach.left()? as f64 / 1e9;
        let what = match tasks.reach {
            LocalityLevel::Near { .. } => "a machine near a preferred one",
            _ => "a preferred machine",
        };
        Some(format!("it waits for {what}, for {left:.3} s more at most"))
    }

    fn keep(&self, view: &mut View) {
        if let Some((label, _)) = &self.rack {
            view.keep_level(label);
        }
    }
}

/// Counters of a scheduler with a [`Delay`]: whether tasks got preferred machines, and how long jobs waited for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitFigures {
    /// Tasks that were placed on a machine that they prefer.
    pub met: u64,
    /// Tasks with preferences that were placed on other machines.
    pub missed: u64,
    /// Jobs that skipped free room to wait for a preferred machine.
    pub waits: u64,
    /// Total waiting time. The wait of a job lasts from the first skipped room until all tasks of the job have a
    /// machine, or the job has ended.
    pub waited: Nanos,
}

/// Jobs that have skipped free room to wait for a preferred machine, each with the time of the first skip.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    since: BTreeMap<JobId, Nanos>,
    pub(crate) figures: WaitFigures,
}

impl Waits {
    /// Whether a job has skipped room.
    pub(crate) fn has(&self, id: JobId) -> bool {
        self.since.contains_key(&id)
    }

    /// Records that a job skips room.
    pub(crate) fn begin(&mut self, id: JobId, now: Nanos) {
        self.since.entry(id).or_insert_with(|| {
            self.figures.waits += 1;
            now
        });
    }

    /// Ends the wait of a job.
    pub(crate) fn end(&mut self, id: JobId, now: Nanos) {
        if let Some(since) = self.since.remove(&id) {
            self.figures.waited += now.saturating_sub(since);
        }
    }

    /// Ends the waits of all jobs for which `is_there` is false.
    pub(crate) fn retain(&mut self, is_there: impl Fn(JobId) -> bool, now: Nanos) {
        let gone: Vec<JobId> = self.since.keys().copied().filter(|id| !is_there(*id)).collect();
        gone.into_iter().for_each(|id| self.end(id, now));
    }

    /// Returns the time since a job first skipped room; 0 if the job has skipped none.
    pub(crate) fn waited(&self, id: JobId, now: Nanos) -> Nanos {
        let since = self.since.get(&id).copied().unwrap_or(now);
        now.saturating_sub(since)
    }
}
