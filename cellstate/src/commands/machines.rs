//! Commands about machines, and about the cell's policy.

use crate::cell::{Cell, Change};
use crate::commands::bounds::too_many;
use crate::commands::validate;
use crate::fit::MachineStatus;
use crate::history::{Event, EventKind, TASKS_NOTED_MAX};
use crate::state::devices::Devices;
use crate::state::load::{LoadReport, claimed};
use crate::state::machines::claimable;
use omega_core::limits::MACHINES_MAX;
use omega_core::{
    Amounts, Machine, MachineId, Outcome, Policy, Rejection, Taint, TaskId, TaskState,
};
use std::sync::Arc;

impl Cell {
    pub(crate) fn register_machine(&mut self, machine: Machine) -> Result<Outcome, Rejection> {
        validate::machine(&machine, &self.kinds)?;
        if self.machines.by_name(&machine.name).is_some() {
            return Err(Rejection::NameTaken(machine.name));
        }
        if self.machines.vacant().is_empty() && self.machines.row_count() >= MACHINES_MAX {
            return Err(too_many("machines", MACHINES_MAX + 1, MACHINES_MAX));
        }
        self.begin();
        let claimable = claimable(&machine, &self.kinds, &self.policy);
        let id = self.machines.insert(&machine, &claimable);
        self.machine_index.set_machine(id.row(), Some(Arc::new(machine)));
        self.log.push(Change::Machine(id.slot));
        self.log_row(id.slot);
        self.note(|| Event::of_machine(id, EventKind::Registered));
        Ok(Outcome::Machine(id))
    }

    pub(crate) fn update_machine(
        &mut self,
        id: MachineId,
        machine: Machine,
    ) -> Result<Outcome, Rejection> {
        validate::machine(&machine, &self.kinds)?;
        let old = self.known_machine(id)?;
        if old.name != machine.name {
            return Err(Rejection::OtherName { is: old.name.clone(), given: machine.name });
        }
        let tasks = self.machines.row(id.row()).tasks.clone();
        if old.devices != machine.devices && self.any_with_devices(&tasks) {
            return Err(Rejection::DevicesInUse(id));
        }
        if old.numa != machine.numa && self.any_with_cores(&tasks) {
            return Err(Rejection::CoresInUse(id));
        }
        let version = self.begin();
        self.note_update(id, &old, &machine);
        self.before_row_changes(id.row());
        let before = claimable(&old, &self.kinds, &self.policy);
        let after = claimable(&machine, &self.kinds, &self.policy);
        self.machines.adjust(id.row(), &before, &after);
        if old.devices != machine.devices {
            let devices = (machine.devices > 0).then(|| Devices::new(machine.devices));
            self.machines.set_devices(id.row(), devices);
        }
        if old.numa != machine.numa {
            self.machines.set_cores(id.row(), &machine.numa);
        }
        // If the labels change, the machine may move to other domains, and the counts of its tasks must move with it.
        let moves = old.labels != machine.labels;
        let left =
            if moves { self.machine_index.rules.label_domains(id.row()) } else { Vec::new() };
        self.count_tasks(&tasks, id.row(), -1);
        self.machine_index.set_machine(id.row(), Some(Arc::new(machine)));
        self.count_tasks(&tasks, id.row(), 1);
        // A view may have counted a claim of its own in the old domain, while the cell counts it in the new domain. The
        // view corrects its counters by these log entries.
        self.log.extend(left.into_iter().map(|(id, domain)| Change::Count(id, domain)));
        self.log.push(Change::Machine(id.slot));
        self.touch(id.row());
        Ok(Outcome::Done(version))
    }

    pub(crate) fn add_taint(&mut self, id: MachineId, taint: Taint) -> Result<Outcome, Rejection> {
        let key = taint.key.clone();
        self.set_taints(id, &key, Some(taint))
    }

    pub(crate) fn remove_taint(&mut self, id: MachineId, key: &str) -> Result<Outcome, Rejection> {
        self.set_taints(id, key, None)
    }

    /// Replaces the taints with a key.
    fn set_taints(
        &mut self,
        id: MachineId,
        key: &str,
        taint: Option<Taint>,
    ) -> Result<Outcome, Rejection> {
        let old = self.known_machine(id)?;
        let (present, others): (Vec<&Taint>, Vec<&Taint>) =
            old.taints.iter().partition(|known| *known.key == *key);
        if present.iter().copied().eq(&taint) {
            return Ok(Outcome::Done(self.version));
        }
        let taints = others.into_iter().cloned().chain(taint).collect();
        self.update_machine(id, Machine { taints, ..Machine::clone(&old) })
    }

    /// Sets a machine to `Draining` or `Schedulable`.
    pub(crate) fn set_status(
        &mut self,
        id: MachineId,
        status: MachineStatus,
    ) -> Result<Outcome, Rejection> {
        self.known_machine(id)?;
        if self.machines.row(id.row()).status == status {
            return Ok(Outcome::Done(self.version));
        }
        let version = self.begin();
        self.machines.row_mut(id.row()).status = status;
        self.log.push(Change::Machine(id.slot));
        self.touch(id.row());
        let is_draining = status == MachineStatus::Draining;
        let kind = if is_draining { EventKind::Drained } else { EventKind::Resumed };
        self.note(|| Event::of_machine(id, kind));
        Ok(Outcome::Done(version))
    }

    pub(crate) fn remove_machine(&mut self, id: MachineId) -> Result<Outcome, Rejection> {
        let machine = self.known_machine(id)?;
        let version = self.begin();
        self.before_row_changes(id.row());
        let tasks = self.machines.row(id.row()).tasks.clone();
        for task in &tasks {
            self.lose_task(*task, id.row());
        }
        for task in tasks.iter().take(TASKS_NOTED_MAX) {
            self.note(|| Event::of_task(*task, EventKind::Lost).on(id));
        }
        self.note(|| Event::of_machine(id, EventKind::Removed(machine.name.clone())));
        if let Some(history) = &mut self.history {
            history.machine_departs(id, machine.name.clone());
        }
        tasks.iter().for_each(|task| self.settle_gang(task.job, None));
        self.machines.remove(id.row(), &machine.name);
        self.machine_index.set_machine(id.row(), None);
        self.log.push(Change::Machine(id.slot));
        self.log_row(id.slot);
        Ok(Outcome::Done(version))
    }

    pub(crate) fn report_load(
        &mut self,
        id: MachineId,
        load: Amounts,
    ) -> Result<Outcome, Rejection> {
        let machine = self.known_machine(id)?;
        validate::load(&machine.name, &load, &self.kinds)?;
        let version = self.begin();
        self.before_row_changes(id.row());
        let claimable = claimable(&machine, &self.kinds, &self.policy);
        let claimed = claimed(&claimable, self.machines.free(id.row()));
        let report = LoadReport { used: load, claimed, at_ms: self.now_ms };
        self.machines.set_load(id.row(), report);
        // Logs only a changed row: the sequence number stays, because the load does not affect what may be claimed.
        self.log_row(id.slot);
        Ok(Outcome::Done(version))
    }

    /// Accepts a report of use, which is only kept in the log.
    pub(crate) fn ignore_use(&self, machine: MachineId) -> Result<Outcome, Rejection> {
        self.known_machine(machine)?;
        Ok(Outcome::Done(self.version))
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) -> Result<Outcome, Rejection> {
        validate::policy(&policy)?;
        let version = self.begin();
        let old = std::mem::replace(&mut self.policy, policy);
        for slot in 0..self.machines.row_count() {
            let Some(machine) = self.machine_index.machines.get(slot).cloned().flatten() else {
                continue;
            };
            let before = claimable(&machine, &self.kinds, &old);
            let after = claimable(&machine, &self.kinds, &self.policy);
            if before != after {
                self.machines.adjust(slot, &before, &after);
                self.touch(slot);
            }
        }
        self.refill_evictions();
        if (&old.bands, old.eviction_cap) != (&self.policy.bands, self.policy.eviction_cap) {
            self.log_evictions();
        }
        Ok(Outcome::Done(version))
    }

    fn known_machine(&self, id: MachineId) -> Result<Arc<Machine>, Rejection> {
        let known = self.machines.get(id).and(self.machine_index.machines.get(id.row()));
        known.cloned().flatten().ok_or(Rejection::UnknownMachine(id))
    }

    fn any_with_devices(&self, tasks: &[TaskId]) -> bool {
        tasks.iter().any(|id| self.jobs.task(*id).is_some_and(|(_, task)| !task.devices.is_empty()))
    }

    fn any_with_cores(&self, tasks: &[TaskId]) -> bool {
        tasks.iter().any(|id| !self.task_cores(*id).is_empty())
    }

    /// Makes a task pending because its machine is removed.
    fn lose_task(&mut self, id: TaskId, slot: usize) {
        let Some(parts) = self.parts(id.job) else { return };
        let owner = parts.job.owner;
        Cell::unplace(parts, id, TaskState::Pending);
        self.log_task(id, owner, Some(slot));
    }

    /// Counts the tasks of a machine in the rules if `sign` is 1, or removes them from the counts if it is -1.
    fn count_tasks(&mut self, tasks: &[TaskId], slot: usize, sign: i32) {
        for id in tasks {
            let Some((job, task)) = self.jobs.task(*id) else { continue };
            let Some(rules) = &job.need(task).rules else { continue };
            self.machine_index.rules.count_task(rules, slot, sign, &self.machine_index.sets);
            let owner = job.owner;
            self.log_task(*id, owner, Some(slot));
        }
    }
}
