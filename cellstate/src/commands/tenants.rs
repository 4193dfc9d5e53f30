//! Commands about tenants, and the counts of what tenants request.

use crate::cell::{Cell, Change};
use crate::commands::validate;
use crate::policy::Policies;
use omega_core::{Amounts, Job, Outcome, Rejection, TenantConfig, Text};

impl Cell {
    /// Sets the configuration of a tenant.
    pub(crate) fn set_tenant(
        &mut self,
        tenant: &Text,
        tenant_config: TenantConfig,
    ) -> Result<Outcome, Rejection> {
        validate::tenant_config(tenant, &tenant_config, &self.kinds)?;
        self.tenants.check_count([tenant].into_iter().chain(&tenant_config.parent))?;
        self.tenants.set_tenant(tenant, tenant_config.clone())?;
        self.recount_requested();
        let version = self.begin();
        Policies::configure_tenant(self, tenant, &tenant_config);
        // If the parent changed, other quotas may apply to the tenant now.
        self.log.push(Change::Quota);
        Ok(Outcome::Done(version))
    }

    /// Sets or removes the request limit of a tenant.
    pub(crate) fn set_admission(
        &mut self,
        tenant: &Text,
        limit: Option<Amounts>,
    ) -> Result<Outcome, Rejection> {
        validate::tenant_limit(tenant, limit.as_ref(), &self.kinds)?;
        self.tenants.check_count([tenant])?;
        let version = self.begin();
        let counted = self.tenants.requested.limits > 0;
        self.tenants.set_admission(tenant, limit);
        if counted && self.tenants.requested.limits > 0 {
            self.tenants.make_sums()
        } else {
            self.recount_requested()
        }
        Ok(Outcome::Done(version))
    }

    /// Checks the request limits for a new job.
    pub(crate) fn admit_job(&self, job: &Job) -> Result<(), Rejection> {
        let groups = job.groups.iter();
        let groups =
            groups.flat_map(|group| group.requests().map(move |amounts| (amounts, group.count)));
        match self.tenants.id(&job.tenant) {
            Some(tenant) => self.tenants.admit(&self.kinds, tenant, groups),
            None => Ok(()),
        }
    }

    /// The number of unfinished tasks of a tenant's own jobs.
    #[must_use]
    pub fn tenant_tasks(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, |tenant| tenant.tasks)
    }

    /// Number of bytes of a tenant's own jobs, including ended jobs that are still kept: of their descriptions as
    /// counted by [`bytes_at_most`](omega_core::bytes_at_most), and [`TASK_BYTES`](crate::TASK_BYTES) of each task.
    #[must_use]
    pub fn tenant_bytes(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, |tenant| tenant.bytes)
    }

    /// Sums up the bytes of each tenant's jobs.
    pub(crate) fn count_tenant_bytes(&self) -> Vec<u64> {
        let mut sums = vec![0; self.tenants.list.len()];
        for (_, job) in self.jobs.iter() {
            sums[job.tenant as usize] += job.kept_bytes();
        }
        sums
    }

    /// Counts the tasks of each tenant that have not ended.
    pub(crate) fn count_tenant_tasks(&self) -> Vec<u64> {
        let mut counts = vec![0; self.tenants.list.len()];
        for (_, job) in self.jobs.iter() {
            counts[job.tenant as usize] += u64::from(job.alive);
        }
        counts
    }

    /// Recounts the requested amounts after a change of limits or of the tenant tree.
    pub(crate) fn recount_requested(&mut self) {
        self.tenants.requested.sums = self.count_requested();
    }

    /// The requested amounts of each tenant; empty while no tenant has a limit.
    pub(crate) fn count_requested(&self) -> Vec<Vec<u128>> {
        if self.tenants.requested.limits == 0 {
            return Vec::new();
        }
        let mut sums = vec![vec![0; self.tenants.kinds]; self.tenants.list.len()];
        for (_, job) in self.jobs.iter() {
            let living = job.tasks.iter().filter(|task| !task.state.ended());
            for need in living.map(|task| job.need(task)) {
                let requested = need.charged(&need.request);
                for id in self.tenants.line(job.tenant) {
                    let counts = sums[id as usize].iter_mut().zip(requested.iter());
                    counts.for_each(|(sum, request)| *sum += u128::from(request.unsigned_abs()));
                }
            }
        }
        sums
    }
}
