//! Ports of machines. (Kubernetes' NodePorts.)

use crate::plugin::{Filter, Judged, Reads, Tasks};
use omega_cellstate::{Block, RuleFamily};

/// Filter: no task on the machine has one of the task's ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePorts;

impl Filter for NodePorts {
    fn name(&self) -> &'static str {
        "node_ports"
    }

    /// Only tasks on the machine itself matter, but a claim there changes the result for the next task.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.family_concerns(tasks.need, RuleFamily::Ports)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        block.family_allows(tasks.need, RuleFamily::Ports, among)
    }

    fn judges(&self) -> Judged {
        Judged::PORTS
    }
}
