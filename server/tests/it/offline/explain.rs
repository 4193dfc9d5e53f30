//! `omega explain`: the explanations of pending jobs, as text and as JSON.

use crate::kit::process::{CommandOutput, folder, omega, run_omega, workspace_file};
use serde_json::Value;

/// The tables of the documentation page.
const MACHINES: &str = include_str!("../../../../bench/examples/machines.csv");
const JOBS: &str = include_str!("../../../../bench/examples/jobs.csv");

/// Arguments with one batch scheduler, so that `base` is placed before `wide` is tried.
const TABLES: [&str; 6] = ["--machines", "m.csv", "--jobs", "j.csv", "--batch", "1"];

/// Explains a job of the tables, or one job for each reason. Returns the text and the JSON.
fn explain(job: Option<&str>) -> (String, Value) {
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", JOBS)]);
    let mut command = omega(dir.path());
    command.arg("explain").args(job).args(TABLES).args(["--json", "e.json"]);
    let result = CommandOutput::from(command.output().expect("omega starts"));
    assert_eq!((result.code, &*result.stderr), (Some(0), ""), "{job:?}");
    let json = std::fs::read_to_string(dir.path().join("e.json")).unwrap();
    (result.stdout, serde_json::from_str(&json).unwrap())
}

#[test]
fn what_would_help_is_told_of_the_job_that_is_named() {
    let (text, json) = explain(Some("wide"));
    let group = &json["jobs"][0]["groups"][0];
    assert_eq!((&group["machines"], &group["feasible"]), (&14.into(), &0.into()));
    // Ten machines are too small, the large one is full, and a taint excludes three.
    let remedies = group["remedies"].as_array().unwrap();
    assert_eq!(remedies[0]["what"], "room");
    assert_eq!(remedies[0]["machine"], "big");
    assert_eq!(remedies[1]["lacks"][0]["what"], "taints");
    assert_eq!(remedies[1]["machines"], 3);
    let taint =
        "  - with a toleration for the taint team=lab:NoSchedule: 3 machines would take it\n";
    assert!(text.contains(taint), "{text}");
    assert!(text.contains("more free on big: 1 machine could hold it if empty\n"), "{text}");
}

#[test]
fn what_fits_nowhere_needs_a_larger_machine() {
    let (text, json) = explain(Some("huge"));
    let help = &json["jobs"][0]["groups"][0]["remedies"][0];
    assert_eq!((&help["what"], &help["machine"]), (&"larger_machine".into(), &"big".into()));
    let lack = &help["lacks"][0];
    assert_eq!((&lack["kind"], &lack["missing"]), (&"cpu".into(), &67_000.into()));
    assert!(
        text.contains("huge: 3 of 3 tasks wait for a machine (scheduler service-0)\n"),
        "{text}"
    );
}

#[test]
fn a_gang_is_told_how_much_room_there_is() {
    let (_, json) = explain(Some("gang"));
    let gang = &json["jobs"][0]["gang"];
    let number = |field: &str| gang[field].as_u64().unwrap();
    assert_eq!((number("needs"), number("have")), (60, 0));
    // There are forty cores, of which `web` may have some.
    assert!((36..=40).contains(&number("room")), "{gang}");
}

#[test]
fn a_job_that_does_not_wait_is_no_error() {
    let (text, json) = explain(Some("web"));
    assert!(text.ends_with("\nweb does not wait: 4 tasks had room\n"), "{text}");
    assert_eq!(json["jobs"][0]["groups"], Value::Array(Vec::new()));
}

#[test]
fn without_a_name_each_reason_has_its_job() {
    let (text, json) = explain(None);
    assert_eq!(json["pending"], 65);
    let jobs: Vec<&str> =
        json["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert!((1..=5).contains(&jobs.len()) && jobs.contains(&"gang"), "{jobs:?}");
    for job in jobs {
        assert!(text.contains(&format!("\n{job}: ")), "{text}");
    }
}

#[test]
fn every_input_of_a_run_can_be_explained() {
    let cluster = workspace_file("bench/examples/cluster.json");
    let dir = folder(&[]);
    let inputs: [&[&str]; 2] =
        [&["--cluster", cluster.to_str().unwrap()], &["--synthetic", "50", "--hours", "1"]];
    for input in inputs {
        let output = run_omega(dir.path(), &[&["explain"], input].concat());
        assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{input:?}");
        assert!(output.stdout.contains(" without a machine at the end\n"), "{}", output.stdout);
    }
}

#[test]
fn a_job_that_is_not_in_the_input_may_be_in_a_served_cell() {
    let dir = folder(&[]);
    let output = run_omega(dir.path(), &["explain", "--synthetic", "50", "--hours", "1", "web"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    let response = "; for a served cell: `omega job explain web`\n";
    assert!(output.stderr.ends_with(response), "{}", output.stderr);
}
