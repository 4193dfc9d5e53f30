//! Agents of simulated machines, and what happens to their tasks. All are processes, some of which are killed.
//!
//! Every awaited event happens eventually, so there are no time limits.

use crate::cell::events;
use crate::kit::agents::Cell;
use crate::kit::calls::{job, submit_job};
use crate::kit::cell::{Three, ports, start};
use crate::kit::process::{folder, run_omega};
use crate::kit::wait::until;
use omega_core::{Amounts, Job, JobKind, TaskGroup};
use tokio::runtime::Runtime;

fn batch(name: &str, tasks: u32, run_ms: u64) -> Job {
    let group = TaskGroup::new(tasks, Amounts::new([1000, 1 << 30]));
    Job { runtime_estimate_ms: Some(run_ms), ..Job::batch(name, group) }
}

fn service(name: &str, tasks: u32) -> Job {
    Job { kind: JobKind::Service, ..batch(name, tasks, 1) }
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
    // An operator's label does not make the machine reachable.
    let add =
        ["machine", "add", "few-0", "--cpu", "64", "--memory", "256GiB", "--label", "team=ml"];
    assert_eq!(cell.run_omega(&add).code, Some(0));
    assert_eq!(cell.marked("few"), (2, 0));
    let output = cell.run_omega(&["machine", "get", "few-0", "-o", "json"]);
    assert!(output.stdout.contains("\"status\": \"unreachable\""), "{}", output.stdout);
    until(|| cell.job(job).running == 100);
    assert_eq!(cell.marked("few").1, 0, "nothing is placed on a lost machine");
    // After a restart of the server, the same machines are unreachable.
    cell.restart();
    until(|| cell.job(job).running == 100);
    assert_eq!(cell.marked("few"), (2, 0));
    let _few = cell.agent("few", 2, &[]);
    until(|| cell.marked("few").0 == 0);
    let output = cell.run_omega(&["machine", "get", "few-0", "-o", "json"]);
    assert!(output.stdout.contains("\"team\": \"ml\""), "{}", output.stdout);
    assert!(output.stdout.contains("\"omega.io/agent\""), "{}", output.stdout);
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
    let version = cell.version();
    let more = cell.submit(&service("more", 1));
    until(|| cell.job(more).running == 1);
    assert!(cell.version() > version);
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
    let services = submit_job(&runtime, &three.url(1), &service("services", 10));
    let mut jobs = Vec::new();
    for round in 0..3 {
        let leader = three.leader(&runtime);
        let other = leader % 3 + 1;
        let one = |i| {
            submit_job(&runtime, &three.url(other), &batch(&format!("{round}-{i}"), 20, 10_000))
        };
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
    let first = submit_job(&runtime, &url, &service("first", 4));
    until(|| job(&runtime, &url, first).running == 4);
    // The agent and the scheduler already have the address of the next leader, or get it from another replica.
    three.kill(leader);
    let second = submit_job(&runtime, &url, &service("second", 4));
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
