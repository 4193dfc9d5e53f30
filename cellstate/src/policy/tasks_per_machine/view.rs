//! The limit on a tenant's tasks on one machine, in a view.

use crate::view::{BLOCK, Block, View};
use omega_core::Job;

impl View {
    /// The maximum number of tasks that a job's tenant may have on one machine; `None` if there is no maximum.
    #[must_use]
    pub fn tasks_per_machine_max(&self, job: &Job) -> Option<u32> {
        Some(self.mirrors().tasks_per_machine.of(job)?.max)
    }

    /// Whether the machine in a row has the maximum number of tasks of a job's tenant.
    #[must_use]
    pub fn has_all_of_its_tenant(&self, row: usize, job: &Job) -> bool {
        self.mirrors().tasks_per_machine.of(job).is_some_and(|limited| limited.is_full(row))
    }
}

impl Block<'_> {
    /// The machines in `among` that have the maximum number of tasks of a job's tenant.
    #[must_use]
    pub fn with_all_of_its_tenant(&self, job: &Job, among: u64) -> u64 {
        let Some(limited) = self.view().mirrors().tasks_per_machine.of(job) else { return 0 };
        let first = self.index() * BLOCK;
        let is_full = |lane: &usize| among >> lane & 1 == 1 && limited.is_full(first + lane);
        (0..BLOCK).filter(is_full).fold(0, |word, lane| word | 1 << lane)
    }
}
