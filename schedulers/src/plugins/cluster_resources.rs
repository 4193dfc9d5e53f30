//! Cluster resources as a filter: see [`TaskGroup::cluster_request`](omega_core::TaskGroup::cluster_request).

use crate::framework::events::Events;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::Block;
use omega_core::KindId;

/// Filter: enough of each cluster resource is left.
///
/// The filter accepts or rejects all machines alike, so the resources are checked once per decision. For a decision
/// about several tasks, the placer finds the number of tasks for which the resources suffice.
#[derive(Clone, Copy, Debug)]
pub struct CellWide;

impl Filter for CellWide {
    fn name(&self) -> &'static str {
        "cluster_resources"
    }

    /// A claim on any machine reduces the amount of the cluster resource that is left.
    fn reads(&self) -> Reads {
        Reads::OTHER_MACHINES
    }

    fn wakes_on(&self) -> Events {
        Events::CELL_FREED
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        missing_of_cell(tasks).next().is_some()
    }

    fn refuses_all(&self) -> bool {
        true
    }

    fn filter(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    /// A shortage of a cluster resource does not lead to evictions.
    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::CELL
    }
}

/// Cluster resources of which too little is left for a task, each with the missing amount.
pub(crate) fn missing_of_cell(tasks: &Tasks<'_>) -> impl Iterator<Item = (KindId, u64)> {
    let resources = tasks.view.resources();
    let request = tasks.need.cluster_request.iter().flat_map(|request| request.iter());
    request.filter_map(|(kind, amount)| {
        let missing = amount.saturating_sub(resources.free(kind));
        (missing > 0).then_some((kind, missing))
    })
}
