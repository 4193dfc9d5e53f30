//! A task of the process driver, from the start of its supervisor until all its processes have ended.

use crate::cgroup::Cgroup;
use crate::container;
use crate::driver::Event;
use crate::exit::Exit;
use crate::spec::TaskSpec;
use crate::strays::{self, Below};
use crate::task_files::files;
use crate::task_files::journal::{Journal, Status, SupervisorProcess};
use crate::tree::{self, Processes, Used};
use crate::watch::Watched;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pause before `SIGKILL` is sent again to a supervisor that has not ended.
const FORCE_AGAIN: Duration = Duration::from_secs(60);

/// Time after which processes that remain are logged. Killed processes may take a moment to end.
const REMAIN_FOR: Duration = Duration::from_secs(5);

/// The state of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs, or is stopped by a signal.
    Alive,
    /// It has ended the task, and exited.
    Done,
    /// It was killed, or has failed, so processes of the task may be left.
    Broken,
}

/// A task that has a supervisor, or whose supervisor has just ended.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) spec: TaskSpec,
    pub(crate) folder: PathBuf,
    pub(crate) life: Life,
    /// Pid of the supervisor if it is a child of this process; `None` if an earlier agent started it.
    pub(crate) child: Option<Pid>,
    pub(crate) handle: Option<OwnedFd>,
    /// The task's number in the driver's watch; `None` if the task must be polled.
    pub(crate) watched: Option<Watched>,
    /// Process of a supervisor that an earlier agent started, and that was still alive when this agent found it.
    pub(crate) found: Option<SupervisorProcess>,
    /// Processes of a task that an earlier agent started.
    pub(crate) below: Below,
    /// Processes that could not be ended.
    pub(crate) remains: Vec<i32>,
    pub(crate) remain_since: Option<Instant>,
    /// Whether the agent has logged that processes remain.
    pub(crate) is_warned: bool,
    /// Time at which the supervisor is killed, if the task was stopped.
    pub(crate) kill_at: Option<Instant>,
    pub(crate) is_started: bool,
    /// Number of the program's restarts that were reported.
    pub(crate) restarts: u32,
    /// Total processor time at the last measurement, in microseconds. `None` before the first measurement of a task that an
    /// earlier agent started.
    pub(crate) cpu_us: Option<u64>,
}

/// Returns a pidfd of the supervisor that an earlier agent started; `None` if the supervisor has ended.
pub(crate) fn handle(known: SupervisorProcess) -> Option<OwnedFd> {
    let handle =
        rustix::process::pidfd_open(Pid::from_raw(known.pid)?, PidfdFlags::empty()).ok()?;
    (tree::start_ticks(known.pid) == Some(known.start_ticks)).then_some(handle)
}

/// Whether a supervisor has locked the folder. A folder that cannot be examined, for example because too many files are
/// open, counts as locked.
fn is_locked(folder: &Path) -> bool {
    match files::open_folder(folder) {
        Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err(),
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

impl Running {
    /// Creates a task without a supervisor so far.
    pub(crate) fn new(spec: TaskSpec, folder: PathBuf) -> Running {
        Running {
            spec,
            folder,
            life: Life::Alive,
            child: None,
            handle: None,
            watched: None,
            found: None,
            below: Below::default(),
            remains: Vec::new(),
            remain_since: None,
            is_warned: false,
            kill_at: None,
            is_started: false,
            restarts: 0,
            cpu_us: None,
        }
    }

    /// Whether the task had a supervisor when this agent started or found it.
    pub(crate) fn has_supervisor(&self) -> bool {
        self.child.is_some() || self.found.is_some()
    }

    /// Sends a signal to the supervisor.
    pub(crate) fn signal(&mut self, signal: Signal) {
        // Opening the handle may have failed before, because too many files were open.
        if self.handle.is_none() && self.life == Life::Alive {
            self.handle = match self.child {
                Some(pid) => rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok(),
                None => self.found.and_then(handle),
            };
        }
        match &self.handle {
            // If the supervisor has ended, the next poll reports it.
            Some(handle) => _ = rustix::process::pidfd_send_signal(handle, signal),
            None => tracing::warn!(
                task = self.spec.id,
                "the supervisor of a task cannot be signalled: too many files may be open"
            ),
        }
    }

    /// Finds out whether the task's supervisor has ended.
    pub(crate) fn look(&mut self) -> Life {
        if self.life != Life::Alive {
            return self.life;
        }
        self.life = match (self.child, self.found) {
            (Some(pid), _) => match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) | Err(rustix::io::Errno::INTR) => return Life::Alive,
                Ok(Some((_, status))) => {
                    strays::forget(pid);
                    if status.exit_status() == Some(0) { Life::Done } else { Life::Broken }
                }
                Err(_) => Life::Broken,
            },
            // The lock is not checked, because a process of the task could still have it after the supervisor has
            // ended.
            (None, Some(found)) if !tree::has_ended(found.pid, found.start_ticks) => Life::Alive,
            (None, None) if is_locked(&self.folder) => Life::Alive,
            (None, _) => Life::Broken,
        };
        self.life
    }

    /// Whether the task's processes must be recorded. This is the case if an earlier agent started the supervisor, and
    /// the task has no control group.
    pub(crate) fn is_recorded(&self) -> bool {
        self.found.is_some() && self.spec.limits.cgroup.is_none()
    }

    /// Records the processes below the supervisor.
    pub(crate) fn record(&mut self, all: &Processes) {
        if let Some(supervisor) = self.found {
            self.below.record(supervisor, all);
        }
    }

    /// Kills the supervisor if it has not ended its task in time. The next poll ends the other processes.
    pub(crate) fn hurry(&mut self) {
        if self.kill_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        tracing::warn!(
            task = self.spec.id,
            "the supervisor of a task has not ended it in time, and is killed"
        );
        if self.is_recorded() {
            self.record(&Processes::read());
        }
        self.signal(Signal::KILL);
        self.kill_at = Some(Instant::now() + FORCE_AGAIN);
    }

    /// Returns the task as [`strays`] needs it to end the processes that the supervisor has left.
    pub(crate) fn stray_task(&self) -> strays::Task<'_> {
        let cgroup = self.spec.limits.cgroup.as_deref();
        strays::Task { folder: &self.folder, cgroup, below: &self.below }
    }

    /// Records the processes that could not be ended.
    pub(crate) fn remain(&mut self, remains: Vec<i32>) {
        if remains.is_empty() {
            self.remain_since = None;
        } else if self.remain_since.get_or_insert_with(Instant::now).elapsed() >= REMAIN_FOR
            && !std::mem::replace(&mut self.is_warned, true)
        {
            tracing::warn!(
                task = self.spec.id,
                processes = ?remains,
                "processes of a task cannot be killed, so the task has not ended"
            );
        }
        self.remains = remains;
    }

    /// Returns the end of the task according to its journal.
    pub(crate) fn exit(&self, journal: Journal) -> Exit {
        match journal.end {
            Some(exit) => exit,
            None if self.kill_at.is_some() => Exit::Stopped,
            None => Exit::Lost,
        }
    }

    /// Whether the task runs, or ran before its program was restarted. With a health check, the program may never have
    /// been ready before.
    pub(crate) fn has_run(&self, status: &Status) -> bool {
        status.ready || (status.has_started && status.restarts > 0 && self.spec.health.is_none())
    }

    /// Whether the program of a task that has ended ran at some time. With a health check, it ran if it was ever ready.
    pub(crate) fn has_ever_run(&self, journal: &Journal) -> bool {
        let Status { ready, was_ready, has_started, .. } = journal.status;
        // Journals of earlier versions may lack the start.
        let has_started =
            has_started || matches!(journal.end, Some(Exit::Code(_) | Exit::Signal(_)));
        has_started && (self.spec.health.is_none() || ready || was_ready)
    }

    /// The event for restarts that were not reported yet, if any.
    pub(crate) fn restarted(&mut self, id: &str, status: &Status) -> Option<Event> {
        let last = status.last.clone().filter(|_| status.restarts > self.restarts)?;
        self.restarts = status.restarts;
        Some(Event::Restarted(id.to_owned(), last, status.restarts))
    }

    /// Name of the task's container; `None` if it has none, or if its supervisor has not written its journal.
    pub(crate) fn container(&self, journal: &Journal) -> Option<String> {
        self.spec.container.as_ref()?;
        Some(container::name(&self.spec.id, journal.supervisor?))
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::read(&self.folder)
    }

    /// Returns the processor time since the last measurement. `total_us` is the time since the start of the task. It may
    /// be too low if a file cannot be read, or processes ended meanwhile; no time is then counted twice later.
    pub(crate) fn measure(&mut self, total_us: u64) -> u64 {
        let before = self.cpu_us.unwrap_or(total_us);
        self.cpu_us = Some(before.max(total_us));
        total_us.saturating_sub(before)
    }

    /// Returns the total processor time of a task that has ended; `None` if it is not known.
    pub(crate) fn total_us(&self, journal: &Journal) -> Option<u64> {
        match &self.spec.limits.cgroup {
            Some(cgroup) => Some(Cgroup::at(cgroup).cpu_us()),
            None => journal.used_cpu_us,
        }
    }

    /// Whether the use of the task is measured by its processes, because it has no control group.
    pub(crate) fn is_measured_by_processes(&self) -> bool {
        self.spec.limits.cgroup.is_none() || !self.remains.is_empty()
    }

    /// Returns the resources that the task uses. `all` are the machine's processes if one of the driver's tasks is
    /// measured by them. Without a control group, the supervisor is included.
    pub(crate) fn used(&self, all: &Processes) -> Used {
        if !self.remains.is_empty() {
            return all.used(self.remains.iter().copied());
        }
        if let Some(cgroup) = &self.spec.limits.cgroup {
            let cgroup = Cgroup::at(cgroup);
            return Used { cpu_us: cgroup.cpu_us(), memory_bytes: cgroup.memory_bytes() };
        }
        let child = self.child.map(|pid| pid.as_raw_nonzero().get());
        let pid = child.or_else(|| self.found.map(|found| found.pid));
        all.used(all.with_descendants(BTreeSet::from_iter(pid)))
    }
}
