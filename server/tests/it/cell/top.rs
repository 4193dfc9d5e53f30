//! Output of `omega top` without a terminal.

use crate::cell::web::{HOSTILE, shown};
use crate::kit::process::omega;
use serde_json::Value;
use std::process::Stdio;

#[test]
fn one_look_is_printed_as_text_and_as_json() {
    let (cell, _) = shown();
    let text = cell.ok("top --once");
    for part in [
        "machines  41, 1 of them draining",
        "tasks     5 wait",
        "default",
        "wide",
        "what would help:",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let response = cell.json("top --once");
    assert_eq!(response["machines"], 41);
    assert_eq!(response["resources"]["cpu"]["claimable"], 41 * 4000);
    assert_eq!(response["tasks"]["pending"], 5);
    assert_eq!(response["silent"], Value::Array(vec![]));
    let waiting = response["waiting"].as_array().unwrap();
    assert_eq!(waiting[0]["job"], "wide");
    assert!(waiting[0]["why"].as_str().unwrap().contains("; what would help: "), "{waiting:?}");
    assert_eq!(waiting[1]["job"], HOSTILE);
}

#[test]
fn a_cell_that_is_not_there_is_told_in_a_line() {
    let dir = crate::kit::process::folder(&[]);
    let mut command = omega(dir.path());
    command.args(["top", "--cell", "127.0.0.1:1", "--timeout", "100ms"]).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1);
}
