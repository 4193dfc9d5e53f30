//! Limits of tenants: see [`Command::SetQuota`](omega_core::Command::SetQuota).

use crate::framework::events::Events;
use crate::framework::plugin::News;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks, lanes};
use omega_cellstate::Block;

/// Filter: the claim is within the limits of the task's tenant and the tenant's ancestors.
///
/// The filter accepts or rejects all machines alike, so the limits are checked once per decision. For a decision about
/// several tasks, the placer finds the number of tasks that the limits allow.
#[derive(Clone, Copy, Debug)]
pub struct WithinQuota;

impl Filter for WithinQuota {
    fn name(&self) -> &'static str {
        "quota"
    }

    /// A claim on any machine counts against the limit.
    fn reads(&self) -> Reads {
        Reads::OTHER_MACHINES
    }

    fn wakes_on(&self) -> Events {
        Events::QUOTA_CHANGED
    }

    fn may_help(&self, tasks: &Tasks<'_>, _: &News<'_>) -> bool {
        !self.applies(tasks)
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.quota_room(tasks.compiled, 1) == 0
    }

    fn refuses_all(&self) -> bool {
        true
    }

    fn filter(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    /// Evictions help only on machines with less important tasks that count against the same limit.
    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        let Some(lack) = tasks.view.quota_lack(tasks.compiled) else { return 0 };
        let view = tasks.view;
        let bound = view.preemptible_below(tasks.job.precedence);
        let frees = |lane: usize| {
            let here = view.tasks_on(block.first_row() + lane).iter().rev();
            let mut lower = here.take_while(|task| task.precedence < bound);
            lower.any(|task| view.is_below(task.id.job, &lack.tenant))
        };
        lanes(refused).filter(|lane| frees(*lane)).fold(0, |word, lane| word | 1 << lane)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::QUOTA
    }
}
