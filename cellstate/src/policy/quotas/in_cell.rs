//! The command that sets a quota, and its audit.

use super::Quotas;
use crate::audit_error::AuditError;
use crate::cell::{Cell, Change};
use crate::commands::validate;
use crate::policy::CellPolicy;
use crate::state::tenants::Tenants;
use omega_core::{Amounts, Outcome, Rejection, Text};

impl CellPolicy for Quotas {}

impl Cell {
    /// Sets or removes the quota of a tenant.
    pub(crate) fn set_quota(
        &mut self,
        tenant: &Text,
        limit: Option<Amounts>,
    ) -> Result<Outcome, Rejection> {
        validate::tenant_limit(tenant, limit.as_ref(), &self.kinds)?;
        self.tenants.check_count([tenant])?;
        let version = self.begin();
        self.tenants.set_limit(tenant, limit);
        self.policies.quotas.any = has_limits(&self.tenants);
        self.log.push(Change::Quota);
        Ok(Outcome::Done(version))
    }

    /// Checks that the cell compares quotas if and only if some tenant has a quota.
    ///
    /// # Errors
    /// The cell compares quotas although no tenant has a quota, or it does not compare them although some tenant has
    /// one.
    pub(crate) fn audit_quotas(&self) -> Result<(), AuditError> {
        let is_right = self.policies.quotas.any == has_limits(&self.tenants);
        if is_right { Ok(()) } else { Err(AuditError::Quotas) }
    }
}

fn has_limits(tenants: &Tenants) -> bool {
    tenants.iter().any(|tenant| tenant.terms.limit.is_some())
}
