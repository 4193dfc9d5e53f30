//! Completion of names: the hidden command that finds them. `shells.rs` runs the scripts that call it.

mod shells;

use crate::kit::callers::Guarded;
use crate::kit::cell::Served;
use crate::kit::certificates::issue;
use crate::kit::process::{CommandOutput, folder, omega, run_omega};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time after which a completion counts as hung.
const BOUND: Duration = Duration::from_secs(120);

/// Runs a command that must end within the bound.
fn bounded(command: &mut Command) -> CommandOutput {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let until = Instant::now() + BOUND;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{command:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap().into()
}

/// The variable for the time in which names are looked up, in milliseconds.
const TIME: &str = "OMEGA_NAMES_MS";

/// A time in which each reachable cell answers, on a busy computer too.
const LONG_MS: &str = "60000";

/// Runs the hidden command for a line whose last word is `last`, and returns the names. There must be no error. If the
/// address is empty, no variable names a cell. ` | ` in the line is followed by the words after the cursor.
fn names_at(dir: &Path, address: &str, line: &str, last: &str) -> Vec<String> {
    names_within(LONG_MS, dir, address, line, last)
}

/// Names that are found within so many milliseconds.
fn names_within(ms: &str, dir: &Path, address: &str, line: &str, last: &str) -> Vec<String> {
    let (line, after) = line.split_once(" | ").unwrap_or((line, ""));
    let before: Vec<&str> = line.split_whitespace().collect();
    let mut command = omega(dir);
    command.arg("__names").arg((before.len() + 1).to_string());
    command.args(before).arg(last).args(after.split_whitespace());
    command.env_remove("OMEGA_CELL").env("OMEGA_CONFIG", dir.join("contexts.toml"));
    command.env(TIME, ms);
    if !address.is_empty() {
        command.env("OMEGA_CELL", address);
    }
    let output = bounded(&mut command);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{line} {last}");
    output.stdout.lines().map(str::to_owned).collect()
}

fn names(cell: &Served, line: &str, last: &str) -> Vec<String> {
    names_at(cell.path(), &cell.address, line, last)
}

/// A cell with machines, jobs, a tenant and schedulers.
fn filled() -> Served {
    let cell = Served::new(&[]);
    for machine in ["a-10", "a-2", "b-1"] {
        cell.ok(&format!("machine add {machine} --cpu 4"));
    }
    cell.ok("job submit web --count 2");
    cell.ok("job submit worker --tenant team-a");
    cell.ok("job submit db --count 3");
    cell.ok("job kill worker");
    cell.ok("quota set team-a --cpu 10");
    cell
}

#[test]
fn each_verb_completes_the_names_of_its_objects() {
    let cell = filled();
    for verb in ["get", "status", "delete", "history", "versions", "watch", "get -o json"] {
        assert_eq!(names(&cell, &format!("job {verb}"), ""), ["db", "web", "worker"], "{verb}");
    }
    for verb in ["kill", "stop", "resize", "scale", "explain", "rollback", "restart"] {
        assert_eq!(names(&cell, &format!("job {verb}"), "w"), ["web"], "{verb}");
    }
    for verb in ["get", "drain", "cordon", "resume", "uncordon", "remove"] {
        assert_eq!(names(&cell, &format!("machine {verb}"), "a"), ["a-2", "a-10"], "{verb}");
    }
    for verb in ["set", "clear", "guarantee", "admit"] {
        assert_eq!(names(&cell, &format!("quota {verb}"), "t"), ["team-a"], "{verb}");
    }
    for (last, expected) in [
        ("", &["db/", "web/", "worker/"][..]),
        ("d", &["db/0", "db/1", "db/2"]),
        ("web/", &["web/0", "web/1"]),
        ("web/1", &["web/1"]),
        ("web/2", &[]),
        ("none/", &[]),
    ] {
        assert_eq!(names(&cell, "task logs", last), expected, "{last}");
        assert_eq!(names(&cell, "task get", last), expected, "{last}");
    }
    assert_eq!(names(&cell, "task list --job", "w"), ["web", "worker"]);
    assert_eq!(names(&cell, "task list", "--machine=b"), ["b-1"]);
    assert_eq!(names(&cell, "job submit new --tenant", ""), ["default", "team-a"]);
    // These words are not names of the cell, or not yet.
    for (line, last) in [
        ("job submit", "w"),
        ("machine add", "a"),
        ("job get web", "w"),
        ("job get", "-"),
        ("job get -o", "w"),
        ("job list", "w"),
        ("job submit new --", "w"),
        ("job", "w"),
        ("run", "w"),
        ("no such", "w"),
    ] {
        assert_eq!(names(&cell, line, last), [""; 0], "{line} {last}");
    }
}

#[test]
fn schedulers_and_contexts_are_completed_too() {
    let cell = filled();
    cell.ok("machine remove b-1");
    let transaction = "evictions = []\n[[claim]]\ntask = \"web/0\"\nmachine = \"a-2\"\n";
    std::fs::write(cell.path().join("txn.toml"), transaction).unwrap();
    cell.ok("txn commit -f txn.toml --as by-me");
    assert_eq!(names(&cell, "lease revoke", "by"), ["by-me"]);
    assert_eq!(names(&cell, "job list --scheduler", "by"), ["by-me"]);

    let contexts = cell.path().join("contexts.toml");
    let text = format!(
        "current = \"here\"\n[contexts.here]\ncell = [\"{}\"]\n[contexts.gone]\ncell = [\"127.0.0.1:1\"]\n",
        cell.address
    );
    std::fs::write(contexts, text).unwrap();
    for line in ["context use", "context remove", "job list --context", "scheduler --context"] {
        assert_eq!(names(&cell, line, ""), ["gone", "here"], "{line}");
    }
    // No variable names a cell, so the contexts do.
    let of_context = |line: &str| names_at(cell.path(), "", line, "a");
    assert_eq!(of_context("machine get"), ["a-2", "a-10"]);
    assert_eq!(of_context("machine get --context here"), ["a-2", "a-10"]);
    assert_eq!(of_context("machine get --context=gone"), [""; 0]);
    assert_eq!(of_context(&format!("machine get --cell {}", cell.address)), ["a-2", "a-10"]);
    // Bash splits words at `=` and `:`.
    let (host, port) = cell.address.split_once(':').unwrap();
    let split = of_context(&format!("machine get --cell = {host} : {port}"));
    assert_eq!(split, ["a-2", "a-10"]);
    // Options may follow the cursor.
    assert_eq!(of_context("machine get | --context gone"), [""; 0]);
    assert_eq!(of_context("machine get | -o json --context=gone"), [""; 0]);
    let after = of_context(&format!("machine get | --cell = {host} : {port}"));
    assert_eq!(after, ["a-2", "a-10"]);
    let after = of_context(&format!("job list --machine | --cell {}", cell.address));
    assert_eq!(after, [""; 0], "no such option");
    let after = of_context(&format!("task list --machine | --cell {}", cell.address));
    assert_eq!(after, ["a-2", "a-10"]);
}

#[test]
fn a_cell_that_does_not_answer_has_no_names() {
    let dir = folder(&[("contexts.toml", "not a file of contexts")]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    for address in ["127.0.0.1:1", &silent, "nowhere", ""] {
        let found = names_within("1000", dir.path(), address, "job get", "");
        assert_eq!(found, [""; 0], "{address}");
    }
    assert_eq!(names_at(dir.path(), "", "context use", ""), [""; 0]);
    for wrong in [&["__names"][..], &["__names", "x", "job", "get", ""], &["__names", "9", "job"]] {
        let output = bounded(omega(dir.path()).args(wrong));
        assert_eq!(
            (output.code, output.stdout.as_str(), output.stderr.as_str()),
            (Some(0), "", "")
        );
    }
    // A replica that does not answer does not hide the names of the others.
    let cell = filled();
    let both = format!("{silent},{}", cell.address);
    assert_eq!(names_at(dir.path(), &both, "machine get", "b"), ["b-1"]);
}

/// Passes one connection on to a cell. After `bytes_max` bytes of the cell, nothing more reaches the client. Returns
/// the proxy's address, and the number of bytes that have reached the client.
fn proxy(cell: &str, bytes_max: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (cell, passed) = (cell.to_owned(), Arc::new(AtomicUsize::new(0)));
    let count = passed.clone();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(cell).unwrap();
        let (mut of_client, mut to_server) =
            (client.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut of_client, &mut to_server));
        let mut bytes = [0; 1024];
        while let Ok(length @ 1..) = server.read(&mut bytes) {
            let left = bytes_max.saturating_sub(count.load(Ordering::Relaxed)).min(length);
            count.fetch_add(left, Ordering::Relaxed);
            if client.write_all(&bytes[..left]).is_err() {
                return;
            }
        }
    });
    (address, passed)
}

#[test]
fn a_cell_that_is_too_slow_has_the_names_of_its_first_pages() {
    let machines = "[[machine]]\nname = \"KIND-{n}\"\ncount = COUNT\ncapacity = { cpu = 1 }\n";
    let of = |kind: &str, count: &str| machines.replace("KIND", kind).replace("COUNT", count);
    let cell = Served::new(&[("machines.toml", &(of("a", "3") + &of("b", "3000")))]);
    cell.ok("machine add -f machines.toml");
    let (address, passed) = proxy(&cell.address, usize::MAX);
    assert_eq!(names_at(cell.path(), &address, "machine get", "a"), ["a-1", "a-2", "a-3"]);
    // The first page has passed, but not the last one.
    let (address, _) = proxy(&cell.address, passed.load(Ordering::Relaxed) / 2);
    let found = names_within("5000", cell.path(), &address, "machine get", "a");
    assert_eq!(found, ["a-1", "a-2", "a-3", "a..."]);
    // A page without names is no list.
    let (address, _) = proxy(&cell.address, passed.load(Ordering::Relaxed) / 2);
    assert_eq!(names_within("1000", cell.path(), &address, "machine get", "c"), [""; 0]);
}

#[test]
fn long_lists_are_cut_and_odd_names_are_left_out() {
    let machines = "[[machine]]\nname = \"m-{n}\"\ncount = 230\ncapacity = { cpu = 1 }\n";
    let cell = Served::new(&[("machines.toml", machines)]);
    cell.ok("machine add -f machines.toml");
    let listed = names(&cell, "machine get", "m");
    assert_eq!((listed.len(), listed[0].as_str()), (201, "m-1"));
    assert_eq!(listed[200], "m...", "a shell must not complete the `-`, which others may lack");
    assert_eq!(names(&cell, "machine get", "m-23"), ["m-23", "m-230"]);
    for odd in ["a b", "a;b", "a$(b)", "a`b`", "a:b", "a'b", "a*b", "~a", "a\\b", "a", "\u{e9}"] {
        let result = omega(cell.path())
            .args(["job", "submit", odd])
            .env("OMEGA_CELL", &cell.address)
            .output();
        assert!(result.unwrap().status.success(), "{odd}");
    }
    assert_eq!(names(&cell, "job get", ""), ["a", "\u{e9}"]);
}

#[test]
fn only_names_that_the_role_may_list_are_completed() {
    let guarded = Guarded::start();
    issue(guarded.path(), "certs", "reader/own", &["--tenant=own"]);
    let options = |name: &str| {
        let mut options = format!("--cell {}", guarded.address());
        let file = |option: &str, file: &str| format!(" --tls-{option}=certs/{file}");
        options += &file("ca", "ca.pem");
        options += &file("cert", &format!("{name}.pem"));
        options + &file("key", &format!("{name}.key"))
    };
    for (job, tenant) in [("one", "own"), ("other", "others")] {
        let line = format!("job submit {job} --tenant {tenant} {}", options("operator-ann"));
        let output = run_omega(guarded.path(), &line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
    let response = |name: &str, line: &str| {
        names_at(guarded.path(), "", &format!("{line} {}", options(name)), "o")
    };
    assert_eq!(response("operator-ann", "job get"), ["one", "other"]);
    assert_eq!(response("reader-own", "job get"), ["one"]);
    assert_eq!(response("operator-ann", "task get"), ["one/", "other/"]);
    assert_eq!(response("reader-own", "task get"), ["one/0"]);
    assert_eq!(response("operator-ann", "quota set"), ["others", "own"]);
    assert_eq!(response("reader-own", "quota set"), ["own"]);
}
