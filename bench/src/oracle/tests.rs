//! Replays the cases of the data folder, and checks the errors for invalid files.

use crate::oracle::{FileReport, replay};
use omega_workload::kube::quantity::Quantity;
use omega_workload::public_data;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Replays every recording of the data folder; passes with a message if there is none.
#[test]
fn recorded_answers_are_ours() {
    let Some(files) = recordings() else { return };
    for file in files {
        let report = replay(&file, 3).unwrap();
        let FileReport { cases, equal, first } = &report;
        assert_eq!(first, &[], "{}: {equal} of {cases} equal", file.display());
        println!("{}: {cases} cases", file.display());
    }
}

/// Replaces values of a recording by wrong ones, one at a time; the replay must report each.
#[test]
fn a_changed_value_of_a_recording_is_a_difference() {
    for line in include_str!("cases.jsonl").lines() {
        check_changes("cases.jsonl", line);
    }
    for text in ["1Gi", "0.1", "5e3", "4.180773M"] {
        let milli = Quantity::parse(text).unwrap().milli_value();
        let whole = Quantity::parse(text).unwrap().value();
        let canonical = crate::oracle::canonical::canonical(text).unwrap();
        let case = json!({"in": text, "value": whole, "milliValue": milli, "canonical": canonical});
        check_changes("quantity.jsonl", &case.to_string());
    }
    let Some(files) = recordings() else { return };
    for file in files {
        let lines = omega_workload::kube::input::read_text(&file).unwrap_or_default();
        let name = file.file_name().unwrap().to_string_lossy();
        // A line with a large world has so many values that their replays take a minute, so only some shorter lines are
        // used.
        let lines = lines.lines().filter(|line| line.len() < 40_000).step_by(150).take(3);
        lines.for_each(|line| check_changes(&name, line));
    }
}

/// Replays a case once for each recorded value, with that value replaced.
#[track_caller]
fn check_changes(name: &str, line: &str) {
    let case: Value = serde_json::from_str(line).unwrap();
    assert_eq!(read(name, line).unwrap().first, [], "unchanged: {line}");
    for place in places(&case) {
        let mut changed = case.clone();
        let value = changed.pointer_mut(&place).unwrap();
        if !spoil(value) {
            continue;
        }
        // If the changed case cannot be read, for example because of an unknown code, the change is detected as well.
        if let Ok(report) = read(name, changed.to_string()) {
            assert_eq!(report.equal, 0, "{name}: {place} as {changed:#}");
        }
    }
}

/// Paths of the recorded values of a case. Reasons are left out, because their wording is not compared.
fn places(case: &Value) -> Vec<String> {
    let recorded = ["expect", "value", "milliValue", "canonical", "error", "matches", "steps"];
    let fields = case.as_object().unwrap().iter();
    let roots = fields.filter(|(key, _)| recorded.contains(&key.as_str()));
    let mut open: Vec<(String, &Value)> =
        roots.map(|(key, value)| (format!("/{key}"), value)).collect();
    let mut places = Vec::new();
    while let Some((path, value)) = open.pop() {
        let inner = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Object(fields) => {
                let compared = |key: &str| key != "reasons" && key != "pod";
                let fields = fields.iter().filter(|(key, _)| compared(key));
                open.extend(fields.map(|(key, value)| (inner(key), value)));
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                open.extend(items.iter().enumerate().map(|(i, v)| (inner(&i.to_string()), v)));
            }
            _ => places.push(path),
        }
    }
    places
}

/// Replaces a value by a wrong one of the same type. Returns whether that is possible.
fn spoil(value: &mut Value) -> bool {
    match value {
        Value::Bool(value) => *value = !*value,
        Value::Number(number) => *value = (number.as_i64().unwrap() + 1).into(),
        Value::String(text) => {
            *text = match text.as_str() {
                "Unschedulable" => "UnschedulableAndUnresolvable".to_owned(),
                "UnschedulableAndUnresolvable" => "Unschedulable".to_owned(),
                "Success" => "Skip".to_owned(),
                "Skip" => "Success".to_owned(),
                other => format!("{other}x"),
            };
        }
        Value::Array(items) => return items.pop().is_some(),
        Value::Null | Value::Object(_) => return false,
    }
    true
}

/// The recordings of the data folder, if there is one.
fn recordings() -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(public_data("kube-oracle")?).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".jsonl.gz"));
    files.sort();
    Some(files)
}

/// Replays small cases whose results differed in the past.
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
    let empty = "x: has no case: each line must be a JSON object";
    check_error("x", "", empty);
    check_error("x", "\n \n", empty);
    check_error(
        "x",
        "{\"in\":\"1\"}\n{",
        "x:2: is not JSON: EOF while parsing an object at line 1 column 1",
    );
    check_error("x", "7", "x:1: must be a case, which is an object, not 7");
    check_error(
        "x",
        r#"{"in":"1"} 7"#,
        "x:1: is not JSON: trailing characters at line 1 column 12",
    );
    check_error("x", r#"{"in":1}"#, "x:1: in: must be a text, not 1");
    check_error("x", r#"{"matches":true,"matches":true}"#, "x:1: duplicate field `matches`");
    let gzip = read("x", [0x1f, 0x8b, 8, 0, 0]).unwrap_err();
    assert!(gzip.starts_with("x: the gzip data "), "{gzip}");
    let missing = replay(Path::new("/nowhere/x"), 1).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/x: cannot be read: "), "{missing}");
}

#[test]
fn fields_that_we_do_not_know_are_errors() {
    let unknown = "is not a known field";
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
    // A toleration's seconds affect how long a running task stays, not where it may run.
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
        "x:1: id: neither the case \"7\" nor the file's name belongs to a known suite; the suites are: \
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
