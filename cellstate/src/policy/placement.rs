//! The arguments of a policy's checks: one task on one machine, and the context.

use crate::index::machine_index::MachineIndex;
use crate::index::need::Need;
use omega_core::{Job, Reason, Text};
use smallvec::SmallVec;

/// One task on the machine in a row, to be checked or counted by policies.
#[derive(Clone, Copy)]
pub struct Placement<'a> {
    /// The row of the machine.
    pub row: usize,
    /// The job of the task.
    pub job: &'a Job,
    /// The number of the job's tenant in the cell's tree; 0 in a view, where no policy reads it.
    pub tenant: u32,
    /// The compiled needs of the task's group.
    pub need: &'a Need,
    /// The task's allocation on the machine, by kind.
    pub request: &'a [i64],
    /// The ports that the cell chose for the task. Empty before the cell chooses them, and always empty in a view.
    pub ports: &'a [u16],
}

/// The state outside of a policy to which the policy's checks have access.
pub struct Context<'a> {
    /// Descriptions of machines, and sets of machines.
    pub machine_index: &'a MachineIndex,
    /// The cell's time in milliseconds.
    pub now_ms: u64,
    /// The tree of tenants.
    pub tenants: &'a dyn TenantTree,
}

/// The part of the tree of tenants that policies read.
pub trait TenantTree {
    /// A job's tenant and all tenants above it, from the bottom up.
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]>;

    /// Checks an additional claim against the limits of a tenant and of all tenants above it. The default
    /// implementation, for a tree without limits, accepts every claim.
    ///
    /// # Errors
    /// The first limit that would be exceeded.
    fn check_limits(&self, _tenant: u32, _more: &[i64]) -> Result<(), Reason> {
        Ok(())
    }
}
