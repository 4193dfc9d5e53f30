//! What placed tasks hold beyond their request, and what would be if they gave it up.
//!
//! The devices of a task stay with it whatever it is resized to, and what they are worth is part of the amounts. So a
//! task of a group that wants devices gives nothing up.

use super::{PlacedTask, View};
use crate::held::Values;
use omega_core::Amounts;

impl View {
    /// What a placed task holds beyond its group's request, if it can give it up. The view must keep placements.
    #[must_use]
    pub fn surplus(&self, task: &PlacedTask) -> Option<Amounts> {
        let held = self.own_holding(task.id)?;
        let left = self.throttled(task)?;
        let more = held.iter().zip(&left).map(|(held, left)| (held - left) as u64);
        Some(Amounts::new(more)).filter(|more| !more.is_zero())
    }

    /// What it would hold then: of each kind no more than its group requests. `None` if it can give up nothing.
    pub(super) fn throttled(&self, task: &PlacedTask) -> Option<Values> {
        let held = self.own_holding(task.id)?;
        let group = self.job_of(task.id)?.groups.get(usize::from(task.group))?;
        if group.optional.as_ref().is_some_and(|optional| optional.devices.is_some()) {
            return None;
        }
        let request = (0..).map(omega_core::KindId).map(|kind| group.request.get(kind) as i64);
        Some(held.iter().zip(request).map(|(held, request)| *held.min(&request)).collect())
    }

    /// The rows of machines with tasks that hold something else than their group's request, ascending.
    #[must_use]
    pub fn rows_with_own_holdings(&self) -> Vec<usize> {
        let Some(placements) = &self.placements else { return Vec::new() };
        let mut rows: Vec<usize> = placements.rows_of_held().collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Has a task that runs in a row hold no more than its group requests, in this view only.
    pub fn throttle(&mut self, row: usize, task: PlacedTask) {
        self.note_lifted(1);
        self.count_surplus(row, task, 1);
    }

    /// Gives back what [`View::throttle`] took.
    pub fn unthrottle(&mut self, row: usize, task: PlacedTask) {
        self.note_lifted(-1);
        self.count_surplus(row, task, -1);
    }

    /// Takes what a task holds beyond its request off a row (`sign` 1), or puts it back (-1).
    pub(super) fn count_surplus(&mut self, row: usize, task: PlacedTask, sign: i64) {
        let Some(held) = self.own_holding(task.id).cloned() else { return };
        let Some(left) = self.throttled(&task) else { return };
        let request = self.job_of(task.id).and_then(|job| {
            let request = &job.groups.get(usize::from(task.group))?.request;
            Some(crate::held::values_of(request, held.len()))
        });
        // A task that holds its request varies over the day again, if that does.
        let left = (request.as_ref() != Some(&left)).then_some(left);
        match sign > 0 {
            true => {
                self.count_holding(row, (task, Some(held)), 1);
                self.count_holding(row, (task, left), -1);
            }
            false => {
                self.count_holding(row, (task, left), 1);
                self.count_holding(row, (task, Some(held)), -1);
            }
        }
    }
}
