//! Placement of tasks with optional resources.
//!
//! Tasks of a group are placed with their optional resources as far as these fit. Then the remaining tasks are placed
//! without optional resources. So a group with many tasks usually takes two searches. Optional resources cause no
//! evictions, and no task of the group stays pending because another task of the group got optional resources.

use super::Scheduler;
use omega_cellstate::{GroupRef, OpenClaim};
use omega_core::TaskId;

impl Scheduler {
    /// Returns the group with its optional resources added to the request; `None` if it has none.
    pub(super) fn with_optional(&mut self, group: GroupRef) -> Option<GroupRef> {
        let (job, index) = self.view.job(group);
        job.groups[index].optional.as_ref()?;
        let job = job.clone();
        let with = self.view.compile_with_optional(self.view.job_id(group), &job, index)?;
        let reach = self.view.locality_level(group).clone();
        self.view.set_locality_level(with, reach);
        Some(with)
    }

    /// Claims machines for tasks in the order of the list, with optional resources where there is room for these.
    /// Returns the number of placed tasks.
    pub(super) fn place_with_optional(
        &mut self,
        group: GroupRef,
        with: GroupRef,
        tasks: &[TaskId],
    ) -> usize {
        let wanting = self.place_alike(with, tasks);
        let placed = wanting + self.place_alike(group, &tasks[wanting..]);
        if placed == tasks.len() || wanting == 0 {
            return placed;
        }
        // Some tasks found no machine, perhaps because other tasks got optional resources.
        let claims = self.last_claims(placed);
        self.take_back(placed);
        let without = self.place_alike(group, tasks);
        if without > placed {
            return without;
        }
        self.take_back(without);
        let mut again =
            |claim: &&OpenClaim| self.view.claim(claim.task, claim.machine, claim.group).is_ok();
        let count = claims.iter().take_while(&mut again).count();
        debug_assert_eq!(count, placed, "the view is as it was when these were claimed");
        count
    }

    fn last_claims(&self, count: usize) -> Vec<OpenClaim> {
        let open = self.view.open_claims();
        (open - count..open).filter_map(|index| self.view.open_claim(index)).collect()
    }

    /// Undoes the last claims, and drops results that depend on them.
    fn take_back(&mut self, count: usize) {
        self.view.drop_claims(count);
        self.finder.forget_failures();
    }
}
