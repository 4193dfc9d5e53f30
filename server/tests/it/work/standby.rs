//! Schedulers and their standbys: one scheduler places jobs, and another waits and takes over when the first is killed,
//! paused or stopped. All are processes. Every awaited event happens eventually, so there are no time limits.

use crate::kit::calls::{add_machines, job, submit, unavailable};
use crate::kit::cell::{Process, Three, ports, serve};
use crate::kit::process::{CommandOutput, folder, omega, run_omega};
use crate::kit::wait::{insist, until};
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_client::proto::{self, job_ref, list_tasks_request};
use omega_core::{Amounts, TaskGroup};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Number of machines of the cell; the next constant is the number of tasks that fit on a machine.
const MACHINES: u32 = 20;
const ROOM: u32 = 20;

/// A served cell, and a client of it.
struct World {
    port: u16,
    runtime: Runtime,
    _server: Process,
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl World {
    fn start() -> World {
        let (dir, port) = (folder(&[]), ports(1)[0]);
        let listen = format!("--listen=127.0.0.1:{port}");
        let _server = serve(dir.path(), &["--dir=cell".to_owned(), listen]);
        let world = World { dir, port, runtime: Runtime::new().unwrap(), _server };
        add_machines(&world.runtime, &world.url(), MACHINES, CAPACITY);
        world
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    fn scheduler(&self, more: &[&str]) -> Scheduler {
        Scheduler::start(self.dir.path(), &self.address(), more)
    }

    /// Submits jobs of four tasks each.
    fn submit(&self, round: &str, jobs: u32) -> Vec<u64> {
        (0..jobs)
            .map(|i| submit(&self.runtime, &self.url(), &format!("{round}-{i}"), large(4)))
            .collect()
    }

    fn placed(&self, jobs: &[u64]) -> u32 {
        jobs.iter().map(|job| placed(&self.runtime, &self.url(), *job)).sum()
    }

    /// Waits until all tasks of these jobs are placed, and checks that each is placed once, and that no machine is
    /// overcommitted.
    fn all_are_placed_once(&self, jobs: &[u64]) {
        until(|| self.placed(jobs) == 4 * jobs.len() as u32);
        let mut on: BTreeMap<String, u32> = BTreeMap::new();
        for job in jobs {
            for task in tasks(&self.runtime, &self.url(), *job) {
                *on.entry(task.machine_name).or_default() += 1;
            }
        }
        assert!(on.values().all(|tasks| *tasks <= ROOM), "{on:?}");
        assert_eq!(on.values().sum::<u32>(), 4 * jobs.len() as u32);
    }

    fn holders(&self) -> BTreeMap<String, proto::Holder> {
        holders(&self.runtime, &self.url())
    }

    /// Ends the server, and replays its log with an audit: no machine was overcommitted at any version, and each task
    /// was claimed by one commit.
    fn replay(self) {
        let World { dir, _server, .. } = self;
        drop(_server);
        let all = ["log", "replay", "cell", "--all", "--audit-every", "50"];
        let output = run_omega(dir.path(), &all);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}

/// Capacity of a machine, which has room for `ROOM` of these tasks.
const CAPACITY: [u64; 2] = [1000 * ROOM as u64, 1 << 40];

fn large(count: u32) -> TaskGroup {
    TaskGroup::new(count, Amounts::new([1000, 1 << 20]))
}

fn placed(runtime: &Runtime, url: &str, id: u64) -> u32 {
    job(runtime, url, id).placed
}

fn tasks(runtime: &Runtime, url: &str, job: u64) -> Vec<proto::TaskStatus> {
    let of = list_tasks_request::Of::Job(proto::JobRef { job: Some(job_ref::Job::Id(job)) });
    let request = proto::ListTasksRequest { of: Some(of), ..Default::default() };
    let response = insist(|| {
        runtime.block_on(async {
            let mut client =
                TaskServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
            Ok(client.list_tasks(request.clone()).await?.into_inner())
        })
    });
    response.tasks
}

/// The process that owns each scheduler name, according to the leader at this address.
fn holders(runtime: &Runtime, url: &str) -> BTreeMap<String, proto::Holder> {
    let response = insist(|| {
        runtime.block_on(async {
            let mut client =
                SchedulingServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
            Ok(client.list_schedulers(proto::ListSchedulersRequest {}).await?.into_inner())
        })
    });
    let held = response.schedulers.into_iter().filter_map(|one| Some((one.name, one.holder?)));
    held.collect()
}

/// The process of a scheduler, and its output.
struct Scheduler {
    process: Process,
    stdout: BufReader<ChildStdout>,
}

impl Scheduler {
    fn start(dir: &Path, cell: &str, more: &[&str]) -> Scheduler {
        let mut command = omega(dir);
        command.args(["scheduler", "--cell", cell]).args(more);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("omega starts");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Scheduler { process: Process(child), stdout }
    }

    /// Waits for the next line, which must contain this text.
    fn expect_line(&mut self, what: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(line.contains(what), "{line:?}");
    }

    fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends a signal, such as `STOP`.
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Kills the process without warning, as the out-of-memory killer does.
    fn kill(mut self) {
        self.process.0.kill().unwrap();
        self.process.0.wait().unwrap();
    }

    /// Waits for the end of the process.
    fn ended(mut self) -> CommandOutput {
        use std::io::Read;
        let mut stderr = String::new();
        self.process.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.process.0.wait().unwrap().code();
        CommandOutput { code, stdout: String::new(), stderr }
    }
}

fn is_of(holder: Option<&proto::Holder>, scheduler: &Scheduler) -> bool {
    let process = format!(":{}", scheduler.id());
    holder.is_some_and(|holder| holder.process.ends_with(&process))
}

#[test]
fn a_standby_goes_on_where_a_killed_scheduler_was() {
    let world = World::start();
    let mut active = world.scheduler(&["--workers=2", "--lease=5s"]);
    active.expect_line("places with 2 workers");
    let mut standby = world.scheduler(&["--standby", "--lease=5s"]);
    standby.expect_line("stands by");
    let holders = world.holders();
    for name in ["default", "default-0", "default-1"] {
        assert!(is_of(holders.get(name), &active), "{name}: {holders:?}");
    }
    let mut jobs = world.submit("before", 30);
    until(|| world.placed(&jobs) > 0);
    active.kill();
    jobs.extend(world.submit("after", 30));
    standby.expect_line("places with 1 worker");
    world.all_are_placed_once(&jobs);
    let holders = world.holders();
    assert!(is_of(holders.get("default"), &standby), "{holders:?}");
    assert!(!holders.contains_key("default-1"), "the names of a dead process go together");
    world.replay();
}

#[test]
fn a_scheduler_that_was_stopped_and_wakes_is_fenced() {
    let world = World::start();
    let mut active = world.scheduler(&["--lease=5s"]);
    active.expect_line("places");
    let mut standby = world.scheduler(&["--standby", "--lease=5s"]);
    standby.expect_line("stands by");
    let mut jobs = world.submit("before", 10);
    world.all_are_placed_once(&jobs);
    active.signal("STOP");
    // These jobs wait until one of the two schedulers places them.
    jobs.extend(world.submit("meanwhile", 20));
    standby.expect_line("places");
    active.signal("CONT");
    jobs.extend(world.submit("after", 20));
    let output = active.ended();
    assert_eq!(output.code, Some(75), "{}", output.stderr);
    let named = ["FENCED", "LEASE_LOST"].iter().any(|code| output.stderr.contains(code));
    assert!(named && output.stderr.contains("this process has stopped"), "{}", output.stderr);
    world.all_are_placed_once(&jobs);
    world.replay();
}

#[test]
fn a_name_has_one_process() {
    let world = World::start();
    let mut active = world.scheduler(&[]);
    active.expect_line("places");
    let second = world.scheduler(&["--workers=3"]).ended();
    assert_eq!(second.code, Some(75), "{}", second.stderr);
    let process = format!(":{} owns the scheduler's name", active.id());
    assert!(second.stderr.contains(&process), "{}", second.stderr);
    assert!(second.stderr.contains("LEASE_HELD"), "{}", second.stderr);
    assert!(second.stderr.contains("--standby"), "{}", second.stderr);
    let mut other = world.scheduler(&["--name=other"]);
    other.expect_line("places");
    let listed = run_omega(world.dir.path(), &["lease", "list", "--cell", &world.address()]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let line = |name: &str, of: &Scheduler| {
        let process = format!(":{}", of.id());
        let mut lines = listed.stdout.lines();
        let found = lines.find(|line| line.split(' ').next() == Some(name));
        assert!(found.is_some_and(|line| line.contains(&process)), "{name}: {}", listed.stdout);
    };
    line("default", &active);
    line("other-0", &other);
    let bad = run_omega(world.dir.path(), &["scheduler", "--lease=90s"]);
    assert_eq!(bad.code, Some(2), "{}", bad.stderr);
    assert!(bad.stderr.contains("90s must be from 1s to 60s"), "{}", bad.stderr);
}

#[test]
fn a_job_is_explained_whose_scheduler_was_killed() {
    let world = World::start();
    let mut active = world.scheduler(&["--lease=1s"]);
    active.expect_line("places");
    active.kill();
    world.submit("late", 1);
    let explain = ["job", "explain", "late-0", "--cell", &world.address()];
    until(|| {
        run_omega(world.dir.path(), &explain).stdout.contains("no process owns the name default")
    });
    let mut next = world.scheduler(&[]);
    next.expect_line("places");
    until(|| run_omega(world.dir.path(), &explain).stdout.contains("does not wait"));
}

#[test]
fn a_scheduler_that_ends_properly_is_followed_at_once() {
    let world = World::start();
    let mut active = world.scheduler(&["--lease=60s"]);
    active.expect_line("places");
    let process = format!(":{}", active.id());
    let mut standby = world.scheduler(&["--standby"]);
    standby.expect_line("stands by");
    let mut idle = world.scheduler(&["--standby"]);
    idle.expect_line("stands by");
    idle.signal("TERM");
    assert_eq!(idle.ended().code, Some(0));
    active.signal("TERM");
    assert_eq!(active.ended().code, Some(0));
    // The process has given its lease back, so the standby need not wait for the end of the lease.
    let holders = world.holders();
    assert!(!holders.get("default").is_some_and(|holder| holder.process.ends_with(&process)));
    standby.expect_line("places");
    let jobs = world.submit("after", 5);
    world.all_are_placed_once(&jobs);
}

#[test]
fn an_operator_ends_the_leases_of_one_who_still_renews() {
    let world = World::start();
    let address = world.address();
    let lease = |line: &[&str]| {
        let line = [&["lease"], line, &["--cell", &address, "-o", "json"]].concat();
        run_omega(world.dir.path(), &line)
    };
    let response = lease(&["revoke", "default"]);
    assert_eq!(response.code, Some(1), "{response:?}");
    assert!(response.stderr.contains("there is no scheduler \"default\""), "{response:?}");
    let mut active = world.scheduler(&["--workers=2", "--lease=60s"]);
    active.expect_line("places with 2 workers");
    let mut standby = world.scheduler(&["--standby", "--lease=60s"]);
    standby.expect_line("stands by");
    let before = world.holders()["default"].clone();
    let response = lease(&["revoke", "default-1"]);
    assert_eq!(response.code, Some(0), "{response:?}");
    for what in [&*format!(":{}", active.id()), "default-0", "default-1"] {
        assert!(response.stdout.contains(what), "{what}: {response:?}");
    }
    standby.expect_line("places with");
    let fenced = active.ended();
    assert_eq!(fenced.code, Some(75), "{fenced:?}");
    // If the request is repeated, it does not end the lease of the process that took over.
    let again = proto::EndLeasesRequest { name: "default".into(), mark: before.mark, holder: 0 };
    insist(|| {
        world.runtime.block_on(async {
            let mut client =
                SchedulingServiceClient::connect(world.url()).await.map_err(unavailable)?;
            Ok(client.end_leases(again.clone()).await?)
        })
    });
    let after = world.holders();
    assert!(is_of(after.get("default"), &standby), "{after:?}");
    let jobs = world.submit("after", 5);
    world.all_are_placed_once(&jobs);
    world.replay();
}

#[test]
fn leases_outlive_the_leader() {
    let mut three = Three::found();
    let runtime = Runtime::new().unwrap();
    let cell = three.address().replicas.join(",");
    let dir = three.dir.path().to_owned();
    let leader = three.leader(&runtime);
    add_machines(&runtime, &three.url(leader), MACHINES, CAPACITY);
    let mut active = Scheduler::start(&dir, &cell, &["--lease=15s"]);
    active.expect_line("places");
    let mut standby = Scheduler::start(&dir, &cell, &["--standby", "--lease=15s"]);
    standby.expect_line("stands by");
    for round in 0..3 {
        let leader = three.leader(&runtime);
        three.kill(leader);
        let next = three.leader(&runtime);
        let job = submit(&runtime, &three.url(next), &format!("round-{round}"), large(10));
        until(|| placed(&runtime, &three.url(next), job) == 10);
        // The new leader has the owners of all names. It gets the description of an owner's process when that process
        // renews its leases.
        let own = || holders(&runtime, &three.url(three.leader(&runtime)));
        until(|| is_of(own().get("default"), &active));
        three.start(leader, &[]);
    }
    active.kill();
    standby.expect_line("places");
    let leader = three.leader(&runtime);
    let job = submit(&runtime, &three.url(leader), "last", large(10));
    until(|| placed(&runtime, &three.url(leader), job) == 10);
}
