//! The arguments of a policy: one task on one machine, and the context in which it is checked.

use crate::facts::{Facts, Need};
use omega_core::{Job, Text};
use smallvec::SmallVec;

/// One task on the machine of a row, as policies check and count it.
#[derive(Clone, Copy)]
pub(crate) struct Placement<'a> {
    /// The row of the machine.
    pub(crate) row: usize,
    /// The job of the task.
    pub(crate) job: &'a Job,
    /// The compiled needs of its group.
    pub(crate) need: &'a Need,
    /// The amount of each kind that it is allocated there.
    pub(crate) request: &'a [i64],
}

/// The state beside a policy's own that a check reads.
pub(crate) struct Context<'a> {
    /// Descriptions of machines, and sets of them.
    pub(crate) facts: &'a Facts,
    /// The cell's time.
    pub(crate) now_ms: u64,
    /// The tree of tenants.
    pub(crate) tenants: &'a dyn TenantTree,
}

/// The tree of tenants, as far as policies read it.
pub(crate) trait TenantTree {
    /// A job's tenant and all above it, from the tenant up.
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]>;
}
