//! Tenants: the tree, the sums of usage, and reclaiming.

use super::cluster_resources::charged;
use super::fit::Member;
use super::{Reference, ReferenceJob, ReferenceTask, validate};
use omega_core::limits::{TENANT_DEPTH_MAX, TENANT_WEIGHT_MAX, TENANTS_MAX};
use omega_core::{
    Amounts, Claim, JobId, KindId, Outcome, Reason, Rejection, TaskGroup, TaskId, TenantConfig,
    Text,
};
use std::collections::BTreeSet;

impl Reference {
    /// Configures a tenant.
    pub(super) fn set_tenant(
        &mut self,
        tenant: Text,
        tenant_config: TenantConfig,
    ) -> Result<Outcome, Rejection> {
        validate::name(&tenant)?;
        tenant_config.parent.iter().try_for_each(validate::name)?;
        validate::quota(&tenant, &tenant_config.guaranteed, &self.kinds)?;
        if tenant_config.weight == 0 || tenant_config.weight > TENANT_WEIGHT_MAX {
            return Err(Rejection::BadTenant(tenant));
        }
        if tenant_config.tasks_per_machine_max == Some(0) {
            return Err(Rejection::BadTenant(tenant));
        }
        self.check_tenants([&tenant].into_iter().chain(&tenant_config.parent))?;
        let mut after = self.tenant_configs.clone();
        after.insert(tenant.clone(), tenant_config.clone());
        let above =
            |name: &Text| after.get(name).and_then(|tenant_config| tenant_config.parent.clone());
        let depth = |name: &Text| {
            let line = std::iter::successors(Some(name.clone()), above);
            line.take(TENANT_DEPTH_MAX + 1).count()
        };
        // A tenant in a cycle has no top tenant above it, so its depth exceeds the maximum.
        if after.keys().any(|name| depth(name) > TENANT_DEPTH_MAX) {
            return Err(Rejection::BadTenant(tenant));
        }
        self.tenants.insert(tenant.clone());
        self.tenants.extend(tenant_config.parent);
        self.tenant_configs = after;
        Ok(self.done())
    }

    /// Checks the number of tenants for a command that names these.
    pub(super) fn check_tenants<'a>(
        &self,
        names: impl IntoIterator<Item = &'a Text>,
    ) -> Result<(), Rejection> {
        let names = names.into_iter().filter(|name| !self.tenants.contains(*name));
        let new = names.collect::<BTreeSet<&Text>>().len();
        if new == 0 { Ok(()) } else { validate::at_most(self.tenants.len() + new, TENANTS_MAX) }
    }

    /// Configuration of a tenant.
    #[must_use]
    pub fn tenant_config(&self, name: &Text) -> TenantConfig {
        self.tenant_configs.get(name).cloned().unwrap_or_default()
    }

    /// Checks whether a machine may have one more task of the group's tenant.
    pub(super) fn check_tasks_per_machine(&self, of: Member<'_>, row: usize) -> Result<(), Reason> {
        let tenant = &of.job.spec.tenant;
        let Some(max) = self.tenant_config(tenant).tasks_per_machine_max else { return Ok(()) };
        let there =
            self.placed().filter(|(_, job, _, at)| *at == row && job.spec.tenant == *tenant);
        if there.count() >= max as usize { Err(Reason::TasksPerMachine) } else { Ok(()) }
    }

    /// Sets or removes the request limit of a tenant's jobs.
    pub(super) fn set_admission(
        &mut self,
        tenant: Text,
        limit: Option<Amounts>,
    ) -> Result<Outcome, Rejection> {
        validate::name(&tenant)?;
        limit.iter().try_for_each(|limit| validate::quota(&tenant, limit, &self.kinds))?;
        self.check_tenants([&tenant])?;
        self.tenants.insert(tenant.clone());
        match limit {
            Some(limit) => self.admissions.insert(tenant, limit),
            None => self.admissions.remove(&tenant),
        };
        Ok(self.done())
    }

    /// Request limit of a tenant, if there is one.
    #[must_use]
    pub fn admission(&self, name: &Text) -> Option<&Amounts> {
        self.admissions.get(name)
    }

    /// Requested amount of the unfinished tasks of a tenant and of all tenants below it.
    #[must_use]
    pub fn asked(&self, name: &Text, kind: KindId) -> u128 {
        let living = self.tasks().filter(|(_, _, task)| !task.state.ended());
        let below = living.filter(|(_, job, _)| self.line(&job.spec.tenant).contains(name));
        let group = |job: &ReferenceJob, task: &ReferenceTask| job.spec.groups[task.group].clone();
        let groups = below.map(|(_, job, task)| group(job, task));
        groups.map(|group| u128::from(charged(&group, &group.request, kind))).sum()
    }

    /// Checks the request limits for additional tasks.
    pub(super) fn admit<'a>(
        &self,
        tenant: &Text,
        tasks: impl IntoIterator<Item = (&'a TaskGroup, u64)>,
    ) -> Result<(), Rejection> {
        self.admit_exchange(tenant, tasks.into_iter().collect(), Vec::new())
    }

    /// Checks the request limits for tasks that replace others.
    pub(super) fn admit_exchange(
        &self,
        tenant: &Text,
        tasks: Vec<(&TaskGroup, u64)>,
        ended: Vec<&TaskGroup>,
    ) -> Result<(), Rejection> {
        for name in self.line(tenant) {
            let Some(limit) = self.admissions.get(&name) else { continue };
            for (kind, _) in self.kinds.iter() {
                let of = |(group, count): &(&TaskGroup, u64)| {
                    u128::from(charged(group, &group.request, kind)) * u128::from(*count)
                };
                let more: u128 = tasks.iter().map(of).sum();
                let fewer: u128 = ended.iter().map(|group| of(&(*group, 1))).sum();
                let more = more.saturating_sub(fewer);
                let asked = self.asked(&name, kind) + more;
                if more > 0 && asked > u128::from(limit.get(kind)) {
                    let (asked, limit) = (asked.min(u128::from(u64::MAX)) as u64, limit.get(kind));
                    let told = Text::from("");
                    return Err(Rejection::NotAdmitted {
                        tenant: name,
                        kind,
                        requested: asked,
                        limit,
                        detail: told,
                    });
                }
            }
        }
        Ok(())
    }

    /// Limit of a tenant and all tenants below it, if there is one.
    #[must_use]
    pub fn quota(&self, name: &Text) -> Option<&Amounts> {
        self.quotas.get(name)
    }

    /// A tenant and the tenants above it, from the bottom to the top.
    pub(super) fn line(&self, name: &Text) -> Vec<Text> {
        let above = |name: &Text| self.tenant_config(name).parent;
        std::iter::successors(Some(name.clone()), above).collect()
    }

    /// Claims of the tasks of a tenant and of all tenants below it, by kind.
    #[must_use]
    pub fn tenant_used(&self, tenant: &Text) -> Vec<i128> {
        let mut used = vec![0; self.kinds.count()];
        for (_, job, task, _) in self.placed() {
            if self.line(&job.spec.tenant).contains(tenant) {
                let (group, holds) = (&job.spec.groups[task.group], job.allocation(task));
                for (kind, _) in self.kinds.iter() {
                    used[kind.index()] += i128::from(charged(group, &holds, kind));
                }
            }
        }
        used
    }

    /// Number of further tasks of a group that the limits of its tenant and of the tenants above this tenant allow
    /// after these placements; `None` if there is no limit.
    #[must_use]
    pub fn quota_room(
        &self,
        (job, group): (JobId, usize),
        too: impl Iterator<Item = (JobId, usize)> + Clone,
    ) -> Option<i128> {
        let of = |(job, group): (JobId, usize), kind: KindId| {
            let group = &self.jobs[&job].spec.groups[group];
            i128::from(charged(group, &group.request, kind))
        };
        let mut rooms = Vec::new();
        for name in self.line(&self.jobs[&job].spec.tenant) {
            let Some(limit) = self.quotas.get(&name) else { continue };
            let used = self.tenant_used(&name);
            let pays =
                |(job, _): &(JobId, usize)| self.line(&self.jobs[job].spec.tenant).contains(&name);
            for (kind, _) in self.kinds.iter().filter(|(kind, _)| of((job, group), *kind) > 0) {
                let claimed: i128 = too.clone().filter(pays).map(|group| of(group, kind)).sum();
                let left = i128::from(limit.get(kind)) - used[kind.index()] - claimed;
                rooms.push((left / of((job, group), kind)).max(0));
            }
        }
        rooms.into_iter().min()
    }

    /// Whether a tenant may, by its guarantee, evict a task of equal or higher precedence for its claims on one
    /// machine. `before` is the model without the transaction; `self` includes the whole transaction.
    pub(super) fn may_reclaim(
        &self,
        claims: &[&Claim],
        victim: TaskId,
        before: &Reference,
    ) -> bool {
        let Some((job, task)) = before.task(victim) else { return false };
        let request = &job.allocation(task);
        let stays = self.task(victim).is_some_and(|(_, task)| task.state.machine().is_some());
        claims.iter().any(|claim| {
            let ours = &self.jobs[&claim.task.job].spec.tenant;
            let asked: Vec<KindId> = claims
                .iter()
                .map(|claim| (&self.jobs[&claim.task.job], claim.task.index as usize))
                .filter(|(job, _)| job.spec.tenant == *ours)
                .flat_map(|(job, index)| {
                    let holds = job.allocation(&job.tasks[index]);
                    holds.iter().map(|(kind, _)| kind).collect::<Vec<_>>()
                })
                .collect();
            let Some((ours, theirs)) = self.parting(ours, &job.spec.tenant) else { return false };
            let has = |name: &Text, kind: KindId| {
                let guaranteed = i128::from(self.tenant_config(name).guaranteed.get(kind));
                (self.tenant_used(name)[kind.index()], guaranteed)
            };
            let within = asked.iter().all(|kind| {
                let (used, guaranteed) = has(&ours, *kind);
                used <= guaranteed
            });
            let borrowed = |kind: &KindId| {
                let (used, guaranteed) = has(&theirs, *kind);
                let amount = i128::from(request.get(*kind));
                amount > 0 && used + if stays { 0 } else { amount } > guaranteed
            };
            within && asked.iter().any(borrowed)
        })
    }

    /// In each tenant's line to the top, the highest tenant that is not in the other tenant's line.
    fn parting(&self, one: &Text, other: &Text) -> Option<(Text, Text)> {
        let (one, other) = (self.line(one), self.line(other));
        let ours = one.iter().rfind(|name| !other.contains(name))?;
        let theirs = other.iter().rfind(|name| !one.contains(name))?;
        Some((ours.clone(), theirs.clone()))
    }
}
