//! Surplus: the part of a placed task's allocation beyond its request. Throttling takes the surplus from the task.
//!
//! The amounts of an allocation include devices, but a resize cannot change a task's devices. So tasks whose group
//! requests optional devices cannot be throttled, and have no surplus.

use crate::state::allocation_overrides::Values;
use crate::view::placements::PlacedAllocation;
use crate::view::{PlacedTask, View};
use omega_core::Amounts;

impl View {
    /// The part of a placed task's allocation beyond its group's request. `None` if the task has no surplus, or cannot
    /// be throttled. The view must keep placements.
    #[must_use]
    pub fn surplus(&self, task: &PlacedTask) -> Option<Amounts> {
        let allocation = self.allocation_override(task.id)?;
        let left = self.throttled(task)?;
        let more =
            allocation.iter().zip(&left).map(|(allocation, left)| (allocation - left) as u64);
        Some(Amounts::new(more)).filter(|more| !more.is_zero())
    }

    /// The allocation of a task after it is throttled: for each kind, its allocated amount or its group's request,
    /// whichever is less. `None` if the task cannot be throttled.
    pub(super) fn throttled(&self, task: &PlacedTask) -> Option<Values> {
        let allocation = self.allocation_override(task.id)?;
        let group = self.job_of(task.id)?.groups.get(usize::from(task.group))?;
        if group.optional.as_ref().is_some_and(|optional| optional.devices.is_some()) {
            return None;
        }
        let request = (0..).map(omega_core::KindId).map(|kind| group.request.get(kind) as i64);
        Some(
            allocation
                .iter()
                .zip(request)
                .map(|(allocation, request)| *allocation.min(&request))
                .collect(),
        )
    }

    /// The rows of machines with tasks whose allocation differs from their group's request, in ascending order.
    #[must_use]
    pub fn rows_with_allocation_overrides(&self) -> Vec<usize> {
        let Some(placements) = self.indexes.placements() else { return Vec::new() };
        let mut rows: Vec<usize> = placements.rows_with_overrides().collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Throttles a task in a row to its group's request, in this view only.
    pub fn throttle(&mut self, row: usize, task: PlacedTask) {
        self.note_lifted(1);
        self.count_surplus(row, task, 1);
    }

    /// Undoes [`View::throttle`].
    pub fn unthrottle(&mut self, row: usize, task: PlacedTask) {
        self.note_lifted(-1);
        self.count_surplus(row, task, -1);
    }

    /// Takes the surplus of a task off a row if `sign` is 1, or puts it back if it is -1.
    pub(super) fn count_surplus(&mut self, row: usize, task: PlacedTask, sign: i64) {
        let Some(allocation) = self.allocation_override(task.id).cloned() else { return };
        let Some(left) = self.throttled(&task) else { return };
        let request = self.job_of(task.id).and_then(|job| {
            let request = &job.groups.get(usize::from(task.group))?.request;
            Some(crate::state::allocation_overrides::values_of(request, allocation.len()))
        });
        // If the throttled allocation equals the request, the task follows its demand profile again, if it has one.
        let left = (request.as_ref() != Some(&left)).then_some(left);
        let with = |allocation| PlacedAllocation { task, allocation };
        if sign > 0 {
            self.count_allocation(row, with(Some(allocation)), 1);
            self.count_allocation(row, with(left), -1);
        } else {
            self.count_allocation(row, with(left), 1);
            self.count_allocation(row, with(Some(allocation)), -1);
        }
    }
}
