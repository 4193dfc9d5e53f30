//! Cluster resources in the reference model, summed up task by task.

use super::allocations::taken;
use super::fit::Member;
use super::{Reference, validate};
use omega_core::{Amounts, KindId, Outcome, Reason, Rejection, Take, TaskGroup};

/// Amount that a task adds to the usage of its tenant: its claim on its machine plus its cluster request.
pub(super) fn charged(group: &TaskGroup, of_machine: &Amounts, kind: KindId) -> u64 {
    of_machine.get(kind) + group.cluster_request.get(kind)
}

impl Reference {
    /// Sets the capacity of a cluster resource.
    pub(super) fn set_cluster_capacity(
        &mut self,
        kind: KindId,
        amount: u64,
    ) -> Result<Outcome, Rejection> {
        if kind.index() >= self.kinds.count() {
            return Err(Rejection::BadAmount { what: "".into(), kind });
        }
        validate::quota(&"".into(), &Amounts::zero().with(kind, amount), &self.kinds)?;
        if self.cluster_capacity(kind) == amount {
            return Ok(Outcome::Done(self.version));
        }
        self.cluster_capacity.insert(kind, amount);
        Ok(self.done())
    }

    /// Capacity of a cluster resource.
    #[must_use]
    pub fn cluster_capacity(&self, kind: KindId) -> u64 {
        self.cluster_capacity.get(&kind).copied().unwrap_or(0)
    }

    /// Sum of the placed tasks' claims on a cluster resource.
    #[must_use]
    pub fn cluster_claimed(&self, kind: KindId) -> u128 {
        let placed = self.placed();
        placed.map(|(_, job, task, _)| u128::from(cluster_request(job, task.group).get(kind))).sum()
    }

    /// Checks cluster resources for one more task of a group.
    pub(super) fn check_cell(&self, of: Member<'_>) -> Result<(), Reason> {
        for (kind, amount) in cluster_request(of.job, of.group).iter() {
            let claimed = self.cluster_claimed(kind) + u128::from(amount);
            if claimed > u128::from(self.cluster_capacity(kind)) {
                return Err(Reason::CellExhausted(kind));
            }
        }
        Ok(())
    }

    /// Checks a tenant's limits for one more task of a group.
    pub(super) fn check_quota(&self, of: Member<'_>, take: Take) -> Result<(), Reason> {
        let group = &of.job.spec.groups[of.group];
        let (request, _) = taken(group, take);
        for tenant in self.line(&of.job.spec.tenant) {
            let Some(limit) = self.quota(&tenant) else { continue };
            let used = self.tenant_used(&tenant);
            for (kind, _) in self.kinds.iter() {
                let more = i128::from(charged(group, &request, kind));
                if more > 0 && used[kind.index()] + more > i128::from(limit.get(kind)) {
                    return Err(Reason::QuotaExceeded(kind));
                }
            }
        }
        Ok(())
    }
}

fn cluster_request(job: &super::ReferenceJob, group: usize) -> &Amounts {
    &job.spec.groups[group].cluster_request
}
