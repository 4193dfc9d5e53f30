//! The program that supervises the tasks of an agent: `omega-supervisor` beside `omega`, or `omega` itself.

use crate::kit::cell::Process;
use crate::kit::programs::Cell;
use crate::kit::wait::until;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SUPERVISOR: &str = "omega-supervisor";

/// Puts a program into a folder.
fn install(program: &Path, folder: &Path) -> PathBuf {
    let installed = folder.join(program.file_name().unwrap());
    // The copy of a program of 200 MB takes long, so a link is preferred.
    if fs::hard_link(program, &installed).is_err() {
        fs::copy(program, &installed).unwrap();
    }
    installed
}

/// The agent of a cell, whose program is in `folder`. Its standard error goes to a file.
fn agent(cell: &Cell, folder: &Path) -> Process {
    let omega = install(Path::new(env!("CARGO_BIN_EXE_omega")), folder);
    let mut command = Command::new(omega);
    command.args(["agent", "--no-limits", "--heartbeat=1", "--cpu=4", "--memory=1GiB", "--cell"]);
    command.args([&cell.served.address, "--name=box", "--dir=box"]).current_dir(folder);
    let errors = fs::File::create(folder.join("errors")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("offers machine"), "{line:?}");
    Process(child)
}

/// Runs a job on the agent. Returns the program of the job's supervisor, and the agent's standard error.
fn run(folder: &Path) -> (String, String) {
    let cell = Cell::new(&[]);
    let _agent = agent(&cell, folder);
    cell.served.ok("job submit web --cpu 1 -- /bin/sleep 1000");
    until(|| cell.tasks("web", "running") == 1);
    let journals = fs::read_dir(folder.join("box/tasks")).unwrap();
    let journal = journals.map(|task| task.unwrap().path().join("journal.jsonl")).next().unwrap();
    let text = fs::read_to_string(journal).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let program = fs::read_link(format!("/proc/{}/exe", first["supervisor"]["pid"])).unwrap();
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    cell.served.ok("job kill web");
    until(|| cell.tasks("web", "killed") == 1);
    (name, fs::read_to_string(folder.join("errors")).unwrap())
}

#[test]
fn the_small_program_supervises_tasks_if_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    install(Path::new(env!("CARGO_BIN_EXE_omega-supervisor")), folder.path());
    assert_eq!(run(folder.path()), (SUPERVISOR.to_owned(), String::new()));
}

#[test]
fn omega_supervises_its_tasks_without_the_small_program() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path()), ("omega".to_owned(), String::new()));
}

#[test]
fn a_small_program_of_another_build_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join(SUPERVISOR);
    fs::write(&other, "#!/bin/sh\necho 0.0.9 unknown\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let (program, output) = run(folder.path());
    assert_eq!(program, "omega");
    assert!(output.contains("omega-supervisor beside omega is of another build"), "{output}");
}
