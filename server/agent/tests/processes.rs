//! Tests with real processes, which are started, watched, stopped, and found again after a restart. No process may be
//! left over.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod support;

use omega_agent::logs::{self, LogStream};
use omega_agent::{Driver, Event, Exit, ProcessDriver, ProcessSettings, TaskSpec};
use omega_core::{HealthCheck, Probe, RestartPolicy};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::{
    all, await_end, await_output, driver, driver_with, is_anything_left, next, output, shell, stray,
};

/// The supervisor of a task.
fn supervisor(folder: &Path, task: &str) -> Pid {
    let text = std::fs::read_to_string(folder.join(task).join("journal.jsonl")).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    Pid::from_raw(first["supervisor"]["pid"].as_i64().unwrap() as i32).unwrap()
}

fn health(command: &str) -> HealthCheck {
    HealthCheck {
        probe: Probe::Command(vec!["/bin/sh".into(), "-c".into(), command.into()]),
        interval_ms: 20,
        timeout_ms: 60_000,
        failures: 1,
        start_period_ms: 600_000,
    }
}

/// Runs a task to its end.
fn run(spec: &TaskSpec) -> (Exit, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    driver.start(spec).unwrap();
    let mut events = Vec::new();
    while !matches!(events.last(), Some(Event::Ended(..))) {
        events.extend(driver.poll());
        std::thread::yield_now();
    }
    let Some(Event::Ended(_, exit)) = events.pop() else { unreachable!("the loop ends with it") };
    let mut restarts = &events[..];
    match events.split_first() {
        Some((first, others)) if *first == Event::Started(spec.id.clone()) => {
            assert!(!matches!(exit, Exit::NotStarted(_)), "{events:?}");
            restarts = others;
        }
        _ => assert!(matches!(exit, Exit::NotStarted(_) | Exit::Unhealthy), "{events:?}"),
    }
    assert!(restarts.iter().all(|event| matches!(event, Event::Restarted(..))), "{events:?}");
    (exit, output(&driver, &spec.id))
}

/// Waits until a file exists.
fn exists(file: &Path) {
    while !file.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn a_program_gets_its_environment_and_its_output_is_kept() {
    let mut spec =
        shell("web-0", "echo $OMEGA_TASK_INDEX $HOME; pwd; env | wc -l; echo oops >&2; exit 3");
    spec.env = vec![("OMEGA_TASK_INDEX".to_owned(), "7".to_owned())];
    let (exit, output) = run(&spec);
    assert_eq!(exit, Exit::Code(3));
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("7 /"), "the home of the agent's user: {output}");
    assert!(lines[1].ends_with("web-0/work"), "{output}");
    assert!(lines[2].parse::<u32>().unwrap() <= 6, "nothing of the agent's environment: {output}");
}

#[test]
fn other_users_read_neither_the_environment_nor_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    driver.start(&shell("secret", "echo up; while :; do sleep 0.05; done")).unwrap();
    await_output(&driver, "secret", "up");
    for name in ["secret/spec.json", "secret/logs"] {
        let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
    driver.kill("secret");
    assert_eq!(all(&mut driver, 2)[1], Event::Ended("secret".to_owned(), Exit::Stopped));
}

#[test]
fn signals_and_missing_programs_are_told_apart() {
    assert_eq!(run(&shell("a", "kill -9 $$")).0, Exit::Signal(9));
    assert_eq!(run(&shell("b", "exit 0")).0, Exit::Code(0));
    let missing = TaskSpec { command: "/no/such/program".to_owned(), ..shell("c", "") };
    let why = "/no/such/program: No such file or directory (os error 2)";
    assert_eq!(run(&missing).0, Exit::NotStarted(why.to_owned()));
    let restart = RestartPolicy { attempts: 2, delay_ms: 1 };
    let again = TaskSpec { restart, ..missing };
    assert_eq!(run(&again).0, Exit::NotStarted(why.to_owned()));
    assert_eq!(run(&shell("d", "exit 127")).0, Exit::Code(127));
    let folder = tempfile::tempdir().unwrap();
    let refused = driver(folder.path()).start(&shell("../up", "true")).unwrap_err();
    assert!(refused.to_string().contains("cannot be the name of a folder"), "{refused}");
}

#[test]
fn a_task_that_ignores_the_signal_is_killed_after_its_grace() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let mut spec = shell("stubborn", "trap '' TERM; echo up; while :; do sleep 0.1; done");
    spec.grace_ms = 300;
    driver.start(&spec).unwrap();
    assert_eq!(next(&mut driver), Event::Started("stubborn".to_owned()));
    await_output(&driver, "stubborn", "up");
    driver.stop("stubborn");
    assert_eq!(next(&mut driver), Event::Ended("stubborn".to_owned(), Exit::Stopped));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn what_a_task_leaves_behind_is_killed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    // The script starts processes in other sessions, which a kill of the program's process group would not end.
    let script = "setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo away; wait' & \
                  setsid sleep 1000 & sleep 1000 & wait";
    driver.start(&shell("parent", script)).unwrap();
    assert_eq!(next(&mut driver), Event::Started("parent".to_owned()));
    await_output(&driver, "parent", "away");
    driver.stop("parent");
    assert_eq!(next(&mut driver), Event::Ended("parent".to_owned(), Exit::Stopped));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn an_agent_that_is_started_again_finds_its_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = driver(folder.path());
    for id in ["one", "two", "three"] {
        first.start(&shell(id, "echo up; while :; do sleep 0.05; done")).unwrap();
    }
    all(&mut first, 3);
    first.kill("three");
    assert_eq!(next(&mut first), Event::Ended("three".to_owned(), Exit::Stopped));
    first.confirm_end("three");
    drop(first);
    let mut second = driver(folder.path());
    let mut found = second.find().unwrap();
    found.sort_by(|a, b| a.spec.id.cmp(&b.spec.id));
    let ids: Vec<&str> = found.iter().map(|task| task.spec.id.as_str()).collect();
    assert_eq!(ids, ["one", "two"]);
    assert!(found.iter().all(|task| !task.is_ending));
    assert_eq!(second.poll(), []);
    assert!(second.start(&found[0].spec).is_err(), "it is already running");
    await_output(&second, "one", "up");
    second.kill("one");
    assert_eq!(next(&mut second), Event::Ended("one".to_owned(), Exit::Stopped));
    second.stop("two");
    assert_eq!(next(&mut second), Event::Ended("two".to_owned(), Exit::Stopped));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn what_a_killed_supervisor_leaves_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    driver.start(&shell("orphan", "sleep 1000 & echo up; wait")).unwrap();
    assert_eq!(next(&mut driver), Event::Started("orphan".to_owned()));
    await_output(&driver, "orphan", "up");
    let pid = supervisor(folder.path(), "orphan");
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(next(&mut driver), Event::Ended("orphan".to_owned(), Exit::Lost));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn a_task_that_kills_its_supervisor_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    driver.start(&shell("rogue", &stray(folder.path(), "kill -9 $P"))).unwrap();
    assert_eq!(await_end(&mut driver), Event::Ended("rogue".to_owned(), Exit::Lost));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn a_task_that_was_never_healthy_is_found_as_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let is_healthy = folder.path().join("healthy");
    let health = health(&format!("test -e {}", is_healthy.display()));
    let mut first = driver(folder.path());
    let spec = TaskSpec { health: Some(health), ..shell("slow", "echo up; exec sleep 1000") };
    first.start(&spec).unwrap();
    await_output(&first, "slow", "up");
    drop(first);
    let mut second = driver(folder.path());
    assert!(second.find().unwrap().iter().all(|task| !task.is_started));
    assert_eq!(second.poll(), []);
    File::create(&is_healthy).unwrap();
    assert_eq!(next(&mut second), Event::Started("slow".to_owned()));
    drop(second);
    let mut third = driver(folder.path());
    assert!(third.find().unwrap().iter().all(|task| task.is_started));
    third.kill("slow");
    assert_eq!(next(&mut third), Event::Ended("slow".to_owned(), Exit::Stopped));
}

#[test]
fn the_start_of_a_task_that_was_never_healthy_is_not_reported() {
    let health = HealthCheck { start_period_ms: 0, ..health("false") };
    let spec = TaskSpec { health: Some(health), ..shell("ill", "while :; do sleep 0.05; done") };
    let folder = tempfile::tempdir().unwrap();
    driver(folder.path()).start(&spec).unwrap();
    let mut second = driver(folder.path());
    assert!(second.find().unwrap().iter().all(|task| !task.is_started));
    assert_eq!(next(&mut second), Event::Ended("ill".to_owned(), Exit::Unhealthy));
}

#[test]
fn a_task_that_forges_its_end_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let journal = folder.path().join("forger/journal.jsonl");
    let end = r#"{\"ended\":{\"code\":0}}"#;
    let first = format!("echo \"{end}\" >> {}; kill -9 $P", journal.display());
    driver.start(&shell("forger", &stray(folder.path(), &first))).unwrap();
    assert_eq!(await_end(&mut driver), Event::Ended("forger".to_owned(), Exit::Code(0)));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn a_lock_that_a_task_holds_does_not_hide_the_end_of_its_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = driver(folder.path());
    first.start(&shell("holder", "echo up; while :; do sleep 0.05; done")).unwrap();
    assert_eq!(next(&mut first), Event::Started("holder".to_owned()));
    drop(first);
    let mut second = driver(folder.path());
    assert_eq!(second.find().unwrap().len(), 1);
    rustix::process::kill_process(supervisor(folder.path(), "holder"), Signal::KILL).unwrap();
    // Simulates a process of the task that takes the lock as soon as it is free.
    let lock = File::open(folder.path().join("holder")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::LockShared).unwrap();
    assert_eq!(next(&mut second), Event::Ended("holder".to_owned(), Exit::Lost));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn a_task_whose_journal_is_gone_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = driver(folder.path());
    first.start(&shell("lost", "echo up; while :; do sleep 0.05; done")).unwrap();
    assert_eq!(next(&mut first), Event::Started("lost".to_owned()));
    drop(first);
    std::fs::remove_file(folder.path().join("lost/journal.jsonl")).unwrap();
    let mut second = driver(folder.path());
    assert_eq!(second.find().unwrap().len(), 1);
    second.kill("lost");
    assert_eq!(next(&mut second), Event::Ended("lost".to_owned(), Exit::Stopped));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn a_task_that_stops_its_supervisor_is_killed() {
    // With a patience of zero, the driver kills the supervisor before the supervisor can end the task.
    for patience in [Duration::from_secs(60), Duration::ZERO] {
        let folder = tempfile::tempdir().unwrap();
        let mut driver = driver_with(folder.path(), patience);
        let (gate, stopped) = (folder.path().join("gate"), folder.path().join("stopped"));
        let script = format!(
            "while [ ! -e {} ]; do sleep 0.05; done; kill -STOP $P; echo > {}",
            gate.display(),
            stopped.display()
        );
        driver.start(&shell("stopper", &stray(folder.path(), &script))).unwrap();
        assert_eq!(next(&mut driver), Event::Started("stopper".to_owned()));
        File::create(&gate).unwrap();
        exists(&stopped);
        driver.kill("stopper");
        assert_eq!(next(&mut driver), Event::Ended("stopper".to_owned(), Exit::Stopped));
        assert!(!is_anything_left(folder.path()));
    }
}

#[test]
fn an_end_is_told_to_each_agent_until_it_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = driver(folder.path());
    first.start(&shell("short", "exit 4")).unwrap();
    let journal = folder.path().join("short/journal.jsonl");
    while !std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("ended")) {
        std::thread::yield_now();
    }
    drop(first);
    for is_last in [false, true] {
        let mut second = driver(folder.path());
        assert_eq!(second.find().unwrap().len(), 1);
        second.confirm_end("short");
        assert_eq!(next(&mut second), Event::Ended("short".to_owned(), Exit::Code(4)));
        if is_last {
            second.confirm_end("short");
        }
    }
    let mut third = driver(folder.path());
    assert_eq!(third.find().unwrap(), []);
    assert_eq!(third.poll(), []);
    third.start(&shell("short", "exit 5")).unwrap();
    all(&mut third, 2);
    let mut fourth = driver(folder.path());
    assert_eq!(fourth.find().unwrap().len(), 1, "the end of the next run is not confirmed");
}

/// The folders of old tasks are removed, but not of those whose ends a restarted agent must report.
#[test]
fn the_folders_of_the_latest_confirmed_tasks_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let names = || (0..203).map(|number| format!("t{number}"));
    for name in names() {
        driver.start(&shell(&name, "true")).unwrap();
        all(&mut driver, 2);
    }
    let is_there = |name: &str| folder.path().join(name).exists();
    assert!(names().all(|name| is_there(&name)), "none is confirmed");
    names().for_each(|name| driver.confirm_end(&name));
    assert_eq!(names().filter(|name| !is_there(name)).collect::<Vec<_>>(), ["t0", "t1", "t2"]);
    driver.start(&shell("t3", "true")).unwrap();
    all(&mut driver, 2);
    driver.start(&shell("more", "true")).unwrap();
    all(&mut driver, 2);
    driver.confirm_end("more");
    assert!(is_there("t3"), "its next run has not been confirmed");
    let mut inside = driver_with(&folder.path().join("tasks"), Duration::from_secs(60));
    inside.confirm_end("../t4");
    let journal = std::fs::read_to_string(folder.path().join("t4/journal.jsonl")).unwrap();
    assert_eq!(journal.matches("confirmed").count(), 1, "an id is no path");
}

#[test]
fn the_logs_of_ended_tasks_leave_room_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let size = Some(c"size=400k");
    let flags = rustix::mount::MountFlags::empty();
    if rustix::mount::mount("none", folder.path(), "tmpfs", flags, size).is_err() {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let _mounted = Mounted(folder.path());
    let fill_up = || {
        let mut more = File::options().append(true).create(true).open(folder.path().join("more"));
        while more.as_mut().is_ok_and(|file| file.write_all(&[0; 4096]).is_ok()) {}
    };
    let mut driver = driver(folder.path());
    // The many files keep the driver busy removing them while the next task is started.
    let files = "n=20000; while [ $n -gt 0 ]; do : > $n; n=$((n-1)); done";
    let mut fill = shell("fill", &format!("head -c 300000 /dev/zero; {files}"));
    fill.limits.log_bytes = 1 << 20;
    driver.start(&fill).unwrap();
    all(&mut driver, 2);
    driver.confirm_end("fill");
    driver.usage();
    assert!(folder.path().join("fill").exists(), "there still is room");
    fill_up();
    let start = |driver: &mut ProcessDriver, name: &str| {
        driver.start(&shell(name, "true")).unwrap();
        all(driver, 2);
        driver.confirm_end(name);
    };
    start(&mut driver, "next");
    assert!(!folder.path().join("fill").exists() && folder.path().join("next").exists());
    // Without a further start, room is made when the use is measured.
    fill_up();
    // While the files of a task are being removed, its log is kept.
    while folder.path().join("next").exists() {
        driver.usage();
    }
    // No folder is left that could be removed.
    fill_up();
    let refused = driver.start(&shell("last", "true")).unwrap_err();
    assert!(refused.is_disk_full(), "{refused}");
    let space = driver.disk_space().unwrap();
    assert!(space.total_bytes == 400 << 10 && space.free_bytes < 8192, "{space:?}");
}

/// A mounted folder, which is unmounted at the end.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_process_with_the_number_of_a_supervisor_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let task = folder.path().join("old");
    std::fs::create_dir(&task).unwrap();
    std::fs::write(task.join("spec.json"), serde_json::to_vec(&shell("old", "true")).unwrap())
        .unwrap();
    // Simulates a reboot after which another process has the pid.
    let stale = format!("{{\"supervisor\":{{\"pid\":{},\"start_ticks\":1}}}}\n", other.id());
    std::fs::write(task.join("journal.jsonl"), stale).unwrap();
    let mut driver = driver(folder.path());
    assert_eq!(driver.find().unwrap().len(), 1);
    driver.kill("old");
    assert_eq!(driver.poll(), [Event::Ended("old".to_owned(), Exit::Lost)]);
    assert!(other.try_wait().unwrap().is_none(), "it runs still");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_program_that_fails_is_started_again_so_often() {
    let mut spec = shell("again", "echo run; exit 1");
    spec.restart = RestartPolicy { attempts: 3, delay_ms: 1 };
    let (exit, output) = run(&spec);
    assert_eq!((exit, output.lines().count()), (Exit::Code(1), 4));
    spec = shell("once", "echo run; exit 0");
    spec.restart = RestartPolicy { attempts: 3, delay_ms: 1 };
    assert_eq!(run(&spec).1.lines().count(), 1, "it has done its work");
    spec.stays_up = true;
    assert_eq!(run(&spec).1.lines().count(), 4, "a service is to stay up");
}

/// A supervisor that may open few files can start no program. With still fewer files, it fails itself.
#[test]
fn a_program_that_the_supervisor_cannot_start_counts_as_failed() {
    let restart = RestartPolicy { attempts: 1, delay_ms: 1 };
    let mut ends = (6..24).map(|files| {
        let folder = tempfile::tempdir().unwrap();
        let limited = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let program = env!("CARGO_BIN_EXE_test-supervisor");
        let supervisor = ["/bin/sh", "-c", &limited, program].map(Into::into).to_vec();
        let (folder, patience) = (folder.path().to_owned(), Duration::from_secs(60));
        let settings = ProcessSettings { folder, supervisor, cgroups: None, patience };
        let mut driver = ProcessDriver::new(settings).unwrap();
        driver.start(&TaskSpec { restart, ..shell("limited", "true") }).unwrap();
        let mut events = Vec::new();
        while !matches!(events.last(), Some(Event::Ended(..))) {
            events.extend(driver.poll());
            std::thread::yield_now();
        }
        events
    });
    let why = "the supervisor cannot start a process";
    let cannot = |exit: &Exit| matches!(exit, Exit::NotStarted(is) if is.starts_with(why));
    let is_counted = |events: Vec<Event>| {
        matches!(&*events, [Event::Restarted(_, first, 1), Event::Ended(_, last)]
            if cannot(first) && cannot(last))
    };
    assert!(ends.any(is_counted));
}

#[test]
fn a_log_is_continued_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let mut run = |word: &str, owner: &str| {
        let spec = TaskSpec { owner: owner.to_owned(), ..shell("7-0", &format!("echo {word}")) };
        driver.start(&spec).unwrap();
        all(&mut driver, 2);
        let read = |folder: PathBuf| logs::read(&folder, LogStream::Stdout, 0, 100).unwrap().bytes;
        ["ann", "ben", ""].map(|owner| {
            driver.logs("7-0", owner).map(|folder| String::from_utf8(read(folder)).unwrap())
        })
    };
    assert_eq!(run("one", "ann"), [Some("one\n".to_owned()), None, None]);
    assert_eq!(run("two", "ann"), [Some("one\ntwo\n".to_owned()), None, None]);
    assert_eq!(run("three", "ben"), [None, Some("three\n".to_owned()), None]);
}

#[test]
fn a_start_is_told_before_a_restart_that_no_poll_saw() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let mut spec = shell("again", "echo run; exit 1");
    spec.restart = RestartPolicy { attempts: 1, delay_ms: 1 };
    driver.start(&spec).unwrap();
    // Both runs are over before the first poll.
    while driver.logs("again", "").is_none_or(|_| output(&driver, "again").lines().count() != 2) {
        std::thread::yield_now();
    }
    let restarted = Event::Restarted("again".to_owned(), Exit::Code(1), 1);
    let ended = Event::Ended("again".to_owned(), Exit::Code(1));
    let started = Event::Started("again".to_owned());
    assert_eq!(all(&mut driver, 3), [started, restarted, ended]);
}

#[test]
fn a_check_makes_a_task_ready_and_ends_it_when_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let (marker, gate) = (folder.path().join("healthy"), folder.path().join("gate"));
    let script = format!("echo up; while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let mut spec = shell("checked", &script);
    spec.health =
        Some(HealthCheck { failures: 2, ..health(&format!("test -e {}", marker.display())) });
    driver.start(&spec).unwrap();
    await_output(&driver, "checked", "up");
    assert_eq!(driver.poll(), [], "it is not ready");
    std::fs::write(&marker, "").unwrap();
    assert_eq!(next(&mut driver), Event::Started("checked".to_owned()));
    std::fs::remove_file(&marker).unwrap();
    assert_eq!(next(&mut driver), Event::Ended("checked".to_owned(), Exit::Unhealthy));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn use_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    driver.start(&shell("busy", "while :; do :; done")).unwrap();
    assert_eq!(next(&mut driver), Event::Started("busy".to_owned()));
    driver.usage();
    let mut usage = driver.usage();
    while usage.cpu_millis == 0 {
        std::thread::yield_now();
        usage = driver.usage();
    }
    assert!(usage.memory_bytes > 100_000, "{usage:?}");
    let one = |usage: &omega_agent::Usage| {
        usage.tasks.iter().map(|task| task.task.clone()).collect::<Vec<_>>()
    };
    assert_eq!(one(&usage), ["busy"]);
    driver.kill("busy");
    next(&mut driver);
    let last = driver.usage();
    assert_eq!((one(&last), last.memory_bytes), (vec!["busy".to_owned()], 0));
    assert_eq!(driver.usage(), omega_agent::Usage::default());
}

/// Processor time between the last measurement and the end counts, too, and that before an agent's restart does not
/// count twice.
#[test]
fn all_processor_time_of_a_task_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let made = Command::new("mkfifo").arg(&gate).status().unwrap();
    assert!(made.success());
    // Each half second of processor time is that of a child. The shell uses none while it waits at the named pipe.
    let burn = "python3 -c 'import time\nwhile time.process_time() < 0.5: pass'";
    let script = format!("{burn}; echo half; read go < {}; {burn}", gate.display());
    let mut first = driver(folder.path());
    first.start(&shell("burning", &script)).unwrap();
    await_output(&first, "burning", "half");
    let cpu_us = |driver: &mut ProcessDriver| {
        driver.usage().tasks.iter().map(|task| task.cpu_us).sum::<u64>()
    };
    let before = cpu_us(&mut first);
    assert!((450_000..1_000_000).contains(&before), "{before}");
    drop(first);
    let mut second = driver(folder.path());
    second.find().unwrap();
    assert_eq!(cpu_us(&mut second), 0);
    std::fs::write(&gate, "\n").unwrap();
    assert!(matches!(next(&mut second), Event::Ended(_, Exit::Code(0))));
    let after = cpu_us(&mut second);
    assert!((450_000..1_000_000).contains(&after), "{after}");
}
