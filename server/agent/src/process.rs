//! The process driver: each task is a process with a supervisor, and has a folder below the agent's folder.
//!
//! The driver can always restore its state, because the folders of the tasks contain all of it. A supervisor is alive
//! as long as it keeps its lock. The driver signals a supervisor through a pidfd. After it opens the pidfd, the driver
//! compares the pid and the start time of the process with those in the folder. So a process that has reused the pid is
//! never signalled.
//!
//! A task may kill or stop its supervisor. When a supervisor has ended without ending all processes of its task, the
//! driver ends them. A supervisor that does not end its task in time is killed.

use crate::cgroup::{Cgroup, CgroupRoot};
use crate::container;
use crate::driver::{DiskSpace, Driver, DriverError, Event, FoundTask, TaskUsage, Usage};
use crate::removal::{self, Trash};
use crate::running::{Life, Running, handle};
use crate::spec::{self, LOGS, TaskSpec};
use crate::strays;
use crate::task_files::files;
use crate::task_files::journal::{self, Entry, JOURNAL, Journal, Status};
use crate::tree::{Processes, Used};
use crate::watch::{Watch, Watched};
use omega_core::text::shown;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of ended tasks whose logs are kept.
const ENDED_MAX: usize = 200;

/// Least free room on the file system of the tasks: one part in `ROOM_PART` of the file system, but not more than
/// `ROOM_BYTES_MAX`. With less room, the oldest logs of ended tasks are removed.
const ROOM_PART: u64 = 50;
const ROOM_BYTES_MAX: u64 = 256 << 20;

/// Limits on the recordings of the tasks' processes, because each recording reads all processes of the machine. Between
/// the starts of two recordings pass at least `RECORD_EVERY` and at least `RECORD_SHARE` times the duration of the
/// first.
const RECORD_EVERY: Duration = Duration::from_millis(90);
const RECORD_SHARE: u32 = 50;

/// Rights of the folders of the tasks: other users may enter them to reach the working directories of their tasks.
const FOLDER_RIGHTS: Mode = Mode::RWXU.union(Mode::XGRP).union(Mode::XOTH);

/// Name of the folder of removed folders. A task's folder cannot have this name, because an id does not begin with a
/// dot.
const TRASH: &str = ".trash";

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    /// Folder of the tasks.
    pub folder: PathBuf,
    /// Program and first arguments of the command that starts a supervisor. The driver appends a stage and a folder as
    /// arguments.
    pub supervisor: Vec<OsString>,
    /// The group below which groups with limits are created; `None` runs tasks without limits.
    pub cgroups: Option<CgroupRoot>,
    /// Time limit for a supervisor to end its task, counted from the end of the grace period if there is one. After
    /// this limit, the driver kills the supervisor and the task.
    pub patience: Duration,
}

/// The process driver. See the module documentation.
#[derive(Debug)]
pub struct ProcessDriver {
    settings: ProcessSettings,
    /// Folders that are being removed.
    trash: Trash,
    tasks: BTreeMap<String, Running>,
    events: Vec<Event>,
    /// Ended tasks whose logs are kept, the oldest first.
    ended: VecDeque<String>,
    /// `None` if the kernel refused to create it, because a limit was reached. All tasks are then polled.
    watch: Option<Watch>,
    /// Time from which processes are recorded again.
    record_at: Instant,
    /// Time of the last measurement of use.
    measured: Instant,
    /// Use of the tasks that have ended since the last measurement.
    last_used: Vec<TaskUsage>,
}

/// Checks that the id of a task can be the name of a folder.
fn check_id(id: &str) -> Result<(), DriverError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = id.chars().all(is_plain) && !id.starts_with('.');
    if is_name && (1..=200).contains(&id.len()) {
        return Ok(());
    }
    Err(DriverError::Refused(format!(
        "the id {id:?} cannot be the name of a folder: use letters, digits, \"-\", \"_\" and \".\""
    )))
}

/// Removes the folder of an earlier task with the same id and another owner, who alone may read its log.
fn forget_other_owner(trash: &mut Trash, folder: &Path, owner: &str) -> io::Result<()> {
    // An unreadable specification names no owner.
    let earlier = spec::read(folder).ok().flatten();
    if earlier.is_some_and(|earlier| earlier.owner == owner) {
        return Ok(());
    }
    match trash.put(folder) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

/// Creates the folder of the tasks, or takes rights that other users do not need from it.
fn prepare_tasks_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let rights = Mode::from_raw_mode(fs::metadata(folder)?.permissions().mode());
    if !(rights & Mode::from_raw_mode(0o777)).difference(FOLDER_RIGHTS).is_empty() {
        rustix::fs::chmod(folder, rights & FOLDER_RIGHTS)?;
    }
    Ok(())
}

/// Errors that are no sign of a missing or changed file.
const PASSING: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::IO];

/// Returns the description of the task with this folder, if there is one. A program may have removed or changed its
/// task's. So a task with a supervisor, but without a valid description, is found with an empty one; and the id is
/// always the name of the folder, because it must not lead to another folder.
fn find_spec(folder: &Path) -> Option<TaskSpec> {
    let id = folder.file_name()?.to_str().filter(|id| check_id(id).is_ok())?;
    let spec = match spec::read(folder) {
        Ok(Some(spec)) => spec,
        // The machine lacks resources, or its disk fails. A program causes other errors.
        Err(why) if PASSING.iter().any(|one| why.raw_os_error() == Some(one.raw_os_error())) => {
            return None;
        }
        Ok(None) | Err(_) => strays::supervisor_of(folder).map(|_| TaskSpec::default())?,
    };
    Some(TaskSpec { id: id.to_owned(), ..spec })
}

/// Measures the file system of a folder. `None` means that it cannot be read.
fn disk_space(folder: &Path) -> Option<DiskSpace> {
    let file_system = rustix::fs::statvfs(folder).ok()?;
    Some(DiskSpace {
        total_bytes: file_system.f_blocks.saturating_mul(file_system.f_frsize),
        free_bytes: file_system.f_bavail.saturating_mul(file_system.f_frsize),
        // Some file systems have no bound on the number of files.
        has_free_files: file_system.f_files == 0 || file_system.f_favail > 0,
    })
}

/// Whether the file system of a folder has little room. If this cannot be read, it has room.
fn is_nearly_full(folder: &Path) -> bool {
    disk_space(folder).is_some_and(|space| {
        let wanted = (space.total_bytes / ROOM_PART).min(ROOM_BYTES_MAX);
        space.free_bytes < wanted || !space.has_free_files
    })
}

fn file_error(path: &Path) -> impl Fn(io::Error) -> DriverError {
    let path = path.to_owned();
    move |why| DriverError::File { path: path.clone(), why }
}

impl ProcessDriver {
    /// Creates a driver for the tasks in a folder.
    ///
    /// From now on, orphaned descendants of this process become its children. When a supervisor is lost, the driver
    /// kills all children of this process that are in another session and are not supervisors. It assumes that they
    /// belong to tasks.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(settings: ProcessSettings) -> Result<ProcessDriver, DriverError> {
        prepare_tasks_folder(&settings.folder).map_err(file_error(&settings.folder))?;
        strays::adopt_orphans().map_err(file_error(&settings.folder))?;
        let trash = settings.folder.join(TRASH);
        let trash = Trash::open(trash.clone()).map_err(file_error(&trash))?;
        Ok(ProcessDriver {
            settings,
            trash,
            tasks: BTreeMap::new(),
            events: Vec::new(),
            ended: VecDeque::new(),
            watch: Watch::new().ok(),
            record_at: Instant::now(),
            measured: Instant::now(),
            last_used: Vec::new(),
        })
    }

    /// Returns the command that starts the supervisor of a task.
    fn supervise(&self, folder: &Path) -> Result<Command, DriverError> {
        let [program, first @ ..] = &*self.settings.supervisor else {
            return Err(DriverError::Machine(
                "the driver's setting `supervisor` is empty: give a program and its first arguments"
                    .to_owned(),
            ));
        };
        let mut command = Command::new(program);
        command
            .arg0(strays::SUPERVISOR_NAME)
            .args(first)
            .arg("supervise")
            .arg(folder)
            .current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Creates the folder of a task, and starts its supervisor.
    fn launch(&mut self, spec: &TaskSpec) -> Result<Running, DriverError> {
        check_id(&spec.id)?;
        let folder = self.settings.folder.join(&spec.id);
        let mut command = self.supervise(&folder)?;
        self.prepare_folder(&folder, &spec.owner).map_err(file_error(&folder))?;
        let mut spec = spec.clone();
        if let Some(root) = &self.settings.cgroups {
            let group = root.make(&spec);
            spec.limits.cgroup = Some(group.map_err(|why| DriverError::Machine(why.to_string()))?);
        }
        if let Err(why) = spec::write(&folder, &spec) {
            self.forget(None, &spec);
            return Err(file_error(&folder)(why));
        }
        let watched = self.watch(&folder);
        let child = match strays::spawn(&mut command) {
            Ok(child) => child,
            Err(why) => {
                self.forget(watched, &spec);
                return Err(file_error(Path::new(command.get_program()))(why));
            }
        };
        let pid = Pid::from_child(&child);
        // The pid cannot have been reused, because the process is a child that was not waited for.
        let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        // A group that an earlier run could not remove has the time of that run.
        let group = spec.limits.cgroup.as_deref().map(Cgroup::at);
        let cpu_us = Some(group.map_or(0, |group| group.cpu_us()));
        let running = Running { child: Some(pid), handle, cpu_us, ..Running::new(spec, folder) };
        Ok(self.watched(watched, running))
    }

    /// Creates the folder of a task, or prepares that of an earlier run of the task. Other users cannot list or lock
    /// it.
    fn prepare_folder(&mut self, folder: &Path, owner: &str) -> io::Result<()> {
        let mut made = files::make_folder(folder, FOLDER_RIGHTS)?;
        if !made.is_new {
            forget_other_owner(&mut self.trash, folder, owner)?;
            // The journal of an earlier run of this task is removed. Its log is continued.
            made = files::make_folder(folder, FOLDER_RIGHTS)?;
            files::remove(&folder.join(JOURNAL))?;
        }
        Ok(rustix::fs::fchmod(made.folder, FOLDER_RIGHTS)?)
    }

    /// Watches the folder of a task.
    fn watch(&mut self, folder: &Path) -> Option<Watched> {
        self.watch.as_mut()?.add(folder).ok()
    }

    /// Ends the watch of a task, and removes its control group.
    fn forget(&self, watched: Option<Watched>, spec: &TaskSpec) {
        if let (Some(watch), Some(watched)) = (&self.watch, watched) {
            watch.remove(watched);
        }
        if let Some(cgroup) = &spec.limits.cgroup {
            Cgroup::at(cgroup).remove();
        }
    }

    /// Adds the watch of a task's folder to the task, if the supervisor can be watched, too. Otherwise, the watch ends,
    /// and the task is polled.
    fn watched(&self, watched: Option<Watched>, running: Running) -> Running {
        let (Some(watch), Some(watched)) = (&self.watch, watched) else { return running };
        let handle = running.handle.as_ref();
        if handle.is_some_and(|it| watch.add_supervisor(watched, it).is_ok()) {
            return Running { watched: Some(watched), ..running };
        }
        watch.remove(watched);
        running
    }

    /// Records that a task has ended for good, and removes the oldest folders of such tasks.
    fn keep(&mut self, id: String) {
        self.ended.retain(|ended| *ended != id);
        self.ended.push_back(id);
        while self.ended.len() > ENDED_MAX {
            self.remove_oldest();
        }
    }

    /// Removes the folder of the task that ended first. Returns whether there was one.
    fn remove_oldest(&mut self) -> bool {
        let Some(oldest) = self.ended.pop_front() else { return false };
        if !self.tasks.contains_key(&oldest) {
            // If this fails, a restarted agent tries again.
            let _ = removal::remove(&self.settings.folder.join(oldest));
        }
        true
    }

    /// Removes folders of ended tasks, the oldest first, until the file system has room.
    fn make_room(&mut self) {
        while is_nearly_full(&self.settings.folder) && !self.trash.is_busy() {
            if !self.remove_oldest() {
                return;
            }
        }
    }

    /// Sends a signal to a supervisor, which must end the task within `time`.
    fn signal(&mut self, task: &str, signal: Signal, time: Duration) {
        let running = self.tasks.get_mut(task).filter(|running| running.has_supervisor());
        let Some(running) = running else { return };
        let at = Instant::now() + time;
        running.kill_at = Some(running.kill_at.map_or(at, |earlier| earlier.min(at)));
        running.signal(signal);
        // The task may have suspended its supervisor with `SIGSTOP`.
        running.signal(Signal::CONT);
    }

    /// Ends the remaining processes of tasks whose supervisors have ended. Returns the tasks without any process left.
    fn sweep(&mut self, broken: Vec<String>) -> Vec<String> {
        if broken.is_empty() {
            return broken;
        }
        let running = || broken.iter().filter_map(|id| self.tasks.get(id));
        let is_known = running().all(|running| !running.remains.is_empty());
        let tasks: Vec<strays::Task<'_>> = running().map(Running::stray_task).collect();
        let left = if is_known { strays::kill_once(&tasks) } else { strays::end(&tasks) };
        let mut swept = Vec::new();
        for (id, remains) in broken.into_iter().zip(left) {
            if remains.is_empty() {
                swept.push(id.clone());
            }
            if let Some(running) = self.tasks.get_mut(&id) {
                running.remain(remains);
            }
        }
        swept
    }

    /// Reports the end of a task of which no process is left.
    fn end(&mut self, id: String) {
        let Some(mut running) = self.tasks.remove(&id) else { return };
        let journal = running.journal();
        let restarted = running.restarted(&id, &journal.status);
        if let (Some(name), None) = (running.container(&journal), &journal.end) {
            // The supervisor was killed, so it has not removed the container.
            container::remove_later(name);
        }
        if let Some(total_us) = running.total_us(&journal) {
            let (task, cpu_us) = (id.clone(), running.measure(total_us));
            self.last_used.push(TaskUsage { task, cpu_us, memory_bytes: 0 });
        }
        let has_run = running.has_ever_run(&journal);
        let exit = running.exit(journal);
        self.forget(running.watched, &running.spec);
        if let Err(why) = self.trash.put(&running.folder.join(spec::WORK))
            && why.kind() != io::ErrorKind::NotFound
        {
            // The task may have mounted a file system at a path of any name.
            let why = shown(&why.to_string());
            tracing::warn!(task = id, why, "the working directory of a task cannot be removed");
        }
        // If the task ended before any poll found it running, its start is reported, too.
        if !running.is_started && has_run {
            self.events.push(Event::Started(id.clone()));
        }
        self.events.extend(restarted);
        self.events.push(Event::Ended(id, exit));
    }

    /// Records the processes of tasks that an earlier agent started. If the supervisor of such a task is killed, its
    /// processes do not become children of this process.
    fn record(&mut self) {
        let mut found = self.tasks.values_mut().filter(|running| running.is_recorded()).peekable();
        let began = Instant::now();
        if began < self.record_at || found.peek().is_none() {
            return;
        }
        let all = Processes::read();
        for running in found {
            running.record(&all);
        }
        self.record_at = began + RECORD_EVERY.max(began.elapsed() * RECORD_SHARE);
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
            let Some(spec) = find_spec(&folder) else { continue };
            let watched = self.watch(&folder);
            // A task may have removed the journal.
            let known = Journal::read(&folder).supervisor;
            let known = known.or_else(|| strays::supervisor_of(&folder));
            let handle = known.and_then(handle);
            let known = known.filter(|_| handle.is_some());
            let running = Running { handle, found: known, ..Running::new(spec, folder) };
            let mut running = self.watched(watched, running);
            let id = running.spec.id.clone();
            let is_alive = running.look() == Life::Alive;
            let journal = running.journal();
            // A confirmed end is not reported again. The next poll reports all other ends.
            if !is_alive && journal.is_confirmed {
                let changed = running.folder.metadata().and_then(|known| known.modified()).ok();
                over.push((changed, id));
                continue;
            }
            // A task that is alive may wait for its first health check. Once the machine is attached, the start of a
            // task that has ended is reported unless the cell knows it.
            let has_ever_run = !is_alive && running.has_ever_run(&journal);
            let status = journal.status;
            running.is_started = has_ever_run || (is_alive && running.has_run(&status));
            let Status { ending: is_ending, restarts, .. } = status;
            running.restarts = restarts;
            if is_ending {
                let grace = Duration::from_millis(running.spec.grace_ms.into());
                running.kill_at = Some(Instant::now() + grace + self.settings.patience);
            }
            let (spec, is_started) = (running.spec.clone(), running.is_started);
            found.push(FoundTask { spec, is_started, is_ending, restarts });
            self.tasks.insert(id, running);
        }
        self.record();
        over.sort();
        over.into_iter().for_each(|(_, id)| self.keep(id));
        Ok(found)
    }

    fn start(&mut self, spec: &TaskSpec) -> Result<(), DriverError> {
        if self.tasks.contains_key(&spec.id) {
            return Err(DriverError::Refused(format!("task {} is already running", spec.id)));
        }
        self.ended.retain(|ended| *ended != spec.id);
        self.make_room();
        let running = loop {
            match self.launch(spec) {
                // Folders are still being removed, but this has made no room yet.
                Err(why) if why.is_disk_full() && self.remove_oldest() => {}
                launched => break launched?,
            }
        };
        self.tasks.insert(spec.id.clone(), running);
        Ok(())
    }

    fn stop(&mut self, task: &str) {
        let grace = self.tasks.get(task).map_or(0, |running| running.spec.grace_ms);
        let grace = Duration::from_millis(grace.into());
        self.signal(task, Signal::TERM, grace + self.settings.patience);
    }

    fn kill(&mut self, task: &str) {
        self.signal(task, Signal::USR1, self.settings.patience);
    }

    fn confirm_end(&mut self, task: &str) {
        if self.tasks.contains_key(task) || check_id(task).is_err() {
            return;
        }
        let folder = self.settings.folder.join(task);
        match journal::append(&folder, &Entry::Confirmed) {
            // The task has no folder.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            // If this fails, a restarted agent reports the end again. The cell rejects the second report, unless the
            // task was placed here again.
            _ => self.keep(task.to_owned()),
        }
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
        spec::write(&running.folder, &running.spec).map_err(file_error(&running.folder))?;
        let Some(cgroup) = &running.spec.limits.cgroup else { return Ok(()) };
        let limited = Cgroup::at(cgroup).limit(&running.spec);
        limited.map_err(|why| DriverError::Machine(why.to_string()))?;
        let name = running.container(&running.journal());
        name.map_or(Ok(()), |name| container::resize(name, &running.spec.limits))
    }

    fn keep_off(&mut self, cores: &BTreeSet<u32>) {
        let kept = self.settings.cgroups.as_ref().map_or(Ok(()), |root| root.keep_off(cores));
        if let Err(why) = kept {
            tracing::warn!(%why, ?cores, "tasks cannot be kept off the exclusive cores of others");
        }
    }

    fn poll(&mut self) -> Vec<Event> {
        let (mut over, mut broken) = (Vec::new(), Vec::new());
        self.record();
        let notices = self.watch.as_ref().map(Watch::take).unwrap_or_default();
        for (id, running) in &mut self.tasks {
            running.hurry();
            if running.life == Life::Alive && !notices.concern(running.watched) {
                continue;
            }
            if running.look() != Life::Alive {
                if running.life == Life::Done { &mut over } else { &mut broken }.push(id.clone());
                continue;
            }
            // If a supervisor is traced, the kernel reports its end to its parent later than through the pidfd. The
            // task is polled until then.
            running.watched.take_if(|watched| notices.has_end_of(*watched));
            let status = running.journal().status;
            if !running.is_started && running.has_run(&status) {
                running.is_started = true;
                self.events.push(Event::Started(id.clone()));
            }
            self.events.extend(running.restarted(id, &status));
        }
        over.extend(self.sweep(broken));
        over.into_iter().for_each(|id| self.end(id));
        std::mem::take(&mut self.events)
    }

    fn readable(&self) -> Option<OwnedFd> {
        self.watch.as_ref()?.readable().ok()
    }

    fn disk_space(&mut self) -> Option<DiskSpace> {
        self.make_room();
        disk_space(&self.settings.folder)
    }

    fn usage(&mut self) -> Usage {
        let passed = self.measured.elapsed().as_micros().max(1) as u64;
        self.measured = Instant::now();
        self.make_room();
        let needs_processes = self.tasks.values().any(Running::is_measured_by_processes);
        let all = if needs_processes { Processes::read() } else { Processes::default() };
        let mut tasks = std::mem::take(&mut self.last_used);
        for (id, running) in &mut self.tasks {
            let Used { cpu_us, memory_bytes } = running.used(&all);
            let cpu_us = running.measure(cpu_us);
            tasks.push(TaskUsage { task: id.clone(), cpu_us, memory_bytes });
        }
        let cpu_us: u64 = tasks.iter().map(|task| task.cpu_us).sum();
        let memory_bytes = tasks.iter().map(|task| task.memory_bytes).sum();
        Usage { cpu_millis: cpu_us.saturating_mul(1000) / passed, memory_bytes, tasks }
    }

    fn logs(&self, task: &str, owner: &str) -> Option<PathBuf> {
        let folder = self.settings.folder.join(task);
        let spec = spec::read(&folder).ok()??;
        (spec.owner == owner).then(|| folder.join(LOGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_fails_leaves_no_watch() {
        let folder = tempfile::tempdir().unwrap();
        let spec = TaskSpec { id: "web-0".to_owned(), ..TaskSpec::default() };
        for supervisor in [vec![], vec!["/no/such/program".into()]] {
            let patience = Duration::from_secs(60);
            let tasks = folder.path().to_owned();
            let settings = ProcessSettings { folder: tasks, supervisor, cgroups: None, patience };
            let mut driver = ProcessDriver::new(settings).unwrap();
            assert!(driver.start(&spec).is_err());
            assert_eq!(driver.watch.as_ref().unwrap().folders(), 0);
            assert!(driver.watch(folder.path()).is_some());
            assert_eq!(driver.watch.as_ref().unwrap().folders(), 1);
        }
    }
}
