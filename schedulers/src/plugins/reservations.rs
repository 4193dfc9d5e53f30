//! Machines that are kept for other tenants: see [`Reservation`](omega_core::Reservation).

use crate::framework::events::Events;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::Block;

/// Filter: no reservation for other tenants covers the machine while the tasks would run.
#[derive(Clone, Copy, Debug)]
pub struct Reservations;

impl Filter for Reservations {
    fn name(&self) -> &'static str {
        "reservations"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::JOB | Reads::TIME
    }

    /// Events after which reservations may accept more tasks: the end of a reservation, and a change of the tenant
    /// tree, which may change a reservation's tenants. A change of the tree counts as a change of quotas, because
    /// views receive the tree together with the quotas. As time passes without an event, a reservation rejects more
    /// tasks, never fewer.
    fn wakes_on(&self) -> Events {
        let changed = Events::MACHINE_ADDED | Events::MACHINE_CHANGED;
        changed | Events::RESERVATIONS_CHANGED | Events::QUOTA_CHANGED
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.reservations_may_reject(tasks.job)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        among & !block.reserved(tasks.job, among)
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn why(&self, tasks: &Tasks<'_>, row: usize) -> Option<String> {
        why_reserved(tasks, row)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::RESERVATIONS
    }
}

/// Returns the reason for which a reservation excludes these tasks from the machine in a row, as a clause with the
/// reservation's tenants. `None` if no reservation excludes them.
pub(crate) fn why_reserved(tasks: &Tasks<'_>, row: usize) -> Option<String> {
    let of = tasks.view.reservation_on(row, tasks.job)?;
    let tenants: Vec<&str> = of.tenants.iter().map(|tenant| &**tenant).collect();
    // A caller of the server may see a reservation without the names of its tenants.
    let whom = if tenants.is_empty() { "other tenants".to_owned() } else { tenants.join(", ") };
    let whom = format!("reserved for {whom} ({})", of.name);
    Some(match (tasks.view.now_ms() < of.from_ms, tasks.job.runtime_estimate_ms) {
        (false, _) => whom,
        (true, Some(_)) => format!("{whom} from a time before the expected end of the task"),
        (true, None) => format!("{whom} from a later time, and the task has no runtime estimate"),
    })
}
