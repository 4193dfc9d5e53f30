//! Completion of names: the hidden command that finds them, and the script of Bash that calls it.

use crate::callers::secure::Guarded;
use crate::kit::certificates::issue;
use crate::kit::process::{Said, folder, omega, say};
use crate::work::commands::Served;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Runs the hidden command for a line whose last word is `last`, and returns the names. There must be no error. If the
/// address is empty, no variable names a cell.
fn names_at(dir: &Path, address: &str, line: &str, last: &str) -> Vec<String> {
    let mut command = omega(dir);
    command.arg("__names").args(line.split_whitespace()).arg(last);
    command.env_remove("OMEGA_CELL").env("OMEGA_CONFIG", dir.join("contexts.toml"));
    if !address.is_empty() {
        command.env("OMEGA_CELL", address);
    }
    let said: Said = command.output().expect("omega starts").into();
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{line} {last}");
    said.stdout.lines().map(str::to_owned).collect()
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
    for verb in ["kill", "stop", "resize", "scale", "explain", "rollback"] {
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
}

#[test]
fn a_cell_that_does_not_answer_has_no_names() {
    let dir = folder(&[("contexts.toml", "not a file of contexts")]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    for address in ["127.0.0.1:1", &silent, "nowhere", ""] {
        assert_eq!(names_at(dir.path(), address, "job get", ""), [""; 0], "{address}");
    }
    assert_eq!(names_at(dir.path(), "", "context use", ""), [""; 0]);
    let said = say(dir.path(), &["__names"]);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), "", ""));
    // A replica that does not answer does not hide the names of the others.
    let cell = filled();
    let both = format!("{silent},{}", cell.address);
    assert_eq!(names_at(dir.path(), &both, "machine get", "b"), ["b-1"]);
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
        let said = omega(cell.path())
            .args(["job", "submit", odd])
            .env("OMEGA_CELL", &cell.address)
            .output();
        assert!(said.unwrap().status.success(), "{odd}");
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
        let said = say(guarded.path(), &line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
    }
    let told = |name: &str, line: &str| {
        names_at(guarded.path(), "", &format!("{line} {}", options(name)), "o")
    };
    assert_eq!(told("operator-ann", "job get"), ["one", "other"]);
    assert_eq!(told("reader-own", "job get"), ["one"]);
    assert_eq!(told("operator-ann", "task get"), ["one/", "other/"]);
    assert_eq!(told("reader-own", "task get"), ["one/0"]);
    assert_eq!(told("operator-ann", "quota set"), ["others", "own"]);
    assert_eq!(told("reader-own", "quota set"), ["own"]);
}

/// Completes lines in Bash, with the words as Bash splits them. Returns `None` if there is no Bash.
fn in_bash(cell: &Served, address: &str, lines: &[&[&str]]) -> Option<Vec<Vec<String>>> {
    let script = cell.path().join("omega.bash");
    std::fs::write(&script, cell.ok("completions bash")).unwrap();
    let mut code = format!("source '{}'\n", script.display());
    let program = omega(cell.path()).get_program().to_string_lossy().into_owned();
    for words in lines {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let (count, last) = (words.len(), &quoted[words.len() - 1]);
        let before = quoted.get(words.len().wrapping_sub(2)).unwrap_or(last);
        let all = quoted.join(" ");
        write!(code, "COMP_WORDS=('{program}' {all}); COMP_CWORD={count}; ").unwrap();
        writeln!(code, "_omega '{program}' {last} {before}; echo \"${{COMPREPLY[*]}}\"").unwrap();
    }
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", &code]).current_dir(cell.path());
    let Ok(output) = bash.env("OMEGA_CELL", address).output() else {
        println!("skipped: there is no Bash");
        return None;
    };
    let said = Said::from(output);
    assert_eq!(said.stderr, "");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    Some(said.stdout.lines().map(words).collect())
}

#[test]
fn bash_completes_names_and_else_verbs_and_options() {
    let cell = filled();
    let (host, port) = cell.address.split_once(':').unwrap();
    let lines: &[&[&str]] = &[
        &["job", "get", ""],
        &["job", "get", "wo"],
        &["task", "logs", "web/"],
        &["task", "list", "--job", "=", "d"],
        &["job", "ge"],
        &["job", "get", "--tls-c"],
        &["job", "get", "-o", "j"],
    ];
    let Some(completed) = in_bash(&cell, &cell.address, lines) else { return };
    let expected: [&[&str]; 7] = [
        &["db", "web", "worker"],
        &["worker"],
        &["web/0", "web/1"],
        &["db"],
        &["get"],
        &["--tls-ca", "--tls-cert"],
        &["json"],
    ];
    assert_eq!(completed, expected);
    // No cell answers at the address of the environment, but the line has another one.
    let lines: &[&[&str]] =
        &[&["job", "get", "--cell", host, ":", port, "wo"], &["job", "get", ""]];
    let completed = in_bash(&cell, "127.0.0.1:1", lines).unwrap();
    assert_eq!(completed[0], ["worker"]);
    assert!(completed[1].iter().any(|word| word == "--cell"), "{:?}", completed[1]);
}
