//! Runtime affinity: the check of releases and evictions that would break a placed task's affinity.
//!
//! The check runs after all items of a transaction, because other items may remove the dependent task, or place other
//! tasks on which it can depend. If several tasks leave a domain, the check rejects the last of these releases and
//! evictions, and no more than needed.

mod in_cell;

use super::{Ledger, Policy};
use crate::index::machine_index::MachineIndex;
use omega_core::{Job, TaskGroup};

/// The policy of runtime affinity. It has no state besides the counters of rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeAffinity;

impl Ledger for RuntimeAffinity {
    fn is_checking(&self, machine_index: &MachineIndex) -> bool {
        machine_index.rules.any_runtime_affinity()
    }

    fn is_counting(&self) -> bool {
        false
    }
}

impl Policy for RuntimeAffinity {
    type Columns = ();
    type Mirror = ();
    type Note = ();

    /// Always true, because the runtime affinity of any job may select tasks of any other job.
    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }
}
