//! Quotas: the most that the tasks of a tenant and of all tenants below it may claim.
//!
//! The tree of tenants keeps the sums of use, because fair sharing and guarantees read them, too. A quota is a bound on
//! a tenant's sum. A claim is checked against the quotas of its tenant and of all tenants above. While no tenant has a
//! quota, this check is skipped.
//!
//! Only the cell checks quotas by this policy. A view checks them once, before it searches for a machine
//! ([`View::quota_lack`](crate::View::quota_lack)).

mod in_cell;

use super::{Context, Ledger, Placement, Policy, Restoring};
use crate::index::machine_index::MachineIndex;
use crate::snapshot::SnapshotStateError;
use omega_core::{Job, Reason, TaskGroup};

/// The policy of quotas. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    /// Whether some tenant has a quota.
    any: bool,
}

impl Ledger for Quotas {
    fn is_checking(&self, _: &MachineIndex) -> bool {
        self.any
    }

    fn is_counting(&self) -> bool {
        false
    }

    fn check(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        context.tenants.check_limits(at.tenant, &at.need.charged(at.request))
    }
}

impl Policy for Quotas {
    type Columns = ();
    type Mirror = ();
    type Note = ();

    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }

    /// Compares only the growth on the machine, because a resize does not change cluster resources.
    fn check_resize(&self, by: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        context.tenants.check_limits(by.tenant, by.request)
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        self.any = restoring.snapshot.tenants.iter().any(|tenant| tenant.limit.is_some());
        Ok(())
    }

    fn uncounted(&self) -> Quotas {
        self.clone()
    }
}
