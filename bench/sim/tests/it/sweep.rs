//! Sweeps: each combination runs once, tables are reproducible, and only missing points are run again. A bad file gives
//! one error line.

use crate::support::{command, omega_sim, text};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

const FILE: &str = "[input]\nsynthetic = 40\nhours = 1\n\n[sweep]\narch = [\"mono-multi\", \"omega\"]\n\
    t_job_service = [0.1, 10]\nbatch = 2\nseed = [1, 2]\n";

/// Runs a sweep whose file has this text. Returns stdout, stderr and the exit code.
fn sweep(dir: &Path, content: &str) -> (String, String, Option<i32>) {
    let file = dir.join("file.toml");
    std::fs::write(&file, content).expect("written");
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    let output = omega_sim(&["sweep", &path(&file), "--out", &path(&dir.join("out"))]);
    let plain = |bytes: &[u8]| text(bytes).replace(&format!("{}/", dir.display()), "");
    (plain(&output.stdout), plain(&output.stderr), output.status.code())
}

fn results(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("out/results.csv")).expect("it was written")
}

#[test]
fn every_combination_is_run_once_and_only_what_is_missing_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let there = |kept| format!("out/results.csv: 8 points, of which already there: {kept}\n");
    assert_eq!(sweep(dir.path(), FILE), (there(0), String::new(), Some(0)));
    let first = results(dir.path());
    // The monolithic architecture has one row for its scheduler; an architecture with two batch schedulers and one
    // service scheduler has three rows.
    assert_eq!(first.lines().count(), 1 + 4 + 4 * 3, "{first}");
    let fields = |line: &str| line.split(',').count();
    let columns = first.lines().next().map(fields);
    assert!(first.lines().all(|line| Some(fields(line)) == columns), "{first}");
    let begins = "omega,2,1,0.1,0.005,10,0.005,fit,incremental,0,1,8,2,unlimited,2,service-1,";
    assert!(first.lines().any(|line| line.starts_with(begins)), "{first}");
    // The file of one point is missing, and that of another is incomplete.
    std::fs::remove_file(dir.path().join("out/point-00003.json")).expect("it was there");
    std::fs::write(dir.path().join("out/point-00005.json"), "{\"point\":").expect("written");
    assert_eq!(sweep(dir.path(), FILE), (there(6), String::new(), Some(0)));
    assert_eq!(results(dir.path()), first);
}

/// The files below a folder, by their names.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            all.extend(
                files(&path).into_iter().map(|(below, file)| (format!("{name}/{below}"), file)),
            );
        } else {
            all.insert(name, std::fs::read(&path).expect("it is read"));
        }
    }
    all
}

/// Number of complete points in a folder.
fn points(dir: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".json")).count()
}

#[test]
fn a_sweep_that_is_killed_goes_on_to_the_very_same_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let content =
        FILE.replace("synthetic = 40", "synthetic = 400").replace("[1, 2]", "[1, 2, 3, 4]");
    assert_eq!(sweep(dir.path(), &content).2, Some(0));
    let whole = files(&dir.path().join("out"));
    // A run may end before the test sees that it has started; then the test kills another run.
    for attempt in 0..20 {
        let out = dir.path().join(format!("killed-{attempt}"));
        let [file, out_text] = [dir.path().join("file.toml"), out.clone()]
            .map(|path| path.to_string_lossy().into_owned());
        let mut killed = command(&["sweep", &file, "--out", &out_text]);
        let mut killed = killed.stdout(Stdio::null()).spawn().expect("it starts");
        while points(&out) < 2 && killed.try_wait().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
        killed.kill().expect("it is ours");
        killed.wait().expect("it is ours");
        let there = points(&out);
        if there == 16 {
            continue;
        }
        let said = omega_sim(&["sweep", &file, "--out", &out_text]);
        let there = format!("results.csv: 16 points, of which already there: {there}\n");
        assert!(text(&said.stdout).ends_with(&there), "{}{there}", text(&said.stdout));
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        let again = files(&out);
        assert_eq!(names(&again), names(&whole));
        assert!(again == whole, "the same names, but other bytes");
        return;
    }
    panic!("no run was caught before its end");
}

#[test]
fn a_folder_takes_no_other_sweep() {
    let dir = tempfile::tempdir().expect("a folder");
    let small = FILE.replace("[1, 2]", "1").replace("[0.1, 10]", "0.1");
    assert_eq!(sweep(dir.path(), &small).2, Some(0));
    let other = small.replace("hours = 1", "hours = 2");
    let message = "omega-sim: out/sweep.toml: this folder has results of another sweep, or the \
         sweep's file has changed since: choose another folder\n";
    assert_eq!(sweep(dir.path(), &other), (String::new(), message.into(), Some(2)));
}

#[test]
fn a_value_that_is_listed_twice_is_named() {
    for (list, named) in [
        ("seed = [1, 2, 1]", "seed: lists 1 twice"),
        ("pickiness = [0.5, 0.50]", "pickiness: lists 0.5 twice"),
        ("arch = [\"omega\", \"mesos\", \"omega\"]", "arch: lists omega twice"),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let (printed, complained, code) = sweep(dir.path(), &format!("[sweep]\n{list}\n"));
        let message = format!("omega-sim: file.toml: {named}: list each value once\n");
        assert_eq!((printed, complained, code), (String::new(), message, Some(2)));
    }
}

#[test]
fn a_bad_file_is_told_in_one_line() {
    let cases = [
        ("[sweep]\nspeed = 3\n", "file.toml:2: unknown field `speed`"),
        (
            "[sweep]\nseed = []\n",
            "file.toml: seed: has an empty list, so the sweep has no points: list at least one \
             value",
        ),
        ("[sweep]\nbatch = 0\n", "file.toml: batch: must be at least 1"),
        ("[sweep]\nt_job_batch = [1, -1]\n", "file.toml: t_job_batch: must be a number of seconds"),
        ("[sweep]\npickiness = nan\n", "file.toml: pickiness: must be a share from 0 to 1"),
        ("[sweep]\n[input]\ntrace = \"openb\"\n", "file.toml: [input]: a trace needs `data`"),
        (
            "[sweep]\n[input]\njobs = \"j.csv\"\n",
            "file.toml: [input]: `machines` and `jobs` must be given together",
        ),
        ("[sweep]\n[input]\nhours = 0\n", "file.toml: [input]: hours must be from 1 to 8760"),
        (
            "[sweep]\n[input]\nhours = 0.1\n",
            "file.toml:3: input.hours: must be a whole number from 1 to 8760",
        ),
        ("end = 0\n[sweep]\n", "file.toml: end: must be more than 0 hours, and at most 8760"),
        (
            "[sweep]\n[input]\ncluster = \"c.json\"\nhours = 2\n",
            "file.toml: [input]: `synthetic` and `hours` are only for a synthetic workload: use \
             `end` to set the end of a run",
        ),
        (
            "[sweep]\n[input]\ntrace = \"azure\"\ndata = \"d\"\non = \"5\"\n",
            "file.toml:5: input.on: \"\" must be KIND=AMOUNT, such as cpu=64 or memory=256Gi",
        ),
        (
            "[sweep]\n[input]\ntrace = \"openb\"\ndata = \"d\"\non = \"5,cpu=1\"\n",
            "file.toml: [input]: --on is only for --trace azure and --trace swf",
        ),
        ("[sweep]\nbatch = \"x\"\n", "file.toml:2: sweep.batch: "),
        ("[input]\n", "missing field `sweep`"),
        ("sweep\n", "file.toml:1: "),
    ];
    for (content, expected) in cases {
        let dir = tempfile::tempdir().expect("a folder");
        let (printed, complained, code) = sweep(dir.path(), content);
        assert!(complained.contains(expected), "{content:?}: {complained}");
        assert_eq!(
            (printed.as_str(), code, complained.lines().count()),
            ("", Some(2), 1),
            "{complained}"
        );
        assert!(!dir.path().join("out").exists(), "nothing is made for a bad file");
    }
    let many = format!("[sweep]\nseed = {:?}\nprobes = {:?}\n", [1; 400], [1; 400]);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(
        sweep(dir.path(), &many)
            .1
            .contains("the lists give 160000 points: a sweep may have at most 100000")
    );
}

#[test]
fn a_log_of_a_queue_is_swept_on_machines_that_the_file_names_and_ends_when_it_says() {
    let dir = tempfile::tempdir().expect("a folder");
    // Fields are number, submission, wait, run time, processors, and others. The log has three jobs of one processor, a
    // minute apart.
    let job = |n: u32| format!("{n} {} 0 30 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n", (n - 1) * 60);
    let log: String = (1..=3).map(job).collect();
    std::fs::write(dir.path().join("log.swf"), log).expect("written");
    let data = dir.path().join("log.swf");
    let content = format!(
        "end = 0.025\n[input]\ntrace = \"swf\"\ndata = {data:?}\non = \"2,cpu=4\"\n[sweep]\n"
    );
    let (_, complained, code) = sweep(dir.path(), &content);
    assert_eq!((complained.as_str(), code), ("", Some(0)));
    let point = std::fs::read_to_string(dir.path().join("out/point-00000.json")).expect("written");
    assert!(point.contains("\"machines\": 2,"), "{point}");
    // The run ends after a minute and a half, before the third job arrives.
    assert!(point.contains("\"tasks_placed\": 2,"), "{point}");
    assert!(point.contains("\"jobs\": 2,"), "{point}");
}
