//! Routes: the agent of each machine, and the directives sent to that agent. A plain data structure that computes which
//! directives are still to be sent.
//!
//! Each directive is stored with the version of the cell at which it was sent. The version distinguishes a task that
//! left a machine and returned from a task that stayed.
//!
//! Invariant: each task in `tasks` is in the set of its machine, and each machine in `machines` is in the set of its
//! stream. The sets contain nothing else.

use super::outbox::{Outbox, Start, StreamId, start};
use omega_cellstate::{Cell, Changed};
use omega_core::{Amounts, JobId, MachineId, TaskId, TaskState, Version};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The routes. See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    streams: BTreeMap<StreamId, BTreeSet<MachineId>>,
    machines: BTreeMap<MachineId, Attached>,
    tasks: HashMap<TaskId, Assignment>,
    /// Allocations sent to agents, for tasks whose allocation differs from their group's request.
    allocations: HashMap<TaskId, Amounts>,
    /// Incomplete gangs whose placed tasks were examined. These tasks are started once the gang is complete.
    held: BTreeSet<JobId>,
}

#[derive(Debug)]
struct Attached {
    stream: StreamId,
    tasks: BTreeSet<TaskId>,
}

/// A task that an agent was directed to run.
#[derive(Clone, Copy, Debug)]
struct Assignment {
    machine: MachineId,
    /// Version of the cell when the directive was sent.
    since: Version,
    /// Time of the placement in the last directive.
    placed_ms: u64,
}

impl Routes {
    /// Assigns machines to a stream, and sends to it all tasks that should run on them. A stream that has a machine
    /// already gets its tasks only once.
    pub(crate) fn attach(
        &mut self,
        cell: &Cell,
        stream: StreamId,
        ids: &[MachineId],
        out: &mut Outbox,
    ) {
        for id in ids {
            if self.manages(stream, *id) {
                continue;
            }
            self.detach(*id, Some(stream), out);
            let Some(state) = cell.machine(*id) else {
                out.of(stream).detached.push(*id);
                continue;
            };
            self.streams.entry(stream).or_default().insert(*id);
            self.machines.insert(*id, Attached { stream, tasks: BTreeSet::new() });
            let tasks = state.tasks.iter().filter(|task| !self.is_held(cell, **task));
            let starts: Vec<Start> = tasks.filter_map(|task| start(cell, *task)).collect();
            for start in &starts {
                self.leave(start.task, out);
                self.assign(start.task, *id, cell.version());
                self.record_sent(cell, start.task);
            }
            let directives = out.of(stream);
            directives.whole.push(*id);
            directives.starts.extend(starts);
        }
    }

    /// The stream that manages a machine.
    pub(crate) fn stream_of(&self, id: MachineId) -> Option<StreamId> {
        self.machines.get(&id).map(|attached| attached.stream)
    }

    /// Whether a stream manages a machine.
    pub(crate) fn manages(&self, stream: StreamId, id: MachineId) -> bool {
        self.machines.get(&id).is_some_and(|attached| attached.stream == stream)
    }

    /// Removes a stream and its machines.
    pub(crate) fn close(&mut self, stream: StreamId) {
        for id in self.streams.remove(&stream).unwrap_or_default() {
            for task in self.machines.remove(&id).map(|gone| gone.tasks).unwrap_or_default() {
                self.tasks.remove(&task);
                self.allocations.remove(&task);
            }
        }
    }

    /// Computes directives for the changes since the last call. `changes` is `None` if the change log does not reach
    /// back that far.
    pub(crate) fn apply(
        &mut self,
        cell: &Cell,
        changes: Option<impl Iterator<Item = Changed>>,
        out: &mut Outbox,
    ) {
        if self.machines.is_empty() {
            return;
        }
        let Some(changes) = changes else { return self.compare_all(cell, out) };
        for change in changes {
            match change {
                Changed::Machine(slot) => self.row_changed(cell, slot, out),
                Changed::Task(task) => self.task_changed(cell, task, out),
                Changed::Job(job) => self.gang_changed(cell, job, out),
            }
        }
    }

    /// Handles the confirmation that the cell recorded or rejected the end of a task, at `version` or later.
    pub(crate) fn confirm(
        &mut self,
        cell: &Cell,
        (task, machine): (TaskId, MachineId),
        version: Version,
        out: &mut Outbox,
    ) {
        let Some(attached) = self.machines.get(&machine) else { return };
        let stream = attached.stream;
        match self.tasks.get(&task) {
            // The task was started again after this version, so the confirmation is about an earlier run.
            Some(run) if run.machine == machine && run.since >= version => return,
            Some(run) if run.machine == machine => self.forget(task),
            _ => {}
        }
        out.stop(stream, task, machine);
        if cell.task(task).and_then(TaskState::machine) == Some(machine) {
            self.begin(cell, task, machine, out);
        }
    }

    fn task_changed(&mut self, cell: &Cell, task: TaskId, out: &mut Outbox) {
        let state = cell.task(task);
        let is_held = self.is_held(cell, task);
        let now = state.filter(|_| !is_held).and_then(TaskState::machine);
        let now = now.filter(|id| self.machines.contains_key(id));
        let before = self.tasks.get(&task).map(|run| run.machine);
        if before != now {
            self.leave(task, out);
        }
        let Some(machine) = now else { return };
        if before != now {
            self.begin(cell, task, machine, out);
        } else if matches!(state, Some(TaskState::Placed(_))) || self.is_changed(cell, task) {
            // A placed task may already run at its agent without a record in the cell. The repeated directive makes the
            // agent report the task again. If the task was resized, the directive has the new allocation. If the task
            // left and returned, it has the new time of the placement.
            let stream = self.machines[&machine].stream;
            out.of(stream).starts.extend(start(cell, task));
            self.record_sent(cell, task);
        }
    }

    /// Whether a task waits until its gang is complete. The gang is then recorded.
    fn is_held(&mut self, cell: &Cell, task: TaskId) -> bool {
        let is_held = cell.gang_wait(task.job).is_some();
        if is_held {
            self.held.insert(task.job);
        }
        is_held
    }

    /// Computes directives for the tasks of a gang that has just become complete.
    fn gang_changed(&mut self, cell: &Cell, job: JobId, out: &mut Outbox) {
        if cell.gang_wait(job).is_none() && self.held.remove(&job) {
            let placed = cell.tasks(job).filter(|(_, state)| state.machine().is_some());
            placed.for_each(|(task, _)| self.task_changed(cell, task, out));
        }
    }

    /// Computes directives for all differences between the agents and the cell.
    fn compare_all(&mut self, cell: &Cell, out: &mut Outbox) {
        self.held.clear();
        let all: Vec<MachineId> = self.machines.keys().copied().collect();
        for id in all {
            match cell.machine(id) {
                Some(_) => self.compare(cell, id, out),
                None => self.detach(id, None, out),
            }
        }
    }

    /// Computes directives for the difference between a machine's agent and the cell.
    fn compare(&mut self, cell: &Cell, id: MachineId, out: &mut Outbox) {
        let Some(state) = cell.machine(id) else { return };
        let running = state.tasks.iter().copied().filter(|task| !self.is_held(cell, *task));
        let running: BTreeSet<TaskId> = running.collect();
        let Some(attached) = self.machines.get(&id) else { return };
        let stream = attached.stream;
        let left: Vec<TaskId> = attached.tasks.difference(&running).copied().collect();
        let fresh: Vec<TaskId> = running.difference(&attached.tasks).copied().collect();
        let stayed: Vec<Start> =
            running.intersection(&attached.tasks).filter_map(|task| start(cell, *task)).collect();
        // These tasks may have left and returned. The repeated directive makes the agent report again that they run.
        for start in stayed {
            if !start.is_running || self.is_changed(cell, start.task) {
                self.record_sent(cell, start.task);
                out.of(stream).starts.push(start);
            }
        }
        left.into_iter().for_each(|task| self.leave(task, out));
        fresh.into_iter().for_each(|task| self.begin(cell, task, id, out));
    }

    /// Directs a machine's agent to run a task.
    fn begin(&mut self, cell: &Cell, task: TaskId, machine: MachineId, out: &mut Outbox) {
        self.leave(task, out);
        let Some(attached) = self.machines.get(&machine) else { return };
        let Some(start) = start(cell, task) else { return };
        out.of(attached.stream).starts.push(start);
        self.assign(task, machine, cell.version());
        self.record_sent(cell, task);
    }

    /// Whether a task's allocation or time of placement differs from what was sent to its agent.
    fn is_changed(&self, cell: &Cell, task: TaskId) -> bool {
        let sent = self.tasks.get(&task).map(|run| run.placed_ms);
        self.allocations.get(&task) != cell.task_allocation_override(task).as_ref()
            || sent != cell.task_placed_ms(task)
    }

    /// Records the allocation and the time of the placement that are sent to an agent.
    fn record_sent(&mut self, cell: &Cell, task: TaskId) {
        if let Some(run) = self.tasks.get_mut(&task) {
            run.placed_ms = cell.task_placed_ms(task).unwrap_or_default();
        }
        match cell.task_allocation_override(task) {
            Some(allocation) => _ = self.allocations.insert(task, allocation),
            None => _ = self.allocations.remove(&task),
        }
    }

    /// Directs the agent that runs a task to stop it.
    fn leave(&mut self, task: TaskId, out: &mut Outbox) {
        let Some(run) = self.tasks.get(&task).copied() else { return };
        if let Some(attached) = self.machines.get(&run.machine) {
            out.stop(attached.stream, task, run.machine);
        }
        self.forget(task);
    }

    fn assign(&mut self, task: TaskId, machine: MachineId, since: Version) {
        if let Some(attached) = self.machines.get_mut(&machine) {
            attached.tasks.insert(task);
            self.tasks.insert(task, Assignment { machine, since, placed_ms: 0 });
        }
    }

    fn forget(&mut self, task: TaskId) {
        self.allocations.remove(&task);
        let Some(run) = self.tasks.remove(&task) else { return };
        if let Some(attached) = self.machines.get_mut(&run.machine) {
            attached.tasks.remove(&task);
        }
    }

    /// Removes the former machines of a row. The row's present machine stays.
    fn row_changed(&mut self, cell: &Cell, slot: u32, out: &mut Outbox) {
        let all = MachineId::first(slot)..=MachineId { slot, incarnation: u32::MAX };
        let now = cell.machine_in(slot).map(|state| state.id);
        let gone = self.machines.range(all).map(|(id, _)| *id);
        let gone: Vec<MachineId> = gone.filter(|id| Some(*id) != now).collect();
        gone.into_iter().for_each(|id| self.detach(id, None, out));
    }

    /// Removes a machine from its stream. Notifies the stream, unless the stream is `by`.
    fn detach(&mut self, id: MachineId, by: Option<StreamId>, out: &mut Outbox) {
        let Some(gone) = self.machines.remove(&id) else { return };
        for task in &gone.tasks {
            self.tasks.remove(task);
            self.allocations.remove(task);
        }
        if let Some(machines) = self.streams.get_mut(&gone.stream) {
            machines.remove(&id);
        }
        if by != Some(gone.stream) {
            out.of(gone.stream).detached.push(id);
        }
    }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
