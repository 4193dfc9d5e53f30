//! Tests of health checks in containers, with a script in place of Podman. Tests with Podman are in `server/tests/it`.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use omega_agent::{Container, Driver, Event, Exit, ProcessDriver, ProcessSettings, TaskSpec};
use omega_core::{HealthCheck, Probe};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

/// A script that runs commands as Podman does: below a `conmon` in another session, which is orphaned at once. `pids`
/// gets the processes of all commands. `left` gets those that still run when another command is started.
const PODMAN: &str = r#"#!/bin/sh
case $1 in
run)
    for arg in "$@"; do
        case $arg in --pidfile=*) echo $$ > "${arg#--pidfile=}" ;; esac
    done
    while :; do sleep 0.05; done ;;
exec)
    for pid in $(cat FOLDER/pids); do
        if grep -q . /proc/$pid/cmdline 2> /dev/null; then echo $pid >> FOLDER/left; fi
    done
    hang='echo $$ >> FOLDER/pids; sleep 1000 & echo $! >> FOLDER/pids; wait'
    (setsid FOLDER/conmon -c "$hang" conmon --exec-process-spec > /dev/null 2>&1 &)
    while :; do sleep 0.05; done ;;
esac
"#;

/// Installs the script in a folder.
fn install(folder: &Path) {
    let podman = folder.join("podman");
    std::fs::write(&podman, PODMAN.replace("FOLDER", &folder.display().to_string())).unwrap();
    std::fs::set_permissions(podman, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("pids"), "").unwrap();
    symlink("/bin/sh", folder.join("conmon")).unwrap();
}

/// A driver whose supervisors find the script.
fn driver(folder: &Path, podman: &Path) -> ProcessDriver {
    let path = format!("PATH={}:{}", podman.display(), std::env::var("PATH").unwrap());
    let supervisor = vec!["env".into(), path.into(), env!("CARGO_BIN_EXE_test-supervisor").into()];
    let (folder, patience) = (folder.to_owned(), Duration::from_secs(60));
    ProcessDriver::new(ProcessSettings { folder, supervisor, cgroups: None, patience }).unwrap()
}

/// A task in a container, whose health check runs a command that may take half a second.
fn checked() -> TaskSpec {
    let health = HealthCheck {
        probe: Probe::Command(vec!["/bin/check".into()]),
        interval_ms: 1,
        timeout_ms: 500,
        failures: 1_000_000,
        start_period_ms: 0,
    };
    let container = Container { image: "image".to_owned(), mounts: Vec::new() };
    let mut spec = TaskSpec {
        id: "checked".to_owned(),
        command: "/bin/serve".to_owned(),
        container: Some(container),
        health: Some(health),
        ..TaskSpec::default()
    };
    spec.limits.log_bytes = 10_000;
    spec
}

#[test]
fn a_check_that_hangs_in_a_container_leaves_no_processes() {
    let [tasks, podman] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    install(podman.path());
    let mut driver = driver(tasks.path(), podman.path());
    driver.start(&checked()).unwrap();
    // Each command adds two processes.
    let pids = || std::fs::read_to_string(podman.path().join("pids")).unwrap().lines().count();
    while pids() < 6 {
        assert_eq!(driver.poll(), [], "the task waits for its check");
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = std::fs::read_to_string(podman.path().join("left")).unwrap_or_default();
    assert_eq!(left, "", "processes of earlier checks");
    driver.kill("checked");
    let mut events = Vec::new();
    while !matches!(events.last(), Some(Event::Ended(..))) {
        events.extend(driver.poll());
        std::thread::yield_now();
    }
    assert_eq!(events.last(), Some(&Event::Ended("checked".to_owned(), Exit::Stopped)));
}
