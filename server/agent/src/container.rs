//! Containers: the program of a task with an image runs in a container of Podman.
//!
//! ```text
//!   supervisor ──▶ podman run ──▶ conmon ──▶ program
//! ```
//!
//! Podman has no daemon: all processes of a container are descendants of the task's supervisor. So logs, restarts,
//! stops and kills work as for a program without a container. Podman limits the container, by a control group below the
//! task's.
//!
//! A container has the name `omega-TASK-PID-START`, with the process of its supervisor, so that no two runs of a task
//! share a container.

use crate::cgroup::Cgroup;
use crate::driver::DriverError;
use crate::inbox::Sender;
use crate::limits;
use crate::logs::{self, LogStream};
use crate::spec::{Container, FOLDER_VARIABLE, LOGS, Limits, TaskSpec};
use crate::supervisor_event::SupervisorEvent;
use crate::task_files::files;
use crate::task_files::journal::SupervisorProcess;
use crate::tree;
use rustix::process::{Resource, Signal};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Weak;
use std::time::Duration;

const PODMAN: &str = "podman";

/// File with the environment of the container, in the folder of the task.
const ENVIRONMENT: &str = "environment";

/// File in which Podman writes the pid of the container's first process when it starts.
const PID_FILE: &str = "container.pid";

/// Interval at which a supervisor checks whether its container has started.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Limit on the processes of a user that Podman sets for itself. A container cannot have a higher limit if the agent
/// lacks the capability `CAP_SYS_RESOURCE`.
const PROCESSES_MAX: u64 = 32_768;

/// Limit on open files if the agent has none.
const FILES_MAX: u64 = 1 << 20;

/// Argument of a `conmon` that runs a command in a container. The `conmon` of the container itself does not have it.
const EXEC_ARGUMENT: &[u8] = b"--exec-process-spec";

/// Bytes of the log in which the reason of Podman is looked for.
const REASON_BYTES: usize = 4096;

/// Version of the machine's Podman; `None` if it has none.
#[must_use]
pub fn podman_version() -> Option<String> {
    let output = Command::new(PODMAN).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    text.split_whitespace().last().map(str::to_owned)
}

/// The name of the container of a task with this supervisor.
pub(crate) fn name(id: &str, supervisor: SupervisorProcess) -> String {
    format!("omega-{id}-{}-{}", supervisor.pid, supervisor.start_ticks)
}

/// Name of the container of the task whose supervisor is the parent of this process.
fn name_by_parent(id: &str) -> io::Result<String> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    let process = parent.and_then(|pid| Some((pid, tree::start_ticks(pid)?)));
    let (pid, start_ticks) = process.ok_or_else(|| io::Error::other("the supervisor has ended"))?;
    Ok(name(id, SupervisorProcess { pid, start_ticks }))
}

/// Replaces this process with `podman run`, which stays until the container ends. Returns only if this fails.
pub(crate) fn become_run(folder: &Path, spec: &TaskSpec, container: &Container) -> io::Result<()> {
    let name = name_by_parent(&spec.id)?;
    write_environment(folder, spec)?;
    limits::be_killed_before_the_agent();
    match &spec.limits.cgroup {
        Some(cgroup) => Cgroup::at(cgroup).enter()?,
        None if !spec.limits.cores.is_empty() => limits::pin(&spec.limits.cores)?,
        None => {}
    }
    let own = |resource| rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let most = Most { files: own(Resource::Nofile), processes: own(Resource::Nproc) };
    become_podman(folder, run_args(folder, spec, container, &name, most))
}

/// Replaces this process with a command in the container. Returns only if this fails.
pub(crate) fn become_exec(folder: &Path, id: &str, words: &[String]) -> io::Result<()> {
    let name = name_by_parent(id)?;
    let args = ["exec".to_owned(), name].into_iter().chain(words.iter().cloned());
    become_podman(folder, args.map(OsString::from).collect())
}

/// Whether these are the arguments of a `conmon` that runs a command in a container.
fn runs_a_command(args: &[u8]) -> bool {
    let mut args = args.split(|byte| *byte == 0);
    let is_conmon = args.next().is_some_and(|name| name.ends_with(b"conmon"));
    is_conmon && args.any(|arg| arg == EXEC_ARGUMENT)
}

/// Kills the commands of health checks that run in the container of this supervisor. Returns whether there were any.
///
/// Podman runs a command below a `conmon` in a session of its own, which becomes a child of the supervisor. So the
/// command continues when `podman exec` is killed. The `conmon` cleans up and ends when the command has ended.
pub(crate) fn end_checks() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut all = tree::descendants(own);
    all.retain(|pid| runs_a_command(&tree::arguments(*pid)));
    for conmon in &all {
        let last = if tree::kill_below(*conmon) { Signal::CONT } else { Signal::KILL };
        tree::signal(*conmon, last);
    }
    !all.is_empty()
}

fn become_podman(folder: &Path, args: Vec<OsString>) -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Podman gets the agent's environment, which may name its configuration and credentials. The container does not.
    let mut podman = Command::new(PODMAN);
    podman.args(args).current_dir("/").env(FOLDER_VARIABLE, folder).stdin(Stdio::null());
    let why = podman.exec();
    let remedy = match why.kind() {
        io::ErrorKind::NotFound => {
            ": install Podman, or require the machine label `omega.io/podman`"
        }
        _ => "",
    };
    Err(io::Error::new(why.kind(), format!("{PODMAN}: {why}{remedy}")))
}

/// Writes the variables of the container to a file. Arguments of a process would be visible to all users.
fn write_environment(folder: &Path, spec: &TaskSpec) -> io::Result<()> {
    let mut lines = Vec::new();
    for (name, value) in &spec.env {
        writeln!(lines, "{name}={value}")?;
    }
    writeln!(lines, "{FOLDER_VARIABLE}={}", folder.display())?;
    files::replace(&folder.join(ENVIRONMENT), &lines).map(drop)
}

/// Limits that the agent cannot exceed.
#[derive(Clone, Copy, Debug)]
struct Most {
    files: u64,
    processes: u64,
}

/// The arguments of `podman run`.
fn run_args(
    folder: &Path,
    spec: &TaskSpec,
    container: &Container,
    name: &str,
    most: Most,
) -> Vec<OsString> {
    let file = |name: &str| folder.join(name).display().to_string();
    let files_max = most.files.min(FILES_MAX);
    let files = match spec.limits.open_files {
        0 => files_max,
        files => files.min(files_max),
    };
    let processes = most.processes.min(PROCESSES_MAX);
    let mut args = vec![
        "run".to_owned(),
        format!("--name={name}"),
        format!("--label=omega.task={}", spec.id),
        // The messages of a download are not output of the task.
        "--quiet".to_owned(),
        // The program writes to the pipes of the supervisor, which keeps the logs.
        "--log-driver=passthrough".to_owned(),
        // The cell chooses ports of the machine.
        "--network=host".to_owned(),
        "--sdnotify=ignore".to_owned(),
        "--http-proxy=false".to_owned(),
        "--security-opt=no-new-privileges".to_owned(),
        format!("--env-file={}", file(ENVIRONMENT)),
        format!("--pidfile={}", file(PID_FILE)),
        "--ulimit=core=0:0".to_owned(),
        format!("--ulimit=nofile={files}:{files_max}"),
        format!("--ulimit=nproc={processes}:{processes}"),
    ];
    if spec.limits.cgroup.is_some() {
        // The groups of Podman and of the container are created below the group of this process.
        args.push("--cgroups=split".to_owned());
        args.extend(limit_args(&spec.limits));
        if spec.limits.pids > 0 {
            args.push(format!("--pids-limit={}", spec.limits.pids));
        }
    }
    args.extend(spec.user.iter().map(|user| format!("--user={user}")));
    args.extend(spec.working_dir.iter().map(|dir| format!("--workdir={}", dir.display())));
    for mount in &container.mounts {
        let (source, target) = (&mount.source, &mount.target);
        let access = if mount.is_read_only { ",readonly" } else { "" };
        args.push(format!("--mount=type=bind,source={source},target={target}{access}"));
    }
    if !spec.command.is_empty() {
        // A list in JSON is taken as it is; other texts would be split at spaces.
        args.push(format!("--entrypoint={}", serde_json::json!([spec.command])));
    }
    args.push(container.image.clone());
    args.extend(spec.args.iter().cloned());
    args.into_iter().map(OsString::from).collect()
}

/// Arguments of `podman run` and `podman update` for the limits that a resize may change.
fn limit_args(limits: &Limits) -> Vec<String> {
    let mut args = Vec::new();
    if limits.cpu_millis > 0 {
        // Podman accepts a hundredth of a core or more, and weights of 2 or more.
        let cpus = limits.cpu_millis.max(10);
        args.push(format!("--cpus={}.{:03}", cpus / 1000, cpus % 1000));
        args.push(format!("--cpu-shares={}", (limits.cpu_millis * 1024 / 1000).clamp(2, 262_144)));
    }
    if limits.memory_bytes > 0 {
        args.push(format!("--memory={}b", limits.memory_bytes));
        args.push(format!("--memory-swap={}b", limits.memory_bytes));
    }
    args
}

/// Runs Podman to its end. Returns its output, or `None` if it failed.
fn podman(args: &[&str]) -> Option<String> {
    let output = Command::new(PODMAN).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Record of Podman about the end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) is_out_of_memory: bool,
    pub(crate) was_started: bool,
}

/// Asks Podman about the end of a container. A container that Podman does not have was not started.
pub(crate) fn ended(name: &str) -> Ended {
    let format = "--format={{.State.OOMKilled}} {{.State.StartedAt.IsZero}}";
    let written = podman(&["container", "inspect", format, name]).unwrap_or_default();
    let mut words = written.split_whitespace();
    let is_out_of_memory = words.next() == Some("true");
    Ended { is_out_of_memory, was_started: words.next() == Some("false") }
}

/// The reason for which Podman did not start the container, from the log of the task.
pub(crate) fn why_not_started(folder: &Path) -> String {
    let part = logs::tail(&folder.join(LOGS), LogStream::Stderr, u32::MAX, REASON_BYTES);
    let log = part.map_or_else(|_| Vec::new(), |part| part.bytes);
    let log = String::from_utf8_lossy(&log);
    let reason = log.lines().rev().find_map(|line| line.strip_prefix("Error: "));
    reason.unwrap_or("podman failed: see the log of the task").to_owned()
}

/// Removes a container with its files.
pub(crate) fn remove(name: &str) {
    // If this fails, only disk space is lost: no process of the container is left.
    let _ = podman(&["rm", "--force", "--time=0", "--ignore", name]);
}

/// Changes the limits of a running container, in the background.
pub(crate) fn resize(name: String, to: &Limits) -> Result<(), DriverError> {
    let args = limit_args(to);
    let resize = move || {
        let args: Vec<&str> =
            std::iter::once("update").chain(args.iter().map(String::as_str)).collect();
        if podman(&[&args[..], &[&name]].concat()).is_none() {
            tracing::warn!(container = name, "Podman could not change the limits of a container");
        }
    };
    in_background(resize)
}

/// Removes a container in the background.
pub(crate) fn remove_later(name: String) {
    let _ = in_background(move || remove(&name));
}

fn in_background(work: impl FnOnce() + Send + 'static) -> Result<(), DriverError> {
    let started = std::thread::Builder::new().spawn(work);
    let path = PathBuf::from(PODMAN);
    started.map(drop).map_err(|why| DriverError::File { path, why })
}

/// Removes the file with the pid of the container of the run before, which would count as the start of the next one.
pub(crate) fn forget_start(folder: &Path) -> io::Result<()> {
    files::remove(&folder.join(PID_FILE))
}

/// Sends an event when the container of a run has started, if the run is still alive.
pub(crate) fn await_start(folder: &Path, run: u32, events: Sender, alive: Weak<()>) {
    let path = folder.join(PID_FILE);
    std::thread::spawn(move || {
        while alive.strong_count() > 0 {
            if files::read_start(&path, 1).is_ok_and(|start| !start.is_empty()) {
                return events.send(SupervisorEvent::ContainerStarted(run));
            }
            std::thread::sleep(CHECK_EVERY);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::Mount;

    fn args_of(change: impl FnOnce(&mut TaskSpec, &mut Container)) -> Vec<String> {
        let mut spec = TaskSpec { id: "7-0".to_owned(), ..TaskSpec::default() };
        let mut container =
            Container { image: "localhost/web:1".to_owned(), ..Container::default() };
        change(&mut spec, &mut container);
        let most = Most { files: 4096, processes: u64::MAX };
        let args = run_args(Path::new("/tasks/7-0"), &spec, &container, "omega-7-0-5-6", most);
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    fn has(args: &[String], expected: &[&str]) {
        for arg in expected {
            assert!(args.iter().any(|one| one == arg), "{arg} in {args:?}");
        }
    }

    #[test]
    fn limits_are_those_of_the_task() {
        let args = args_of(|spec, _| {
            spec.limits.cgroup = Some("/groups/7-0".into());
            spec.limits.cpu_millis = 1500;
            spec.limits.memory_bytes = 1 << 30;
            spec.limits.pids = 100;
            spec.limits.open_files = 1024;
        });
        has(&args, &["--cpus=1.500", "--cpu-shares=1536", "--memory=1073741824b"]);
        has(&args, &["--memory-swap=1073741824b", "--cgroups=split", "--pids-limit=100"]);
        has(&args, &["--ulimit=nofile=1024:4096", "--ulimit=nproc=32768:32768"]);
        let args = args_of(|spec, _| spec.limits.cpu_millis = 1500);
        assert!(!args.iter().any(|arg| arg.starts_with("--c")), "no limits: {args:?}");
        let args = args_of(|spec, _| {
            spec.limits.cgroup = Some("/groups/7-0".into());
            spec.limits.cpu_millis = 1;
        });
        has(&args, &["--cpus=0.010", "--cpu-shares=2", "--ulimit=nofile=4096:4096"]);
    }

    #[test]
    fn what_a_job_gives_cannot_be_mistaken_for_options() {
        let args = args_of(|spec, container| {
            spec.command = "serve me".to_owned();
            spec.args = vec!["--privileged".to_owned()];
            spec.user = Some("--privileged".to_owned());
            spec.working_dir = Some("/srv".into());
            let (source, target) = ("/srv/web".into(), "/www".into());
            container.mounts = vec![Mount { source, target, is_read_only: true }];
        });
        has(&args, &["--user=--privileged", "--workdir=/srv", r#"--entrypoint=["serve me"]"#]);
        has(&args, &["--mount=type=bind,source=/srv/web,target=/www,readonly"]);
        assert_eq!(args[args.len() - 2..], ["localhost/web:1", "--privileged"]);
    }

    #[test]
    fn a_command_in_a_container_is_told_from_the_container() {
        let runs = |args: &str| runs_a_command(args.replace(' ', "\0").as_bytes());
        assert!(runs("/usr/bin/conmon --api-version 1 -n web -e --exec-process-spec /run/spec "));
        assert!(!runs("/usr/bin/conmon --api-version 1 -n web --full-attach "));
        assert!(!runs("podman exec web /bin/check --exec-process-spec "));
        assert!(!runs(""), "a zombie has no arguments");
    }

    #[test]
    fn the_reason_of_podman_is_found_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        assert!(why_not_started(folder.path()).contains("see the log"));
        let mut log = logs::Writer::new(folder.path().join(LOGS), LogStream::Stderr, 10_000);
        log.write(b"time=1 level=warning msg=\"Failed, retrying\"\nError: no such image\n");
        assert_eq!(why_not_started(folder.path()), "no such image");
    }
}
