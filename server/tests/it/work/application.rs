//! Applications that request containers, with real processes, some of which are killed.
//!
//! The application runs in a child process: this test's binary, started again to run one of its functions.

use crate::kit::cell::{Process, Three, ports, serve, start};
use crate::kit::process::{folder, run_omega};
use crate::kit::wait::until;
use omega_client::Address;
use omega_client::application::{
    Application, ApplicationSettings, Change, Completed, ContainerSpec, ContainerState, Ended,
    Event, Recover, Registered,
};
use omega_core::{Amounts, JobKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn register(address: &Address, recover: Recover) -> Registered {
    Application::register(address, ApplicationSettings::new("app"), recover).unwrap()
}

fn batch(run_ms: u64) -> ContainerSpec {
    ContainerSpec {
        runtime_estimate_ms: Some(run_ms),
        ..ContainerSpec::new(Amounts::new([1000, 1 << 30]))
    }
}

fn service() -> ContainerSpec {
    ContainerSpec { kind: JobKind::Service, ..batch(1) }
}

/// A cell of one replica on a disk, with a scheduler and an agent.
struct Small {
    port: u16,
    server: Option<Process>,
    agent: Option<Process>,
    _scheduler: Option<Process>,
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl Small {
    fn start() -> Small {
        let mut small = Small {
            dir: folder(&[]),
            port: ports(1)[0],
            server: None,
            agent: None,
            _scheduler: None,
        };
        small.serve();
        let cell = format!("127.0.0.1:{}", small.port);
        small._scheduler = Some(start(small.dir.path(), &["scheduler", "--cell", &cell]));
        small.agent("sim");
        small
    }

    fn serve(&mut self) {
        let listen = format!("--listen=127.0.0.1:{}", self.port);
        let more = ["--machine-timeout=4", "--eviction-rate=5"].map(str::to_owned);
        let all = [vec!["--dir=cell".to_owned(), listen], more.to_vec()].concat();
        self.server = Some(serve(self.dir.path(), &all));
    }

    fn agent(&mut self, name: &str) {
        let cell = format!("127.0.0.1:{}", self.port);
        let agent = ["agent", "--cell", &cell, "--simulate=4", "--heartbeat=1", "--prefix", name];
        self.agent = Some(start(self.dir.path(), &agent));
    }

    fn address(&self) -> Address {
        Address::plain([format!("127.0.0.1:{}", self.port)])
    }

    /// The list of jobs that have not ended.
    fn jobs(&self) -> String {
        let cell = format!("127.0.0.1:{}", self.port);
        let output = run_omega(self.dir.path(), &["job", "list", "--cell", &cell]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    }
}

/// Reads events until one matches, and checks that the events of each container are consistent.
fn wait_for(
    registered: &mut Registered,
    seen: &mut Vec<Event>,
    mut is_so: impl FnMut(&[Event]) -> bool,
) {
    while !is_so(seen) {
        let event = registered.events.next().expect("the application is there");
        let ended = |event: &Event| matches!(event.change, Change::Ended(_));
        let before = seen.iter().rev().find(|before| before.container == event.container);
        assert_ne!(before.map(|before| &before.change), Some(&event.change), "told twice");
        assert!(!before.is_some_and(ended), "{event:?} after the end");
        // The output is for a run that waits forever and is ended by hand.
        println!("{event:?}");
        seen.push(event);
    }
}

fn ended(seen: &[Event], how: &Ended) -> usize {
    let is = |event: &&Event| matches!(&event.change, Change::Ended(end) if end.ended == *how);
    seen.iter().filter(is).count()
}

#[test]
fn containers_run_end_and_are_released() {
    let small = Small::start();
    let mut registered = register(&small.address(), Recover::Previous);
    assert!(registered.recovered.is_empty());
    let application = registered.application.clone();
    let machines = application.machines().unwrap();
    assert_eq!(machines.len(), 4);
    assert!(machines.iter().all(|machine| machine.is_alive == Some(true) && !machine.is_draining));
    assert_eq!(machines[0].capacity.first(), Some(&64_000));
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |calls: &Arc<Mutex<Vec<String>>>, what: String| calls.lock().unwrap().push(what);
    let (running, completed) = (calls.clone(), calls.clone());
    let first = application.create("first", &batch(300)).unwrap();
    assert!(application.create("first", &batch(300)).is_err(), "it has not ended");
    let _ = first
        .on_running(move |container, machine| {
            assert!(machine.starts_with("sim-"));
            note(&running, format!("{} runs", container.name()));
            panic!("as callbacks may");
        })
        .on_completed(move |container, end: &Completed| {
            assert!(end.machine.is_some());
            note(&completed, format!("{} {}", container.name(), end.ended));
            // The next container is requested in the callback of this container.
            let calls = completed.clone();
            let next = container.application().create("second", &service()).unwrap();
            let _ = next
                .on_running(|container, _| container.release())
                .on_completed(move |_, end| note(&calls, end.ended.to_string()));
        });
    let mut seen = Vec::new();
    wait_for(&mut registered, &mut seen, |seen| ended(seen, &Ended::Released) == 1);
    until(|| calls.lock().unwrap().len() == 3);
    assert_eq!(*calls.lock().unwrap(), ["first runs", "first finished", "released"]);
    let panicked = |event: &&Event| matches!(&event.change, Change::CallbackPanicked(what) if what.contains("may"));
    assert_eq!(seen.iter().filter(panicked).count(), 1);
    assert!(application.container("first").is_none());
    let refused = application.create("huge", &ContainerSpec::new(Amounts::new([1 << 60]))).unwrap();
    until(|| {
        matches!(refused.state(), ContainerState::Ended(Completed { ended: Ended::Refused(_), .. }))
    });
}

/// The child process, which requests containers until it is killed. Without the environment variable that the parent
/// sets, this test does nothing.
#[test]
fn a_process_of_its_own() {
    let Ok(cell) = std::env::var("OMEGA_TEST_APPLICATION") else { return };
    let registered = register(&Address::plain(cell.split(',')), Recover::Previous);
    let known: BTreeSet<String> =
        registered.recovered.iter().map(|container| container.name().to_owned()).collect();
    for index in 0.. {
        let name = format!("c-{index}");
        if known.contains(&name) {
            continue;
        }
        registered.application.create(&name, &service()).unwrap();
        println!("asked {name}");
        std::thread::sleep(std::time::Duration::from_millis(5));
        // The containers of all rounds have room.
        if index >= known.len() + 40 {
            registered.events.for_each(drop);
            return;
        }
    }
}

/// Kills the child after this many requests, and when the cell has this many containers in all.
fn kill_after(small: &Small, requested: usize, taken: usize) {
    let address = small.address();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "work::application::a_process_of_its_own", "--nocapture"]);
    command.env("OMEGA_TEST_APPLICATION", address.replicas.join(","));
    let mut child = Process(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut asks = lines.map(Result::unwrap).filter(|line| line.contains("asked "));
    assert_eq!(asks.by_ref().take(requested).count(), requested, "it ended early");
    // The child still writes its requests.
    until(|| small.jobs().lines().filter(|line| line.contains("app.")).count() >= taken);
    drop(asks);
}

#[test]
fn a_killed_application_is_recovered() {
    let small = Small::start();
    for round in 1..=3 {
        kill_after(&small, 10, round * 5);
        let registered = register(&small.address(), Recover::Previous);
        let names: BTreeSet<&str> =
            registered.recovered.iter().map(omega_client::application::Container::name).collect();
        assert_eq!(names.len(), registered.recovered.len(), "each once");
        // The last requests may not have reached the cell.
        assert!(names.len() >= round * 5, "{names:?}");
        until(|| {
            let is_running = |state| matches!(state, ContainerState::Running(_));
            registered.recovered.iter().all(|container| is_running(container.state()))
        });
        let response: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        for container in &registered.recovered {
            let response = response.clone();
            let call = move |container: &omega_client::application::Container, _: &str| {
                *response.lock().unwrap().entry(container.name().to_owned()).or_default() += 1;
            };
            let _ = container.clone().on_running(call);
        }
        until(|| response.lock().unwrap().len() == registered.recovered.len());
        assert!(response.lock().unwrap().values().all(|times| *times == 1), "called once each");
    }
    let registered = register(&small.address(), Recover::Drop);
    assert!(registered.recovered.is_empty());
    let jobs = small.jobs();
    assert!(!jobs.contains("app."), "all have ended: {jobs}");
    let mut registered = registered;
    registered.application.create("c-0", &batch(100)).unwrap();
    let mut seen = Vec::new();
    wait_for(&mut registered, &mut seen, |seen| ended(seen, &Ended::Finished) == 1);
}

#[test]
fn nothing_is_lost_where_servers_and_agents_are_killed() {
    let mut small = Small::start();
    let mut registered = register(&small.address(), Recover::Previous);
    let application = registered.application.clone();
    let mut seen = Vec::new();
    let runs = |seen: &[Event]| {
        let is = |event: &&Event| matches!(event.change, Change::Running(_));
        seen.iter().filter(is).map(|event| &event.container).collect::<BTreeSet<_>>().len()
    };
    for index in 0..20 {
        application.create(&format!("s-{index}"), &service()).unwrap();
        if index == 10 {
            small.server = None;
        }
    }
    small.serve();
    wait_for(&mut registered, &mut seen, |seen| runs(seen) == 20);
    // At most a third of the machines may be lost at the same time, so other machines are added first.
    let lost = small.agent.take();
    let cell = format!("127.0.0.1:{}", small.port);
    let more = ["agent", "--cell", &cell, "--simulate=12", "--heartbeat=1", "--prefix", "more"];
    let _more = start(small.dir.path(), &more);
    drop(lost);
    let displaced = |seen: &[Event]| {
        let is = |event: &&Event| matches!(event.change, Change::Displaced(_));
        seen.iter().filter(is).count()
    };
    let on_more = |seen: &[Event]| {
        let mut at: BTreeMap<&str, &Change> = BTreeMap::new();
        seen.iter().for_each(|event| _ = at.insert(&event.container, &event.change));
        at.values().all(|change| matches!(change, Change::Running(at) if at.starts_with("more")))
    };
    wait_for(&mut registered, &mut seen, |seen| displaced(seen) >= 20 && on_more(seen));
    let machines = application.machines().unwrap();
    assert_eq!(machines.iter().filter(|machine| machine.is_alive == Some(false)).count(), 4);
    (0..20).for_each(|index| application.container(&format!("s-{index}")).unwrap().release());
    wait_for(&mut registered, &mut seen, |seen| ended(seen, &Ended::Released) == 20);
}

#[test]
fn leaders_may_die_while_containers_come_and_go() {
    let mut three = Three::found();
    let runtime = Runtime::new().unwrap();
    let cell = three.address().replicas.join(",");
    let dir = three.dir.path().to_owned();
    let _scheduler = start(&dir, &["scheduler", "--cell", &cell]);
    let _agent = start(&dir, &["agent", "--cell", &cell, "--simulate=10", "--heartbeat=1"]);
    let mut registered = register(&three.address(), Recover::Previous);
    let mut seen = Vec::new();
    for round in 0..3 {
        let leader = three.leader(&runtime);
        for index in 0..30 {
            registered.application.create(&format!("b-{round}-{index}"), &batch(200)).unwrap();
            if index == 15 {
                three.kill(leader);
            }
        }
        wait_for(&mut registered, &mut seen, |seen| {
            ended(seen, &Ended::Finished) == 30 * (round + 1)
        });
        three.start(leader, &[]);
    }
    drop(registered);
    (1..=3).for_each(|id| three.kill(id));
    for id in 1..=3 {
        let replay = ["log", "replay", &format!("r{id}"), "--all", "--audit-every", "50"];
        let output = run_omega(&dir, &replay);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        // Each container was one job, even if it was requested twice.
        assert!(!output.stdout.contains("#2"), "{}", output.stdout);
    }
}
