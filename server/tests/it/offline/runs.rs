//! Every kind of input except traces, and every kind of run.

use crate::kit::outcome::{run, run_in};
use crate::kit::process::{CommandOutput, folder, omega, run_omega, workspace_file};
use std::process::{Command, Stdio};

/// Arguments for a synthetic cell that is placed within a moment.
const SMALL: [&str; 4] = ["--synthetic", "200", "--hours", "1"];

const MACHINES: &str = "name,cpu,memory,count,rack\nm,4,8Gi,10,r1\nbig,32,64Gi,,r2\n";
const JOBS: &str = "name,count,cpu,memory,arrival_s,run_s,require\n\
    web,4,1,1Gi,0,,\nwide,2,8,16Gi,1,,rack=r2\nhuge,3,99,1Gi,2,,\nshort,20,0.5,1Gi,3,1,\n\
    late,1,1,1Gi,10,,\n";

/// Arguments of a small synthetic run, with additional arguments.
fn small(more: &[&'static str]) -> Vec<&'static str> {
    [&["run"], &SMALL[..], more].concat()
}

#[test]
fn a_synthetic_cell_is_placed() {
    let outcome = run(&small(&[]), 1.0);
    assert_eq!(outcome.number("machines"), 200);
    assert_eq!(outcome.json["schedulers"].as_array().unwrap().len(), 4);
    assert!(outcome.number("placements") > 0);
}

#[test]
fn omega_alone_is_omega_run() {
    let (alone, with_command) = (run(&SMALL, 1.0), run(&small(&[]), 1.0));
    for field in ["name", "seed", "machines", "jobs", "tasks"] {
        assert_eq!(alone.json[field], with_command.json[field], "{field}");
    }
}

#[test]
fn the_seed_makes_the_workload() {
    let tasks = |seed| run(&small(&["--seed", seed]), 1.0).number("tasks");
    assert_eq!(tasks("7"), tasks("7"));
    assert_ne!(tasks("7"), tasks("8"));
}

#[test]
fn every_way_to_run_ends_with_a_sound_result() {
    let ways: [&[&str]; 10] = [
        &["--all-or-nothing"],
        &["--sequence-check"],
        &["--all-or-nothing", "--sequence-check", "--claims", "1"],
        &["--search", "full"],
        &["--search", "sampled"],
        &["--search", "indexed"],
        &["--search", "adaptive", "--claims", "10000"],
        &["--service", "4", "--batch", "8"],
        &["--service", "1", "--batch", "1", "--claims", "1"],
        &["--quiet", "--seed", "18446744073709551615"],
    ];
    for way in ways {
        let outcome = run(&small(way), 1.0);
        assert!(outcome.number("placements") > 0, "{way:?}");
    }
}

#[test]
fn schedulers_run_by_the_profiles_of_a_file() {
    // Two tasks of one core share a machine if they are packed, but not if they are spread.
    let tables = [
        ("m.csv", "name,cpu,memory,count\nm,4,8Gi,20\n"),
        ("j.csv", "name,kind,count,cpu,memory\nweb,service,2,1,1Gi\n"),
    ];
    for (score, machines) in [("most_allocated", 1), ("NodeResourcesLeastAllocated", 2)] {
        let profile = format!(
            "[[profile]]\nname = \"service\"\nbase = \"empty\"\nsearch = \"full\"\n\
             [[profile.score]]\nplugin = \"{score}\"\n"
        );
        let dir = folder(&[tables[0], tables[1], ("p.toml", &profile)]);
        let files = ["--machines", "m.csv", "--jobs", "j.csv", "--profile", "p.toml"];
        let outcome = run_in(dir.path(), &files, 1.0);
        let heat = outcome.json["heat"].as_array().unwrap();
        let used = heat.iter().filter(|machine| machine["used"][0] != 0.0).count();
        assert_eq!((outcome.number("placements"), used), (2, machines), "{score}");
    }
}

#[test]
fn the_example_profiles_place_a_cell() {
    let file = workspace_file("schedulers/examples/profiles.toml");
    let outcome = run(&[&SMALL[..], &["--profile", file.to_str().unwrap()]].concat(), 1.0);
    assert!(outcome.number("placements") > 0);
}

#[test]
fn a_kubernetes_cluster_is_placed_around_what_runs() {
    let file = workspace_file("bench/examples/cluster.json");
    let outcome = run(&["run", "--cluster", file.to_str().unwrap()], 1.0);
    assert_eq!(outcome.number("machines"), 6);
    assert_eq!(outcome.number("placed_at_start"), 15);
    assert!(outcome.table.contains("\nran at the start  15 tasks\n"), "{}", outcome.table);
    assert!(outcome.table.contains("\nnotes\n"), "{}", outcome.table);
}

#[test]
fn the_rows_of_a_kubernetes_cluster_name_its_objects() {
    let file = workspace_file("bench/examples/cluster.json");
    let dir = folder(&[]);
    let output =
        run_omega(dir.path(), &["run", "--cluster", file.to_str().unwrap(), "--placed", "-"]);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    let rows: Vec<Vec<&str>> =
        output.stdout.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let is_named = |row: &Vec<&str>| row[0] == "0.000" && row[1].contains('/');
    assert!(!rows.is_empty() && rows.iter().all(is_named), "{}", output.stdout);
}

#[test]
fn two_tables_are_placed() {
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", JOBS)]);
    let outcome = run_in(dir.path(), &["--machines", "m.csv", "--jobs", "j.csv"], 1.0);
    assert_eq!(outcome.json["name"], "j");
    assert_eq!(outcome.number("machines"), 11);
    // All tasks are placed except those that are larger than any machine; `short` ends before `late` arrives.
    let count = |field| outcome.number(field);
    assert_eq!([count("tasks"), count("pending"), count("finished")], [30, 3, 20]);
    let unplaced = &outcome.json["unplaced"];
    assert_eq!((&unplaced[0]["example"], &unplaced[1]), (&"huge".into(), &().into()));
}

#[test]
fn tables_come_in_any_dress() {
    let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let (machines, jobs) = (windows(MACHINES), windows(JOBS));
    let files = [("m.csv", &*machines), ("j.csv", &*jobs), ("m.gz", MACHINES), ("j.gz", JOBS)];
    let dir = folder(&files);
    for [machines, jobs] in [["m.csv", "j.csv"], ["m.gz", "j.gz"], ["m.csv", "j.gz"]] {
        let outcome = run_in(dir.path(), &["--machines", machines, "--jobs", jobs], 1.0);
        assert_eq!((outcome.number("tasks"), outcome.number("pending")), (30, 3));
    }
}

#[test]
fn a_cell_without_jobs_is_a_cell() {
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", "name,count,cpu,memory\n")]);
    let outcome = run_in(dir.path(), &["--machines", "m.csv", "--jobs", "j.csv"], 1.0);
    assert_eq!((outcome.number("tasks"), outcome.number("placements")), (0, 0));
}

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let machines = "name,cpu,memory\nm,4,8Gi\n";
    let jobs = "name,count,cpu,memory,gang\nfits,2,1,1Gi,all\nwide,3,1,1Gi,all\n";
    let dir = folder(&[("m.csv", machines), ("j.csv", jobs)]);
    let outcome = run_in(dir.path(), &["--machines", "m.csv", "--jobs", "j.csv"], 1.0);
    assert_eq!((outcome.number("placements"), outcome.number("pending")), (2, 3));
}

#[test]
fn what_has_ended_makes_room_however_fast_the_run() {
    // Each job fills the cell, and ends long before the next one arrives.
    let jobs: String = (0..50).map(|i| format!("j{i},4,1,1Gi,{},10\n", i * 60)).collect();
    let jobs = format!("name,count,cpu,memory,arrival_s,run_s\n{jobs}");
    let dir = folder(&[("m.csv", "name,cpu,memory\nm,4,8Gi\n"), ("j.csv", &jobs)]);
    let outcome = run_in(dir.path(), &["--machines", "m.csv", "--jobs", "j.csv"], 1.0);
    let count = |field| outcome.number(field);
    // The tasks of the last job run until after the end of the workload.
    assert_eq!([count("placements"), count("pending"), count("finished")], [200, 0, 196]);
}

#[test]
fn a_pace_lets_the_workloads_time_pass() {
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", JOBS)]);
    let arguments = ["--machines", "m.csv", "--jobs", "j.csv", "--speed", "1000"];
    let outcome = run_in(dir.path(), &arguments, 1.0);
    // At a thousandfold speed, ten seconds take a hundredth of a second, or longer on a busy processor, so only the
    // lower bound is checked.
    let wall_s = outcome.json["wall_s"].as_f64().unwrap();
    assert!(wall_s >= 0.01, "{wall_s}");
    assert_eq!(outcome.json["workload_s"], 10.0);
    let series = outcome.json["series"].as_array().unwrap();
    let times = |field: &str| series.iter().map(|s| s[field].as_f64().unwrap()).collect::<Vec<_>>();
    assert!(times("wall_s").is_sorted() && times("workload_s").is_sorted());
}

#[test]
fn help_and_version_are_answers() {
    let dir = folder(&[]);
    for [argument, expected] in
        [["--help", "Usage: omega"], ["--version", "omega "], ["-h", "rebalance"]]
    {
        let output = run_omega(dir.path(), &[argument]);
        assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{argument}");
        assert!(output.stdout.contains(expected), "{}", output.stdout);
    }
}

/// The part of a result that is not measured by a clock.
fn without_clocks(mut json: serde_json::Value) -> serde_json::Value {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                let measured = [
                    "wall_s",
                    "cpu_s",
                    "placements_per_s",
                    "decision_us_p50",
                    "decision_us_p99",
                    "deciding_s",
                    "wasted_s",
                ];
                fields.retain(|name, _| !measured.contains(&name.as_str()));
                fields.values_mut().for_each(strip);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut json);
    json
}

#[test]
fn lock_step_gives_one_result_for_a_seed() {
    let of = |seed| run(&small(&["--deterministic", "--seed", seed]), 1.0);
    let first = of("3");
    assert!(first.number("placements") > 0);
    let result = without_clocks(first.json);
    assert_eq!(without_clocks(of("3").json), result);
    assert_ne!(without_clocks(of("4").json), result);
}

#[test]
fn lock_step_has_the_conflicts_of_schedulers_that_decide_at_once() {
    // Eight schedulers place forty jobs on four machines at the same time, and as many later. If there were races, this
    // case would show them.
    let jobs: String = (0..80).map(|i| format!("j{i},3,1,1Gi,{},7\n", i / 40)).collect();
    let jobs = format!("name,count,cpu,memory,arrival_s,run_s\n{jobs}");
    let dir = folder(&[("m.csv", "name,cpu,memory,count\nm,16,64Gi,4\n"), ("j.csv", &jobs)]);
    let files = ["--machines", "m.csv", "--jobs", "j.csv", "--batch", "8", "--deterministic"];
    let runs: Vec<_> =
        (0..3).map(|_| without_clocks(run_in(dir.path(), &files, 1.0).json)).collect();
    let schedulers = runs[0]["schedulers"].as_array().unwrap();
    let conflicts: u64 = schedulers.iter().map(|one| one["conflicts"].as_u64().unwrap()).sum();
    assert!(conflicts > 0, "schedulers that decide on the same version conflict");
    assert!(runs.iter().all(|run| *run == runs[0]));
}

#[test]
fn lock_step_goes_with_neither_disks_nor_the_clock() {
    let dir = folder(&[]);
    for with in [["--speed", "60"], ["--replicas", "1"], ["--dir", "cell"]] {
        let output = run_omega(dir.path(), &small(&[&["--deterministic"], &with[..]].concat()));
        assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{with:?}");
        assert!(output.stderr.contains("cannot be used with"), "{}", output.stderr);
    }
}

/// Whether a process has a handler for a signal of this number.
#[cfg(target_os = "linux")]
fn handles(pid: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_tells_what_it_did() {
    const SIGINT: u32 = 2;
    // In trace time, the last job would arrive after a day.
    let jobs = "name,count,cpu,memory,arrival_s\nnow,4,1,1Gi,0\nlate,1,1,1Gi,86400\n";
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", jobs)]);
    let files = ["--machines", "m.csv", "--jobs", "j.csv"];
    let outputs = ["--json", "result.json", "--report", "page.html", "--placed", "placed.csv"];
    let mut command = omega(dir.path());
    command
        .args(files)
        .args(outputs)
        .args(["--speed", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while !handles(child.id(), SIGINT) {
        assert_eq!(child.try_wait().unwrap(), None, "it runs for a day");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    let expected = "omega: interrupted: the result covers only what was done until then\n";
    assert_eq!((output.code, &*output.stderr), (Some(130), expected));
    assert!(
        output.stdout.contains("1 job, 4 tasks; 0 s of workload, interrupted"),
        "{}",
        output.stdout
    );
    let json = std::fs::read_to_string(dir.path().join("result.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["interrupted"], &json["jobs"]), (&true.into(), &1.into()));
    let count = |field: &str| json[field].as_u64().unwrap();
    assert_eq!(count("placements") + count("pending"), 4);
    let last = json["series"].as_array().unwrap().last().unwrap();
    assert_eq!(last["placements"], json["placements"]);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("of workload, interrupted"));
    let rows = std::fs::read_to_string(dir.path().join("placed.csv")).unwrap();
    assert_eq!(rows.lines().count() as u64, 1 + count("placements"));
}
