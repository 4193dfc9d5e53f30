//! Tests with programs that try to block the agent, to read files of others, or to escape.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod support;

use omega_agent::logs::{self, LogStream};
use omega_agent::{Driver, Event, Exit, TaskSpec};
use omega_core::{HealthCheck, Probe, RestartPolicy};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{all, await_end, await_output, driver, is_anything_left, next, output, shell, stray};

const FOREVER: &str = "while :; do sleep 0.05; done";

/// A task of another user; `None` if this process may not change its user.
fn of_other_user(folder: &Path, id: &str, script: &str) -> Option<TaskSpec> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: the tests do not run as root");
        return None;
    }
    fs::set_permissions(folder, Permissions::from_mode(0o711)).unwrap();
    Some(TaskSpec { user: Some("nobody".to_owned()), ..shell(id, script) })
}

/// Puts a named pipe, a link, or a folder in the place of each file of a task that runs.
#[test]
fn replaced_files_neither_block_nor_redirect() {
    let secret = tempfile::tempdir().unwrap();
    let secret = secret.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let link = format!("ln -s {}", secret.display());
    for put in ["mkfifo", "mkdir -p", "ln -s /dev/zero", &link] {
        let folder = tempfile::tempdir().unwrap();
        let mut first = driver(folder.path());
        // Each file is removed first. `wait` is a builtin, so the replaced files are not needed by the shell.
        let script = format!(
            "echo up; cd ..; for file in journal.jsonl spec.json journal.jsonl.new spec.json.new \
             container.pid environment logs/stdout.*; do rm -r $file; {put} $file; done; cd work; \
             echo x > done; {FOREVER}"
        );
        first.start(&shell("rogue", &script)).unwrap();
        let done = folder.path().join("rogue").join("work").join("done");
        while !done.exists() {
            first.poll();
            std::thread::yield_now();
        }
        first.poll();
        first.usage();
        let logs = first.logs("rogue", "");
        assert_eq!(logs, None, "{put}: its owner is not known");
        let logs = folder.path().join("rogue/logs");
        let part = logs::read(&logs, LogStream::Stdout, 0, 100).unwrap();
        assert_eq!(part.bytes, b"", "{put}");
        drop(first);
        let mut second = driver(folder.path());
        let found = second.find().unwrap();
        assert_eq!(found.iter().map(|task| &*task.spec.id).collect::<Vec<_>>(), ["rogue"], "{put}");
        second.kill("rogue");
        assert_eq!(
            await_end(&mut second),
            Event::Ended("rogue".to_owned(), Exit::Stopped),
            "{put}"
        );
        second.confirm_end("rogue");
        assert!(!is_anything_left(folder.path()), "{put}");
        // A further run starts with files of its own.
        second.start(&shell("rogue", "echo again")).unwrap();
        assert_eq!(
            all(&mut second, 2)[1],
            Event::Ended("rogue".to_owned(), Exit::Code(0)),
            "{put}"
        );
        assert!(output(&second, "rogue").ends_with("again\n"), "{put}");
        assert_eq!(fs::read(&secret).unwrap(), b"secret", "{put}");
    }
}

#[test]
fn a_link_in_the_place_of_the_working_directory_is_not_followed() {
    let [folder, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut driver = driver(folder.path());
    let link = format!("pwd -P; cd ..; rmdir work; ln -s {} work; exit 1", other.path().display());
    let restart = RestartPolicy { attempts: 1, delay_ms: 1 };
    driver.start(&TaskSpec { restart, ..shell("linker", &link) }).unwrap();
    let ended = Event::Ended("linker".to_owned(), Exit::Code(1));
    let mut events = Vec::new();
    while events.last() != Some(&ended) {
        events.extend(driver.poll());
        std::thread::yield_now();
    }
    let work = format!("{}\n", folder.path().canonicalize().unwrap().join("linker/work").display());
    assert_eq!(output(&driver, "linker"), work.repeat(2));
    assert!(other.path().exists() && !folder.path().join("linker/work").exists());
}

#[test]
fn a_changed_description_does_not_lead_to_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let tasks = folder.path().join("tasks");
    for task in ["one", "two"] {
        fs::create_dir_all(tasks.join(task)).unwrap();
    }
    let description = serde_json::to_vec(&shell("../tasks/two", "true")).unwrap();
    fs::write(tasks.join("one/spec.json"), description).unwrap();
    let mut driver = driver(&tasks);
    let found = driver.find().unwrap();
    assert_eq!(found.iter().map(|task| &*task.spec.id).collect::<Vec<_>>(), ["one"]);
    assert_eq!(next(&mut driver), Event::Ended("one".to_owned(), Exit::Lost));
}

#[test]
fn another_user_can_neither_list_nor_lock_nor_read_the_files_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo up; for file in . ./*; do :; done; \
                  flock -n .. true && echo locked; ls .. && echo listed; ls ../.. && echo listed; \
                  for file in spec.json journal.jsonl logs/stdout.00000000000000000000; do \
                  cat ../$file && echo read; done; mv ../work ../other && echo moved; echo end";
    let Some(spec) = of_other_user(folder.path(), "nosy", script) else { return };
    // An agent of an earlier release may have created the folders with more rights.
    let tasks = folder.path().join("tasks");
    fs::create_dir_all(tasks.join("nosy")).unwrap();
    for folder in [&tasks, &tasks.join("nosy")] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    let mut driver = driver(&tasks);
    driver.start(&spec).unwrap();
    assert_eq!(all(&mut driver, 2)[1], Event::Ended("nosy".to_owned(), Exit::Code(0)));
    assert_eq!(output(&driver, "nosy"), "up\nend\n");
}

#[test]
fn a_program_of_another_user_can_open_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "echo one > /dev/stdout && echo two >> /proc/self/fd/1 && echo three > /dev/stderr";
    let Some(spec) = of_other_user(folder.path(), "opener", script) else { return };
    let mut driver = driver(folder.path());
    driver.start(&spec).unwrap();
    assert_eq!(all(&mut driver, 2)[1], Event::Ended("opener".to_owned(), Exit::Code(0)));
    assert_eq!(output(&driver, "opener"), "one\ntwo\n");
    let logs = driver.logs("opener", "").unwrap();
    assert_eq!(logs::read(&logs, LogStream::Stderr, 0, 100).unwrap().bytes, b"three\n");
}

/// The descriptors that a program inherits from this process, because the starter of this process left them open.
fn inherited() -> Vec<u32> {
    let numbers = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| {
        let info = fs::read_to_string(entry.path()).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        let is_closed = flags & rustix::fs::OFlags::CLOEXEC.bits() != 0;
        entry.file_name().to_str()?.parse().ok().filter(|_| !is_closed)
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn programs_and_health_checks_get_no_descriptors_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("of-check");
    // When a descriptor is looked up, the shell has closed that of the folder.
    let list = "for f in /proc/$$/fd/*; do if [ -L $f ]; then echo ${f##*/}; fi; done; echo end";
    let name = file.display();
    let check = format!("exec > {name}.new; {list}; mv {name}.new {name}");
    let probe = Probe::Command(vec!["/bin/sh".into(), "-c".into(), check.as_str().into()]);
    let health =
        HealthCheck { probe, interval_ms: 20, timeout_ms: 60_000, failures: 1, start_period_ms: 0 };
    let mut driver = driver(folder.path());
    let spec = shell("lister", &format!("{list}; {FOREVER}"));
    driver.start(&TaskSpec { health: Some(health), ..spec }).unwrap();
    assert_eq!(next(&mut driver), Event::Started("lister".to_owned()));
    await_output(&driver, "lister", "end");
    let mut expected = inherited();
    expected.retain(|number| *number > 2);
    expected.splice(0..0, [0, 1, 2]);
    for text in [output(&driver, "lister"), fs::read_to_string(&file).unwrap()] {
        let mut numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, expected);
    }
    driver.kill("lister");
    next(&mut driver);
}

/// Without a name that is text, the process was missing in the list of processes, and continued.
#[test]
fn a_process_whose_name_is_no_text_cannot_escape() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let script = stray(folder.path(), "kill -9 $P").replace("setsid /bin/sh", "setsid ./$NAME");
    let script = format!("NAME=$(printf 'a\\377'); ln -s /bin/sh ./$NAME; {script}");
    driver.start(&shell("rogue", &script)).unwrap();
    assert_eq!(await_end(&mut driver), Event::Ended("rogue".to_owned(), Exit::Lost));
    assert!(!is_anything_left(folder.path()));
}

#[test]
fn a_program_that_never_started_is_not_reported_as_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path());
    let restart = RestartPolicy { attempts: 1_000, delay_ms: 1 };
    let missing =
        TaskSpec { command: "/no/such/program".to_owned(), restart, ..shell("never", "") };
    driver.start(&missing).unwrap();
    let is_why =
        |exit: &Exit| matches!(exit, Exit::NotStarted(why) if why.contains("No such file"));
    match next(&mut driver) {
        Event::Restarted(_, exit, 1) => assert!(is_why(&exit), "{exit}"),
        other => panic!("{other:?}"),
    }
    driver.stop("never");
    let mut events = driver.poll();
    while !matches!(events.last(), Some(Event::Ended(..))) {
        events.extend(driver.poll());
        std::thread::yield_now();
    }
    assert_eq!(events.pop(), Some(Event::Ended("never".to_owned(), Exit::Stopped)));
    assert!(events.iter().all(|event| matches!(event, Event::Restarted(..))), "{events:?}");
}
