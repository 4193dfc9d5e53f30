//! Resizes: changes of a placed task's allocation.
//!
//! A resize is checked like a claim of the difference. Growth must fit on the machine, in the tenant's quotas, and in
//! the share that batch tasks may have at this time of day. Shrinking frees the difference at once. A resized task has
//! constant amounts all day. If it is resized back to its request, it follows its demand profile again. No task is
//! evicted for a resize. A draining machine accepts no new tasks, but its tasks may grow.

use super::scratch::{Had, Scratch, Step};
use crate::cell::{Cell, Change};
use crate::fit::check_room;
use crate::policy::{Context, Placement};
use crate::state::allocation_overrides::{Values, amounts_of, values_of};
use crate::state::job_record::OwnerId;
use omega_core::{Amounts, Reason, Resize, TaskId};

impl Cell {
    /// The allocation of a placed task, if it differs from its group's request.
    #[must_use]
    pub fn task_allocation_override(&self, id: TaskId) -> Option<Amounts> {
        let allocation = self.jobs.get(id.job)?.overrides.get(id.index)?;
        Some(amounts_of(allocation))
    }

    /// The allocation of a placed task; `None` if the task is not placed.
    #[must_use]
    pub fn task_allocation(&self, id: TaskId) -> Option<Amounts> {
        let (job, task) = self.jobs.task(id)?;
        task.state.machine()?;
        let request = || Some(job.spec.groups.get(usize::from(task.group))?.request.clone());
        self.task_allocation_override(id).or_else(request)
    }

    /// Checks one resize, and applies it.
    pub(crate) fn resize(
        &mut self,
        resize: &Resize,
        scratch: &mut Scratch,
    ) -> Result<Step, Reason> {
        let task = resize.task;
        let job = self.jobs.get_mut(task.job).ok_or(Reason::UnknownTask)?;
        let record = job.tasks.get(task.index as usize).ok_or(Reason::UnknownTask)?;
        if record.state.ended() {
            return Err(Reason::TaskEnded);
        }
        let slot = record.state.machine().ok_or(Reason::TaskNotPlaced)?.slot;
        if let Some(kind) = resize.to.first_invalid(&self.kinds) {
            // The kind does not exist, or the amount is larger than any machine has.
            return Err(Reason::NoRoom(kind));
        }
        if job.need(record).cores.is_some_and(|cores| !cores.fit_in(&resize.to, &self.kinds)) {
            return Err(Reason::NoCores);
        }
        let to = values_of(&resize.to, self.kinds.count());
        let part = job.part(task.index);
        let more = difference(&to, &self.machines.freed_by(slot as usize, part));
        let grows = difference(&to, part.request);
        let need = job.need(record);
        let (row, tenant) = (slot as usize, job.tenant);
        let ports = job.ports.get(task.index);
        let by = Placement { row, job: &job.spec, tenant, need, request: &grows, ports };
        let context = Context {
            machine_index: &self.machine_index,
            now_ms: self.now_ms,
            tenants: &self.tenants,
        };
        self.policies.admit_resize(&by, &context)?;
        check_room(self.machines.free(row), &more)?;
        self.policies.check_resize(&by, &context)?;
        let owner = job.owner;
        self.policies.note_resize(&by, &self.machine_index, &mut scratch.notes);
        scratch.met |= self.policies.meeting(need);
        let amounts = Some(part.request.into());
        scratch.had.push((task, Had { amounts, ..Had::default() }));
        self.set_allocation(task, slot, to);
        Ok(Step::Resized { task, slot, owner })
    }

    /// Logs a resize, which changes no rule counters.
    pub(crate) fn log_resize(&mut self, id: TaskId, owner: OwnerId) {
        self.log_task(id, owner, None);
        if self.jobs.get(id.job).is_some_and(|job| self.tenants.is_limited(job.tenant)) {
            // The tenant's usage may have decreased, so claims that exceeded its quota may fit now.
            self.log.push(Change::Quota);
        }
    }

    /// Sets the allocation of a placed task.
    pub(crate) fn set_allocation(&mut self, task: TaskId, slot: u32, to: Values) {
        let Some(job) = self.jobs.get_mut(task.job) else { return };
        let before = job.part(task.index);
        let more = difference(&to, before.request);
        self.machines.count(slot as usize, before, 1);
        job.set_allocation(task.index, to);
        self.machines.count(slot as usize, job.part(task.index), -1);
        self.tenants.count(job.tenant, &more, 1);
        let need = job.need(&job.tasks[task.index as usize]);
        self.policies.resize(&Placement {
            row: slot as usize,
            job: &job.spec,
            tenant: job.tenant,
            need,
            request: &more,
            ports: job.ports.get(task.index),
        });
    }
}

/// The change of a task's amounts by kind: `to` minus `from`, negative where the task shrinks.
fn difference(to: &[i64], from: &[i64]) -> Values {
    to.iter().zip(from).map(|(to, from)| to - from).collect()
}
