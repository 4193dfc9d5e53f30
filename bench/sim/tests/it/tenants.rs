//! Waits of tenants in the report of a run.

use crate::support::{command, text};
use serde_json::Value;
use std::path::Path;

/// The job of the tenant `late` arrives at the end of the run, so it is never tried. The job of `there` already runs.
const JOBS: &str = "name,count,cpu,memory,arrival_s,run_s,tenant\n\
    a,1,1,1Gi,1,5,early\nb,1,1,1Gi,20,5,late\nc,1,1,1Gi,0,50,there\n";

fn run(dir: &Path, output: &str) -> String {
    let words =
        "run --machines m.csv --jobs j.csv --placements p.csv --end 0.005555555555555556 -o";
    let words: Vec<&str> = words.split(' ').chain([output]).collect();
    let said = command(&words).current_dir(dir).output().expect("the command starts");
    assert_eq!((said.status.code(), text(&said.stderr)), (Some(0), String::new()));
    text(&said.stdout)
}

#[test]
fn a_tenant_whose_jobs_were_never_tried_has_no_waits() {
    let dir = tempfile::tempdir().unwrap();
    let machines = "name,cpu,memory\nm,4,8Gi\n";
    for (name, content) in [("m.csv", machines), ("j.csv", JOBS), ("p.csv", "job,machine\nc,m\n")] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    let report: Value = serde_json::from_str(&run(dir.path(), "json")).unwrap();
    let tenants = report["tenants"].as_array().expect("a list");
    let of = |name: &str| {
        let one = tenants.iter().find(|one| one["name"] == name).expect("it is reported");
        let waits = ["wait", "placed"].map(|times| one[times]["p50_s"].is_number());
        (one["jobs"].as_u64(), one["jobs_tried"].as_u64(), waits)
    };
    assert_eq!(of("early"), (Some(1), Some(1), [true; 2]));
    assert_eq!(of("late"), (Some(1), Some(0), [false; 2]));
    assert_eq!(of("there"), (Some(1), Some(0), [false; 2]));
    let late = tenants.iter().find(|one| one["name"] == "late").expect("it is reported");
    assert!(late["wait"].is_null() && late["placed"].is_null(), "{late}");

    let printed = run(dir.path(), "table");
    let columns = |name: &str| {
        let row = printed.lines().find(|line| line.split_whitespace().next() == Some(name));
        row.expect("it has a row").split_whitespace().count()
    };
    // Six columns of times follow the name, the numbers and the shares.
    assert_eq!([columns("early"), columns("late"), columns("there")], [12, 6, 6], "{printed}");
}
