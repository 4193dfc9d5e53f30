//! Replays the cases of the data folder, and checks the errors of invalid files.

use super::{FileReport, replay};
use std::path::{Path, PathBuf};

/// Replays every recording of the data folder; passes with a message if there is none.
#[test]
fn recorded_answers_are_ours() {
    let data = std::env::var_os("OMEGA_DATA").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"))
    });
    let folder = data.join("kube-oracle");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: {} not found", folder.display());
        return;
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".jsonl.gz"));
    files.sort();
    for file in files {
        let report = replay(&file, 3).unwrap();
        let FileReport { cases, equal, first } = &report;
        assert_eq!(first, &[], "{}: {equal} of {cases} equal", file.display());
        println!("{}: {cases} cases", file.display());
    }
}

/// The smallest worlds in which a result once differed.
#[test]
fn small_cases_that_once_differed_are_equal() {
    let cases = include_str!("cases.jsonl");
    let report = read("cases.jsonl", cases).unwrap();
    assert_eq!((report.first, report.equal), (vec![], report.cases));
}

/// Replays a file of this name and content, or returns the error line.
fn read(name: &str, content: impl AsRef<[u8]>) -> Result<FileReport, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, content).unwrap();
    replay(&file, 9).map_err(|error| line(folder.path(), &error.to_string()))
}

fn line(folder: &Path, error: &str) -> String {
    assert!(!error.contains('\n'), "{error}");
    error.replace(&format!("{}/", folder.display()), "")
}

#[track_caller]
fn check_error(name: &str, content: &str, error: &str) {
    assert_eq!(read(name, content).map(|_| ()), Err(error.to_owned()));
}

#[test]
fn damaged_files_have_one_line() {
    let empty = "x: has no case; expected one JSON object a line";
    check_error("x", "", empty);
    check_error("x", "\n \n", empty);
    check_error(
        "x",
        "{\"in\":\"1\"}\n{",
        "x:2: is not JSON: EOF while parsing an object at line 1 column 1",
    );
    check_error("x", "7", "x:1: invalid type: integer `7`, expected a case, which is an object");
    check_error(
        "x",
        r#"{"in":"1"} 7"#,
        "x:1: is not JSON: trailing characters at line 1 column 12",
    );
    check_error("x", r#"{"in":1}"#, "x:1: in: invalid type: integer `1`, expected a string");
    check_error("x", r#"{"matches":true,"matches":true}"#, "x:1: duplicate field `matches`");
    let gzip = read("x", [0x1f, 0x8b, 8, 0, 0]).unwrap_err();
    assert!(gzip.starts_with("x: the gzip data "), "{gzip}");
    let missing = replay(Path::new("/nowhere/x"), 1).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/x: cannot be read: "), "{missing}");
}

#[test]
fn fields_that_we_do_not_know_are_errors() {
    let unknown = "is not a field that we know";
    check_error("x", r#"{"in":"1","out":2}"#, &format!("x:1: out: {unknown}"));
    let case = |pod: &str| {
        format!(r#"{{"id":"pod_requests-1","pod":{{"name":"p","namespace":"n"{pod}}}}}"#)
    };
    check_error("x", &case(r#","gates":[]"#), &format!("x:1: pod.gates: {unknown}"));
    let port = r#","containers":[{"ports":[{"name":"web"}]}]"#;
    check_error("x", &case(port), &format!("x:1: pod.containers[0].ports[0].name: {unknown}"));
    let selector = r#","affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
        [{"labelSelector":{"matchNames":[]}}]}}"#
        .replace('\n', "");
    let path = "pod.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    check_error("x", &case(&selector), &format!("x:1: {path}.labelSelector.matchNames: {unknown}"));
    // A toleration's seconds matter once a task runs, not where it may.
    assert!(read("x", case(r#","tolerations":[{"key":"k","tolerationSeconds":3}]"#)).is_ok());
}

#[test]
fn the_suite_stands_in_the_id_then_in_the_fields_then_in_the_name() {
    let selector = r#"{"selector":null,"matches":false}"#;
    let request = r#"{"id":"7","pod":{"name":"p","namespace":"n"}}"#;
    assert_eq!(read("quantity.jsonl", selector).unwrap().equal, 1);
    assert_eq!(read("pod_requests-more.jsonl", request).unwrap().equal, 1);
    check_error(
        "x",
        request,
        "x:1: id: \"7\" is of no suite that we know, and nor is the file's name; known: \
         balanced_allocation, default_profile, fit, image_locality, interpod_affinity, \
         label_selector, node_affinity, node_ports, pod_requests, preemption, quantity, \
         sequence, taint_toleration, topology_spread",
    );
}

#[test]
fn differences_are_counted_and_the_first_are_told() {
    let cases = "{\"in\":\"1k\",\"value\":1,\"milliValue\":2}\n{\"in\":\"1\",\"error\":true}\n\
                 {\"in\":\"2\",\"value\":2,\"milliValue\":2000}\n";
    let report = read("x", cases).unwrap();
    assert_eq!((report.cases, report.equal), (3, 1));
    let told: Vec<String> = report.first.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "line 1: value: expected 1, got 1000",
            "line 1: milliValue: expected 2, got 1000000",
            "line 2: error: expected true, got false",
        ]
    );
}
