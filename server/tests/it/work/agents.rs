//! Agents of simulated machines, and what happens to their tasks. All are processes, some of which are killed.
//!
//! Every awaited event happens eventually, so there are no time limits.

use crate::cell::events;
use crate::cell::served::{Process, Three, describe, insist, ports, serve, unavailable};
use crate::kit::process::{folder, omega, run_omega};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::{self, job_ref};
use omega_core::{Amounts, Job, JobKind, TaskGroup};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Taint of machines whose agents are silent.
const UNREACHABLE: &str = omega_client::agent::UNREACHABLE;

/// Timeout that is long enough for heartbeats on a busy computer, and short enough that tests can wait for it.
const TIMEOUT: &str = "--machine-timeout=10";

/// A cell of one replica on a disk, and its clients.
pub(crate) struct Cell {
    port: u16,
    runtime: Runtime,
    server: Option<Process>,
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl Cell {
    pub(crate) fn start() -> Cell {
        let runtime = Runtime::new().unwrap();
        let mut cell = Cell { dir: folder(&[]), port: ports(1)[0], runtime, server: None };
        cell.serve();
        cell
    }

    fn serve(&mut self) {
        let listen = format!("--listen=127.0.0.1:{}", self.port);
        let more = [TIMEOUT, "--eviction-rate=5"].map(str::to_owned);
        let all = [vec!["--dir=cell".to_owned(), listen], more.to_vec()].concat();
        self.server = Some(serve(self.dir.path(), &all));
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    fn scheduler(&self) -> Process {
        let more = ["--standby", "--lease=5s"];
        start(self.dir.path(), &[&["scheduler", "--cell", &self.address()][..], &more].concat())
    }

    /// Starts a scheduler with a profile.
    pub(crate) fn scheduler_with(&self, profile: &str) -> Process {
        std::fs::write(self.dir.path().join("profile.toml"), profile).unwrap();
        let arguments = ["scheduler", "--cell", &self.address(), "--profile", "profile.toml"];
        start(self.dir.path(), &arguments)
    }

    pub(crate) fn kill(&self, job: u64) {
        let job = proto::JobRef { job: Some(job_ref::Job::Id(job)) };
        let request = proto::KillJobRequest { job: Some(job) };
        insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    JobServiceClient::connect(self.url()).await.map_err(unavailable)?;
                Ok(client.kill_job(request.clone()).await?)
            })
        });
    }

    /// Resizes a task to a number of cores.
    pub(crate) fn resize(&self, task: &str, cores: u32) {
        let (cpu, address) = (cores.to_string(), self.address());
        let arguments = ["task", "resize", task, "--cpu", &cpu, "--cell", &address];
        let output = run_omega(self.dir.path(), &arguments);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }

    /// Starts an agent, and waits until it has registered its machines.
    fn agent(&self, name: &str, machines: u32, more: &[&str]) -> Process {
        let count = machines.to_string();
        let address = self.address();
        let agent = [
            "agent",
            "--cell",
            &address,
            "--prefix",
            name,
            "--simulate",
            &count,
            "--heartbeat",
            "1",
        ];
        start(self.dir.path(), &[&agent, more].concat())
    }

    pub(crate) fn submit(&self, job: &Job) -> u64 {
        let request = proto::SubmitJobRequest { job: Some(job.into()) };
        insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    JobServiceClient::connect(self.url()).await.map_err(unavailable)?;
                Ok(client.submit_job(request.clone()).await?.into_inner().id)
            })
        })
    }

    pub(crate) fn job(&self, id: u64) -> proto::JobStatus {
        let request =
            proto::GetJobRequest { job: Some(proto::JobRef { job: Some(job_ref::Job::Id(id)) }) };
        let answer = insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    JobServiceClient::connect(self.url()).await.map_err(unavailable)?;
                Ok(client.get_job(request.clone()).await?.into_inner())
            })
        });
        answer.job.unwrap()
    }

    fn machines(&self) -> Vec<proto::MachineStatus> {
        let answer = insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    MachineServiceClient::connect(self.url()).await.map_err(unavailable)?;
                let request = proto::ListMachinesRequest::default();
                Ok(client.list_machines(request).await?.into_inner())
            })
        });
        answer.machines
    }

    /// Number of an agent's machines that have the taint, and number of tasks on all its machines.
    fn marked(&self, name: &str) -> (usize, u32) {
        let prefix = format!("{name}-");
        let machines = self.machines();
        let of = |response: &&proto::MachineStatus| {
            response.machine.as_ref().is_some_and(|machine| machine.name.starts_with(&prefix))
        };
        let of: Vec<_> = machines.iter().filter(of).collect();
        let has_taint = |response: &&&proto::MachineStatus| {
            let taints = &response.machine.as_ref().unwrap().taints;
            taints.iter().any(|taint| taint.key == UNREACHABLE)
        };
        (of.iter().filter(has_taint).count(), of.iter().map(|response| response.tasks).sum())
    }

    /// Ends the server and replays its log with an audit.
    fn replay(mut self) {
        self.server = None;
        let output =
            run_omega(self.dir.path(), &["log", "replay", "cell", "--all", "--audit-every", "50"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}

fn submit(runtime: &Runtime, url: &str, job: &Job) -> u64 {
    let request = proto::SubmitJobRequest { job: Some(job.into()) };
    insist(|| {
        runtime.block_on(async {
            let mut client =
                JobServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
            Ok(client.submit_job(request.clone()).await?.into_inner().id)
        })
    })
}

fn job(runtime: &Runtime, url: &str, id: u64) -> proto::JobStatus {
    let request =
        proto::GetJobRequest { job: Some(proto::JobRef { job: Some(job_ref::Job::Id(id)) }) };
    let answer = insist(|| {
        runtime.block_on(async {
            let mut client =
                JobServiceClient::connect(url.to_owned()).await.map_err(unavailable)?;
            Ok(client.get_job(request.clone()).await?.into_inner())
        })
    });
    answer.job.unwrap()
}

/// Starts a process that prints one line when it is ready.
pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Process {
    let mut command = omega(dir);
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().expect("omega starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "{arguments:?} ended at once");
    Process(child)
}

fn batch(name: &str, tasks: u32, run_ms: u64) -> Job {
    let group = TaskGroup::new(tasks, Amounts::new([1000, 1 << 30]));
    Job { runtime_estimate_ms: Some(run_ms), ..Job::batch(name, group) }
}

fn service(name: &str, tasks: u32) -> Job {
    Job { kind: JobKind::Service, ..batch(name, tasks, 1) }
}

/// Waits until a condition holds.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn jobs_run_to_their_end_on_simulated_machines() {
    let cell = Cell::start();
    let _scheduler = cell.scheduler();
    let _agent = cell.agent("sim", 10, &["--run-time-scale", "0.1", "--fail", "20", "--cpu", "8"]);
    let mut job = batch("batch", 200, 1000);
    job.groups[0].restarts = 1000;
    let batch = cell.submit(&job);
    let mut job = service("service", 10);
    job.groups[0].restarts = 1000;
    let service = cell.submit(&job);
    until(|| cell.job(batch).finished == 200);
    until(|| cell.job(service).running == 10);
    // Loads are sent with the next heartbeat.
    until(|| {
        cell.machines().iter().any(|response| response.load.first().is_some_and(|cpu| *cpu > 0))
    });
    cell.replay();
}

#[test]
fn what_a_lost_machine_ran_runs_elsewhere_until_it_is_back() {
    let mut cell = Cell::start();
    let _scheduler = cell.scheduler();
    let few = cell.agent("few", 2, &[]);
    let job = cell.submit(&service("service", 100));
    until(|| cell.job(job).running == 100);
    let _many = cell.agent("many", 8, &[]);
    until(|| cell.marked("few") == (0, 100));
    drop(few);
    until(|| cell.marked("few") == (2, 0));
    let at = format!("127.0.0.1:{}", cell.port);
    let output =
        run_omega(cell.dir.path(), &["machine", "get", "few-0", "--cell", &at, "-o", "json"]);
    assert!(output.stdout.contains("\"status\": \"unreachable\""), "{}", output.stdout);
    until(|| cell.job(job).running == 100);
    assert_eq!(cell.marked("few").1, 0, "nothing is placed on a lost machine");
    // After a restart of the server, the same machines are unreachable.
    cell.server = None;
    cell.serve();
    until(|| cell.job(job).running == 100);
    assert_eq!(cell.marked("few"), (2, 0));
    let _few = cell.agent("few", 2, &[]);
    until(|| cell.marked("few").0 == 0);
    // More tasks are submitted than fit on the other machines.
    let more = cell.submit(&service("more", 450));
    until(|| cell.job(more).running == 450);
    assert!(cell.marked("few").1 > 0, "it takes tasks again");
    cell.replay();
}

#[test]
fn a_mass_loss_costs_no_tasks() {
    let cell = Cell::start();
    let _scheduler = cell.scheduler();
    let _here = cell.agent("here", 5, &[]);
    let gone = cell.agent("gone", 5, &[]);
    let job = cell.submit(&service("service", 300));
    until(|| cell.job(job).running == 300);
    let (_, tasks) = cell.marked("gone");
    drop(gone);
    until(|| cell.marked("gone").0 == 5);
    // Half of the agents are silent. Their machines get the taint, but keep their tasks.
    let version = insist(|| cell.runtime.block_on(describe(cell.url()))).version;
    let more = cell.submit(&service("more", 1));
    until(|| cell.job(more).running == 1);
    assert!(insist(|| cell.runtime.block_on(describe(cell.url()))).version > version);
    assert_eq!(cell.marked("gone"), (5, tasks));
    assert_eq!(cell.job(job).pending, 0);
    let _gone = cell.agent("gone", 5, &[]);
    until(|| cell.marked("gone") == (0, tasks));
    assert_eq!(cell.job(job).pending, 0, "they went on where they were");
    cell.replay();
}

#[test]
fn a_killed_scheduler_is_followed_by_another_of_its_name() {
    let cell = Cell::start();
    let mut scheduler = cell.scheduler();
    let _agent = cell.agent("sim", 20, &["--run-time-scale", "0.01", "--cpu", "4"]);
    let mut jobs = Vec::new();
    for round in 0..5 {
        jobs.extend((0..20).map(|job| cell.submit(&batch(&format!("{round}-{job}"), 20, 10_000))));
        // The scheduler is killed. Results of its commits that it has not received yet are lost.
        drop(scheduler);
        scheduler = cell.scheduler();
    }
    for job in jobs {
        until(|| cell.job(job).finished == 20);
    }
    cell.replay();
}

#[test]
fn agents_follow_the_leader() {
    let mut three = Three::found();
    let runtime = Runtime::new().unwrap();
    let cell = three.address().replicas.join(",");
    let dir = three.dir.path().to_owned();
    let _scheduler = start(&dir, &["scheduler", "--cell", &cell]);
    let more = ["--simulate=20", "--cpu=4", "--heartbeat=1", "--run-time-scale=0.01"];
    let _agent = start(&dir, &[&["agent", "--cell", &cell][..], &more].concat());
    let services = submit(&runtime, &three.url(1), &service("services", 10));
    let mut jobs = Vec::new();
    for round in 0..3 {
        let leader = three.leader(&runtime);
        let other = leader % 3 + 1;
        let one =
            |i| submit(&runtime, &three.url(other), &batch(&format!("{round}-{i}"), 20, 10_000));
        jobs.extend((0..10).map(one));
        three.kill(leader);
        let url = three.url(other);
        until(|| jobs.iter().all(|id| job(&runtime, &url, *id).finished == 20));
        until(|| job(&runtime, &url, services).running == 10);
        three.start(leader, &[]);
    }
    (1..=3).for_each(|id| three.kill(id));
    for id in 1..=3 {
        let replay = ["log", "replay", &format!("r{id}"), "--all", "--audit-every", "50"];
        let output = run_omega(&dir, &replay);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}

/// Agents and schedulers find the leader through any replica, even if they get the address of only one.
#[test]
fn who_knows_a_follower_finds_the_leader() {
    let mut three = Three::found();
    let runtime = Runtime::new().unwrap();
    let dir = three.dir.path().to_owned();
    let leader = three.leader(&runtime);
    let follower = leader % 3 + 1;
    let cell = three.address().replicas[follower - 1].clone();
    let _scheduler = start(&dir, &["scheduler", "--cell", &cell, "--standby", "--lease=5s"]);
    let machines = ["--simulate=2", "--cpu=4", "--heartbeat=1"];
    let _agent = start(&dir, &[&["agent", "--cell", &cell][..], &machines].concat());
    let url = three.url(follower);
    let first = submit(&runtime, &url, &service("first", 4));
    until(|| job(&runtime, &url, first).running == 4);
    // The agent and the scheduler already have the address of the next leader, or get it from another replica.
    three.kill(leader);
    let second = submit(&runtime, &url, &service("second", 4));
    until(|| job(&runtime, &url, second).running == 4);
}

/// An agent that cannot reach the leader reports why its machines get no directives.
#[test]
fn an_agent_without_the_leader_says_so() {
    let nowhere = format!("--advertise=127.0.0.1:{}", ports(1)[0]);
    let three = Three::found_with(&[&nowhere]);
    let runtime = Runtime::new().unwrap();
    let follower = three.leader(&runtime) % 3;
    let cell = &three.address().replicas[follower];
    let line = format!("agent --simulate 1 --cell {cell} --log-format json");
    let _agent = events::start(three.dir.path(), &line, "agent");
    let response = events::wait_for(&three.dir.path().join("agent"), |event| {
        event["message"].as_str().is_some_and(|output| {
            output.starts_with("none of the given replicas leads")
                || output.starts_with("no leader of the cell answers")
        })
    });
    assert_eq!(response["machines"], 1, "{response}");
    // The agent alternates between the given replica and the leader that this replica names.
    let is_of_follower = response["replica"] == **cell;
    let says_who_leads = response["why"].as_str().unwrap().contains("agents attach to the leader");
    assert_eq!(is_of_follower, says_who_leads, "{response}");
    let output = response["message"].as_str().unwrap();
    assert_eq!(output.starts_with("none of the given"), is_of_follower, "{response}");
}

#[test]
fn bad_arguments_are_told() {
    let dir = folder(&[]);
    let cases = [
        (vec!["agent", "--prefix=x"], "--simulate"),
        (vec!["agent", "--simulate=0"], "0 is not in"),
        (vec!["agent", "--simulate=1", "--fail=101"], "101 is not in"),
        (vec!["agent", "--simulate=1", "--run-time-scale=-1"], "must be a number from 0"),
        (vec!["agent", "--simulate=1", "--cell=no address"], "must be an address"),
        (
            vec!["agent", "--no-limits", "--dir=/proc/x"],
            "/proc/x: cannot be used as the agent's folder",
        ),
        (vec!["serve", "--memory", "--machine-timeout=0"], "machine-timeout"),
    ];
    for (arguments, expected) in cases {
        let output = run_omega(dir.path(), &arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(expected), "{arguments:?}: {}", output.stderr);
    }
}
