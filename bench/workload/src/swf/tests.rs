//! Tests of accepted input, tolerated irregularities, and errors of invalid lines.

use super::*;
use crate::testing::{folder, gzip, message, zstd};

/// A job that requests 4 processors for 100 seconds, and runs for 60.
const JOB: &str = "1 10 5 60 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1\n";

fn read(log: &[u8]) -> (tempfile::TempDir, Result<(Vec<LoggedJob>, Log), LoadError>) {
    let dir = folder(&[]);
    let file = dir.path().join("a.swf");
    std::fs::write(&file, log).unwrap();
    let result = (|| {
        let mut log = Log::open(&file)?;
        let mut jobs = Vec::new();
        while let Some(job) = log.next_job()? {
            jobs.push(job);
        }
        Ok((jobs, log))
    })();
    (dir, result)
}

#[test]
fn a_line_is_a_job_and_minus_one_is_unknown() {
    let log = format!(
        "; MaxNodes: 8\n;MaxProcs: 1,024 (cores)\n\n{JOB}  2 11.5 -1 0 -1 1.25 -1 -1 -1.00 -1 -1 -1 -1 -1 -1 -1 -1 -1  \r\n"
    );
    for bytes in [log.as_bytes().to_vec(), gzip(&log), zstd(&log)] {
        let (jobs, log) = read(&bytes).1.unwrap();
        assert_eq!(log.header(), Header { processors: Some(1024), nodes: Some(8) });
        assert_eq!(log.notes(), [""; 0]);
        let first = LoggedJob {
            line: 4,
            submit_ms: Some(10_000),
            wait_ms: Some(5_000),
            run_ms: Some(60_000),
            allocated: Some(4),
            requested: Some(4),
            requested_ms: Some(100_000),
        };
        let second = LoggedJob {
            line: 5,
            submit_ms: Some(11_500),
            wait_ms: None,
            run_ms: Some(0),
            allocated: None,
            requested: None,
            requested_ms: None,
        };
        assert_eq!(jobs, [first, second]);
    }
}

#[test]
fn each_field_may_be_unknown() {
    let (jobs, log) = read(format!("-1{}\n", " -1".repeat(17)).as_bytes()).1.unwrap();
    let [LoggedJob { line: 1, submit_ms, wait_ms, run_ms, allocated, requested, requested_ms }] =
        jobs[..]
    else {
        panic!("{jobs:?}")
    };
    let known = [submit_ms, wait_ms, run_ms, allocated, requested, requested_ms];
    assert_eq!((known, log.notes()), ([None; 6], Vec::new()));
}

#[test]
fn a_byte_order_mark_is_ignored() {
    for log in [format!("\u{feff}; MaxProcs: 9\n{JOB}"), format!("\u{feff}{JOB}")] {
        assert_eq!(read(log.as_bytes()).1.unwrap().0.len(), 1, "{log}");
    }
}

#[test]
fn what_changes_nothing_is_let_pass_and_told() {
    let odd = JOB.replacen(" 5 ", " -17 ", 1);
    let log = format!("; Sch\u{e4}del\n; MaxProcs: many\n; MaxNodes: 0\n{odd}");
    let (jobs, log) = read(log.as_bytes()).1.unwrap();
    assert_eq!(jobs[0].wait_ms, None);
    assert_eq!(log.header(), Header::default());
    assert_eq!(
        log.notes(),
        [
            "line 2: MaxProcs is not a count: \"many\"",
            "line 3: MaxNodes is not a count: \"0\"",
            "negative numbers other than -1 count as unknown: 1 line",
        ]
    );
    assert!(read(b"; caf\xe9\n").1.unwrap().0.is_empty());
}

#[test]
fn fields_that_a_site_appended_are_ignored_and_told() {
    let log = format!("{} 7\n{JOB}{} x y\n", JOB.trim_end(), JOB.trim_end());
    let (jobs, log) = read(log.as_bytes()).1.unwrap();
    assert_eq!(jobs.iter().map(|job| job.submit_ms).collect::<Vec<_>>(), [Some(10_000); 3]);
    assert_eq!(log.notes(), ["fields beyond the first 18 are ignored: 2 lines"]);
}

#[test]
fn a_line_that_is_no_job_is_named() {
    let job = |from: &str, to: &str| JOB.replacen(from, to, 1).into_bytes();
    let large = "\"99999999999999999\" is too large: must be at most 1000000000000000";
    let cases: Vec<(Vec<u8>, String)> = vec![
        (b"1 2 3\n".to_vec(), "1: the line has 3 fields: a job must have 18".into()),
        (job("10", "ten"), "1: submit time: \"ten\" is not a number".into()),
        (job("60", "1:00"), "1: run time: \"1:00\" is not a number".into()),
        (job("60", "NaN"), "1: run time: \"NaN\" is not a finite number".into()),
        (job("60", "--1"), "1: run time: \"--1\" is not a number".into()),
        (job("60", "99999999999999999"), format!("1: run time: {large}")),
        (job(" 4 ", " 4.5 "), "1: allocated processors: is not a whole number".into()),
        (job(" 4 100", " 0x4 100"), "1: requested processors: \"0x4\" is not a number".into()),
        (job("100", "1e"), "1: requested time: \"1e\" is not a number".into()),
        (job(" -1\n", " ?\n"), "1: think time: \"?\" is not a number".into()),
        (
            [JOB.as_bytes(), b"\n; note\n\xff\xfe\n"].concat(),
            "4: the line is not UTF-8 text".into(),
        ),
        (vec![b'1'; LINE_BYTES_MAX + 1], "1: the line is longer than 65536 bytes".into()),
        (
            b"<html>not found</html>\n".to_vec(),
            "1: the line has 2 fields: a job must have \
             18"
            .into(),
        ),
    ];
    for (log, expected) in cases {
        let (dir, result) = read(&log);
        assert_eq!(message(dir.path(), result), format!("a.swf:{expected}"));
    }
}

#[test]
fn a_file_that_is_cut_off_is_no_shorter_log() {
    let whole = gzip(&JOB.repeat(1000));
    let (dir, result) = read(&whole[..whole.len() - 9]);
    let message = message(dir.path(), result);
    assert!(message.ends_with("the gzip data ends too early: the file is incomplete"), "{message}");
    let (dir, _) = read(b"");
    let error = Log::open(&dir.path().join("none.swf")).err().unwrap().to_string();
    assert!(error.contains("none.swf: cannot be read: "), "{error}");
}

#[test]
fn parts_of_the_execution_of_a_job_are_no_jobs() {
    let log = "1 0 0 3600 4 -1 -1 4 7200 2097152 1 1 1 1 1 1 -1 -1\n\
               1 0 0 1800 4 -1 -1 4 7200 -1 2 1 1 1 1 1 -1 -1\n\
               1 0 1000 1800 4 -1 -1 4 7200 -1 3 1 1 1 1 1 -1 -1\n\
               2 9000 0 1 1 -1 -1 1 1 -1 3 1 1 1 1 1 -1 -1\n";
    let (jobs, log) = read(log.as_bytes()).1.expect("a log");
    // The second job has only this line, so the line is the job.
    assert_eq!(jobs.iter().map(|job| job.line).collect::<Vec<_>>(), [1, 4]);
    let notes = [
        "parts of the execution of a job (status 2 to 4) are ignored: 2 lines",
        "requests of memory (field 10) are ignored: 1 job",
    ];
    assert_eq!(log.notes(), notes);
}
