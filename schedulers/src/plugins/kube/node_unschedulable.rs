//! Machines that accept no tasks. (Kubernetes' NodeUnschedulable.)

use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::{Block, MachineSet, View};
use omega_core::{Taint, TaintEffect};

/// Taint of a cordoned node of a Kubernetes cluster.
const CLOSED: &str = "node.kubernetes.io/unschedulable";

/// Filter: the machine is not cordoned, or the task tolerates the cordon.
///
/// A draining machine accepts no tasks at all. A machine that only has the taint accepts tasks that
/// tolerate the taint.
#[derive(Clone, Debug)]
pub struct NodeUnschedulable {
    closed: MachineSet,
    taint: Taint,
}

impl Default for NodeUnschedulable {
    fn default() -> NodeUnschedulable {
        let effect = TaintEffect::NoSchedule;
        NodeUnschedulable {
            closed: MachineSet::Tainted(CLOSED.into(), effect),
            taint: Taint { key: CLOSED.into(), value: "".into(), effect },
        }
    }
}

impl Filter for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "node_unschedulable"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let open = among & block.schedulable();
        if !tasks.view.any_tainted() {
            return open;
        }
        let closed = tasks.view.kept_set(&self.closed).map_or(0, |set| block.set(set));
        let mut tolerations = tasks.group.rules.tolerations.iter();
        match open & closed {
            0 => open,
            _ if tolerations.any(|toleration| toleration.covers(&self.taint)) => open,
            _ => open & !closed,
        }
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::STATUS
    }

    fn keep(&self, view: &mut View) {
        view.keep_set(&self.closed);
    }
}
