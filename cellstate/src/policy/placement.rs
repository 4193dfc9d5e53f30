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
    /// The number of the job's tenant in the cell's tree; in a view 0, where no mirror reads it.
    pub(crate) tenant: u32,
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

    /// Checks whether a tenant may claim so much more by the limits of all in its line. A tree without limits has no
    /// objection.
    ///
    /// # Errors
    /// The first limit that is exceeded.
    fn check_limits(&self, _tenant: u32, _more: &[i64]) -> Result<(), Reason> {
        Ok(())
    }
}
