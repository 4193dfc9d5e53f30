//! Tests of the runner's order of work, with a driver that records its calls.

use super::*;
use omega_client::agent::Program;
use omega_core::{JobId, JobKind, Run, TaskId};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const HERE: MachineId = MachineId { slot: 1, incarnation: 0 };

/// A call of the driver, or a directive that the cell has sent.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Sent(Directive),
    Start(RunId),
    /// A stop, or a kill.
    Stop(String),
}

/// Directives that the cell sends when the driver has started this many tasks.
type Chunk = (usize, Vec<Directive>);

/// A cell that sends directives while the driver starts tasks, and the steps so far.
#[derive(Debug)]
struct Script {
    to: UnboundedSender<Directive>,
    chunks: VecDeque<Chunk>,
    steps: Vec<Step>,
    starts: usize,
}

impl Script {
    /// Sends the next directives. Returns whether there were any.
    fn send_next(&mut self) -> bool {
        let Some((_, directives)) = self.chunks.pop_front() else { return false };
        for directive in directives {
            self.steps.push(Step::Sent(directive.clone()));
            self.to.send(directive).unwrap();
        }
        true
    }

    fn send_due(&mut self) {
        while self.chunks.front().is_some_and(|(starts, _)| *starts <= self.starts) {
            self.send_next();
        }
    }
}

/// A driver whose tasks end once they are stopped.
#[derive(Debug)]
struct FakeDriver {
    script: Arc<Mutex<Script>>,
    running: BTreeSet<String>,
    events: Vec<Event>,
}

impl FakeDriver {
    fn end(&mut self, task: &str) {
        self.script.lock().unwrap().steps.push(Step::Stop(task.to_owned()));
        if self.running.remove(task) {
            self.events.push(Event::Ended(task.to_owned(), Exit::Stopped));
        }
    }
}

impl Driver for FakeDriver {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn find(&mut self) -> Result<Vec<FoundTask>, DriverError> {
        Ok(Vec::new())
    }

    fn start(&mut self, spec: &TaskSpec) -> Result<(), DriverError> {
        assert!(self.running.insert(spec.id.clone()), "{} runs already", spec.id);
        let note: Note = serde_json::from_str(&spec.note).unwrap();
        let mut script = self.script.lock().unwrap();
        script.steps.push(Step::Start(note.run()));
        script.starts += 1;
        script.send_due();
        Ok(())
    }

    fn stop(&mut self, task: &str) {
        self.end(task);
    }

    fn kill(&mut self, task: &str) {
        self.end(task);
    }

    fn resize(&mut self, _: &str, _: u64, _: u64) -> Result<(), DriverError> {
        Ok(())
    }

    fn poll(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn usage(&mut self) -> omega_agent::Usage {
        omega_agent::Usage::default()
    }

    fn logs(&self, _: &str, _: &str) -> Option<PathBuf> {
        None
    }
}

/// A runner with a driver and a cell that follow a script.
struct Bench {
    runtime: Runtime,
    runner: Runner,
    script: Arc<Mutex<Script>>,
    /// Gets `EndConfirmed` for each reported end, because the agent library knows none of the runs.
    reported: UnboundedReceiver<Directive>,
}

impl Bench {
    fn new(chunks: impl IntoIterator<Item = Chunk>) -> Bench {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let entered = runtime.enter();
        let address = Address::plain(["127.0.0.1:1"]);
        let (agent, reported) = Agent::start(&address, AgentSettings::default()).unwrap();
        let (to, directives) = unbounded_channel();
        let chunks = chunks.into_iter().collect();
        let script = Script { to, chunks, steps: Vec::new(), starts: 0 };
        let script = Arc::new(Mutex::new(script));
        let (running, events) = (BTreeSet::new(), Vec::new());
        let driver = FakeDriver { script: script.clone(), running, events };
        let kinds = Kinds::standard();
        let settings = RunnerSettings::default();
        let runner = Runner::new(agent, directives, Box::new(driver), kinds, settings);
        drop(entered);
        Bench { runtime, runner, script, reported }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Takes the ends that were reported so far.
    fn reported(&mut self) -> Vec<RunId> {
        let last = task(u64::MAX, 0, 0).run_id();
        self.runner.agent.report(last, TaskReport::Finished);
        let mut runs = Vec::new();
        loop {
            match self.runtime.block_on(self.reported.recv()) {
                Some(Directive::EndConfirmed(run)) if run == last => return runs,
                Some(Directive::EndConfirmed(run)) => runs.push(run),
                other => panic!("{other:?} confirms no end"),
            }
        }
    }
}

fn task(job: u64, index: u32, grace_ms: u32) -> Task {
    let run = Some(Run { command: "/bin/true".into(), ..Run::default() });
    Task {
        id: TaskId { job: JobId(job), index },
        machine: HERE,
        placed_ms: 100,
        job_name: "job".into(),
        group: "main".into(),
        kind: JobKind::Batch,
        runtime_estimate_ms: None,
        images: Vec::new(),
        request: Amounts::default(),
        devices: Vec::new(),
        cores: Vec::new(),
        ports: Vec::new(),
        grace_ms,
        program: Arc::new(Program { run, ..Program::default() }),
    }
}

fn stop(task: &Task) -> Directive {
    Directive::Stop { run: task.run_id(), grace_ms: task.grace_ms }
}

fn starts(job: u64, count: u32) -> Vec<Directive> {
    (0..count).map(|index| Directive::Start(task(job, index, 0))).collect()
}

/// A job is deleted while the agent starts its tasks, and a new job is submitted.
#[test]
fn stops_overtake_the_starts_that_were_ordered_before_them() {
    let is_kept = |index: u32| index % 1000 == 999;
    let stops = (0..4000).filter(|index| !is_kept(*index)).map(|index| stop(&task(1, index, 0)));
    let later: Vec<Directive> = stops.chain(starts(2, 5)).collect();
    let detached = vec![Directive::Detached(HERE)];
    // Four tasks of the first job are kept.
    let chunks = [(0, starts(1, 4000)), (10, later), (10 + 4 + 5, detached)];
    let mut bench = Bench::new(chunks);
    bench.script().send_due();
    let ended = bench.runtime.block_on(bench.runner.run(HERE));
    assert!(matches!(ended, Err(RunnerError::Detached)));
    let script = bench.script();
    let calls = script.steps.iter().filter(|step| !matches!(step, Step::Sent(_)));
    let start = |job, index| Step::Start(task(job, index, 0).run_id());
    let first = (0..10).map(|index| start(1, index));
    let stopped = (0..10).map(|index| Step::Stop(format!("1-{index}")));
    let kept = (0..4000).filter(|index| is_kept(*index)).map(|index| start(1, index));
    let new = (0..5).map(|index| start(2, index));
    let expected: Vec<Step> = first.chain(stopped).chain(kept).chain(new).collect();
    assert_eq!(calls.cloned().collect::<Vec<_>>(), expected);
}

/// Signals, timers and the connection must not wait until thousands of tasks are started.
#[test]
fn other_work_goes_on_between_starts() {
    let mut bench = Bench::new([(0, starts(1, 2000)), (2000, vec![Directive::Detached(HERE)])]);
    bench.script().send_due();
    let script = bench.script.clone();
    let mut starts_max = 0;
    let other_work = async {
        let mut before = 0;
        loop {
            let now = script.lock().unwrap().starts;
            starts_max = starts_max.max(now - before);
            before = now;
            yield_now().await;
        }
    };
    bench.runtime.block_on(async {
        tokio::select! {
            _ = bench.runner.run(HERE) => {}
            () = other_work => {}
        }
    });
    assert_eq!(bench.script().starts, 2000);
    // The first ticks of three intervals, and the first directive, do not wait.
    assert!((1..=5).contains(&starts_max), "{starts_max} starts");
}

/// A change of what the cell wants of a task: the task is started if it was not wanted, and otherwise stopped.
#[derive(Clone, Copy, Debug)]
struct Change {
    index: u32,
    /// Number of tasks that the driver starts before the cell sends the change.
    starts_before: usize,
}

fn change() -> impl Strategy<Value = Change> {
    let parts = (0u32..8, prop_oneof![4 => Just(0usize), 1 => 1usize..4]);
    parts.prop_map(|(index, starts_before)| Change { index, starts_before })
}

/// The directives of these changes, and the tasks that are wanted in the end.
fn directives(changes: &[Change]) -> (Vec<Chunk>, Vec<RunId>) {
    let (mut wanted, mut chunks) = (BTreeMap::<u32, Task>::new(), Vec::new());
    let (mut starts, mut placed_ms) = (0, 0);
    for Change { index, starts_before } in changes {
        starts += starts_before;
        placed_ms += 100;
        let directive = match wanted.remove(index) {
            Some(task) => stop(&task),
            None => {
                let task = Task { placed_ms, ..task(1, *index, index % 2 * 1000) };
                wanted.insert(*index, task.clone());
                Directive::Start(task)
            }
        };
        chunks.push((starts, vec![directive]));
    }
    (chunks, wanted.values().map(Task::run_id).collect())
}

/// Runs whose stop comes before the step.
fn stops_before(steps: &[Step]) -> BTreeMap<RunId, u32> {
    let stops = steps.iter().filter_map(|step| match step {
        Step::Sent(Directive::Stop { run, grace_ms }) => Some((*run, *grace_ms)),
        _ => None,
    });
    stops.collect()
}

proptest! {
    /// Whenever directives arrive, each run starts at most once, no run starts after its stop has arrived, each started
    /// run is stopped before the next start, and each wanted run starts. The end of each stopped run with a grace
    /// period is reported once.
    #[test]
    fn a_stopped_run_never_starts_and_every_other_run_starts_once(
        changes in prop::collection::vec(change(), 1..60),
        polls in prop::collection::vec(any::<bool>(), 8),
    ) {
        let (chunks, wanted) = directives(&changes);
        let mut bench = Bench::new(chunks);
        bench.script().send_due();
        let mut polls = polls.iter().copied().cycle();
        loop {
            bench.runner.advance(HERE).unwrap();
            let is_idle = !bench.runner.starts.has_ready() && bench.runner.directives.is_empty();
            if is_idle && !bench.script().send_next() && bench.runner.starts.is_empty() {
                break;
            }
            if is_idle || polls.next() == Some(true) {
                bench.runner.poll();
            }
        }
        bench.runner.poll();
        let steps = bench.script().steps.clone();
        let mut started = BTreeSet::new();
        for (at, step) in steps.iter().enumerate() {
            let Step::Start(run) = step else { continue };
            prop_assert!(started.insert(*run), "{} started twice", run.task);
            let stops = stops_before(&steps[..at]);
            prop_assert!(!stops.contains_key(run), "{} started after its stop", run.task);
            for stopped in started.iter().filter(|run| stops.contains_key(run)) {
                let sent = Step::Sent(Directive::Stop { run: *stopped, grace_ms: stops[stopped] });
                let sent_at = steps.iter().position(|step| *step == sent).unwrap();
                let call = Step::Stop(task_spec::name(stopped.task));
                prop_assert!(steps[sent_at..at].contains(&call), "{} runs on", stopped.task);
            }
        }
        prop_assert!(wanted.iter().all(|run| started.contains(run)));
        let stops = stops_before(&steps);
        let with_grace = stops.into_iter().filter(|(_, grace_ms)| *grace_ms > 0);
        let mut reported = bench.reported();
        reported.sort();
        prop_assert_eq!(reported, with_grace.map(|(run, _)| run).collect::<Vec<_>>());
    }
}
