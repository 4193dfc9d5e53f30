//! The supervisor of a task: starts the program, stores its output, watches it, and reports its end.
//!
//! One thread makes decisions, and stores the output. Health checks, and the wait for the start of a container, have
//! threads that send it events. The agent sends signals: `SIGTERM` stops the task, and `SIGUSR1` kills it. The
//! supervisor measures the grace period, so the agent may end meanwhile.

use crate::cgroup::Cgroup;
use crate::container;
use crate::exit::Exit;
use crate::inbox::{Inbox, Sender};
use crate::logs::{self, LogStream};
use crate::output::Output;
use crate::probe;
use crate::spec::{self, LOGS, TaskSpec};
use crate::start_pipe::StartPipe;
use crate::supervisor_event::SupervisorEvent;
use crate::task_files::files;
use crate::task_files::journal::{self, Entry, Status, SupervisorProcess};
use crate::tree;
use omega_core::RestartPolicy;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Duration of a run that resets the number of restarts in a row to 0.
const LONG_RUN: Duration = Duration::from_secs(600);

/// The shortest delay before the first restart in a row, even if the job gives none. Otherwise, a program that fails at
/// once would be started again without end, outside the limits of its task.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// The longest delay before a restart.
const DELAY_MAX: Duration = Duration::from_secs(300);

/// Time after which an entry of the journal that could not be written is written again.
const REWRITE_DELAY: Duration = Duration::from_secs(1);

/// A run of the program.
struct Run {
    pid: Pid,
    began: Instant,
    outputs: [Output; 2],
    start: StartPipe,
    /// Dropped when the run ends. The threads of the run then end, too.
    alive: Arc<()>,
    /// Number of the task's processes that the kernel had killed because of the memory limit before this run began.
    out_of_memory: u64,
}

/// The supervisor of a task. See the module documentation.
struct Supervisor {
    folder: PathBuf,
    spec: TaskSpec,
    cgroup: Option<Cgroup>,
    /// Name of the task's container, if it has one.
    container: Option<String>,
    /// Arguments of this program before the stage. The commands of other stages begin with them, too.
    prefix: Vec<OsString>,
    inbox: Inbox,
    events: Sender,
    run: Option<Run>,
    journal: journal::Writer,
    status: Status,
    /// Number of restarts since the last run that was as long as [`LONG_RUN`].
    row: u32,
    is_unhealthy: bool,
    kill_at: Option<Instant>,
    restart_at: Option<Instant>,
    /// Time at which the status is written again, because it could not be written.
    rewrite_at: Option<Instant>,
    probe: Option<(Pid, mpsc::Sender<bool>)>,
    /// Whether the last command of the health check took too long, so that its processes may be left in the container.
    was_probe_late: bool,
}

/// Runs a task to its end. After an error, the journal has no end of the task, so the task counts as lost.
pub(crate) fn run(folder: &Path) -> io::Result<()> {
    let spec = spec::read(folder)?.ok_or_else(|| {
        io::Error::other(
            "the folder contains no description of a task: do not start this program by hand, \
             because the agent starts it",
        )
    })?;
    // The name in lists of processes, which would otherwise be the last part of the path.
    rustix::thread::set_name(c"omega-supervise")?;
    let (inbox, events) = Inbox::new()?;
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The folder stays locked until this process ends for any reason, so that other processes can check whether it
    // runs.
    let lock = files::open_folder(folder)?;
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let start_ticks = tree::start_ticks(pid).unwrap_or_default();
    let own = SupervisorProcess { pid, start_ticks };
    let journal = journal::Writer::create(folder, own)?;
    let cgroup = spec.limits.cgroup.as_deref().map(Cgroup::at);
    let container = spec.container.as_ref().map(|_| container::name(&spec.id, own));
    let mut supervisor = Supervisor {
        folder: folder.to_owned(),
        spec,
        cgroup,
        container,
        prefix: prefix(),
        inbox,
        events,
        run: None,
        journal,
        status: Status::default(),
        row: 0,
        is_unhealthy: false,
        kill_at: None,
        restart_at: None,
        rewrite_at: None,
        probe: None,
        was_probe_late: false,
    };
    let exit = match supervisor.start() {
        Some(exit) => exit,
        None => supervisor.supervise()?,
    };
    // If the use cannot be measured, that since the agent's last measurement is not counted.
    let used = tree::own_cpu_us().map(Entry::UsedCpu);
    let end: Vec<Entry> = used.into_iter().chain([Entry::Ended(exit)]).collect();
    while let Err(why) = supervisor.write_end(&end) {
        // The end waits until the disk has room. Without the end, the task would run again.
        if !matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Err(why);
        }
        std::thread::sleep(REWRITE_DELAY);
    }
    drop(lock);
    Ok(())
}

/// The arguments of this program in front of the stage and the folder.
fn prefix() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    args.truncate(args.len().saturating_sub(2));
    args
}

impl Supervisor {
    /// Handles events and output until the task has ended.
    fn supervise(&mut self) -> io::Result<Exit> {
        loop {
            let next = [self.kill_at, self.restart_at, self.rewrite_at].into_iter().flatten().min();
            let outputs = self.run.iter().flat_map(|run| &run.outputs).filter_map(Output::pipe);
            let starts = self.run.iter().filter_map(|run| run.start.pipe());
            self.inbox.wait(next, outputs.chain(starts))?;
            while let Some(event) = self.inbox.take() {
                if let Some(exit) = self.follow(event)? {
                    return Ok(exit);
                }
                // Many events cannot delay what is due, and the output.
                if let Some(exit) = self.pass_time() {
                    return Ok(exit);
                }
            }
            if let Some(exit) = self.pass_time() {
                return Ok(exit);
            }
        }
    }

    /// Does what is due, and stores some output. Returns the end of the task, if the program could not be started.
    fn pass_time(&mut self) -> Option<Exit> {
        let end = self.due();
        self.note_start();
        for output in self.run.iter_mut().flat_map(|run| &mut run.outputs) {
            output.store();
        }
        end
    }

    /// Notes whether the program has just started. A container reports its start later, by an event.
    fn note_start(&mut self) {
        let Some(run) = &mut self.run else { return };
        let has_closed = run.start.has_just_closed();
        if has_closed && run.start.has_started() && self.container.is_none() {
            self.program_runs();
        }
    }

    /// Kills or restarts the program if it is time to do so. Returns the end of the task, if the program could not be
    /// restarted.
    fn due(&mut self) -> Option<Exit> {
        let now = Instant::now();
        if self.kill_at.take_if(|at| *at <= now).is_some() {
            self.kill();
        }
        if self.rewrite_at.is_some_and(|at| at <= now) {
            self.write_status();
        }
        self.restart_at.take_if(|at| *at <= now)?;
        self.status.restarts += 1;
        self.row += 1;
        self.start()
    }

    fn follow(&mut self, event: SupervisorEvent) -> io::Result<Option<Exit>> {
        match event {
            SupervisorEvent::Child => return self.reap(),
            SupervisorEvent::Stop => {
                self.status.ending = true;
                if self.run.is_none() {
                    return Ok(Some(Exit::Stopped));
                }
                self.terminate();
                self.write_status();
            }
            SupervisorEvent::Kill => {
                self.status.ending = true;
                if self.run.is_none() {
                    return Ok(Some(Exit::Stopped));
                }
                self.kill();
            }
            SupervisorEvent::Probe(answer) => self.begin_probe(answer),
            SupervisorEvent::ProbeIsLate => self.end_probe(),
            SupervisorEvent::ContainerStarted(run) if self.is_present(run) => {
                if let Some(cgroup) = &self.cgroup {
                    cgroup.end_container_as_one();
                }
                self.program_runs();
            }
            SupervisorEvent::Ready(run) if self.is_present(run) => {
                self.status.ready = true;
                self.write_status();
            }
            SupervisorEvent::Unhealthy(run) if self.is_present(run) => {
                self.is_unhealthy = true;
                self.terminate();
            }
            SupervisorEvent::ContainerStarted(_)
            | SupervisorEvent::Ready(_)
            | SupervisorEvent::Unhealthy(_) => {}
        }
        Ok(None)
    }

    /// Whether this run, counted by restarts, has not ended.
    fn is_present(&self, run: u32) -> bool {
        run == self.status.restarts && self.run.is_some()
    }

    /// Collects the exit statuses of children that have ended. Returns the end of the task, if it has ended.
    fn reap(&mut self) -> io::Result<Option<Exit>> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if self.run.as_ref().is_some_and(|run| run.pid == pid) {
                        return self.ended(status);
                    }
                    if let Some((_, answer)) = self.probe.take_if(|(probe, _)| *probe == pid) {
                        let _ = answer.send(status.exit_status() == Some(0));
                    }
                }
                Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// A command that runs another stage of this program.
    fn stage(&self, stage: &str) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(&self.prefix).arg(stage).arg(&self.folder).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts the program. A failure counts as a failed run. Returns the end of the task, unless the program runs or
    /// will be restarted.
    fn start(&mut self) -> Option<Exit> {
        let why = self.begin_run().err()?;
        // If this fails, processes are ended with the next run, or by the agent.
        let _ = tree::kill_all_below();
        // The agent reports the restart that has failed.
        self.write_status();
        let why = format!("the supervisor cannot start a process for the program: {why}");
        self.restart_or_end(Exit::NotStarted(why))
    }

    /// Begins a run of the program.
    fn begin_run(&mut self) -> io::Result<()> {
        let out_of_memory = self.cgroup.as_ref().map_or(0, Cgroup::out_of_memory);
        if self.container.is_some() {
            container::forget_start(&self.folder)?;
        }
        let (start, reason) = io::pipe()?;
        let start = StartPipe::new(start)?;
        let mut stage = self.stage("launch");
        stage.stdin(reason).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = stage.spawn()?;
        let missing = || {
            io::Error::other(
                "the task was started without pipes for its output: this is a bug in Omega, \
                 please report it",
            )
        };
        let out = child.stdout.take().ok_or_else(missing)?.into();
        let err = child.stderr.take().ok_or_else(missing)?.into();
        let outputs = [self.output(LogStream::Stdout, out)?, self.output(LogStream::Stderr, err)?];
        let (pid, began, alive) = (Pid::from_child(&child), Instant::now(), Arc::default());
        self.run = Some(Run { pid, began, outputs, start, alive, out_of_memory });
        self.is_unhealthy = false;
        self.kill_at = None;
        (self.status.running, self.status.ready) = (true, false);
        if self.container.is_some() {
            // Before the container starts, its image may have to be downloaded.
            if let Some(run) = &self.run {
                let alive = Arc::downgrade(&run.alive);
                let (restarts, events) = (self.status.restarts, self.events.clone());
                container::await_start(&self.folder, restarts, events, alive);
            }
        }
        // The journal of a task that has not been restarted needs no status until the program has started.
        if self.status.restarts > 0 {
            self.write_status();
        }
        Ok(())
    }

    /// Begins the health check of the program, which has just started. Without a check, the task is ready.
    fn program_runs(&mut self) {
        self.status.has_started = true;
        match (self.spec.health.clone(), &self.run) {
            (Some(check), Some(run)) => {
                let alive = Arc::downgrade(&run.alive);
                probe::watch(check, self.status.restarts, self.events.clone(), alive);
            }
            _ => self.status.ready = true,
        }
        self.write_status();
    }

    /// Starts the command of the health check. While processes of a command that took too long are left, the check
    /// fails without a command. Otherwise, each check could leave more processes.
    fn begin_probe(&mut self, answer: mpsc::Sender<bool>) {
        self.was_probe_late = self.was_probe_late && container::end_checks();
        if !self.was_probe_late {
            let pid = self.stage("probe").spawn();
            self.probe = pid.ok().map(|child| (Pid::from_child(&child), answer));
        }
        // If `answer` is dropped, the check has failed.
    }

    /// Kills the command of the health check, which takes too long.
    fn end_probe(&mut self) {
        let Some((pid, _)) = self.probe.take() else { return };
        tree::kill_below(pid.as_raw_nonzero().get());
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        self.was_probe_late = self.container.is_some();
        if self.was_probe_late {
            container::end_checks();
        }
    }

    /// The output of the program from a pipe.
    fn output(&self, stream: LogStream, pipe: OwnedFd) -> io::Result<Output> {
        let folder = self.folder.join(LOGS);
        Output::new(pipe, logs::Writer::new(folder, stream, self.spec.limits.log_bytes))
    }

    /// Writes the status to the journal. If this fails, for example because the disk is full, the task runs on, and the
    /// status is written later.
    fn write_status(&mut self) {
        self.status.was_ready |= self.status.ready;
        let written = self.journal.append(&[Entry::Status(self.status.clone())]);
        self.rewrite_at = written.err().map(|_| Instant::now() + REWRITE_DELAY);
    }

    /// Stops the program, and records when it must be killed.
    fn terminate(&mut self) {
        let Some(run) = &self.run else { return };
        // The signal goes to the process group, because the program leads its own session. It also goes to the process
        // alone, because the process may not have begun the session yet. Podman would forward both to the container.
        if self.container.is_none() {
            let _ = rustix::process::kill_process_group(run.pid, Signal::TERM);
        }
        let _ = rustix::process::kill_process(run.pid, Signal::TERM);
        let grace = Duration::from_millis(self.spec.grace_ms.into());
        let at = Instant::now() + grace;
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Kills all processes of the task. Their end is then handled like any other end.
    fn kill(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if let Some(run) = &self.run {
            let _ = rustix::process::kill_process(run.pid, Signal::KILL);
        }
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for pid in tree::descendants(own).into_iter().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// Ends a run, so that none of its processes is left. Returns the end of the task, unless the program will be
    /// restarted.
    fn ended(&mut self, status: WaitStatus) -> io::Result<Option<Exit>> {
        self.note_start();
        let Some(mut run) = self.run.take() else { return Ok(None) };
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        (self.probe, self.was_probe_late) = (None, false);
        tree::kill_all_below()?;
        if let Some(cgroup) = &self.cgroup {
            cgroup.clear();
        }
        // No process of the task is left, so the pipes have all of the output.
        run.outputs.iter_mut().for_each(Output::store_rest);
        (self.status.running, self.status.ready, self.kill_at) = (false, false, None);
        let mut killed = self.cgroup.as_ref().map_or(0, Cgroup::out_of_memory) > run.out_of_memory;
        let mut was_started = self.container.is_some() || run.start.has_started();
        if let Some(name) = &self.container {
            if status.exit_status() != Some(0) {
                let ended = container::ended(name);
                // With some versions of Podman, only the control group counts the kill.
                killed |= ended.is_out_of_memory;
                was_started = ended.was_started;
            }
            container::remove(name);
            // The container may have ended before its start was noticed.
            if was_started && !std::mem::replace(&mut self.status.has_started, true) {
                self.write_status();
            }
        }
        let exit = match status.exit_status() {
            _ if self.status.ending => Exit::Stopped,
            _ if killed => Exit::OutOfMemory,
            _ if self.is_unhealthy => Exit::Unhealthy,
            _ if !was_started => Exit::NotStarted(self.why_not_started(status, &run.start)),
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.terminating_signal().unwrap_or_default()),
        };
        if run.began.elapsed() >= LONG_RUN {
            self.row = 0;
        }
        Ok(self.restart_or_end(exit))
    }

    /// The reason why a run has ended before its program has started.
    fn why_not_started(&self, status: WaitStatus, start: &StartPipe) -> String {
        let code = status.exit_status();
        start.reason().unwrap_or_else(|| match (code, status.terminating_signal()) {
            (Some(_), _) if self.container.is_some() => container::why_not_started(&self.folder),
            (_, Some(signal)) => {
                format!("signal {signal} ended the process that starts the program")
            }
            _ => format!(
                "the process that starts the program has ended with exit code {}: see the log",
                code.unwrap_or_default()
            ),
        })
    }

    /// Returns the end of the task after a run that has ended in this way, unless the program will be restarted.
    fn restart_or_end(&mut self, exit: Exit) -> Option<Exit> {
        let is_done = exit.is_success() && !self.spec.stays_up;
        let is_last = is_done || self.status.ending || self.row >= self.spec.restart.attempts;
        if !is_last {
            self.status.last = Some(exit.clone());
            self.restart_at = Some(Instant::now() + delay(self.spec.restart, self.row));
            self.write_status();
        }
        is_last.then_some(exit)
    }

    /// Writes the end of the task, after the status if that could not be written before.
    fn write_end(&mut self, end: &[Entry]) -> io::Result<()> {
        if self.rewrite_at.is_some() {
            self.journal.append(&[Entry::Status(self.status.clone())])?;
            self.rewrite_at = None;
        }
        self.journal.append(end)
    }
}

/// The delay before a restart, which follows this number of restarts in a row.
fn delay(policy: RestartPolicy, row: u32) -> Duration {
    let first = Duration::from_millis(policy.delay_ms.into()).max(DELAY_MIN);
    first.saturating_mul(1 << row.min(20)).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_delay_is_not_started_again_at_once() {
        let delay_ms = |given, row| {
            delay(RestartPolicy { attempts: u32::MAX, delay_ms: given }, row).as_millis()
        };
        assert_eq!([0, 1, 2, 3].map(|row| delay_ms(0, row)), [100, 200, 400, 800]);
        assert_eq!([0, 1, 2, 3].map(|row| delay_ms(1500, row)), [1500, 3000, 6000, 12_000]);
        for given in [0, 1, 1500, u32::MAX] {
            assert_eq!(delay_ms(given, 1000), DELAY_MAX.as_millis(), "{given}");
        }
    }
}
