//! Capacity planning: answers that can be counted by hand, answers at both ends of the search, and invalid arguments.

use crate::support::{omega_sim, text};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// Two tables in a folder: this many machines of 4 cores, and these jobs.
fn tables(dir: &Path, machines: usize, jobs: &str) -> [String; 4] {
    let file = |name: &str, content: String| {
        let file = dir.join(name);
        std::fs::write(&file, content).expect("written");
        file.to_str().expect("text").to_owned()
    };
    let machines = file("machines.csv", format!("name,cpu,memory,count\nm,4,8Gi,{machines}\n"));
    let jobs = file("jobs.csv", format!("name,count,cpu,memory,arrival_s,run_s\n{jobs}"));
    ["--machines".into(), machines, "--jobs".into(), jobs]
}

/// Rows of jobs with one task of two cores that are present from the start and never end. Two of these tasks fill a
/// machine.
fn tenant_config(jobs: usize) -> String {
    (0..jobs).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "web-{i},1,2,1Gi,0,");
        text
    })
}

/// Runs the command. Returns stdout, stderr and the exit code.
fn capacity(tables: &[String], more: &[&str]) -> (String, String, Option<i32>) {
    let own = tables.iter().map(String::as_str);
    let args: Vec<&str> = ["capacity"].into_iter().chain(own).chain(more.iter().copied()).collect();
    let output = omega_sim(&args);
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// Runs the command. Returns its JSON result.
fn json(tables: &[String], more: &[&str]) -> Value {
    let more: Vec<&str> = more.iter().copied().chain(["-o", "json", "--precision", "0"]).collect();
    let (printed, complained, code) = capacity(tables, &more);
    assert_eq!((complained.as_str(), code), ("", Some(0)));
    serde_json::from_str(&printed).expect("it is JSON")
}

fn probe<'a>(finding: &'a Value, number: &Value) -> &'a Value {
    let probes = finding["probes"].as_array().expect("a list");
    probes.iter().find(|probe| probe["number"] == *number).expect("it was tried")
}

#[test]
fn machines_and_load_are_counted_to_the_last() {
    let dir = tempfile::tempdir().expect("a folder");
    let tables = tables(dir.path(), 8, &tenant_config(10));
    let report = json(&tables, &["--placed", "100%"]);
    let [machines, load] = &report["findings"].as_array().expect("a list")[..] else {
        panic!("two questions: {report}");
    };
    // Each machine has room for two of the ten tasks.
    assert_eq!(
        (&machines["answer"]["holds"], &machines["answer"]["fails"]),
        (&5.into(), &4.into())
    );
    // Eight machines have room for sixteen tasks.
    let (holds, fails) = (&load["answer"]["holds"], &load["answer"]["fails"]);
    assert_eq!(holds.as_u64().map(|holds| holds + 1), fails.as_u64());
    assert_eq!(probe(load, holds)["jobs"], 16);
    assert_eq!(probe(load, fails)["jobs"], 17);
}

#[test]
fn probes_and_answers_are_told_and_the_report_has_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let tables = tables(dir.path(), 8, &tenant_config(10));
    let out = dir.path().join("out");
    let more = ["--placed", "1", "--find", "machines", "--out", out.to_str().expect("text")];
    let (printed, complained, code) = capacity(&tables, &more);
    assert_eq!((complained.as_str(), code), ("", Some(0)));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines.contains(&"must hold: at least 100 % of all jobs are placed whole"), "{printed}");
    assert!(lines.contains(&"        4   1.000        10            80.00 %  no"), "{printed}");
    assert!(lines.contains(&"        5   1.000        10           100.00 %  yes"), "{printed}");
    assert!(lines.contains(&"5 machines are enough, 4 are not; the workload has 8"), "{printed}");
    let page = std::fs::read_to_string(out.join("report.html")).expect("a page");
    assert!(page.contains("5 machines are enough, 4 are not") && page.contains("<svg"));
    assert!(out.join("plots/machines-placed.png").exists());
}

#[test]
fn both_ends_have_answers_of_their_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let last = |jobs: &str, more: &[&str]| {
        let tables = tables(dir.path(), 2, jobs);
        let (printed, complained, code) = capacity(&tables, more);
        assert_eq!(complained, "");
        (printed.lines().last().expect("an answer").to_owned(), code)
    };
    let placed = |find| ["--placed", "100%", "--find", find];
    assert_eq!(
        last(&tenant_config(2), &placed("machines")),
        ("even one machine is enough; the workload has 2".into(), Some(0))
    );
    // No machine has five cores.
    let large = "large,1,5,1Gi,0,\n";
    assert_eq!(
        last(large, &placed("machines")),
        ("up to 20 machines, no number is enough; the workload has 2".into(), Some(1))
    );
    assert_eq!(
        last(large, &placed("load")),
        ("2 machines do not carry 0.010 times the load, the smallest load tried".into(), Some(1))
    );
    let little = "small,1,0.1,1Mi,0,\n";
    assert_eq!(
        last(little, &["--placed", "100%", "--find", "load", "--load-most", "7.5"]),
        ("2 machines carry 7.500 times the load, the largest load tried".into(), Some(0))
    );
}

#[test]
fn a_scheduler_that_thinks_a_second_carries_what_it_has_time_for() {
    let dir = tempfile::tempdir().expect("a folder");
    // A job every two seconds for twenty minutes, so the batch scheduler is busy half of the time.
    let jobs = (0..600).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "job-{i},1,0.1,1Mi,{},1", i * 2);
        text
    });
    let tables = tables(dir.path(), 8, &jobs);
    let thinks = ["--t-job-batch", "1", "--t-task-batch", "0"];
    let find = |objective: &str, what| {
        let asked = [&thinks[..], &["--wait-p90", objective, "--find", what]].concat();
        json(&tables, &asked)["findings"][0]["answer"].clone()
    };
    let load = find("batch=20s", "load")["holds"].as_u64().expect("an answer");
    assert!((1500..2400).contains(&load), "{load}");
    // More machines do not reduce the wait for the batch scheduler.
    assert_eq!(find("20s", "machines")["holds"], 1);
    // Without jobs, every load would meet the objective.
    let (_, why, code) = capacity(&tables, &["--wait-p90", "service=0s"]);
    assert!(why.contains("the workload has no jobs for the objective"), "{why}");
    assert_eq!(code, Some(2));
}

#[test]
fn a_job_waits_until_it_is_placed_or_the_simulation_ends() {
    let dir = tempfile::tempdir().expect("a folder");
    let most = |jobs: &str, objective: &str| {
        let tables = tables(dir.path(), 8, jobs);
        json(&tables, &["--find", "machines", "--wait-p90", objective])["findings"][0]["answer"]
            .clone()
    };
    // Each of the ten jobs, one every second, fills a machine for 100 seconds. With n machines, every n-th job waits for
    // the end of another, so the last jobs wait for 100 seconds, 200, ... Nine of ten wait at most the time of the
    // second to last.
    let jobs = (0..10).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "job-{i},1,4,1Gi,{},100", i + 1);
        text
    });
    assert_eq!(most(&jobs, "30s")["holds"], 9);
    assert_eq!(most(&jobs, "150s")["holds"], 5);
    // Ten jobs that are there from the start, and never end, fill ten machines. On fewer, some wait until the end.
    let jobs = tenant_config(10).replace(",2,1Gi", ",4,1Gi");
    assert_eq!(most(&jobs, "30s")["holds"], 10);
}

#[test]
fn the_use_of_a_cell_is_measured_while_jobs_arrive() {
    let dir = tempfile::tempdir().expect("a folder");
    // A job fills a machine for ten minutes, until the last job arrives.
    let tables = tables(dir.path(), 2, "full,1,4,1Gi,0,600\nlast,1,0.001,1Mi,599,\n");
    let report = json(&tables, &["--find", "machines", "--used", "60%"]);
    let found = &report["findings"][0];
    assert_eq!((&found["answer"]["holds"], &found["answer"]["fails"]), (&2.into(), &1.into()));
    let used = probe(found, &2.into())["figures"][0].as_f64().expect("a share");
    assert!((0.49..0.51).contains(&used), "{used}");
}

#[test]
fn bad_arguments_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let tables = tables(dir.path(), 2, &tenant_config(1));
    let cases: [(&[&str], &str); 8] = [
        (&[], "the following required arguments were not provided"),
        (&["--placed", "many"], "must be a share such as 99% or 0.99"),
        (&["--placed", "101%"], "must be a share such as 99% or 0.99"),
        (&["--wait-p90", "30"], "must be a time such as 500ms, 30s, 2m or 1h"),
        (&["--wait-p90", "cron=3s"], "\"cron\" is not a kind of job: it must be batch or service"),
        (&["--placed", "1", "--load-most", "0"], "must be from 0.01 to 1000"),
        (&["--placed", "1", "--machines-most", "0"], "0 is not in 1..=1048576"),
        (&["--placed", "1", "--end", "0"], "must be more than 0 hours, and at most 8760"),
    ];
    for (more, expected) in cases {
        let (printed, complained, code) = capacity(&tables, more);
        assert!(complained.contains(expected), "{more:?}: {complained}");
        assert_eq!((printed.as_str(), code), ("", Some(2)));
    }
}
