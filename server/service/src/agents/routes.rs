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
            let starts: Vec<Start> =
                state.tasks.iter().filter_map(|task| start(cell, *task)).collect();
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
        let now = state.filter(|_| cell.gang_wait(task.job).is_none());
        let now = now.and_then(TaskState::machine);
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

    /// Computes directives for the tasks of a gang that has become complete.
    fn gang_changed(&mut self, cell: &Cell, job: JobId, out: &mut Outbox) {
        let may_hold = cell.job(job).is_some_and(|job| job.gang_timeout_ms.is_some());
        if may_hold && cell.gang_wait(job).is_none() {
            let placed = cell.tasks(job).filter(|(_, state)| state.machine().is_some());
            placed.for_each(|(task, _)| self.task_changed(cell, task, out));
        }
    }

    /// Computes directives for all differences between the agents and the cell.
    fn compare_all(&mut self, cell: &Cell, out: &mut Outbox) {
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
        let Some(attached) = self.machines.get(&id) else { return };
        let runs = |task: &&TaskId| cell.gang_wait(task.job).is_none();
        let running: BTreeSet<TaskId> = state.tasks.iter().filter(runs).copied().collect();
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
mod tests {
    use super::*;
    use omega_core::{
        Amounts, Claim, Command, Job, Kinds, Machine, Outcome, Resize, SchedulerId, TaskGroup,
        TaskReport, Transaction, TransactionId,
    };
    use proptest::prelude::*;

    const MACHINES: u32 = 4;
    const TASKS: u32 = 8;
    const STREAMS: u64 = 3;

    /// An event in the cell, at an agent, or on the way between them.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Place(u32, u32),
        Evict(u32),
        Resize(u32, u64),
        End(u32, TaskReport),
        Remove(u32),
        Attach(u64, u32),
        Close(u64),
        Read,
        Confirm,
    }

    fn step() -> impl Strategy<Value = Step> {
        let report =
            prop::sample::select(vec![TaskReport::Failed, TaskReport::Lost, TaskReport::Finished]);
        prop_oneof![
            6 => (0..TASKS, 0..MACHINES).prop_map(|(task, machine)| Step::Place(task, machine)),
            2 => (0..TASKS).prop_map(Step::Evict),
            3 => (0..TASKS, 9..12_u64).prop_map(|(task, to)| Step::Resize(task, to)),
            3 => (0..TASKS, report).prop_map(|(task, report)| Step::End(task, report)),
            1 => (0..MACHINES).prop_map(Step::Remove),
            3 => (0..STREAMS, 0..MACHINES).prop_map(|(stream, machine)| Step::Attach(stream, machine)),
            1 => (0..STREAMS).prop_map(Step::Close),
            4 => Just(Step::Read),
            2 => Just(Step::Confirm),
        ]
    }

    /// A cell, its routes, and agents that execute directives.
    struct World {
        cell: Cell,
        routes: Routes,
        since: Version,
        /// Tasks at the agent of each stream. The value is `None` for a running task, or the reported end of a task
        /// until the end is confirmed.
        agents: BTreeMap<(StreamId, MachineId, TaskId), Option<TaskReport>>,
        confirmations: Vec<(TaskId, MachineId, Version)>,
        /// Allocation of a task at each stream's agent.
        allocation: BTreeMap<(StreamId, MachineId, TaskId), Amounts>,
        /// Number of transactions so far, each of which resizes tasks.
        resizes: u64,
        names: u32,
    }

    impl World {
        fn new(change_limit: usize) -> World {
            let mut cell = Cell::with_change_limit(Kinds::standard(), change_limit);
            (0..MACHINES).for_each(|i| register(&mut cell, &format!("m{i}")));
            let mut group = TaskGroup::new(TASKS, Amounts::new([10]));
            group.restarts = u32::MAX;
            cell.apply(Command::SubmitJob(Job::batch("job", group))).unwrap();
            cell.apply(Command::RegisterScheduler { name: "resizing".into() }).unwrap();
            World {
                cell,
                routes: Routes::default(),
                since: Version(0),
                agents: BTreeMap::new(),
                confirmations: Vec::new(),
                allocation: BTreeMap::new(),
                resizes: 0,
                names: 0,
            }
        }

        fn step(&mut self, step: Step) {
            let mut out = Outbox::default();
            match step {
                Step::Place(index, slot) => {
                    let machine = self.machine(slot);
                    // If the task is already placed, the command is rejected, and nothing changes.
                    drop(self.cell.apply(Command::AdoptTask { task: task(index), machine }));
                }
                Step::Evict(index) => {
                    let machine = self.cell.task(task(index)).and_then(TaskState::machine);
                    if let Some(machine) = machine {
                        self.send(machine, task(index), TaskReport::Lost);
                    }
                }
                Step::Resize(index, to) => self.resize(task(index), to),
                Step::End(index, report) => self.end(task(index), report),
                Step::Remove(slot) => {
                    self.cell.apply(Command::RemoveMachine { id: self.machine(slot) }).unwrap();
                    self.names += 1;
                    register(&mut self.cell, &format!("again-{}", self.names));
                }
                Step::Attach(stream, slot) => {
                    let id = self.machine(slot);
                    self.routes.attach(&self.cell, StreamId(stream), &[id], &mut out);
                }
                Step::Close(stream) => self.routes.close(StreamId(stream)),
                Step::Read => {
                    let changes = self.cell.changed_since(self.since);
                    self.routes.apply(&self.cell, changes, &mut out);
                    self.since = self.cell.version();
                }
                Step::Confirm => {
                    for (task, machine, version) in std::mem::take(&mut self.confirmations) {
                        self.routes.confirm(&self.cell, (task, machine), version, &mut out);
                    }
                }
            }
            self.follow(out);
        }

        /// Resizes a task. A task without a machine is not changed.
        fn resize(&mut self, task: TaskId, to: u64) {
            let id = TransactionId { scheduler: SchedulerId(0), number: self.resizes };
            self.resizes += 1;
            let mut txn = Transaction::new(id, Version(0), Vec::new());
            txn.resizes.push(Resize { task, to: Amounts::new([to]) });
            self.cell.commit(&txn).unwrap();
        }

        /// The machine in a row.
        fn machine(&self, slot: u32) -> MachineId {
            self.cell.machines().find(|state| state.id.slot == slot).unwrap().id
        }

        fn send(&mut self, id: MachineId, task: TaskId, report: TaskReport) -> Option<Version> {
            match self.cell.apply(Command::ReportTask { task, machine: id, report }) {
                Ok(Outcome::Done(version)) => Some(version),
                _ => None,
            }
        }

        /// Reports the end of a task. The confirmation arrives later.
        fn report(&mut self, machine: MachineId, task: TaskId, report: TaskReport) {
            let before = self.cell.version();
            let version = self.send(machine, task, report).unwrap_or(before);
            self.confirmations.push((task, machine, version));
        }

        /// Ends a running task at the agent that manages its machine.
        fn end(&mut self, task: TaskId, report: TaskReport) {
            let routes = &self.routes;
            let found = self.agents.iter_mut().find(|((stream, machine, id), ended)| {
                *id == task && ended.is_none() && routes.manages(*stream, *machine)
            });
            if let Some(((_, machine, _), ended)) = found {
                *ended = Some(report);
                let machine = *machine;
                self.report(machine, task, report);
            }
        }

        /// Executes directives like an agent.
        fn follow(&mut self, out: Outbox) {
            for (stream, messages) in out.0 {
                for message in messages {
                    for (task, machine) in &message.stops {
                        self.agents.remove(&(stream, *machine, *task));
                    }
                    let running = |machine: MachineId, task: TaskId| {
                        message
                            .starts
                            .iter()
                            .any(|start| start.task == task && start.machine == machine)
                    };
                    self.agents.retain(|(of, machine, task), _| {
                        let is_whole = message.whole.contains(machine) && !running(*machine, *task);
                        *of != stream || !(is_whole || message.detached.contains(machine))
                    });
                    for start in &message.starts {
                        let is_whole = message.whole.contains(&start.machine);
                        self.start(stream, start, is_whole);
                    }
                }
            }
        }

        fn start(&mut self, stream: StreamId, start: &Start, is_whole: bool) {
            let (machine, task) = (start.machine, start.task);
            self.allocation.insert((stream, machine, task), start.allocation.clone());
            match *self.agents.entry((stream, machine, task)).or_insert(None) {
                None => _ = self.send(machine, task, TaskReport::Started),
                Some(ended) if is_whole => self.report(machine, task, ended),
                Some(_) => {}
            }
        }

        /// Delivers all messages, and compares the tasks of the agents with the cell.
        fn check(&mut self) {
            for _ in 0..3 {
                self.step(Step::Confirm);
                self.step(Step::Read);
            }
            for slot in 0..MACHINES {
                let id = self.machine(slot);
                let Some(attached) = self.routes.machines.get(&id) else { continue };
                let runs = self.agents.iter().filter(|((stream, machine, _), ended)| {
                    *stream == attached.stream && *machine == id && ended.is_none()
                });
                let runs: BTreeSet<TaskId> = runs.map(|((.., task), _)| *task).collect();
                let state = self.cell.machine(id).unwrap();
                assert_eq!(runs, state.tasks.iter().copied().collect(), "{id}");
                for task in state.tasks {
                    assert_eq!(self.cell.task(*task), Some(TaskState::Running(id)), "{task}");
                    let given = self.allocation[&(attached.stream, id, *task)].clone();
                    assert_eq!(Some(given), self.cell.task_allocation(*task), "{task}");
                }
                let of = |stream: StreamId| {
                    self.agents
                        .keys()
                        .filter(move |(of, machine, _)| *of == stream && *machine == id)
                };
                assert_eq!(of(attached.stream).count(), runs.len(), "nothing is left unconfirmed");
            }
        }
    }

    fn task(index: u32) -> TaskId {
        TaskId { job: JobId(0), index }
    }

    fn register(cell: &mut Cell, name: &str) {
        cell.apply(Command::RegisterMachine(Machine::new(name, Amounts::new([1000])))).unwrap();
    }

    proptest! {
        /// After any sequence of events, once all messages have arrived, each agent runs the tasks that the cell has on
        /// its machines.
        #[test]
        fn agents_run_what_the_cell_says(
            steps in prop::collection::vec(step(), 0..120),
            change_limit in prop::sample::select(vec![4usize, 1000]),
        ) {
            let mut world = World::new(change_limit);
            for step in steps {
                world.step(step);
            }
            world.check();
        }
    }

    #[test]
    fn a_task_that_is_back_where_it_failed_begins_anew() {
        let mut world = World::new(1000);
        world.step(Step::Attach(0, 0));
        world.step(Step::Place(0, 0));
        world.step(Step::Read);
        world.step(Step::End(0, TaskReport::Failed));
        world.step(Step::Place(0, 0));
        world.step(Step::Read);
        let key = (StreamId(0), MachineId::first(0), task(0));
        assert_eq!(world.agents[&key], Some(TaskReport::Failed), "not confirmed yet");
        world.step(Step::Confirm);
        assert_eq!(world.agents[&key], None, "it runs again");
        world.check();
    }

    #[test]
    fn the_tasks_of_a_machine_stay_in_one_message() {
        let mut cell = Cell::new(Kinds::standard());
        register(&mut cell, "m");
        register(&mut cell, "n");
        let count = 700;
        let group = TaskGroup::new(2 * count, Amounts::new([1]));
        cell.apply(Command::SubmitJob(Job::batch("job", group))).unwrap();
        for index in 0..2 * count {
            let machine = MachineId::first(index % 2);
            cell.apply(Command::AdoptTask { task: task(index), machine }).unwrap();
        }
        let mut out = Outbox::default();
        let ids = [0, 1, 0, 1].map(MachineId::first);
        let mut routes = Routes::default();
        routes.attach(&cell, StreamId(0), &ids, &mut out);
        let messages = &out.0[&StreamId(0)];
        let whole: Vec<(usize, usize)> =
            messages.iter().map(|message| (message.whole.len(), message.starts.len())).collect();
        assert_eq!(whole, [(1, 700), (1, 700)]);
        let mut out = Outbox::default();
        routes.attach(&cell, StreamId(0), &ids, &mut out);
        assert!(out.0.is_empty(), "the stream has these machines");
    }

    #[test]
    fn a_gang_that_holds_places_is_started_when_it_is_complete() {
        let mut cell = Cell::new(Kinds::standard());
        (0..2).for_each(|i| register(&mut cell, &format!("m{i}")));
        let mut job = Job::batch("gang", TaskGroup::new(2, Amounts::new([10])));
        (job.gang_min, job.gang_timeout_ms) = (Some(2), Some(1000));
        cell.apply(Command::SubmitJob(job)).unwrap();
        let name = "scheduler".into();
        let Ok(Outcome::Scheduler { id: scheduler, .. }) =
            cell.apply(Command::RegisterScheduler { name })
        else {
            panic!("a scheduler registers")
        };
        let machines: Vec<MachineId> = cell.machines().map(|state| state.id).collect();
        let (mut routes, mut out) = (Routes::default(), Outbox::default());
        routes.attach(&cell, StreamId(0), &machines, &mut out);
        let mut started = Vec::new();
        for (index, machine) in (0..).zip(machines) {
            let since = cell.version();
            let seen = Default::default();
            let claim = Claim::new(task(index), machine, seen);
            let id = TransactionId { scheduler, number: u64::from(index) };
            cell.commit(&Transaction::new(id, since, vec![claim])).unwrap();
            let mut out = Outbox::default();
            routes.apply(&cell, cell.changed_since(since), &mut out);
            let starts = out.0.into_values().flatten().flat_map(|message| message.starts);
            started.push(starts.map(|start| start.task).collect::<BTreeSet<_>>());
        }
        assert_eq!(started, [BTreeSet::new(), BTreeSet::from([task(0), task(1)])]);
    }
}
