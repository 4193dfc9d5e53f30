//! Allocations of tasks: the amounts of a resize, the request with optional resources, or the request alone.

use super::{Reference, ReferenceJob, ReferenceTask};
use omega_core::{Amounts, DeviceRequest, KindId, Reason, Resize, Take, TaskGroup};

/// Amounts that a claim for a task of a group needs in total.
pub(super) fn taken(group: &TaskGroup, take: Take) -> (Amounts, Option<DeviceRequest>) {
    match (&group.optional, take) {
        (Some(optional), Take::WithOptional) => {
            let mut sum = group.request.clone();
            for (kind, amount) in optional.amounts.iter() {
                sum.set(kind, group.request.get(kind) + amount);
            }
            (sum, group.devices.or(optional.devices))
        }
        _ => (group.request.clone(), group.devices),
    }
}

impl ReferenceJob {
    /// Allocation of a placed task.
    #[must_use]
    pub fn allocation(&self, task: &ReferenceTask) -> Amounts {
        task.allocation.clone().unwrap_or_else(|| self.spec.groups[task.group].request.clone())
    }

    /// Allocation in the form of a group with one task. A changed allocation is constant all day.
    #[must_use]
    pub fn claims(&self, task: &ReferenceTask) -> TaskGroup {
        match &task.allocation {
            Some(allocation) => TaskGroup::new(1, allocation.clone()),
            None => TaskGroup::clone(&self.spec.groups[task.group]),
        }
    }
}

impl Reference {
    pub(super) fn try_resize(&mut self, resize: &Resize) -> Result<(), Reason> {
        let (job, task) = self.task(resize.task).ok_or(Reason::UnknownTask)?;
        if task.state.ended() {
            return Err(Reason::TaskEnded);
        }
        let row = task.state.machine().ok_or(Reason::TaskNotPlaced)?.row();
        if let Some(kind) = resize.to.first_invalid(&self.kinds) {
            return Err(Reason::NoRoom(kind));
        }
        let cpu = self.kinds.by_name("cpu").map_or(0, |cpu| resize.to.get(cpu));
        if cpu < u64::from(task.cores.total()) * 1000 {
            return Err(Reason::NoCores);
        }
        let grows = self.growth(resize.task, &resize.to);
        self.check_peaks(resize.task.job, row, &grows)?;
        let kinds = (0..self.kinds.count() as u8).map(KindId);
        let free = self.free(row);
        let without = self.free_of(row, |id| id != resize.task, []);
        for kind in kinds {
            let freed = without[kind.index()] - free[kind.index()];
            let more = i128::from(resize.to.get(kind)) - freed;
            if more > 0 && more > free[kind.index()] {
                return Err(Reason::NoRoom(kind));
            }
        }
        for tenant in self.line(&job.spec.tenant) {
            let Some(limit) = self.quota(&tenant) else { continue };
            let used = self.tenant_used(&tenant);
            let over = |(kind, more): &&(KindId, i128)| {
                used[kind.index()] + more > i128::from(limit.get(*kind))
            };
            if let Some((kind, _)) = grows.iter().find(over) {
                return Err(Reason::QuotaExceeded(*kind));
            }
        }
        if let Some(job) = self.jobs.get_mut(&resize.task.job) {
            let task = &mut job.tasks[resize.task.index as usize];
            let request = &job.spec.groups[task.group].request;
            task.allocation = (resize.to != *request).then(|| resize.to.clone());
        }
        Ok(())
    }
}
