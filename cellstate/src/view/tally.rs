//! What syncs brought a view, counted by what it may change for tasks that found no machine.

use crate::judge::MachineStatus;
use omega_core::Machine;
use std::sync::Arc;

/// What all syncs of a view have brought so far. Whoever keeps an old one sees what came since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Machines that came.
    pub added: u64,
    /// Machines whose description changed, or that began or ended draining.
    pub changed: u64,
    /// Machines that went.
    pub removed: u64,
    /// Machines that had more left of some kind, or of some device, than before.
    pub freed: u64,
    /// Syncs after which there was more of something that belongs to no machine.
    pub cell_freed: u64,
    /// Tenants with a limit of which there was word that they use less of some kind than before.
    pub quota_freed: u64,
    /// Machines that reported their load, changed or not: it is younger then.
    pub loads: u64,
}

/// What a row held before a change, or holds after it.
pub(super) struct RowState {
    pub(super) incarnation: u32,
    pub(super) status: MachineStatus,
    pub(super) machine: Option<Arc<Machine>>,
}

impl Tally {
    /// Counts what became of a row.
    pub(super) fn note_machine(&mut self, before: &RowState, after: &RowState) {
        match (&before.machine, &after.machine) {
            (None, None) => {}
            (None, Some(_)) => self.added += 1,
            (Some(_), None) => self.removed += 1,
            (Some(_), Some(_)) if before.incarnation != after.incarnation => {
                self.removed += 1;
                self.added += 1;
            }
            (Some(old), Some(new)) => {
                self.changed += u64::from(before.status != after.status || old != new);
            }
        }
    }
}
