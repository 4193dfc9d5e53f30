//! Random histories of the core with a small model of a cell. They include lost, late and duplicated replies, broken
//! streams, killed processes, and a cell that forgets jobs.

use super::core::{Call, Core, Found, Reply, Request};
use super::types::{
    ApplicationSettings, Change, ContainerSpec, ContainerState, Ended, Event, Recover,
};
use crate::proto::{JobTasks, TaskPhase, TaskStatus, WatchJobsResponse};
use crate::{ApiError, ErrorCode};
use omega_core::{Amounts, Job, Text, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const CALLS_MAX: usize = 3;

/// State of a job in the cell.
#[derive(Clone, Debug)]
struct ModelJob {
    id: u64,
    job: Arc<Job>,
    phase: TaskPhase,
    machine: String,
    changed: u64,
}

/// A model of a cell, in which each job has one task.
#[derive(Default)]
struct Cell {
    version: u64,
    next_id: u64,
    jobs: BTreeMap<String, ModelJob>,
    /// Number of jobs created so far, by job name.
    begun: BTreeMap<String, u32>,
}

impl Cell {
    fn submit(&mut self, job: &Arc<Job>) -> u64 {
        if let Some(known) = self.jobs.get(&*job.name) {
            assert_eq!(known.job, *job, "the same name, the same job");
            return known.id;
        }
        self.version += 1;
        let (id, changed) = (self.next_id, self.version);
        self.next_id += 1;
        let known = ModelJob {
            id,
            job: job.clone(),
            phase: TaskPhase::Pending,
            machine: String::new(),
            changed,
        };
        self.jobs.insert(job.name.to_string(), known);
        *self.begun.entry(job.name.to_string()).or_default() += 1;
        id
    }

    fn by_id(&mut self, id: u64) -> Option<&mut ModelJob> {
        self.jobs.values_mut().find(|job| job.id == id)
    }

    fn set(&mut self, id: u64, phase: TaskPhase, machine: &str) {
        let version = self.version + 1;
        let Some(job) = self.by_id(id).filter(|job| !is_over(job.phase)) else { return };
        job.phase = phase;
        job.machine = machine.to_owned();
        job.changed = version;
        self.version = version;
    }

    /// Fills the record of delivered events for a container of a former process, as if all changes had been reported.
    fn recover(&self, name: &Text, state: &ContainerState, delivered: &mut Delivered) {
        let uses = self.jobs.keys().filter(|job| base(job) == &**name).map(|job| attempt(job));
        delivered.created = uses.max().expect("it is known");
        delivered.ended = delivered.created - u32::from(!matches!(state, ContainerState::Ended(_)));
        delivered.last = match state.clone() {
            ContainerState::Placed(machine) => Some(Change::Placed(machine)),
            ContainerState::Running(machine) => Some(Change::Running(machine)),
            ContainerState::Waiting | ContainerState::Ended(_) => None,
        };
    }

    fn jobs_since(&self, since: Option<u64>) -> Vec<JobTasks> {
        let new =
            self.jobs.values().filter(|known| since.is_none_or(|since| known.changed > since));
        new.map(|known| JobTasks {
            id: known.id,
            job: Some((&*known.job).into()),
            tasks: vec![status(known)],
        })
        .collect()
    }
}

fn is_over(phase: TaskPhase) -> bool {
    matches!(phase, TaskPhase::Finished | TaskPhase::Failed | TaskPhase::Killed)
}

fn status(job: &ModelJob) -> TaskStatus {
    let phase = job.phase.into();
    TaskStatus { phase, machine_name: job.machine.clone(), ..TaskStatus::default() }
}

/// Events delivered to the user, by container.
#[derive(Default)]
struct Delivered {
    created: u32,
    ended: u32,
    last: Option<Change>,
}

struct World {
    cell: Cell,
    core: Core,
    now_ms: u64,
    /// Calls in flight, which have not reached the cell, or whose replies are on their way.
    in_flight: Vec<Call>,
    /// Calls of former processes, whose replies are ignored.
    orphans: Vec<Request>,
    replies: Vec<(Call, Result<Reply, ApiError>)>,
    /// Messages of the stream that are on their way, and the version up to which the stream has reported.
    stream: VecDeque<WatchJobsResponse>,
    since: Option<u64>,
    delivered: BTreeMap<Text, Delivered>,
    found: Option<Vec<Found>>,
}

fn core(recover: Recover) -> Core {
    let settings = ApplicationSettings {
        calls_max: CALLS_MAX,
        containers_max: 6,
        ..ApplicationSettings::new("app")
    };
    Core::new(settings, recover)
}

impl World {
    fn new() -> World {
        let mut world = World {
            cell: Cell::default(),
            core: core(Recover::Previous),
            now_ms: 0,
            in_flight: Vec::new(),
            orphans: Vec::new(),
            replies: Vec::new(),
            stream: VecDeque::new(),
            since: None,
            delivered: BTreeMap::new(),
            found: None,
        };
        world.open();
        world
    }

    fn name(index: u8) -> Text {
        format!("c{}", index % 8).into()
    }

    /// Opens a new stream.
    fn open(&mut self) {
        self.core.open();
        self.stream.clear();
        let mut jobs = self.cell.jobs_since(None);
        let rest = jobs.split_off(jobs.len() / 2);
        let version = self.cell.version;
        let first = WatchJobsResponse { version, whole: true, jobs, more: true };
        let second = WatchJobsResponse { version, whole: false, jobs: rest, more: false };
        self.stream.extend([first, second]);
        self.since = Some(version);
    }

    /// Puts the new changes into the stream, or the full state if `is_too_much` is set.
    fn push(&mut self, is_too_much: bool) {
        let version = self.cell.version;
        let jobs = self.cell.jobs_since(if is_too_much { None } else { self.since });
        if is_too_much || !jobs.is_empty() {
            let message = WatchJobsResponse { version, whole: is_too_much, jobs, more: false };
            self.stream.push_back(message);
        }
        self.since = Some(version);
    }

    fn deliver(&mut self) {
        let Some(message) = self.stream.pop_front() else { return };
        if let Some(found) = self.core.handle_update(message, self.now_ms) {
            self.found = Some(found);
        }
        self.check_events();
    }

    fn make_calls(&mut self) {
        self.in_flight.extend(self.core.calls(self.now_ms));
        assert!(self.in_flight.len() + self.replies.len() <= CALLS_MAX, "bounded");
        let due = self.core.next_due_ms();
        assert!(due.is_none_or(|due| due > self.now_ms), "calls that are due are made");
    }

    fn apply_plan(&mut self, request: &Request) -> Result<Reply, ApiError> {
        let unknown = || ApiError::new(ErrorCode::UnknownJob, "unknown");
        match request {
            Request::Submit(job) => Ok(Reply::Submitted(self.cell.submit(job))),
            Request::Kill(id) => {
                self.cell.by_id(*id).ok_or_else(unknown)?;
                self.cell.set(*id, TaskPhase::Killed, "");
                Ok(Reply::Killed)
            }
            Request::LookUp(id) => {
                let version = Version(self.cell.version);
                let known = self.cell.by_id(*id).ok_or_else(unknown)?;
                Ok(Reply::Status(version, Box::new(status(known))))
            }
        }
    }

    /// Delivers one call to the cell, or loses it. `fate` decides whether and how often it is delivered, and whether
    /// the reply arrives.
    fn deliver_call(&mut self, index: u8, fate: u8) {
        if self.in_flight.is_empty() {
            return;
        }
        let call = self.in_flight.remove(usize::from(index) % self.in_flight.len());
        let lost = |code| Err(ApiError::new(code, "lost"));
        let reply = match fate % 6 {
            0 => lost(ErrorCode::NoLeader),
            1 => lost(ErrorCode::OutcomeUnknown),
            2 => {
                let _ = self.apply_plan(&call.request);
                lost(ErrorCode::OutcomeUnknown)
            }
            // The call is delivered long after the caller has stopped waiting.
            3 => {
                self.orphans.push(call.request.clone());
                lost(ErrorCode::Late)
            }
            4 => {
                let _ = self.apply_plan(&call.request);
                self.apply_plan(&call.request)
            }
            _ => self.apply_plan(&call.request),
        };
        self.replies.push((call, reply));
    }

    fn deliver_reply(&mut self, index: u8) {
        if self.replies.is_empty() {
            return;
        }
        let (call, reply) = self.replies.remove(usize::from(index) % self.replies.len());
        self.core.on_reply(&call, reply, self.now_ms);
        self.check_events();
    }

    /// Delivers messages to the core, and checks that its reports are consistent.
    fn check_events(&mut self) {
        for Event { container, change, .. } in self.core.take_events() {
            let delivered = self.delivered.entry(container.clone()).or_default();
            if let Change::Recovered(state) = change {
                self.cell.recover(&container, &state, delivered);
                continue;
            }
            assert!(delivered.ended < delivered.created, "{container}: {change:?} after its end");
            let at = match &delivered.last {
                Some(Change::Placed(machine) | Change::Running(machine)) => Some(machine),
                _ => None,
            };
            match &change {
                Change::Displaced(machine) => assert_eq!(at, Some(machine)),
                Change::Placed(_) => assert_eq!(at, None, "reported twice"),
                Change::Running(machine) => {
                    assert!(at.is_none_or(|at| at == machine));
                    assert_ne!(delivered.last.as_ref(), Some(&change), "reported twice");
                }
                Change::Ended(completed) => {
                    delivered.ended += 1;
                    check_end(&self.cell, &container, delivered.created, &completed.ended);
                }
                other => panic!("{other:?}"),
            }
            delivered.last = Some(change).filter(|change| !matches!(change, Change::Ended(_)));
        }
    }

    fn create(&mut self, index: u8) {
        if self.found.is_none() {
            return;
        }
        let name = World::name(index);
        let spec = ContainerSpec::new(Amounts::new([u64::from(index % 8) + 1]));
        if self.core.create(&name, &spec, self.now_ms).is_ok() {
            self.delivered.entry(name).or_default().created += 1;
        }
    }

    /// Kills the process, and starts another one.
    fn restart(&mut self, recover: Recover) {
        self.orphans.extend(self.in_flight.drain(..).map(|call| call.request));
        self.replies.clear();
        self.core = core(recover);
        self.found = None;
        self.delivered.clear();
        self.open();
        while self.found.is_none() {
            self.deliver();
        }
        // Calls of the former process that were delayed may still be delivered.
        let found = self.found.clone().expect("it was waited for");
        for Found { name, state } in found {
            let delivered = self.delivered.entry(name.clone()).or_default();
            self.cell.recover(&name, &state, delivered);
        }
    }

    fn step(&mut self, (kind, a, b): (u8, u8, u8)) {
        match kind % 14 {
            0 | 1 => self.create(a),
            2 => self.core.release(&World::name(a), self.now_ms),
            3 | 4 => self.make_calls(),
            5 => self.deliver_call(a, b),
            6 => self.deliver_reply(a),
            7 => self.push(b % 8 == 0),
            8 => self.deliver(),
            9 => self.now_ms += u64::from(b) * 10,
            10 | 11 => self.change(a, b),
            12 if b < 40 => self.open(),
            13 if b < 12 => self.restart(Recover::Previous),
            13 if !self.orphans.is_empty() && b < 90 => {
                let request = self.orphans.swap_remove(usize::from(a) % self.orphans.len());
                let _ = self.apply_plan(&request);
            }
            _ => {}
        }
    }

    /// Changes the state of a task.
    fn change(&mut self, a: u8, b: u8) {
        if self.cell.next_id == 0 {
            return;
        }
        let id = u64::from(a) % self.cell.next_id;
        let Some(job) = self.cell.by_id(id) else { return };
        let (phase, machine) = match (b % 5, job.machine.clone()) {
            (0 | 1, machine) if machine.is_empty() => (TaskPhase::Placed, format!("m{}", b % 3)),
            (0 | 1, machine) => (TaskPhase::Running, machine),
            (2, _) => (TaskPhase::Pending, String::new()),
            (3, _) => (TaskPhase::Finished, String::new()),
            _ => (TaskPhase::Failed, String::new()),
        };
        self.cell.set(id, phase, &machine);
    }

    /// Stops all faults until everything is delivered.
    fn heal(&mut self) {
        self.open();
        for _ in 0..400 {
            self.now_ms += 2000;
            self.make_calls();
            while !self.in_flight.is_empty() {
                self.deliver_call(0, 5);
            }
            while !self.replies.is_empty() {
                self.deliver_reply(0);
            }
            self.push(false);
            while !self.stream.is_empty() {
                self.deliver();
            }
        }
    }
}

fn base(job: &str) -> &str {
    let name = job.strip_prefix("app.").expect("all are of the application");
    name.split_once('#').map_or(name, |(name, _)| name)
}

fn attempt(job: &str) -> u32 {
    job.split_once('#').map_or(1, |(_, number)| number.parse().unwrap())
}

/// Checks that a reported end matches the phase of the job that belongs to this use of the container's name.
fn check_end(cell: &Cell, name: &Text, number: u32, ended: &Ended) {
    let job = cell.jobs.iter().find(|(job, _)| base(job) == &**name && attempt(job) == number);
    let phase = job.map(|(_, known)| known.phase);
    let expected = match ended {
        Ended::Finished => Some(TaskPhase::Finished),
        Ended::Failed => Some(TaskPhase::Failed),
        Ended::Killed | Ended::Released => Some(TaskPhase::Killed),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(phase, expected, "{name}, use {number}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Checks three properties in spite of any faults: each container is created once, each change is reported once and
    /// in order, and the final state equals the cell's.
    #[test]
    fn nothing_is_begun_or_reported_twice(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..400)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.heal();
        let late = std::mem::take(&mut world.orphans);
        for request in late {
            let _ = world.apply_plan(&request);
        }
        world.heal();
        prop_assert!(world.cell.begun.values().all(|begun| *begun == 1), "{:?}", world.cell.begun);
        for (name, delivered) in &world.delivered {
            let jobs = world.cell.jobs.iter().filter(|(job, _)| base(job) == &**name);
            let (_, last) = jobs.max_by_key(|(job, _)| attempt(job)).expect("it was begun");
            prop_assert_eq!(delivered.ended == delivered.created, is_over(last.phase), "{}", name);
            if !is_over(last.phase) {
                let at = match &delivered.last {
                    Some(Change::Placed(at) | Change::Running(at)) => &**at,
                    _ => "",
                };
                prop_assert_eq!(at, &*last.machine, "{}", name);
            }
        }
        for name in (0..8).map(World::name) {
            world.core.release(&name, world.now_ms);
        }
        world.heal();
        prop_assert!(world.delivered.values().all(|delivered| delivered.ended == delivered.created));
        prop_assert_eq!(world.core.next_due_ms(), None, "no call is pending");
    }

    /// Checks that jobs of former processes end without events, and that new containers can use their names.
    #[test]
    fn what_is_dropped_ends_first(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..200)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        // Delivers delayed calls now, because they could otherwise arrive after the checks.
        world.heal();
        world.orphans.clear();
        world.restart(Recover::Drop);
        prop_assert_eq!(world.found.as_deref(), Some(&[][..]));
        world.heal();
        prop_assert!(world.core.is_recovered());
        prop_assert!(world.cell.jobs.values().all(|known| is_over(known.phase)));
        for (job, _) in world.cell.jobs.clone() {
            let delivered = world.delivered.entry(base(&job).into()).or_default();
            (delivered.created, delivered.ended) = (delivered.created.max(attempt(&job)), delivered.ended.max(attempt(&job)));
        }
        (0..6).for_each(|index| world.create(index));
        world.heal();
        prop_assert!(world.delivered.values().filter(|delivered| delivered.ended < delivered.created).count() == 6);
        prop_assert!(world.cell.begun.values().all(|begun| *begun == 1));
    }
}

#[test]
fn what_the_cell_forgot_is_lost_once() {
    let mut world = World::new();
    (0..2).for_each(|_| world.deliver());
    world.create(0);
    world.heal();
    world.cell = Cell { version: world.cell.version, next_id: 9, ..Cell::default() };
    world.open();
    world.delivered.clear();
    while let Some(message) = world.stream.pop_front() {
        world.core.handle_update(message, world.now_ms);
    }
    let events = world.core.take_events();
    let [Event { change: Change::Ended(completed), .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(completed.ended, Ended::Lost);
    world.open();
    while let Some(message) = world.stream.pop_front() {
        world.core.handle_update(message, world.now_ms);
    }
    assert!(world.core.take_events().is_empty());
}

#[test]
fn what_cannot_be_is_refused() {
    let mut core = core(Recover::Previous);
    let spec = ContainerSpec::new(Amounts::new([1]));
    let code = |made: Result<(), ApiError>| made.err().map(|error| error.code);
    assert_eq!(code(core.create(&"".into(), &spec, 0)), Some(ErrorCode::BadName));
    assert_eq!(code(core.create(&"a#2".into(), &spec, 0)), Some(ErrorCode::BadName));
    for index in 0..6 {
        assert_eq!(code(core.create(&World::name(index), &spec, 0)), None);
    }
    assert_eq!(code(core.create(&World::name(0), &spec, 0)), Some(ErrorCode::NameTaken));
    assert_eq!(code(core.create(&World::name(7), &spec, 0)), Some(ErrorCode::TooMany));
    let call = core.calls(0).remove(0);
    core.on_reply(&call, Err(ApiError::new(ErrorCode::Denied, "no")), 0);
    let events = core.take_events();
    let refused = matches!(&events[0].change, Change::Ended(completed)
        if matches!(&completed.ended, Ended::Refused(why) if why.code == ErrorCode::Denied));
    assert!(refused, "{events:?}");
}
