//! Plan of the peak controller: tasks to throttle for a peak, and to restore after it.
//!
//! On a machine where batch exceeds its share, tasks are throttled to their requests. The least important tasks are
//! first; among equals, the youngest are first, so that the least work is lost. If that is not enough, tasks are
//! released in the same order. Then releases that turn out to be unnecessary are undone, those of the most important
//! tasks first.
//!
//! Outside of peaks, throttled tasks on machines with a calendar get back their optional resources where these are
//! free. The most important tasks are first; among equals, the oldest are first.

use crate::preemption::Budget;
use omega_cellstate::{BLOCK, PlacedTask, View};
use omega_core::{Amounts, JobKind, KindId, Resize, TaskId};
use std::cmp::Reverse;

/// Changes that the controller is to make now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tasks to shrink to their request.
    pub throttles: Vec<Resize>,
    /// Tasks to release.
    pub releases: Vec<TaskId>,
    /// Tasks to restore with their optional resources.
    pub grows: Vec<Resize>,
    /// Number of machines on which batch tasks exceed their share even after the plan.
    pub over: usize,
}

impl Plan {
    /// Whether the plan is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of changes in the plan.
    #[must_use]
    pub fn len(&self) -> usize {
        self.throttles.len() + self.releases.len() + self.grows.len()
    }
}

/// Computes the changes. The view must keep placements, and is not changed. Tasks that disruption budgets protect, and
/// tasks left alone after a rejection, stay as they are. The plan has at most `most` changes, of which those needed for
/// peaks come first.
#[must_use]
pub fn plan(
    view: &View,
    mut budgets: Vec<Budget>,
    most: usize,
    rests: &dyn Fn(TaskId) -> bool,
) -> Plan {
    let mut plan = Plan::default();
    let of_calendars: Vec<usize> = (0..view.rows()).filter(|row| view.has_peaks(*row)).collect();
    for row in &of_calendars {
        let mut room = Room::of(view, *row);
        if !room.is_over() {
            continue;
        }
        let tasks = batch_on(view, *row).into_iter().filter(|task| !rests(task.placed.id));
        let tasks = step_back(view, tasks.collect(), &mut room, &mut budgets);
        let changes = tasks.iter().filter(|task| task.fate != Fate::Stays);
        let left = most.saturating_sub(plan.len());
        plan.over += usize::from(room.is_over() || changes.clone().count() > left);
        for task in changes.take(left) {
            match task.fate {
                Fate::Stays => {}
                Fate::Throttled => {
                    plan.throttles.push(Resize { task: task.placed.id, to: task.rest() });
                }
                Fate::Released => plan.releases.push(task.placed.id),
            }
        }
    }
    for row in of_calendars.into_iter().filter(|row| !view.is_peak_on(*row)) {
        let left = most.saturating_sub(plan.len());
        let grows = grows_on(view, row).into_iter().filter(|resize| !rests(resize.task));
        plan.grows.extend(grows.take(left));
    }
    plan
}

/// Change of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Throttled,
    Released,
}

/// A batch task on a machine.
struct Batch {
    placed: PlacedTask,
    holds: Amounts,
    /// Resources beyond the task's request.
    surplus: Amounts,
    fate: Fate,
}

/// The batch tasks in a row, the least important first; among equally important tasks, the youngest first.
fn batch_on(view: &View, row: usize) -> Vec<Batch> {
    let of = |placed: &PlacedTask| {
        let job = view.job_of(placed.id).filter(|job| job.kind == JobKind::Batch)?;
        debug_assert!(usize::from(placed.group) < job.groups.len());
        let holds = view.allocation_of(placed)?;
        let surplus = view.surplus(placed).unwrap_or_default();
        Some(Batch { placed: *placed, holds, surplus, fate: Fate::Stays })
    };
    let mut tasks: Vec<Batch> = view.tasks_on(row).iter().filter_map(of).collect();
    tasks.sort_by_key(|task| {
        let PlacedTask { id, precedence, placed_ms, .. } = task.placed;
        (precedence, Reverse(placed_ms), Reverse(id))
    });
    tasks
}

/// Unused part of the batch share on a machine, for each resource kind that a peak limits. Negative if batch tasks
/// exceed the share.
struct Room(Vec<(KindId, i64)>);

impl Room {
    fn of(view: &View, row: usize) -> Room {
        let kinds = (0..view.kinds().count() as u8).map(KindId);
        Room(kinds.filter_map(|kind| Some((kind, view.batch_room(row, kind)?))).collect())
    }

    fn is_over(&self) -> bool {
        self.0.iter().any(|(_, left)| *left < 0)
    }

    /// Whether freeing these amounts reduces an excess.
    fn needs(&self, amounts: &Amounts) -> bool {
        self.0.iter().any(|(kind, left)| *left < 0 && amounts.get(*kind) > 0)
    }

    fn give_back(&mut self, amounts: &Amounts) {
        self.0.iter_mut().for_each(|(kind, left)| *left += amounts.get(*kind) as i64);
    }

    /// Takes these amounts if they are free. Returns whether they were taken.
    fn take(&mut self, amounts: &Amounts) -> bool {
        let lacks = |(kind, left): &(KindId, i64)| {
            let amount = amounts.get(*kind) as i64;
            amount > 0 && *left < amount
        };
        let fits = !self.0.iter().any(lacks);
        if fits {
            self.0.iter_mut().for_each(|(kind, left)| *left -= amounts.get(*kind) as i64);
        }
        fits
    }
}

/// Chooses the tasks to throttle and to release, until batch is within its share or no candidate is left.
fn step_back(
    view: &View,
    mut tasks: Vec<Batch>,
    room: &mut Room,
    budgets: &mut [Budget],
) -> Vec<Batch> {
    for task in &mut tasks {
        if room.needs(&task.surplus) {
            task.fate = Fate::Throttled;
            room.give_back(&task.surplus);
        }
    }
    for task in &mut tasks {
        let left = if task.fate == Fate::Throttled { task.rest() } else { task.holds.clone() };
        if room.needs(&left) && budgets.iter().all(|budget| budget.lets_go(view, &task.placed)) {
            budgets.iter_mut().for_each(|budget| budget.count(view, &task.placed, -1));
            room.give_back(&left);
            task.fate = Fate::Released;
        }
    }
    // Undoes releases where possible, those of the most important tasks first. A task that stays may have to be
    // throttled.
    for task in tasks.iter_mut().rev().filter(|task| task.fate == Fate::Released) {
        let rest = task.rest();
        if room.take(&rest) {
            budgets.iter_mut().for_each(|budget| budget.count(view, &task.placed, 1));
            task.fate = if task.surplus.is_zero() { Fate::Stays } else { Fate::Throttled };
        }
    }
    for task in tasks.iter_mut().rev().filter(|task| task.fate == Fate::Throttled) {
        if room.take(&task.surplus) {
            task.fate = Fate::Stays;
        }
    }
    tasks
}

impl Batch {
    /// Allocation of the task after throttling.
    fn rest(&self) -> Amounts {
        let kinds = (0..).map(KindId).zip(self.holds.as_slice());
        Amounts::new(kinds.map(|(kind, held)| held.saturating_sub(self.surplus.get(kind))))
    }
}

/// Returns the tasks in a row to restore, each with its new allocation.
fn grows_on(view: &View, row: usize) -> Vec<Resize> {
    if view.block(row / BLOCK).schedulable() >> (row % BLOCK) & 1 == 0 {
        return Vec::new();
    }
    let kinds = (0..view.kinds().count() as u8).map(KindId);
    let mut free: Vec<i64> = kinds.map(|kind| view.free(row, kind)).collect();
    let mut grows = Vec::new();
    for task in batch_on(view, row).iter().rev() {
        let Some(job) = view.job_of(task.placed.id) else { continue };
        let group = &job.groups[usize::from(task.placed.group)];
        let optional = group.optional.as_ref().filter(|optional| optional.devices.is_none());
        let Some(optional) = optional.filter(|_| task.holds == group.request) else { continue };
        let Some(with) = group.with_optional() else { continue };
        if optional.amounts.iter().all(|(kind, more)| more as i64 <= free[kind.index()]) {
            optional.amounts.iter().for_each(|(kind, more)| free[kind.index()] -= more as i64);
            grows.push(Resize { task: task.placed.id, to: with.request });
        }
    }
    grows
}
