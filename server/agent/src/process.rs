//! The process driver: each task is a process with a supervisor, and has a folder below the agent's.
//!
//! The driver can always restore its state, because the folders of the tasks contain all of it. A supervisor is alive
//! as long as it keeps its lock. It is signalled by a handle of its process (a pidfd). After the handle is opened, the
//! number and the start time of the process are compared with those in the folder. So another process to which the
//! system has given the number is not signalled.

use crate::cgroup::{Cgroup, CgroupRoot};
use crate::driver::{Driver, DriverError, Event, Exit, FoundTask, Usage};
use crate::spec::{
    self, EXIT, ExitFile, LOCK, LOGS, REPORTED, SPEC, STATUS, SUPERVISOR, StatusFile,
    SupervisorFile, TaskSpec,
};
use crate::tree;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Maximum number of ended tasks whose logs are kept.
const ENDED_MAX: usize = 200;

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// Folder of the tasks.
    pub folder: PathBuf,
    /// Program and first arguments of the command that becomes a supervisor. The driver adds a stage and a folder as
    /// arguments.
    pub supervisor: Vec<OsString>,
    /// The group below which groups with limits are created; `None` runs tasks without limits.
    pub cgroups: Option<CgroupRoot>,
}

/// A task that has a supervisor, or whose supervisor has just ended.
#[derive(Debug)]
struct Running {
    spec: TaskSpec,
    folder: PathBuf,
    /// Pid of the supervisor if it is a child of this process; `None` if an earlier agent started it.
    child: Option<Pid>,
    handle: Option<OwnedFd>,
    is_started: bool,
    /// Number of the program's restarts that were reported.
    restarts: u32,
    /// Processor time that the task had used at the last measurement, in microseconds.
    cpu_us: u64,
}

/// The process driver. See the module documentation.
#[derive(Debug)]
pub struct ProcessDriver {
    settings: ProcessSettings,
    tasks: BTreeMap<String, Running>,
    events: Vec<Event>,
    /// Ended tasks whose logs are kept, the oldest first.
    ended: VecDeque<String>,
    /// Time of the last measurement of use.
    measured: Instant,
}

fn file_error(path: &Path) -> impl Fn(io::Error) -> DriverError {
    let path = path.to_owned();
    move |why| DriverError::File { path: path.clone(), why }
}

impl ProcessDriver {
    /// A driver for the tasks in a folder.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(settings: ProcessSettings) -> Result<ProcessDriver, DriverError> {
        fs::create_dir_all(&settings.folder).map_err(file_error(&settings.folder))?;
        Ok(ProcessDriver {
            settings,
            tasks: BTreeMap::new(),
            events: Vec::new(),
            ended: VecDeque::new(),
            measured: Instant::now(),
        })
    }

    /// Creates the folder of a task, and starts its supervisor.
    fn launch(&self, spec: &TaskSpec) -> Result<Running, DriverError> {
        spec.check()?;
        let folder = self.settings.folder.join(&spec.id);
        fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        // Reports of an earlier run of this task are removed. Its log is continued.
        for name in [EXIT, STATUS, SUPERVISOR, REPORTED] {
            match fs::remove_file(folder.join(name)) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => {
                    return Err(file_error(&folder.join(name))(why));
                }
                _ => {}
            }
        }
        let mut spec = spec.clone();
        if let Some(root) = &self.settings.cgroups {
            let group = root.make(&spec.id, &spec.limits);
            spec.limits.cgroup = Some(group.map_err(|why| DriverError::Refused(why.to_string()))?);
        }
        spec::write(&folder, SPEC, &spec).map_err(file_error(&folder))?;
        let errors = File::create(folder.join("supervisor.log")).map_err(file_error(&folder))?;
        let [program, first @ ..] = &*self.settings.supervisor else {
            return Err(DriverError::Refused("the driver has no supervisor".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(first).arg("supervise").arg(&folder).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command.spawn().map_err(file_error(Path::new(program)))?;
        let pid = Pid::from_child(&child);
        // The pid cannot have been reused, because the process is a child that was not waited for.
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(Running {
            spec,
            folder,
            child: Some(pid),
            handle,
            is_started: false,
            restarts: 0,
            cpu_us: 0,
        })
    }

    /// Records that a task has ended, and removes the oldest folders of ended tasks.
    fn keep(&mut self, id: String) {
        self.ended.retain(|ended| *ended != id);
        self.ended.push_back(id);
        while self.ended.len() > ENDED_MAX {
            let Some(oldest) = self.ended.pop_front() else { return };
            if !self.tasks.contains_key(&oldest) {
                // If this fails, a restarted agent tries it again.
                let _ = fs::remove_dir_all(self.settings.folder.join(oldest));
            }
        }
    }

    fn signal(&self, task: &str, signal: Signal) {
        let handle = self.tasks.get(task).and_then(|running| running.handle.as_ref());
        if let Some(handle) = handle {
            // If the supervisor has ended, the next poll reports it.
            let _ = rustix::process::pidfd_send_signal(handle, signal);
        }
    }
}

/// A handle of the supervisor that an earlier agent started; `None` if it has ended.
fn handle(folder: &Path) -> Option<OwnedFd> {
    let known: SupervisorFile = spec::read(folder, SUPERVISOR).ok()??;
    let handle =
        rustix::process::pidfd_open(Pid::from_raw(known.pid)?, PidfdFlags::empty()).ok()?;
    (tree::start_ticks(known.pid) == Some(known.start_ticks)).then_some(handle)
}

/// Whether a supervisor has locked the folder.
fn is_locked(folder: &Path) -> bool {
    let Ok(lock) = OpenOptions::new().append(true).open(folder.join(LOCK)) else { return false };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
}

impl Running {
    /// Whether the task's supervisor has ended.
    fn is_over(&mut self) -> bool {
        match self.child {
            Some(pid) => match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) | Err(rustix::io::Errno::INTR) => false,
                Ok(Some(_)) | Err(_) => true,
            },
            None => !is_locked(&self.folder),
        }
    }

    /// The end that the task's supervisor reported. Without a report, the remaining processes are killed.
    fn exit(&self) -> Exit {
        if let Ok(Some(ExitFile { exit, .. })) = spec::read(&self.folder, EXIT) {
            return exit;
        }
        if let Some(cgroup) = &self.spec.limits.cgroup {
            Cgroup::at(cgroup).kill();
        }
        tree::kill_strays(&self.folder);
        let said = fs::read_to_string(self.folder.join("supervisor.log")).unwrap_or_default();
        match said.lines().next_back() {
            Some(line) => Exit::NotStarted(line.to_owned()),
            None => Exit::Lost,
        }
    }

    /// The event for restarts that were not reported yet, if any.
    fn restarted(&mut self, id: &str, status: &StatusFile) -> Option<Event> {
        let last = status.last.clone().filter(|_| status.restarts > self.restarts)?;
        self.restarts = status.restarts;
        Some(Event::Restarted(id.to_owned(), last, status.restarts))
    }

    fn status(&self) -> StatusFile {
        spec::read(&self.folder, STATUS).ok().flatten().unwrap_or_default()
    }

    /// Use of the task: processor time in microseconds, and bytes of memory, of the supervisor and all processes below
    /// it.
    fn used(&self) -> (u64, u64) {
        if let Some(cgroup) = &self.spec.limits.cgroup {
            let cgroup = Cgroup::at(cgroup);
            return (cgroup.cpu_us(), cgroup.memory_bytes());
        }
        let pid = self.child.map(|pid| pid.as_raw_nonzero().get());
        let known = || spec::read::<SupervisorFile>(&self.folder, SUPERVISOR).ok().flatten();
        let Some(pid) = pid.or_else(|| known().map(|known| known.pid)) else { return (0, 0) };
        tree::used(pid)
    }
}

impl Driver for ProcessDriver {
    fn name(&self) -> &'static str {
        "process"
    }

    fn find(&mut self) -> Result<Vec<FoundTask>, DriverError> {
        let (mut found, mut over) = (Vec::new(), Vec::new());
        let entries = fs::read_dir(&self.settings.folder);
        for entry in entries.map_err(file_error(&self.settings.folder))?.flatten() {
            let folder = entry.path();
            let Ok(Some(spec)) = spec::read::<TaskSpec>(&folder, SPEC) else { continue };
            let handle = handle(&folder);
            let mut running = Running {
                spec,
                folder,
                child: None,
                handle,
                is_started: true,
                restarts: 0,
                cpu_us: 0,
            };
            let id = running.spec.id.clone();
            // An end that was reported before is not reported again. If a task ended while no agent ran, the next poll
            // reports it.
            if running.is_over() && running.folder.join(REPORTED).exists() {
                let changed = running.folder.metadata().and_then(|known| known.modified()).ok();
                over.push((changed, id));
                continue;
            }
            let StatusFile { ending: is_ending, restarts, .. } = running.status();
            running.restarts = restarts;
            found.push(FoundTask { spec: running.spec.clone(), is_ending, restarts });
            self.tasks.insert(id, running);
        }
        over.sort();
        over.into_iter().for_each(|(_, id)| self.keep(id));
        Ok(found)
    }

    fn start(&mut self, spec: &TaskSpec) -> Result<(), DriverError> {
        if self.tasks.contains_key(&spec.id) {
            return Err(DriverError::Refused(format!("task {} is already running", spec.id)));
        }
        let running = self.launch(spec)?;
        self.tasks.insert(spec.id.clone(), running);
        Ok(())
    }

    fn stop(&mut self, task: &str) {
        self.signal(task, Signal::TERM);
    }

    fn kill(&mut self, task: &str) {
        self.signal(task, Signal::USR1);
    }

    fn resize(
        &mut self,
        task: &str,
        cpu_millis: u64,
        memory_bytes: u64,
    ) -> Result<(), DriverError> {
        let Some(running) = self.tasks.get_mut(task) else { return Ok(()) };
        let limits = &mut running.spec.limits;
        (limits.cpu_millis, limits.memory_bytes) = (cpu_millis, memory_bytes);
        spec::write(&running.folder, SPEC, &running.spec).map_err(file_error(&running.folder))?;
        let Some(cgroup) = &running.spec.limits.cgroup else { return Ok(()) };
        let limited = Cgroup::at(cgroup).limit(&running.spec.limits);
        limited.map_err(|why| DriverError::Refused(why.to_string()))
    }

    fn poll(&mut self) -> Vec<Event> {
        let mut over = Vec::new();
        for (id, running) in &mut self.tasks {
            if running.is_over() {
                over.push(id.clone());
                continue;
            }
            let status = running.status();
            if !running.is_started && status.ready {
                running.is_started = true;
                self.events.push(Event::Started(id.clone()));
            }
            self.events.extend(running.restarted(id, &status));
        }
        for id in over {
            let Some(mut running) = self.tasks.remove(&id) else { continue };
            let exit = running.exit();
            if let Some(cgroup) = &running.spec.limits.cgroup {
                Cgroup::at(cgroup).remove();
            }
            let _ = fs::remove_dir_all(running.folder.join(spec::WORK));
            // A task that ended before a poll found it running was started nevertheless.
            if !running.is_started && !matches!(exit, Exit::NotStarted(_)) {
                self.events.push(Event::Started(id.clone()));
            }
            self.events.extend(running.restarted(&id, &running.status()));
            // If this fails, the end is reported again, and rejected because the task has ended already.
            let _ = File::create(running.folder.join(REPORTED));
            self.keep(id.clone());
            self.events.push(Event::Ended(id, exit));
        }
        std::mem::take(&mut self.events)
    }

    fn usage(&mut self) -> Usage {
        let passed = self.measured.elapsed().as_micros().max(1) as u64;
        self.measured = Instant::now();
        let mut usage = Usage::default();
        for running in self.tasks.values_mut() {
            let (cpu_us, memory_bytes) = running.used();
            let more = cpu_us.saturating_sub(running.cpu_us);
            running.cpu_us = cpu_us;
            usage.cpu_millis += more.saturating_mul(1000) / passed;
            usage.memory_bytes += memory_bytes;
        }
        usage
    }

    fn logs(&self, task: &str) -> Option<PathBuf> {
        let folder = self.settings.folder.join(task).join(LOGS);
        folder.is_dir().then_some(folder)
    }
}
