//! Ports of machines: those that tasks request (Kubernetes' NodePorts), and those that the cell chooses.

use crate::framework::events::Events;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::{Block, RuleFamily};

/// Filter: no task on the machine has one of the task's ports, and the machine's port range has enough free ports if
/// the cell is to choose ports for the task.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePorts;

impl Filter for NodePorts {
    fn name(&self) -> &'static str {
        "node_ports"
    }

    /// The result depends only on tasks on the machine itself, but a claim on the machine changes the result for the
    /// next task.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    /// When a task leaves a machine, the ports that the cell chose for it become free together with its resources.
    fn wakes_on(&self) -> Events {
        Events::of(self.reads()) | Events::of(Reads::AMOUNTS)
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        let (view, need) = (tasks.view, tasks.need);
        view.family_concerns(need, RuleFamily::Ports) || view.any_ports_concern(need)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let among = block.family_allows(tasks.need, RuleFamily::Ports, among);
        block.any_ports_fit(tasks.need, among)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::PORTS
    }
}
