//! Tasks that name their machine. (Kubernetes' NodeName.)

use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::Block;

/// Filter: the task names no machine, or names this one.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeName;

impl Filter for NodeName {
    fn name(&self) -> &'static str {
        "node_name"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.need.machine.is_some()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        tasks.need.machine.map_or(among, |set| among & block.set(set))
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::NAME
    }
}
