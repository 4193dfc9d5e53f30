//! Suite `node_ports`: NodePorts, which rejects nodes on which a port of the pod is in use.

use crate::oracle::difference::Found;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::NodePorts;

/// Compares the results of the filter with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case) -> Found {
    case.replay(|found, world, group| {
        case.expect.compare_filter(found, world, (&NodePorts, group));
        case.expect.compare_no_scores(found);
        Ok(())
    })
}
