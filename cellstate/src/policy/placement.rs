//! The arguments of a policy: one task on one machine, and the context in which it is checked.

use crate::facts::{Facts, Need};
use omega_core::{Job, Reason, Text};
use smallvec::SmallVec;

/// One task on the machine of a row, as policies check and count it.
#[derive(Clone, Copy)]
pub(crate) struct Placement<'a> {
    /// The row of the machine.
    pub(crate) row: usize,
    /// The job of the task.
    pub(crate) job: &'a Job,
    /// The number of the job's tenant in the cell's tree; 0 in a view, where no policy reads it.
    pub(crate) tenant: u32,
    /// The compiled needs of its group.
    pub(crate) need: &'a Need,
    /// Its allocation there, by kind.
    pub(crate) request: &'a [i64],
}

/// The state beyond its own that a policy's check reads.
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
    /// A job's tenant and all tenants above it, from the bottom up.
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]>;

    /// Checks the limits of a tenant and of all tenants above it for an additional claim. A tree without limits accepts
    /// everything.
    ///
    /// # Errors
    /// The first limit that is exceeded.
    fn check_limits(&self, _tenant: u32, _more: &[i64]) -> Result<(), Reason> {
        Ok(())
    }
}
