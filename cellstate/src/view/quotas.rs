//! Tenants and quotas, as schedulers query them in a view.

use crate::state::tenants::TenantDelta;
use crate::view::tenants::QuotaLack;
use crate::view::{GroupRef, View};
use omega_core::{JobId, Precedence, Text};
use smallvec::SmallVec;
use std::collections::BTreeMap;

impl View {
    /// Every tenant, ordered by name. Empty while no tenant of the cell has a configuration or a limit.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantDelta> {
        let mut tenants: Vec<&TenantDelta> = self.tenants.all().collect();
        tenants.sort_unstable_by_key(|tenant| &tenant.terms.name);
        tenants.into_iter()
    }

    /// A tenant and all tenants above it, from the top down. Empty if no delta has contained the tenant.
    #[must_use]
    pub fn tenant_line(&self, name: &str) -> SmallVec<[&TenantDelta; 4]> {
        let mut line: SmallVec<[&TenantDelta; 4]> = self.tenants.line_of_name(name).collect();
        line.reverse();
        line
    }

    /// The branches of two tenants below their nearest common ancestor. Reclaiming compares these branches. `None` if
    /// one tenant is above the other.
    #[must_use]
    pub fn parting(&self, one: &str, other: &str) -> Option<(&TenantDelta, &TenantDelta)> {
        let (one, other) = (self.tenant_line(one), self.tenant_line(other));
        one.into_iter().zip(other).find(|(one, other)| one.terms.name != other.terms.name)
    }

    /// Returns how many tasks of a group, at most `tasks`, fit into the limits of the group's tenant and of all tenants
    /// above it. The view's claims count against these limits.
    #[must_use]
    pub fn quota_room(&self, group: GroupRef, tasks: usize) -> usize {
        if !self.tenants.limited() {
            return tasks;
        }
        let compiled = self.groups.get(group);
        self.tenants.room(compiled.tenant, &compiled.need, tasks)
    }

    /// The first limit, from the group's tenant up, that leaves too little for one more task of the group.
    #[must_use]
    pub fn quota_lack(&self, group: GroupRef) -> Option<QuotaLack> {
        let compiled = self.groups.get(group);
        self.tenants.lack(compiled.tenant, &compiled.need)
    }

    /// Whether a job belongs to a tenant or to a tenant below it, so that the tenant's limit applies to the job. The
    /// job must have placed tasks, and the view must keep placements.
    #[must_use]
    pub fn is_below(&self, job: JobId, tenant: &str) -> bool {
        let Some(job) = self.placed_job(job) else { return false };
        self.tenants.line_of_name(&job.tenant).any(|tenants| *tenants.terms.name == *tenant)
    }

    /// Whether a tenant, or a tenant below it, has a placed task with a precedence lower than `precedence`. The view
    /// must keep placements.
    #[must_use]
    pub fn any_lower_below(&self, precedence: Precedence, tenant: &str) -> bool {
        let mut lower = self.placed_jobs().filter(|(_, job)| job.precedence < precedence);
        lower.any(|(id, _)| self.is_below(id, tenant))
    }

    /// The amounts that the view adds to each tenant's use in the last delta, by kind: own claims that the delta does
    /// not include yet, minus evicted tasks.
    #[must_use]
    pub fn own_use(&self) -> BTreeMap<Text, Vec<i64>> {
        let mut own = BTreeMap::new();
        let mut count = |tenant: &Text, amounts: &mut dyn Iterator<Item = i64>| {
            let kinds = || vec![0; self.kinds.count()];
            let sums: &mut Vec<i64> = own.entry(tenant.clone()).or_insert_with(kinds);
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        };
        for (job, request) in self.own_requests() {
            count(&job.tenant, &mut request.iter().copied());
        }
        for victim in self.evicted() {
            let (Some(job), Some(allocation)) =
                (self.job_of(victim.id), self.allocation_of(victim))
            else {
                continue;
            };
            count(&job.tenant, &mut allocation.as_slice().iter().map(|amount| -(*amount as i64)));
        }
        own
    }
}
