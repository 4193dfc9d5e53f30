//! Drivers and tasks for tests with real processes.

use omega_agent::logs::{self, LogStream};
use omega_agent::{Driver, Event, ProcessDriver, ProcessSettings, TaskSpec};
use std::path::Path;
use std::time::Duration;

pub(crate) fn driver(folder: &Path) -> ProcessDriver {
    driver_with(folder, Duration::from_secs(60))
}

pub(crate) fn driver_with(folder: &Path, patience: Duration) -> ProcessDriver {
    let supervisor = vec![env!("CARGO_BIN_EXE_test-supervisor").into()];
    let folder = folder.to_owned();
    ProcessDriver::new(ProcessSettings { folder, supervisor, cgroups: None, patience }).unwrap()
}

pub(crate) fn shell(id: &str, script: &str) -> TaskSpec {
    let mut spec =
        TaskSpec { id: id.to_owned(), command: "/bin/sh".to_owned(), ..TaskSpec::default() };
    spec.args = vec!["-c".to_owned(), script.to_owned()];
    spec.limits.log_bytes = 10_000;
    spec.grace_ms = 60_000;
    spec
}

/// Waits for the next event.
pub(crate) fn next(driver: &mut ProcessDriver) -> Event {
    let mut events = all(driver, 1);
    events.remove(0)
}

/// Waits for this number of events.
pub(crate) fn all(driver: &mut ProcessDriver, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(driver.poll());
        std::thread::yield_now();
    }
    assert_eq!(events.len(), count, "{events:?}");
    events
}

pub(crate) fn output(driver: &ProcessDriver, task: &str) -> String {
    let folder = driver.logs(task, "").unwrap();
    let part = logs::read(&folder, LogStream::Stdout, 0, 1 << 20).unwrap();
    String::from_utf8(part.bytes).unwrap()
}

/// Waits until the output of a task is as expected.
pub(crate) fn await_output(driver: &ProcessDriver, task: &str, expected: &str) {
    let is_said = || driver.logs(task, "").is_some() && output(driver, task).contains(expected);
    while !is_said() {
        std::thread::yield_now();
    }
}

/// Whether any process has this folder in its environment or its arguments.
pub(crate) fn is_anything_left(folder: &Path) -> bool {
    let mark = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let files =
        entries.flat_map(|entry| ["environ", "cmdline"].map(|name| entry.path().join(name)));
    let mut texts = files.filter_map(|file| std::fs::read(file).ok());
    texts.any(|bytes| String::from_utf8_lossy(&bytes).contains(&mark))
}

/// A script that starts a process in a session of its own, without an environment. The process runs `first`, with the
/// supervisor's pid as `$P`, and then never ends.
pub(crate) fn stray(folder: &Path, first: &str) -> String {
    let inner = format!("{first}; while :; do sleep 0.05; done");
    let mark = folder.display();
    format!("P=$PPID; env -i P=$P setsid /bin/sh -c '{inner}' {mark} & wait")
}

/// Waits for the end of a task. Its start may be reported before, if the supervisor was not killed too early.
pub(crate) fn await_end(driver: &mut ProcessDriver) -> Event {
    loop {
        let mut events = driver.poll();
        events.retain(|event| !matches!(event, Event::Started(_)));
        if let Some(event) = events.pop() {
            assert_eq!(events, []);
            return event;
        }
        std::thread::yield_now();
    }
}
