//! Quotas: the most that the tasks of a tenant, and of all tenants below it, may claim together.
//!
//! The sums of what tenants use belong to the tree of tenants, because fair sharing and guarantees read them, too. A
//! quota is a bound on such a sum, compared on each level from the tenant up. It knows whether any tenant has
//! a limit: as long as none has, no claim walks up the tree.
//!
//! Only the cell checks quotas here. Views compare a limit once for all machines before they search
//! ([`View::quota_lack`](crate::View::quota_lack)).

use super::{Context, Ledger, Placement, Policy, Restoring};
use crate::audit::AuditError;
use crate::cell::{Cell, Change};
use crate::facts::Facts;
use crate::image::ImageError;
use crate::tenants::Tenants;
use crate::{texts, validate};
use omega_core::{Amounts, Job, Outcome, Reason, Rejection, TaskGroup, Text};

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    /// Whether some tenant has a limit.
    any: bool,
}

impl Ledger for Quotas {
    fn is_checking(&self, _: &Facts) -> bool {
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
    type Mirror = ();
    type Note = ();

    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }

    /// Compares what is more of a machine alone: what a task claims of the cell as a whole stays.
    fn check_resize(&self, by: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        context.tenants.check_limits(by.tenant, by.request)
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), ImageError> {
        self.any = restoring.image.tenants.iter().any(|tenant| tenant.limit.is_some());
        Ok(())
    }

    fn uncounted(&self) -> Quotas {
        self.clone()
    }
}

impl Cell {
    /// Sets or lifts the limit of a tenant.
    pub(crate) fn set_quota(
        &mut self,
        tenant: &Text,
        limit: Option<Amounts>,
    ) -> Result<Outcome, Rejection> {
        texts::name("tenant", tenant)?;
        if let Some(limit) = &limit {
            validate::quota(tenant, limit, &self.kinds)?;
        }
        let version = self.begin();
        self.tenants.set_limit(tenant, limit);
        self.policies.quotas.any = has_limits(&self.tenants);
        self.log.push(Change::Quota);
        Ok(Outcome::Done(version))
    }

    /// Checks that quotas are compared if and only if there are any.
    ///
    /// # Errors
    /// Otherwise.
    pub(crate) fn audit_quotas(&self) -> Result<(), AuditError> {
        let is_right = self.policies.quotas.any == has_limits(&self.tenants);
        if is_right { Ok(()) } else { Err(AuditError::Quotas) }
    }
}

fn has_limits(tenants: &Tenants) -> bool {
    tenants.iter().any(|tenant| tenant.terms.limit.is_some())
}
