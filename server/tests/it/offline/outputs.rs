//! Outputs to existing files, closed pipes, and full devices.

use crate::kit::process::{CommandOutput, folder, listing, omega, run_omega};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

const SMALL: [&str; 5] = ["run", "--synthetic", "100", "--hours", "1"];

/// Runs a small cell in a folder with these arguments.
fn small(dir: &Path, more: &[&str]) -> CommandOutput {
    run_omega(dir, &[&SMALL, more].concat())
}

#[test]
fn a_result_replaces_an_earlier_one_whole() {
    let long = "an earlier result ".repeat(1 << 17);
    let dir = folder(&[("result.json", &long), ("page.html", &long)]);
    let output = small(dir.path(), &["--json", "result.json", "--report", "page.html"]);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    let text = fs::read_to_string(dir.path().join("result.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert!(!fs::read_to_string(dir.path().join("page.html")).unwrap().contains("earlier"));
    assert_eq!(listing(dir.path()), ["page.html", "result.json"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let ways: [&[&str]; 2] = [&[], &["--placed", "-"]];
    for more in ways {
        let dir = folder(&[]);
        let mut command = omega(dir.path());
        command.args(SMALL).args(["--json", "result.json"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = CommandOutput::from(child.wait_with_output().unwrap());
        assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{more:?}");
        assert!(dir.path().join("result.json").exists(), "the file is written nonetheless");
    }
}

#[test]
fn help_for_a_reader_that_has_seen_enough_is_no_error() {
    let dir = folder(&[]);
    let mut command = omega(dir.path());
    command.arg("--help").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
}

/// A device that is always full; `None` if there is none.
fn full() -> Option<File> {
    let full = File::options().write(true).open("/dev/full").ok();
    if full.is_none() {
        println!("skipped: /dev/full not found");
    }
    full
}

#[test]
fn an_output_that_is_full_is_told_in_one_line() {
    let Some(stdout) = full() else { return };
    let dir = folder(&[]);
    let output = omega(dir.path()).args(SMALL).stdout(stdout).output().unwrap();
    let result = CommandOutput::from(output);
    let expected = "omega: cannot write to standard output: No space left on device (os error \
         28)\n";
    assert_eq!((result.code, &*result.stderr), (Some(2), expected));

    for option in ["--json", "--placed"] {
        let result = small(dir.path(), &[option, "/dev/full"]);
        let expected =
            "omega: /dev/full: cannot be written: No space left on device (os error 28)\n";
        assert_eq!((result.code, &*result.stderr), (Some(2), expected), "{option}");
    }
}

#[test]
fn an_error_without_a_standard_error_is_its_exit_code() {
    let Some(stderr) = full() else { return };
    let dir = folder(&[]);
    let command = |stderr| omega(dir.path()).args(["--seed", "x"]).stderr(stderr).status().unwrap();
    assert_eq!(command(Stdio::from(stderr)).code(), Some(2));
}

#[cfg(unix)]
#[test]
fn standard_output_may_be_named_as_a_file() {
    let dir = folder(&[]);
    let output = small(dir.path(), &["--json", "/dev/stdout"]);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    let (_, json) = output.stdout.split_once("\n{").unwrap();
    serde_json::from_str::<serde_json::Value>(&format!("{{{json}")).unwrap();
}

#[cfg(unix)]
#[test]
fn a_place_that_may_not_be_written_is_told_before_the_run() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder(&[("locked/file.json", "an earlier result\n")]);
    let set = |name: &str, mode| {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("locked/file.json", 0o444);
    set("locked", 0o555);
    if File::create(dir.path().join("locked/probe")).is_ok() {
        println!("skipped: this user may write everywhere");
        return;
    }
    let outputs = [
        ("--json", "locked/file.json"),
        ("--report", "locked/new.html"),
        ("--placed", "locked/new.csv"),
    ];
    for (option, file) in outputs {
        let output = small(dir.path(), &[option, file]);
        let expected = format!(
            "omega: {file}: cannot be written: Permission denied (os error \
             13)\n"
        );
        assert_eq!((output.code, output.stdout, output.stderr), (Some(2), String::new(), expected));
    }
    set("locked", 0o755);
}

#[cfg(unix)]
#[test]
fn a_closed_standard_input_is_not_missed() {
    let dir = folder(&[]);
    let program = env!("CARGO_BIN_EXE_omega");
    let line = format!("exec '{program}' {} <&- 2>&1 >/dev/null", SMALL.join(" "));
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg(line).current_dir(dir.path());
    let result = CommandOutput::from(shell.output().unwrap());
    assert_eq!(
        (result.code, result.stdout, result.stderr),
        (Some(0), String::new(), String::new())
    );
}

#[test]
fn data_for_standard_output_has_it_alone() {
    let dir = folder(&[]);
    let output = small(dir.path(), &["--json", "-"]);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["machines"], 100);
    let both = small(dir.path(), &["--json", "-", "--report", "page.html"]);
    assert!(serde_json::from_str::<serde_json::Value>(&both.stdout).is_ok(), "{}", both.stdout);
    assert_eq!(listing(dir.path()), ["page.html"], "no file is named -");
    let rest = ["--synthetic", "100", "--hours", "1", "--json", "-"];
    for command in ["explain", "rebalance"] {
        let output = run_omega(dir.path(), &[&[command], &rest[..]].concat());
        assert_eq!((output.code, &*output.stderr), (Some(0), ""));
        assert!(
            serde_json::from_str::<serde_json::Value>(&output.stdout).is_ok(),
            "{}",
            output.stdout
        );
    }
    assert_eq!(listing(dir.path()), ["page.html"], "no file is named -");
}

#[test]
fn placements_are_rows_of_a_file_or_of_standard_output() {
    let dir = folder(&[]);
    let files = ["--placed", "placed.csv", "--json", "result.json"];
    let output = small(dir.path(), &files);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    assert!(output.stdout.contains("\nplacements "), "the table is printed: {}", output.stdout);
    let json = fs::read_to_string(dir.path().join("result.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = fs::read_to_string(dir.path().join("placed.csv")).unwrap();
    assert_eq!(rows.lines().count() as u64, 1 + json["placements"].as_u64().unwrap());

    let alone = || small(dir.path(), &["--placed", "-", "--deterministic"]);
    let output = alone();
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    assert!(output.stdout.starts_with("at_s,job,task,machine\n"), "{}", output.stdout);
    assert!(output.stdout.lines().all(|row| row.split(',').count() == 4), "{}", output.stdout);
    assert_eq!(alone().stdout, output.stdout);

    let both = small(dir.path(), &["--placed", "-", "--json", "-"]);
    let expected = "omega: -: two outputs name this file: give each its own\n";
    assert_eq!((both.code, &*both.stdout, &*both.stderr), (Some(2), "", expected));
    assert_eq!(listing(dir.path()), ["placed.csv", "result.json"], "no file is named -");
}
