//! Grace periods, with a server and a scheduler as processes: a stopped task has its grace period, and the task that
//! gets its resources waits for its end.
//!
//! The test plays the agent and decides when tasks end, so it checks only the sequence of directives.

use crate::kit::agents::Cell;
use crate::kit::wait::until;
use omega_client::Address;
use omega_client::agent::{Agent, AgentSettings, Directive, RunId};
use omega_core::{
    Amounts, Job, JobKind, Machine, MachineId, Precedence, TaskGroup, TaskReport, Text,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

const EVICTING: &str = r#"
[[profile]]
name = "default"
base = "service"

[[profile.post_filter]]
plugin = "default_preemption"
"#;

/// Longer than any test.
const EVER_MS: u32 = 3_600_000;

fn service(name: &str, cores: u64, precedence: i32, grace_ms: u32) -> Job {
    let request = Amounts::new([cores * 1000, 1 << 20]);
    let group = TaskGroup { grace_ms, ..TaskGroup::new(1, request) };
    let job = Job::batch(name, group);
    Job { kind: JobKind::Service, precedence: Precedence(precedence), ..job }
}

/// The agent of a machine with four cores.
struct Box4 {
    runtime: Runtime,
    agent: Agent,
    directives: UnboundedReceiver<Directive>,
    machine: MachineId,
}

impl Box4 {
    fn new(cell: &Cell) -> Box4 {
        let runtime = Runtime::new().unwrap();
        let address = Address::plain([cell.address()]);
        let (agent, directives, machine) = runtime.block_on(async {
            let (agent, directives) = Agent::start(&address, AgentSettings::default()).unwrap();
            let machine = Machine::new("box", Amounts::new([4000, 1 << 30]));
            let machine = agent.register(machine).await.unwrap();
            (agent, directives, machine)
        });
        Box4 { runtime, agent, directives, machine }
    }

    /// The next directive about a task that runs or is to run.
    fn next(&mut self) -> Directive {
        loop {
            match self.runtime.block_on(self.directives.recv()).expect("the agent is there") {
                Directive::EndConfirmed(_) => {}
                other => return other,
            }
        }
    }

    /// Checks that the next directive starts a task of this job. The task then runs.
    fn starts(&mut self, job: &str) {
        match self.next() {
            Directive::Start(task) => {
                assert_eq!(task.job_name, Text::from(job));
                self.agent.report(task.run_id(), TaskReport::Started);
            }
            other => panic!("not the start of {job}: {other:?}"),
        }
    }

    /// Checks that the next directive stops a task of this job. The task does not end yet.
    fn stops(&mut self, job: u64) {
        match self.next() {
            Directive::Stop { run, grace_ms } => {
                assert_eq!(run.task.job.0, job);
                assert!(grace_ms > 0);
            }
            other => panic!("not the end of {job}: {other:?}"),
        }
    }

    fn ends(&self, job: u64) {
        let task = omega_core::TaskId { job: omega_core::JobId(job), index: 0 };
        let run = RunId { task, machine: self.machine, placed_ms: 0 };
        self.agent.report(run, TaskReport::Finished);
    }
}

#[test]
fn who_comes_in_the_place_of_another_waits_until_that_has_ended_or_its_grace_is_over() {
    let cell = Cell::start();
    let _scheduler = cell.scheduler_with(EVICTING);
    let mut box4 = Box4::new(&cell);
    let low = cell.submit(&service("low", 3, 0, EVER_MS));
    box4.starts("low");
    let high = cell.submit(&service("high", 3, 10, 300));
    box4.stops(low);
    until(|| cell.job(high).placed == 1);
    // A task that fits beside the ending task and the waiting one starts at once, although it was submitted later. The
    // waiting task still waits.
    cell.submit(&service("small", 1, 20, 0));
    box4.starts("small");
    box4.ends(low);
    box4.starts("high");
    // A task that exceeds its grace period is killed, and then there is room.
    cell.submit(&service("highest", 3, 20, 0));
    box4.stops(high);
    match box4.next() {
        Directive::Kill(run) => assert_eq!(run.task.job.0, high),
        other => panic!("not killed: {other:?}"),
    }
    box4.starts("highest");
}

#[test]
fn who_is_to_grow_into_the_place_of_another_waits_for_it_too() {
    let cell = Cell::start();
    let _scheduler = cell.scheduler_with(EVICTING);
    let mut box4 = Box4::new(&cell);
    let low = cell.submit(&service("low", 3, 0, EVER_MS));
    box4.starts("low");
    let grows = cell.submit(&service("grows", 1, 10, 0));
    box4.starts("grows");
    cell.kill(low);
    box4.stops(low);
    until(|| cell.job(low).killed == 1);
    cell.resize("grows/0", 2);
    // The cell has allocated the cores to this task, but they are in use until the other task has ended. A task without
    // cores need not wait.
    cell.submit(&service("tiny", 0, 10, 0));
    box4.starts("tiny");
    let next = cell.submit(&service("next", 1, 10, 0));
    until(|| cell.job(next).placed == 1);
    box4.ends(low);
    match box4.next() {
        Directive::Resize { run: RunId { task, .. }, to } => {
            assert_eq!((task.job.0, to), (grows, Amounts::new([2000, 1 << 20])));
        }
        other => panic!("it does not grow: {other:?}"),
    }
    box4.starts("next");
}
