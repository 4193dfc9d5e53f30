//! Events of processes on standard error: which events, in which format, and which commits are reported as slow.

use crate::kit::cell::{Process, ports};
use crate::kit::process::{folder, omega, run_omega};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;

/// Starts a process with its standard error in a file.
pub(crate) fn start(dir: &Path, arguments: &str, errors: &str) -> Process {
    let errors = File::create(dir.join(errors)).unwrap();
    let mut command = omega(dir);
    command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(errors);
    Process(command.spawn().expect("omega starts"))
}

/// Waits until a file has an event for which `is_it` returns true.
pub(crate) fn wait_for(file: &Path, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let text = std::fs::read_to_string(file).unwrap();
        // The last line may not be complete yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut events = whole.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|why| panic!("{why}: {line}"))
        });
        if let Some(event) = events.find(|event| is_it(event)) {
            return event;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn commits_are_told_of_as_objects() {
    let machines = "[[machine]]\nname = \"m\"\ncapacity = { cpu = 9 }\n";
    let config =
        "slow-commit = 0\nlog-format = \"json\"\nlog-level = \"warn,omega_service=debug\"\n";
    let dir = folder(&[("machines.toml", machines), ("omega.toml", config)]);
    let cell = format!("127.0.0.1:{}", ports(1)[0]);
    let serve = format!("serve --dir=cell --listen={cell} --config=omega.toml");
    let _server = start(dir.path(), &serve, "server");
    while std::net::TcpStream::connect(&cell).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let run = |line: &str| {
        let output = run_omega(dir.path(), &line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    };
    run(&format!("machine add -f machines.toml --cell {cell}"));
    run(&format!("job submit one --count 3 --cpu 1 --cell {cell}"));
    let scheduler = format!("scheduler --cell={cell} --log-level=off");
    let _scheduler = start(dir.path(), &scheduler, "scheduler");
    let is = |event: &Value, message: &str| event["message"] == message;
    let file = dir.path().join("server");
    let slow = wait_for(&file, |event| is(event, "slow commit"));
    assert_eq!((&slow["level"], &slow["claims"]), (&"WARN".into(), &3.into()), "{slow}");
    assert!(slow["scheduler"].is_u64() && slow["transaction"].is_u64(), "{slow}");
    assert!(slow["took_ms"].is_u64() && slow["transactions"] == 1, "{slow}");
    assert_eq!(slow["left_out"], 0, "{slow}");
    let one = wait_for(&file, |event| is(event, "commit"));
    assert_eq!((&one["level"], &one["transaction"]), (&"DEBUG".into(), &slow["transaction"]));
    assert_eq!((&one["conflicts"], &one["claims"]), (&0.into(), &3.into()), "{one}");
    let entry = wait_for(&file, |event| is(event, "slow entry"));
    assert!(entry["entry"].is_u64() && entry["replicate_us"].is_u64(), "{entry}");
    assert_eq!(std::fs::read_to_string(dir.path().join("scheduler")).unwrap(), "");
}

#[test]
fn a_level_that_is_none_is_told_in_one_line() {
    let dir = folder(&[("omega.toml", "log-level = \"loud\"\n")]);
    for line in [
        "serve --memory --log-level=loud",
        "serve --memory --config=omega.toml",
        "scheduler --log-level=warn,loud",
        "agent --simulate=1 --log-format=xml",
    ] {
        let output = run_omega(dir.path(), &line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.code, Some(2), "{line}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{line}: {}", output.stderr);
        assert!(
            output.stderr.contains("loud") || output.stderr.contains("xml"),
            "{}",
            output.stderr
        );
    }
}
