//! Services: the machines of their tasks.

use crate::kit::cell::{Process, Served};
use crate::kit::process::omega;
use crate::kit::wait::until;
use std::collections::BTreeSet;
use std::process::Stdio;

const FILE: &str = "
[[job]]
name = 'file'
kind = 'service'
group = [{ count = 4, request = { cpu = 0.5 } }]

[[job]]
name = 'packed'
kind = 'service'
group = [{ count = 4, request = { cpu = 0.5 }, rules = [] }]
";

#[test]
fn tasks_of_a_service_prefer_different_machines() {
    let cell = Served::new(&[("jobs.toml", FILE)]);
    for machine in ["a", "b", "c", "d"] {
        cell.ok(&format!("machine add {machine} --cpu 8"));
    }
    let mut scheduler = omega(cell.path());
    scheduler.args(["scheduler", "--cell", &cell.address]).stdout(Stdio::null());
    let _scheduler = Process(scheduler.spawn().expect("a scheduler"));
    cell.ok("job submit flags --service --count 4 --cpu 0.5");
    cell.ok("job apply -f jobs.toml");
    cell.ok("job submit batch --count 4 --cpu 0.5");
    for (job, expected) in [("flags", 4), ("file", 4), ("packed", 1), ("batch", 1)] {
        cell.ok(&format!("job watch {job} --until placed"));
        let tasks = cell.json(&format!("task list --job {job}"));
        let tasks = tasks["items"].as_array().expect("a list");
        let machines = tasks.iter().filter_map(|task| task["machine"].as_str());
        assert_eq!(machines.collect::<BTreeSet<_>>().len(), expected, "{job}: {tasks:?}");
    }
    let again = "job file is unchanged\njob packed is unchanged\n";
    assert_eq!(cell.ok("job apply -f jobs.toml"), again);
    let written = cell.ok("job get file -o toml");
    assert!(!written.contains("rules"), "{written}");
    assert!(cell.ok("job get packed -o toml").contains("rules = []"));
}

const EACH: &str = "
name = 'each'
kind = 'service'
group = [{ per_machine = true, request = { cpu = 0.5 } }]
";

#[test]
fn a_drained_machine_is_removed_with_the_tasks_that_belong_to_it() {
    let cell = Served::new(&[("each.toml", EACH)]);
    for machine in ["a", "b"] {
        cell.ok(&format!("machine add {machine} --cpu 8"));
    }
    let mut scheduler = omega(cell.path());
    scheduler.args(["scheduler", "--cell", &cell.address]).stdout(Stdio::null());
    let _scheduler = Process(scheduler.spawn().expect("a scheduler"));
    cell.ok("job apply -f each.toml");
    until(|| ["a", "b"].iter().all(|name| cell.json(&format!("machine get {name}"))["tasks"] == 1));
    let why = cell.fails(1, "machine remove a");
    assert!(
        why.contains("machine a has 1 task: run `omega machine drain a --deadline 10m`"),
        "{why}"
    );
    cell.ok("machine drain a --deadline 0s");
    let drained = cell.ok("machine get a");
    assert!(drained.contains("draining, its deadline has passed"), "{drained}");
    assert_eq!(cell.ok("machine remove a"), "machine a is removed\n");
}
