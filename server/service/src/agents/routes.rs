//! Which agent speaks for which machine, and what it was told: a plain structure, from which follows what
//! it is to be told next.
//!
//! What an agent was told is kept for each task, with the version of the cell at which it was: so a task
//! that has left a machine and is back there is told apart from one that has stayed.
//!
//! Invariant: a task that is known on a machine is in that machine's set, and the machine in its
//! stream's set; nothing else is in them.

use omega_cellstate::{Cell, Delta, TaskDelta};
use omega_core::{CardSet, Job, MachineId, TaskId, TaskState, Version};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The most tasks of one message, but for those of one machine, which stay together.
const ITEMS_MAX: usize = 500;

/// One stream of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// A task that should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) task: TaskId,
    pub(crate) machine: MachineId,
    pub(crate) job: Arc<Job>,
    /// The position of its group.
    pub(crate) group: usize,
    pub(crate) cards: CardSet,
    pub(crate) is_running: bool,
}

/// What an agent is told at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) whole: Vec<MachineId>,
    pub(crate) stops: Vec<(TaskId, MachineId)>,
    pub(crate) starts: Vec<Start>,
    pub(crate) detached: Vec<MachineId>,
}

impl Orders {
    fn is_full(&self) -> bool {
        self.whole.len() + self.stops.len() + self.starts.len() + self.detached.len() >= ITEMS_MAX
    }
}

/// What is to be told, for each stream in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox(pub(crate) BTreeMap<StreamId, Vec<Orders>>);

impl Outbox {
    /// The message that is being filled.
    fn of(&mut self, stream: StreamId) -> &mut Orders {
        let all = self.0.entry(stream).or_default();
        if all.last().is_none_or(Orders::is_full) {
            all.push(Orders::default());
        }
        let last = all.len() - 1;
        &mut all[last]
    }

    /// Stops come before starts: a stop after a start of the same task opens a new message.
    fn stop(&mut self, stream: StreamId, task: TaskId, machine: MachineId) {
        let begun = self.of(stream);
        if begun.starts.iter().any(|start| start.task == task) {
            self.0.entry(stream).or_default().push(Orders::default());
        }
        self.of(stream).stops.push((task, machine));
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    streams: BTreeMap<StreamId, BTreeSet<MachineId>>,
    machines: BTreeMap<MachineId, Attached>,
    tasks: HashMap<TaskId, Known>,
}

#[derive(Debug)]
struct Attached {
    stream: StreamId,
    tasks: BTreeSet<TaskId>,
}

/// A task that an agent was told to run.
#[derive(Clone, Copy, Debug)]
struct Known {
    machine: MachineId,
    /// The version of the cell when it was.
    since: Version,
}

impl Routes {
    /// Lets a stream speak for machines, and tells it all that should run there.
    pub(crate) fn attach(
        &mut self,
        cell: &Cell,
        stream: StreamId,
        ids: &[MachineId],
        out: &mut Outbox,
    ) {
        for id in ids {
            self.detach(*id, Some(stream), out);
            let Some(state) = cell.machine(*id) else {
                out.of(stream).detached.push(*id);
                continue;
            };
            self.streams.entry(stream).or_default().insert(*id);
            self.machines.insert(*id, Attached { stream, tasks: BTreeSet::new() });
            let starts: Vec<Start> =
                state.tasks.iter().filter_map(|task| start(cell, *task)).collect();
            for start in &starts {
                self.leave(start.task, out);
                self.know(start.task, *id, cell.version());
            }
            let orders = out.of(stream);
            orders.whole.push(*id);
            orders.starts.extend(starts);
        }
    }

    /// Whether a stream speaks for a machine.
    pub(crate) fn speaks_for(&self, stream: StreamId, id: MachineId) -> bool {
        self.machines.get(&id).is_some_and(|attached| attached.stream == stream)
    }

    /// Forgets a stream and all that it was told.
    pub(crate) fn close(&mut self, stream: StreamId) {
        for id in self.streams.remove(&stream).unwrap_or_default() {
            for task in self.machines.remove(&id).map(|gone| gone.tasks).unwrap_or_default() {
                self.tasks.remove(&task);
            }
        }
    }

    /// Tells of what has changed in the cell. The delta leads to the cell's present version.
    pub(crate) fn apply(&mut self, cell: &Cell, delta: &Delta, out: &mut Outbox) {
        for change in &delta.machines {
            let is_there = change.machine.is_some();
            self.row_is_of(change.slot, is_there.then_some(change.incarnation), out);
        }
        if delta.full {
            let all: Vec<MachineId> = self.machines.keys().copied().collect();
            all.into_iter().for_each(|id| self.compare(cell, id, out));
            return;
        }
        for change in &delta.tasks {
            self.task_changed(cell, change, out);
        }
    }

    /// Confirms that the end of a task was noted, or refused, at a version or after it.
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
            // Told to run after that: it is another run.
            Some(known) if known.machine == machine && known.since >= version => return,
            Some(known) if known.machine == machine => self.forget(task),
            _ => {}
        }
        out.stop(stream, task, machine);
        if cell.task(task).and_then(TaskState::machine) == Some(machine) {
            self.begin(cell, task, machine, out);
        }
    }

    fn task_changed(&mut self, cell: &Cell, change: &TaskDelta, out: &mut Outbox) {
        let task = change.id;
        let now = change.state.machine().filter(|id| self.machines.contains_key(id));
        let before = self.tasks.get(&task).map(|known| known.machine);
        if before != now {
            self.leave(task, out);
        }
        let Some(machine) = now else { return };
        match before == now {
            // Where it is already, but the cell does not know that it runs: the agent says it again.
            true if matches!(change.state, TaskState::Placed(_)) => {
                let stream = self.machines[&machine].stream;
                out.of(stream).starts.extend(start(cell, task));
            }
            true => {}
            false => self.begin(cell, task, machine, out),
        }
    }

    /// Tells of the difference between what a machine's agent was told and what should run there.
    fn compare(&mut self, cell: &Cell, id: MachineId, out: &mut Outbox) {
        let Some(state) = cell.machine(id) else { return };
        let Some(attached) = self.machines.get(&id) else { return };
        let wanted: BTreeSet<TaskId> = state.tasks.iter().copied().collect();
        let left: Vec<TaskId> = attached.tasks.difference(&wanted).copied().collect();
        let fresh: Vec<TaskId> = wanted.difference(&attached.tasks).copied().collect();
        left.into_iter().for_each(|task| self.leave(task, out));
        fresh.into_iter().for_each(|task| self.begin(cell, task, id, out));
    }

    /// Tells a machine's agent to run a task.
    fn begin(&mut self, cell: &Cell, task: TaskId, machine: MachineId, out: &mut Outbox) {
        self.leave(task, out);
        let Some(attached) = self.machines.get(&machine) else { return };
        let Some(start) = start(cell, task) else { return };
        out.of(attached.stream).starts.push(start);
        self.know(task, machine, cell.version());
    }

    /// Tells the agent that was told to run a task to stop it.
    fn leave(&mut self, task: TaskId, out: &mut Outbox) {
        let Some(known) = self.tasks.get(&task).copied() else { return };
        if let Some(attached) = self.machines.get(&known.machine) {
            out.stop(attached.stream, task, known.machine);
        }
        self.forget(task);
    }

    fn know(&mut self, task: TaskId, machine: MachineId, since: Version) {
        if let Some(attached) = self.machines.get_mut(&machine) {
            attached.tasks.insert(task);
            self.tasks.insert(task, Known { machine, since });
        }
    }

    fn forget(&mut self, task: TaskId) {
        let Some(known) = self.tasks.remove(&task) else { return };
        if let Some(attached) = self.machines.get_mut(&known.machine) {
            attached.tasks.remove(&task);
        }
    }

    /// Lets go of machines that had a row before.
    fn row_is_of(&mut self, slot: u32, incarnation: Option<u32>, out: &mut Outbox) {
        let all = MachineId::first(slot)..=MachineId { slot, incarnation: u32::MAX };
        let gone = self.machines.range(all).map(|(id, _)| *id);
        let gone: Vec<MachineId> = gone.filter(|id| Some(id.incarnation) != incarnation).collect();
        gone.into_iter().for_each(|id| self.detach(id, None, out));
    }

    /// Takes a machine off its stream, and tells it, unless it is the one that asks.
    fn detach(&mut self, id: MachineId, by: Option<StreamId>, out: &mut Outbox) {
        let Some(gone) = self.machines.remove(&id) else { return };
        for task in &gone.tasks {
            self.tasks.remove(task);
        }
        if let Some(machines) = self.streams.get_mut(&gone.stream) {
            machines.remove(&id);
        }
        if by != Some(gone.stream) {
            out.of(gone.stream).detached.push(id);
        }
    }
}

/// A task that is placed, as its agent is told of it.
fn start(cell: &Cell, task: TaskId) -> Option<Start> {
    let state = cell.task(task)?;
    Some(Start {
        task,
        machine: state.machine()?,
        job: cell.job(task.job)?.clone(),
        group: cell.task_group(task)?,
        cards: cell.task_cards(task).unwrap_or_default(),
        is_running: matches!(state, TaskState::Running(_)),
    })
}
