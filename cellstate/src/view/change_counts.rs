//! Counts of the changes that syncs brought. A scheduler reads from them which unschedulable tasks may fit now.

use crate::fit::MachineStatus;
use omega_core::{Machine, MachineId};
use std::sync::Arc;

/// Counts of the changes of all syncs of a view so far. The difference of two values counts the changes between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// Machines that were added.
    pub added: u64,
    /// Machines whose description changed, or that began or ended draining.
    pub changed: u64,
    /// Machines that were removed.
    pub removed: u64,
    /// Machines with more room than before. A machine counts once for its amounts, once for its devices, and so on.
    pub freed: u64,
    /// Syncs that increased the free amount of a cluster resource.
    pub cell_freed: u64,
    /// Tenants with a limit whose use of some kind fell.
    pub quota_freed: u64,
    /// Load reports of machines, even if they equal the previous report.
    pub loads: u64,
}

/// The state of a row before or after a change.
pub(super) struct RowState {
    pub(super) id: MachineId,
    pub(super) status: MachineStatus,
    pub(super) machine: Option<Arc<Machine>>,
}

impl ChangeCounts {
    /// Counts the change of a row.
    pub(super) fn note_machine(&mut self, before: &RowState, after: &RowState) {
        match (&before.machine, &after.machine) {
            (None, None) => {}
            (None, Some(_)) => self.added += 1,
            (Some(_), None) => self.removed += 1,
            (Some(_), Some(_)) if before.id != after.id => {
                self.removed += 1;
                self.added += 1;
            }
            (Some(old), Some(new)) => {
                self.changed += u64::from(before.status != after.status || old != new);
            }
        }
    }
}
