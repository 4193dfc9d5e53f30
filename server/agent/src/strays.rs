//! Processes of a task that outlive its supervisor, and how the agent ends them.
//!
//! ```text
//!   agent (subreaper) ──▶ supervisor (subreaper) ──▶ program ──▶ ...
//!     ▲                       └ killed: its children become the agent's
//!     └ a child in another session that is no supervisor is a stray
//! ```
//!
//! A task may kill its supervisor. The agent is a *subreaper*, too, so it becomes the parent of the remaining
//! processes. A process cannot change its parent, and cannot enter the agent's session. If an earlier agent started the
//! supervisor, the remaining processes do not become children of this agent. So the agent records such processes, with
//! their sessions, while their supervisor runs. It also finds processes by the folder of the task in their environment.

use crate::cgroup::Cgroup;
use crate::spec::FOLDER_VARIABLE;
use crate::task_files::journal::SupervisorProcess;
use crate::tree::{self, PAUSE, Process, Processes};
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which tasks whose supervisors have just ended are checked for remaining processes again and again.
/// Processes that still remain are then checked once per poll, because a poll must not take long.
const CHECKED: Duration = Duration::from_millis(100);

/// Name of a supervisor, as the first of its arguments.
pub(crate) const SUPERVISOR_NAME: &str = "omega-supervisor";

/// Supervisors that are children of this process. All drivers of the process share this set, so that no driver mistakes
/// another driver's supervisor for a stray.
static SUPERVISORS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn supervisors() -> MutexGuard<'static, BTreeSet<i32>> {
    SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the parent of processes whose supervisor is killed.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Starts a supervisor.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut supervisors = supervisors();
    let child = command.spawn()?;
    supervisors.insert(child.id() as i32);
    Ok(child)
}

/// Records that a supervisor was waited for.
pub(crate) fn forget(supervisor: Pid) {
    supervisors().remove(&supervisor.as_raw_nonzero().get());
}

/// Processes below a supervisor that an earlier agent started, for a task without a control group.
#[derive(Debug, Default)]
pub(crate) struct Below {
    processes: BTreeMap<i32, Process>,
}

impl Below {
    /// Records the processes below the supervisor, if it still runs. Processes that were recorded before are kept while
    /// they run, because the supervisor may end while the processes are being listed.
    pub(crate) fn record(&mut self, supervisor: SupervisorProcess, all: &Processes) {
        self.processes.retain(|pid, process| is_same(all, *pid, process.start_ticks));
        let SupervisorProcess { pid: of, start_ticks } = supervisor;
        if !is_same(all, of, start_ticks) {
            return;
        }
        for pid in all.with_descendants(BTreeSet::from([of])) {
            let process = all.get(pid).filter(|_| pid != of);
            self.processes.extend(process.map(|process| (pid, *process)));
        }
    }

    /// Returns the recorded processes that still run, and the other processes in their sessions.
    fn living<'a>(&'a self, all: &'a Processes) -> impl Iterator<Item = i32> + 'a {
        // In a container, 0 is the session of all processes whose session began outside.
        let sessions = self.processes.values().map(|one| one.session).filter(|one| *one != 0);
        let sessions: BTreeSet<i32> = sessions.collect();
        let is_below = move |pid: i32, process: &Process| {
            sessions.contains(&process.session)
                || self
                    .processes
                    .get(&pid)
                    .is_some_and(|known| is_same(all, pid, known.start_ticks))
        };
        all.iter().filter(move |(pid, process)| is_below(*pid, process)).map(|(pid, _)| pid)
    }
}

/// Whether a process is still the recorded one, and not a new process with its pid.
fn is_same(all: &Processes, pid: i32, start_ticks: u64) -> bool {
    all.get(pid).is_some_and(|now| now.start_ticks == start_ticks)
}

/// A task whose supervisor has ended without ending all processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) cgroup: Option<&'a Path>,
    pub(crate) below: &'a Below,
}

/// Kills the remaining processes of tasks, and waits a short time until they have ended. Returns the processes that
/// still remain, for each task.
pub(crate) fn end(tasks: &[Task<'_>]) -> Vec<Vec<i32>> {
    let began = Instant::now();
    loop {
        let left = kill_once(tasks);
        if left.iter().all(Vec::is_empty) || began.elapsed() >= CHECKED {
            return left;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills the remaining processes of tasks, once. Returns the processes that it found, for each task.
pub(crate) fn kill_once(tasks: &[Task<'_>]) -> Vec<Vec<i32>> {
    for cgroup in tasks.iter().filter_map(|task| task.cgroup) {
        Cgroup::at(cgroup).kill();
    }
    let left = left(tasks);
    // All processes are stopped first, so that none can fork while the others are killed.
    left.iter().flatten().for_each(|pid| tree::signal(*pid, Signal::STOP));
    left.iter().flatten().for_each(|pid| tree::signal(*pid, Signal::KILL));
    left
}

/// Returns the remaining processes of each task, and reaps the children that have ended. The processes of the machine
/// are listed once for all tasks.
fn left(tasks: &[Task<'_>]) -> Vec<Vec<i32>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // No supervisor can start while this lock is taken, so the list below contains no unknown supervisor.
    let supervisors = supervisors();
    loop {
        let all = Processes::read();
        let orphans = orphans(own, &supervisors, &all);
        let reaped: BTreeSet<i32> = orphans.iter().copied().filter(|pid| reap(*pid)).collect();
        let is_one = |folder: &PathBuf| tasks.iter().any(|task| task.folder == folder);
        let mark = |pid| Some((pid, mark(pid).filter(is_one)?));
        let marks: Vec<(i32, PathBuf)> = all.iter().filter_map(|(pid, _)| mark(pid)).collect();
        let left_of = |task: &Task<'_>| {
            // An orphan may belong to any task.
            let mut found = orphans.clone();
            found.extend(task.below.living(&all));
            let marked = marks.iter().filter(|(_, folder)| folder == task.folder);
            found.extend(marked.map(|(pid, _)| *pid));
            found.extend(task.cgroup.map(|group| Cgroup::at(group).pids()).unwrap_or_default());
            found.retain(|pid| *pid != own && !supervisors.contains(pid));
            living(&all, found, &reaped)
        };
        let left: Vec<Vec<i32>> = tasks.iter().map(left_of).collect();
        // A process that ended while the processes were listed may have a new child that is not in the list.
        if reaped.is_empty() || left.iter().any(|left| !left.is_empty()) {
            return left;
        }
    }
}

/// Children of this process that were below a supervisor.
fn orphans(own: i32, supervisors: &BTreeSet<i32>, all: &Processes) -> BTreeSet<i32> {
    let Some(session) = all.get(own).map(|process| process.session) else {
        return BTreeSet::new();
    };
    let is_orphan = |pid: i32, process: &Process| {
        process.parent == own && process.session != session && !supervisors.contains(&pid)
    };
    all.iter().filter(|(pid, process)| is_orphan(*pid, process)).map(|(pid, _)| pid).collect()
}

/// Waits for a child if it has ended. Returns whether it had.
fn reap(pid: i32) -> bool {
    let wait = |pid| rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    matches!(Pid::from_raw(pid).map(wait), Some(Ok(Some(_))))
}

/// Returns the found processes and their descendants that are alive. A found process that was reaped meanwhile may have
/// left a new child.
fn living(all: &Processes, found: BTreeSet<i32>, reaped: &BTreeSet<i32>) -> Vec<i32> {
    let is_alive =
        |pid: &i32| !reaped.contains(pid) && all.get(*pid).is_some_and(|process| !process.is_over);
    all.with_descendants(found).into_iter().filter(is_alive).collect()
}

/// Folders of the tasks whose supervisors run on this machine, whichever agent has started them.
#[must_use]
pub fn supervised_folders() -> Vec<PathBuf> {
    let all = Processes::read();
    all.iter().filter_map(|(pid, _)| supervised_folder(&tree::arguments(pid))).collect()
}

/// The folder in the arguments of a supervisor; `None` for another process.
fn supervised_folder(args: &[u8]) -> Option<PathBuf> {
    let args = args.strip_suffix(b"\0")?.strip_prefix(SUPERVISOR_NAME.as_bytes())?;
    let mut last = args.rsplit(|byte| *byte == 0);
    let folder = last.next()?;
    (last.next()? == b"supervise").then(|| PathBuf::from(OsStr::from_bytes(folder)))
}

/// Finds the supervisor of the task with this folder by its arguments. Needed only if the task's journal was removed.
pub(crate) fn supervisor_of(folder: &Path) -> Option<SupervisorProcess> {
    let end = [b"\0supervise\0", folder.as_os_str().as_bytes(), b"\0"].concat();
    let is_it = |pid: &i32| {
        let args = tree::arguments(*pid);
        args.starts_with(SUPERVISOR_NAME.as_bytes()) && args.ends_with(&end)
    };
    let pid = Processes::read().iter().map(|(pid, _)| pid).find(is_it)?;
    Some(SupervisorProcess { pid, start_ticks: tree::start_ticks(pid)? })
}

/// Returns the folder of the task that is named in the environment of a running process. A zombie has no environment.
fn mark(pid: i32) -> Option<PathBuf> {
    let environ = tree::environment(pid);
    let value = |variable: &[u8]| {
        let value = variable.strip_prefix(FOLDER_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
        Some(PathBuf::from(OsStr::from_bytes(value)))
    };
    environ.split(|byte| *byte == 0).find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32, session: i32, start_ticks: u64) -> Process {
        Process { parent, session, start_ticks, ..Process::default() }
    }

    fn table<const N: usize>(all: [(i32, Process); N]) -> Processes {
        all.into_iter().collect()
    }

    const SUPERVISOR: SupervisorProcess = SupervisorProcess { pid: 10, start_ticks: 5 };

    fn recorded(below: &Below, all: &Processes) -> Vec<i32> {
        below.living(all).collect()
    }

    #[test]
    fn the_folder_of_a_task_is_the_last_argument_of_its_supervisor() {
        let of = |args: &[u8]| supervised_folder(args).map(|folder| folder.display().to_string());
        let folder = "/var/a b/tasks/web.0".to_owned();
        let args = [b"omega-supervisor\0supervise\0", folder.as_bytes(), b"\0"].concat();
        assert_eq!(of(&args), Some(folder));
        let others: [&[u8]; 3] = [b"", b"bash\0supervise\0/a\0", b"omega-supervisor\0run\0/a\0"];
        assert_eq!(others.map(of), [None, None, None]);
    }

    #[test]
    fn the_new_child_of_a_reaped_process_is_left() {
        let over = Process { is_over: true, ..process(1, 11, 6) };
        let all = table([(11, over), (12, process(11, 11, 7)), (13, process(1, 13, 8))]);
        let found = BTreeSet::from([11, 13]);
        // Process 11 ended after process 12 was listed as its child. Process 13 ended after it was listed itself.
        assert_eq!(living(&all, found, &BTreeSet::from([11, 13])), [12]);
    }

    #[test]
    fn processes_of_a_supervisor_are_known_after_its_end() {
        let mut below = Below::default();
        let supervisor = (10, process(1, 10, 5));
        let other = (90, process(1, 90, 1));
        let before = table([supervisor, (11, process(10, 11, 6)), (12, process(11, 12, 7)), other]);
        below.record(SUPERVISOR, &before);
        assert_eq!(recorded(&below, &before), [11, 12], "neither the supervisor nor others");
        // The supervisor and process 11 have ended. Process 13 was started later, in the session of process 12. Another
        // process now has the pid of the supervisor.
        let reused = [(10, process(1, 90, 8)), (91, process(10, 90, 9))];
        let others = [(12, process(1, 12, 7)), (13, process(1, 12, 8)), other];
        let after = reused.into_iter().chain(others).collect();
        below.record(SUPERVISOR, &after);
        assert_eq!(recorded(&below, &after), [12, 13]);
    }

    #[test]
    fn a_process_with_the_pid_of_a_recorded_one_is_left_alone() {
        let mut below = Below::default();
        below.record(SUPERVISOR, &table([(10, process(1, 10, 5)), (11, process(10, 0, 6))]));
        let after = table([(11, process(1, 90, 7)), (12, process(1, 0, 1))]);
        assert_eq!(recorded(&below, &after), [0; 0]);
    }
}
