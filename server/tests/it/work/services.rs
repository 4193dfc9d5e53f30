//! Services: the machines of their tasks.

use crate::cell::served::Process;
use crate::kit::process::omega;
use crate::work::commands::Served;
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
