//! Tasks that are being stopped, and tasks that wait for their resources. This code reads no clock; its caller passes
//! the time.
//!
//! ```text
//!          directive to stop           end, or end of the grace period (then: kill)
//!   running ───────────────────▶ ending ────────────────────────────────────────────────▶ gone
//!                                   ▲ its resources are still in use
//!   directive to start ▶ waiting ───┘ until its resources are free ──▶ started
//! ```
//!
//! The cell gives a stopping task's resources to the next task at once, so that schedulers need not wait. On the
//! machine, these resources are free only when the stopping task has ended. So the start of the next task is delayed
//! here, at most for the longest grace period of the stopping tasks on its machine. A resize to more resources is
//! delayed in the same way.

use super::{Directive, RecoveredTask, RunId, Task};
use omega_core::{Amounts, MachineId, TaskId};
use std::collections::BTreeMap;

/// Resources that a run of a task uses on its machine.
#[derive(Clone, Debug, Default)]
struct Part {
    run: RunId,
    request: Amounts,
    devices: Vec<u32>,
    cores: Vec<u32>,
    ports: Vec<u16>,
    grace_ms: u32,
}

impl Part {
    fn of(task: &Task) -> Part {
        let (request, devices, cores) =
            (task.request.clone(), task.devices.clone(), task.cores.clone());
        let ports = task.port_numbers().collect();
        Part { run: task.run_id(), request, devices, cores, ports, grace_ms: task.grace_ms }
    }
}

/// The tasks of one machine.
#[derive(Debug, Default)]
struct MachineTasks {
    /// Capacity of the machine. If it is unknown (`None`), a start waits for all stopping tasks.
    capacity: Option<Amounts>,
    runs: BTreeMap<TaskId, Part>,
    /// Stopping tasks, each with its resources and the time at which it must be killed.
    ends: BTreeMap<TaskId, (Part, u64)>,
    /// Tasks that wait to be started, in the order of their directives.
    waits: Vec<Task>,
    /// Delayed resizes of running tasks, each with the new allocation.
    grows: BTreeMap<TaskId, Amounts>,
}

/// The stopping and waiting tasks of all machines. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Endings {
    machines: BTreeMap<MachineId, MachineTasks>,
}

impl MachineTasks {
    /// Whether the resources that a task needs are free, that is, not used by running or stopping tasks.
    fn has_room(&self, task: &Task) -> bool {
        if self.ends.is_empty() {
            return true;
        }
        let shares_devices =
            |(part, _): &(Part, u64)| part.devices.iter().any(|c| task.devices.contains(c));
        // The number of free cores per NUMA node is unknown here. So a task waits while a stopping task has cores on a
        // node from which the new task needs cores.
        let shares_node = |(part, _): &(Part, u64)| {
            let nodes = part.cores.iter().zip(&task.cores);
            nodes.into_iter().any(|(ends, starts)| *ends > 0 && *starts > 0)
        };
        let shares_ports = |(part, _): &(Part, u64)| {
            !part.ports.is_empty() && task.port_numbers().any(|port| part.ports.contains(&port))
        };
        let waits = |ending: &(Part, u64)| {
            shares_devices(ending) || shares_node(ending) || shares_ports(ending)
        };
        if self.ends.contains_key(&task.id) || self.ends.values().any(waits) {
            return false;
        }
        self.has_amounts(task.id, &task.request)
    }

    /// Whether these amounts fit on the machine beside the amounts of all other running and stopping tasks. `false` if
    /// the capacity is unknown.
    fn has_amounts(&self, task: TaskId, request: &Amounts) -> bool {
        let Some(capacity) = &self.capacity else { return false };
        let others = self.runs.iter().filter(|(id, _)| **id != task).map(|(_, part)| part);
        let ending = self.ends.values().map(|(part, _)| part);
        let parts: Vec<&Part> = others.chain(ending).collect();
        request.iter().all(|(kind, amount)| {
            let taken: u64 = parts.iter().map(|part| part.request.get(kind)).sum();
            amount == 0 || taken.saturating_add(amount) <= capacity.get(kind)
        })
    }

    /// Whether a running task's allocation has at least these amounts of every resource.
    fn shrinks(&self, task: TaskId, to: &Amounts) -> bool {
        let held = self.runs.get(&task).map(|part| &part.request);
        held.is_some_and(|held| to.iter().all(|(kind, amount)| amount <= held.get(kind)))
    }

    /// Whether a running task may have these amounts now: its allocation already contains them, or they are free.
    fn may_hold(&self, task: TaskId, to: &Amounts) -> bool {
        self.shrinks(task, to) || self.ends.is_empty() || self.has_amounts(task, to)
    }

    /// Resizes running tasks and starts waiting tasks whose resources are free now.
    fn go_on(&mut self, directives: &mut Vec<Directive>) {
        // Tasks that shrink come first, because other tasks may wait for their resources.
        let mut grows: Vec<(TaskId, Amounts)> =
            std::mem::take(&mut self.grows).into_iter().collect();
        grows.sort_by_key(|(task, to)| !self.shrinks(*task, to));
        for (task, to) in grows {
            let may_hold = self.may_hold(task, &to);
            match self.runs.get_mut(&task) {
                Some(part) if may_hold => {
                    part.request.clone_from(&to);
                    directives.push(Directive::Resize { run: part.run, to });
                }
                Some(_) => _ = self.grows.insert(task, to),
                None => {}
            }
        }
        for task in std::mem::take(&mut self.waits) {
            if self.has_room(&task) {
                self.runs.insert(task.id, Part::of(&task));
                directives.push(Directive::Start(task));
            } else {
                self.waits.push(task)
            }
        }
    }

    fn stop(&mut self, run: RunId, now_ms: u64) -> Option<Directive> {
        let is_it = |waiting: &Task| waiting.run_id().may_be(&run);
        if let Some(at) = self.waits.iter().position(is_it) {
            // The task never ran, so nothing has to be stopped.
            self.waits.remove(at);
            return None;
        }
        let part = self.runs.remove(&run.task).unwrap_or_default();
        let grace_ms = part.grace_ms;
        if grace_ms > 0 {
            self.ends.insert(run.task, (part, now_ms.saturating_add(grace_ms.into())));
        }
        Some(Directive::Stop { run, grace_ms })
    }

    /// Records a task's new allocation. If the task waits to be started, it is started with the new allocation.
    fn resize(&mut self, task: TaskId, to: Amounts) {
        match self.waits.iter_mut().find(|waiting| waiting.id == task) {
            Some(waiting) => waiting.request = to,
            None => _ = self.grows.insert(task, to),
        }
    }

    fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.ends.is_empty() && self.waits.is_empty()
    }
}

impl Endings {
    /// Records the capacity of a machine.
    pub(super) fn has(&mut self, machine: MachineId, capacity: Amounts) {
        self.machines.entry(machine).or_default().capacity = Some(capacity);
    }

    /// Records a task of an earlier agent process that still runs or is being stopped.
    pub(super) fn add_recovered(&mut self, recovered: RecoveredTask, now_ms: u64) {
        let RecoveredTask { run, request, devices, cores, ports, grace_ms, kill_in_ms, .. } =
            recovered;
        let here = self.machines.entry(run.machine).or_default();
        let part = Part { run, request, devices, cores, ports, grace_ms };
        match kill_in_ms {
            Some(left) => {
                here.ends.insert(run.task, (part, now_ms.saturating_add(left.into())));
            }
            None => _ = here.runs.insert(run.task, part),
        }
    }

    /// Records a directive of the cell. Returns the directives that the machine can follow now. A start or a resize may
    /// be delayed.
    pub(super) fn follow(&mut self, directive: Directive, now_ms: u64) -> Vec<Directive> {
        let mut directives = Vec::new();
        match directive {
            Directive::Start(task) => {
                let here = self.machines.entry(task.machine).or_default();
                here.waits.push(task);
                here.go_on(&mut directives);
            }
            Directive::Stop { run, .. } => {
                let here = self.machines.entry(run.machine).or_default();
                directives.extend(here.stop(run, now_ms));
                here.go_on(&mut directives);
            }
            Directive::Resize { run, to } => {
                let here = self.machines.entry(run.machine).or_default();
                here.resize(run.task, to);
                here.go_on(&mut directives);
            }
            other => directives.push(other),
        }
        directives
    }

    /// Whether a run is being stopped, within its grace period.
    pub(super) fn is_stopping(&self, run: RunId) -> bool {
        let ending = self.machines.get(&run.machine).and_then(|here| here.ends.get(&run.task));
        ending.is_some_and(|(part, _)| part.run.may_be(&run))
    }

    /// Records that a run has ended, by itself or because it was stopped. Returns the directives that can be followed
    /// now.
    pub(super) fn ended(&mut self, run: RunId) -> Vec<Directive> {
        let mut directives = Vec::new();
        let Some(here) = self.machines.get_mut(&run.machine) else { return directives };
        if here.runs.get(&run.task).is_some_and(|part| part.run.may_be(&run)) {
            here.runs.remove(&run.task);
        }
        if here.ends.get(&run.task).is_some_and(|(part, _)| part.run.may_be(&run)) {
            here.ends.remove(&run.task);
        }
        here.go_on(&mut directives);
        directives
    }

    /// Returns directives to kill the tasks whose grace period is over, and the delayed directives that can be followed
    /// after that.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Directive> {
        let mut directives = Vec::new();
        for here in self.machines.values_mut() {
            let over = here.ends.extract_if(.., |_, (_, at)| *at <= now_ms);
            directives.extend(over.map(|(_, (part, _))| Directive::Kill(part.run)));
            here.go_on(&mut directives);
        }
        self.machines.retain(|_, here| here.capacity.is_some() || !here.is_idle());
        directives
    }

    /// The end of the next grace period.
    pub(super) fn next_due(&self) -> Option<u64> {
        let all = self.machines.values().flat_map(|here| here.ends.values());
        all.map(|(_, at)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{DirectiveBatch, Records, Reported};
    use super::super::{Program, sample};
    use super::*;
    use omega_core::{JobKind, NamedPort, Port, TaskReport};

    const HERE: MachineId = MachineId { slot: 1, incarnation: 0 };

    fn run(index: u32) -> RunId {
        sample(index, HERE).run_id()
    }

    fn task(index: u32, cores: u64, grace_ms: u32) -> Task {
        let request = Amounts::new([cores * 1000]);
        Task { request, kind: JobKind::Service, grace_ms, ..sample(index, HERE) }
    }

    fn start(index: u32, cores: u64, grace_ms: u32) -> Directive {
        Directive::Start(task(index, cores, grace_ms))
    }

    fn stop(index: u32, grace_ms: u32) -> Directive {
        Directive::Stop { run: run(index), grace_ms }
    }

    /// A machine with four cores. It runs a task with three cores and a grace period of one second.
    fn with_victim() -> Endings {
        let mut endings = Endings::default();
        endings.has(HERE, Amounts::new([4000]));
        assert_eq!(endings.follow(start(0, 3, 1000), 0), [start(0, 3, 1000)]);
        endings
    }

    #[test]
    fn a_newcomer_waits_for_its_room_and_no_longer_than_the_grace() {
        let mut endings = with_victim();
        assert_eq!(endings.follow(stop(0, 0), 50), [stop(0, 1000)]);
        assert_eq!(endings.follow(start(1, 2, 0), 60), []);
        // A task that fits even beside the stopping task need not wait.
        assert_eq!(endings.follow(start(2, 1, 0), 70), [start(2, 1, 0)]);
        assert_eq!((endings.next_due(), endings.due(1049)), (Some(1050), vec![]));
        let killed = Directive::Kill(run(0));
        assert_eq!(endings.due(1050), [killed, start(1, 2, 0)]);
        assert_eq!(endings.next_due(), None);
    }

    #[test]
    fn a_port_is_free_when_the_task_that_had_it_has_ended() {
        let with_ports = |index, fixed: u16, chosen: u16| {
            let program = Program { ports: vec![Port::tcp(fixed)], ..Program::default() };
            let ports = vec![NamedPort { name: "http".into(), number: chosen }];
            Directive::Start(Task { program: program.into(), ports, ..task(index, 0, 1000) })
        };
        let mut endings = Endings::default();
        endings.has(HERE, Amounts::new([4000]));
        endings.follow(with_ports(0, 80, 20_000), 0);
        endings.follow(stop(0, 0), 50);
        assert_eq!(endings.follow(with_ports(1, 80, 20_001), 60), []);
        assert_eq!(endings.follow(with_ports(2, 81, 20_000), 70), []);
        let other = with_ports(3, 82, 20_003);
        assert_eq!(endings.follow(other.clone(), 80), [other]);
        let both = [with_ports(1, 80, 20_001), with_ports(2, 81, 20_000)];
        assert_eq!(endings.ended(run(0)), both);
    }

    fn resize(index: u32, cores: u64) -> Directive {
        let to = Amounts::new([cores * 1000]);
        Directive::Resize { run: run(index), to }
    }

    #[test]
    fn who_is_to_hold_more_waits_for_it_and_who_is_to_hold_less_does_not() {
        let mut endings = with_victim();
        assert_eq!(endings.follow(start(1, 1, 0), 0), [start(1, 1, 0)]);
        assert_eq!(endings.follow(stop(0, 0), 50), [stop(0, 1000)]);
        assert_eq!(endings.follow(resize(1, 3), 60), [], "the other one still has three");
        // Of two resizes of a task, the later one applies.
        assert_eq!(endings.follow(resize(1, 4), 70), []);
        assert_eq!(endings.ended(run(0)), [resize(1, 4)]);
        assert_eq!(endings.follow(stop(1, 0), 80), [stop(1, 0)]);

        let mut endings = with_victim();
        endings.follow(start(1, 1, 0), 0);
        endings.follow(stop(0, 0), 50);
        assert_eq!(endings.follow(resize(1, 2), 60), []);
        assert_eq!(endings.follow(resize(1, 0), 70), [resize(1, 0)], "it gives up what it has");
        assert_eq!(endings.follow(resize(1, 1), 80), [resize(1, 1)], "that was free");
        assert_eq!(endings.follow(resize(1, 2), 90), []);
        let killed = Directive::Kill(run(0));
        assert_eq!(endings.due(1050), [killed, resize(1, 2)]);
        // A task has room as soon as another one shrinks, whichever of the two directives comes first.
        let mut endings = Endings::default();
        endings.has(HERE, Amounts::new([10_000]));
        for (index, cores) in [(0, 4), (1, 2), (2, 4)] {
            endings.follow(start(index, cores, 1000), 0);
        }
        endings.follow(stop(0, 0), 0);
        assert_eq!(endings.follow(resize(1, 4), 0), []);
        assert_eq!(endings.follow(resize(2, 2), 0), [resize(2, 2), resize(1, 4)]);

        let mut endings = with_victim();
        endings.follow(start(1, 1, 0), 0);
        assert_eq!(endings.follow(stop(0, 0), 50), [stop(0, 1000)]);
        assert_eq!(endings.due(1050).len(), 1);
        // A task that waits to grow does not grow if it is stopped.
        endings.follow(start(2, 1, 500), 1100);
        endings.follow(stop(2, 0), 1100);
        assert_eq!(endings.follow(resize(1, 4), 1100), []);
        assert_eq!(endings.follow(stop(1, 0), 1100), [stop(1, 0)]);
        assert_eq!(endings.ended(run(2)), []);
    }

    #[test]
    fn one_that_ends_early_gives_its_room_early() {
        let mut endings = with_victim();
        endings.follow(stop(0, 0), 50);
        assert_eq!(endings.follow(start(1, 2, 0), 60), []);
        assert_eq!(endings.ended(run(0)), [start(1, 2, 0)]);
        assert_eq!(endings.due(5000), []);
    }

    #[test]
    fn a_start_that_is_taken_back_never_happens_and_the_same_task_waits_for_its_own_end() {
        let mut endings = with_victim();
        endings.follow(stop(0, 0), 0);
        assert_eq!(endings.follow(start(1, 2, 0), 0), []);
        assert_eq!(endings.follow(stop(1, 0), 0), []);
        assert_eq!(endings.follow(start(0, 1, 1000), 0), [], "it ends, and is to run again");
        assert_eq!(endings.ended(run(0)), [start(0, 1, 1000)]);
    }

    #[test]
    fn without_a_grace_nothing_waits_and_where_room_is_not_known_all_do() {
        let mut endings = Endings::default();
        endings.follow(start(0, 1, 0), 0);
        assert_eq!(endings.follow(stop(0, 0), 0), [stop(0, 0)]);
        assert_eq!(endings.follow(start(1, 1, 500), 0), [start(1, 1, 500)]);
        endings.follow(stop(1, 0), 10);
        assert_eq!(endings.follow(start(2, 1, 0), 10), []);
        assert_eq!(endings.due(510).len(), 2);
    }

    /// Simulates that the process of the agent was killed while one task ran and another one was being stopped, and
    /// that the cell has given their resources to other tasks meanwhile.
    #[test]
    fn an_agent_that_comes_back_honours_the_grace_of_what_it_finds() {
        let (mut records, mut endings) = (Records::default(), Endings::default());
        endings.has(HERE, Amounts::new([4000]));
        for (index, kill_in_ms) in [(0, None), (1, Some(300))] {
            let request = Amounts::new([2000]);
            let recovered = RecoveredTask {
                run: run(index),
                owner: None,
                request,
                devices: Vec::new(),
                cores: Vec::new(),
                ports: Vec::new(),
                grace_ms: 1000,
                is_running: true,
                kill_in_ms,
            };
            records.add_recovered(&recovered);
            endings.add_recovered(recovered, 0);
        }
        let starts = vec![(task(2, 2, 0), false), (task(3, 2, 0), false)];
        let batch = DirectiveBatch { whole: [HERE].into(), starts, ..DirectiveBatch::default() };
        let directives = records.apply(batch).directives.into_iter();
        let directives: Vec<Directive> =
            directives.flat_map(|directive| endings.follow(directive, 0)).collect();
        assert_eq!(directives, [stop(0, 1000)], "nothing starts yet");
        let killed = |index| Directive::Kill(run(index));
        assert_eq!(endings.due(300), [killed(1), start(2, 2, 0)]);
        let report = TaskReport::Finished;
        let late = Reported { run: run(0), report, end: None };
        assert!(!records.report(&late), "it concerns the cell no more");
        assert_eq!(endings.ended(run(0)), [start(3, 2, 0)]);
    }
}
