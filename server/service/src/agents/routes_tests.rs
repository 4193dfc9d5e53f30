//! Tests of routes: random changes of a cell and its agents, and single cases.

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
        match self.cell.apply(Command::ReportTask { task, machine: id, placed_ms: 0, report }) {
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
                self.agents.keys().filter(move |(of, machine, _)| *of == stream && *machine == id)
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
    // The tasks of a started gang are not examined again at each change of the job.
    let (since, mut out) = (cell.version(), Outbox::default());
    let group = TaskGroup::new(1, Amounts::new([1])).name;
    cell.apply(Command::ResizeGroup { job: JobId(0), group, count: 3 }).unwrap();
    assert!(cell.changed_since(since).unwrap().any(|change| matches!(change, Changed::Job(_))));
    routes.apply(&cell, cell.changed_since(since), &mut out);
    assert!(out.0.is_empty());
}
