//! Tasks and bytes of jobs that a server has accepted and that may not be in the cell's state yet.

use omega_core::Text;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tasks of a tenant that have not ended, and bytes of its jobs' descriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TenantUse {
    pub(crate) tasks: u64,
    pub(crate) bytes: u64,
}

impl TenantUse {
    pub(crate) fn add(&mut self, more: TenantUse) {
        self.tasks += more.tasks;
        self.bytes += more.bytes;
    }
}

/// Use by requests under way, by tenant. It is locked during a look-up in the cell, so this lock is taken before the
/// cell's lock.
pub(crate) type TasksInFlight = Arc<Mutex<BTreeMap<Text, TenantUse>>>;
