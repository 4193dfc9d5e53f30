//! Repetition of the published runs: each test run repeats two files completely, and some rows of the others.

use crate::support::{omega_sim, text};
use omega_sim::compat::{Got, JobList, JobLists, ReferenceFile, run_point};
use omega_workload::public_data;

/// Compares rows of a file; returns stdout and the exit code.
fn compat(reference: &std::path::Path, rows: Option<&str>) -> (String, Option<i32>) {
    let Some(dir) = public_data("omega-sim") else { return Default::default() };
    let (reference, dir) = (reference.to_str().expect("text"), dir.to_str().expect("text"));
    let mut args = vec!["compat", "--ref", reference, "--data", dir];
    args.extend(rows.iter().flat_map(|rows| ["--rows", rows]));
    let output = omega_sim(&args);
    assert_eq!(text(&output.stderr), "");
    (text(&output.stdout), output.status.code())
}

fn check(file: &str, rows: Option<&str>, expected: &str) {
    let Some(dir) = public_data("omega-sim") else { return };
    let (printed, code) = compat(&dir.join(file), rows);
    assert!(printed.contains(expected), "{printed}");
    assert_eq!(code, Some(0), "{printed}");
}

#[test]
fn every_row_of_the_monolithic_runs_is_equal() {
    check("ref_mono.csv", None, ": 28 of 28 rows equal (336 of 336 fields, 13 points)\n");
}

#[test]
fn every_row_of_the_runs_with_many_schedulers_is_equal() {
    check("ref_lambda.csv", None, ": 28 of 28 rows equal (392 of 392 fields, 14 points)\n");
}

#[test]
fn the_first_rows_of_the_other_files_are_equal() {
    check("ref_omega.csv", Some("6"), ": 6 of 6 rows equal (84 of 84 fields, 3 points)\n");
    check("ref_split.csv", Some("3"), ": 3 of 3 rows equal (42 of 42 fields, 2 points)\n");
    check("ref_ttask.csv", Some("12"), ": 12 of 12 rows equal (168 of 168 fields, 6 points)\n");
}

#[test]
fn every_mode_of_the_shared_state_is_equal() {
    let Some(dir) = public_data("omega-sim") else { return };
    let whole = std::fs::read_to_string(dir.join("ref_omega.csv")).expect("it is there");
    let here = tempfile::tempdir().expect("a folder");
    let file = here.path().join("modes.csv");
    // The seventh point of each mode has the longest decision time, 100 seconds.
    let kept = whole.lines().filter(|line| line.starts_with("batch") || line.contains(",1,100.0,"));
    std::fs::write(&file, kept.map(|line| format!("{line}\n")).collect::<String>())
        .expect("written");
    let (printed, code) = compat(&file, Some("8"));
    assert!(printed.contains(": 8 of 8 rows equal"), "{printed}");
    assert_eq!(code, Some(0));
}

#[test]
fn two_level_rows_have_the_shape_of_the_reference() {
    let expected = ": 12 of 12 rows equal (144 of 144 fields, 6 points)\ntwo-level rows are compared by shape: ";
    check("ref_mesos.csv", Some("12"), expected);
}

#[test]
fn a_figure_that_differs_is_told_and_ends_with_1() {
    let Some(dir) = public_data("omega-sim") else { return };
    let here = tempfile::tempdir().expect("a folder");
    let file = here.path().join("wrong.csv");
    let whole = std::fs::read_to_string(dir.join("ref_lambda.csv")).expect("it is there");
    std::fs::write(
        &file,
        whole.replacen("0.267733", "0.267734", 1).replacen(",353,353,353,", ",353,353,352,", 1),
    )
    .expect("written");
    let (printed, code) = compat(&file, Some("4"));
    let name = file.display();
    assert_eq!(
        printed,
        format!(
            "{name}:2: Batch: busy: expected 0.267734, got 0.267733\n\
             {name}:3: Service: wl_jobs_fully: expected 352, got 353\n\
             {name}: 2 of 4 rows equal (54 of 56 fields, 2 points)\n"
        )
    );
    assert_eq!(code, Some(1));
}

#[test]
fn another_seed_and_left_out_machines_make_another_run() {
    let Some(dir) = public_data("omega-sim") else { return };
    let file = ReferenceFile::read(&dir.join("ref_omega.csv"), Some(1)).expect("it is well formed");
    let list = |name: &&str| (name.to_string(), JobList::read(&dir, name).expect("it is there"));
    let lists: JobLists = file.lists().iter().map(list).collect();
    let point = &file.points[0];
    let records = run_point(point, &lists).records;
    let mut other = point.clone();
    other.seed = 2;
    assert_ne!(records, run_point(&other, &lists).records);
    other = point.clone();
    other.pickiness = 0.9;
    let picky = run_point(&other, &lists);
    assert!(picky.records.schedulers[1].no_room > records.schedulers[1].no_room);
    assert_eq!(run_point(point, &lists).records, records);
}

#[test]
fn figures_are_equal_as_they_are_printed() {
    let cases = [
        (0.057_424_6, "0.057425", true),
        (0.057_424_4, "0.057425", false),
        // If a value is halfway between two numbers, C prints the even one and Java the upper one.
        (0.015_625, "0.01562", true),
        (0.015_625, "0.01563", true),
        (0.015_625, "0.01564", false),
        (353.0, "353", true),
        (352.0, "353", false),
        (0.25, "0.2500", true),
    ];
    for (number, printed, expected) in cases {
        assert_eq!(Got::Number(number).is(printed), expected, "{number} as {printed}");
    }
    assert!(Got::Undefined.is("NaN") && Got::Undefined.is("0.00000") && !Got::Undefined.is("1.0"));
}
