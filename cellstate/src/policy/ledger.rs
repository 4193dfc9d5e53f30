//! The functions of a policy that the cell and views share: they check placements and count them.

use super::{Context, Placement};
use crate::index::machine_index::MachineIndex;
use omega_core::Reason;

/// The functions of a policy that the cell and views share: they check placements and count them.
pub trait Ledger: Default {
    /// Whether the policy may reject a placement at present.
    fn is_checking(&self, _machine_index: &MachineIndex) -> bool {
        true
    }

    /// Whether the policy counts placements at present.
    fn is_counting(&self) -> bool {
        true
    }

    /// Checks whether a machine accepts a task, before amounts are compared.
    ///
    /// # Errors
    /// The reason against the placement.
    #[inline]
    fn admit(&self, _at: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Checks a placement. Called if the machine has room for it.
    ///
    /// # Errors
    /// The reason against the placement.
    #[inline]
    fn check(&self, _at: &Placement<'_>, _context: &Context<'_>) -> Result<(), Reason> {
        Ok(())
    }

    /// Counts a placed task if `sign` is 1, or a task that left if it is -1. The two calls must cancel each other
    /// exactly.
    #[inline]
    fn count(&mut self, _at: &Placement<'_>, _sign: i64) {}
}

/// The mirror of a policy that views do not need.
impl Ledger for () {
    fn is_checking(&self, _: &MachineIndex) -> bool {
        false
    }

    fn is_counting(&self) -> bool {
        false
    }
}

/// The checks of all policies, in the cell or in a view.
pub trait Checks {
    /// Checks whether a machine accepts a task.
    ///
    /// # Errors
    /// The first reason against the placement, in the order of the list.
    fn admit(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason>;

    /// Checks a placement. Called if the machine has room for it.
    ///
    /// # Errors
    /// The first reason against the placement, in the order of the list.
    fn check(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason>;
}
