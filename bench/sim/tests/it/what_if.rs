//! `omega-sim what-if` on a cell in a directory or a backup.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use crate::support::{command, text};
use omega_run::replicas::Durability;
use omega_run::{RunOptions, run};
use omega_store::directory::EngineKind;
use omega_workload::csv;
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use tempfile::TempDir;

const MACHINES: &str = "name,cpu,memory,count\nm,4,8Gi,2\n";
/// A job with tasks of two cores: four of them fill both machines, and the fifth is pending.
const JOBS: &str = "name,count,cpu,memory\nweb,5,2,1Gi\n";
const MORE: [&str; 2] = ["--add-machines", "1,cpu=4,memory=8Gi"];

/// Creates the folder `cell` with a stored cell.
fn kept() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("m.csv"), MACHINES).unwrap();
    std::fs::write(path("j.csv"), JOBS).unwrap();
    let workload = csv::load(&path("m.csv"), &path("j.csv")).unwrap();
    let engine = EngineKind::Segment;
    let backend = Durability { dir: Some(path("cell")), replicas: 1, engine };
    let options = RunOptions { backend: Some(Arc::new(backend)), ..RunOptions::default() };
    run(workload, &options, &mut |_| {}).unwrap();
    dir
}

/// The names of all files in a folder, ascending.
fn listing(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn what_if(dir: &Path, more: &[&str]) -> Output {
    let mut command = command(&[&["what-if"], more].concat());
    command.current_dir(dir).output().expect("the command starts")
}

fn json(dir: &Path, more: &[&str]) -> Value {
    let said = what_if(dir, &[more, &["-o", "json"]].concat());
    assert_eq!((said.status.code(), &*text(&said.stderr)), (Some(0), ""), "{more:?}");
    serde_json::from_slice(&said.stdout).unwrap()
}

#[test]
fn a_machine_more_takes_what_waits_in_a_kept_cell() {
    let dir = kept();
    let before = listing(&dir.path().join("cell"));
    let from = ["--from", "cell", "--all"];
    let both = json(dir.path(), &[&from[..], &MORE].concat());
    let pending = |side: &str| both[side]["pending"].clone();
    assert_eq!(pending("unchanged"), serde_json::json!({"too little cpu left": 1}));
    assert_eq!(pending("changed"), serde_json::json!({}));
    let placed = |side: &str| both[side]["service"]["placed"].as_u64();
    assert_eq!((placed("unchanged"), placed("changed")), (Some(0), Some(1)));
    assert!(both["unchanged"]["service"]["whole"]["p50_s"].is_null(), "{both}");
    // The cell has no batch jobs.
    assert!(both["changed"]["batch"]["wait"]["p50_s"].is_null(), "{both}");
    assert!(both["changed"]["service"]["wait"]["p50_s"].is_number(), "{both}");
    assert_eq!(listing(&dir.path().join("cell")), before, "nothing is changed there");

    let said = what_if(dir.path(), &[&from[..], &MORE].concat());
    let printed = text(&said.stdout);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let has = |line: &str| printed.lines().any(|other| words(other) == words(line));
    assert!(has("tasks pending at the end 1 0"), "{printed}");
    assert!(has("too little cpu left 1 0"), "{printed}");
    assert!(printed.contains("service wait p50, p90, p99 s"), "{printed}");
}

#[test]
fn an_older_version_is_where_it_begins_and_profiles_may_be_others() {
    let dir = kept();
    std::fs::write(
        dir.path().join("p.toml"),
        "[[profile]]\nname = \"service\"\nbase = \"batch\"\n",
    )
    .unwrap();
    // Version 4 is after the machines and the job were added, but before any placement. The policy was set first.
    let early = ["--from", "cell", "--at", "4", "--profile", "p.toml"];
    let both = json(dir.path(), &early);
    assert_eq!(both["cell"], "cell at version v4");
    assert_eq!(both["unchanged"]["service"]["jobs"], 1, "{both}");
    assert_eq!(both["unchanged"]["pending"], both["changed"]["pending"]);
    assert!(both["changed"]["transactions"].as_u64() > Some(0), "{both}");
}

#[test]
fn what_cannot_be_asked_is_told_in_one_line() {
    let dir = kept();
    std::fs::write(dir.path().join("foreign"), "not a backup at all, whatever its name says")
        .unwrap();
    std::fs::write(dir.path().join("p.toml"), "[[profile]]\nname = \"cron\"\nbase = \"batch\"\n")
        .unwrap();
    let cases: [(&[&str], &str); 8] = [
        (
            &["--from", "cell"],
            "no change is given: give at least one of --profile, --add-machines, --machines, \
             --drain, --remove, --load and the --new- flags",
        ),
        (&["--from", "cell", "--drain", "m-7"], "the cell has no machine \"m-7\""),
        (
            &["--from", "cell", "--remove", "m-0", "--remove", "m-1"],
            "the change would remove \
             every machine: leave at least one",
        ),
        (
            &["--from", "foreign", "--at", "3", "--load", "2"],
            "--at and --all are only for the directory of a replica: a backup has a single version",
        ),
        (&["--from", "foreign", "--load", "2"], "foreign: is not a backup of a cell"),
        (
            &["--from", "nowhere", "--load", "2"],
            "--from nowhere: does not exist: give the backup of a cell, or the directory of a stopped replica",
        ),
        (
            &["--from", "cell", "--profile", "p.toml"],
            "p.toml:2:8: profile[0].name: the run has no scheduler \"cron\"; its schedulers are: \
             service, batch",
        ),
        (
            &["--from", "cell", "--load", "0"],
            "invalid value '0' for '--load <TIMES>': must be from 0.01 to 1000; see omega-sim \
             what-if --help",
        ),
    ];
    for (arguments, expected) in cases {
        let said = what_if(dir.path(), arguments);
        assert_eq!(
            (said.status.code(), text(&said.stdout), text(&said.stderr)),
            (Some(2), String::new(), format!("omega-sim: {expected}\n")),
            "{arguments:?}"
        );
    }
}
