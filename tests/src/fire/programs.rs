//! Measures `omega agent` with real programs: many short tasks, an idle agent, and an agent that is started again.
//!
//! Three replicas, a scheduler and an agent run on this machine. The agent has no control groups, and offers more cores
//! than the computer has, so that a constant determines how many tasks run at a time.

use super::calls::Replicas;
use super::cell::Processes;
use super::standing::{Used, cpu, resident_mib};
use omega_client::proto::JobStatus;
use omega_core::{Amounts, Job, JobId, Run, TaskGroup};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Number of short tasks; the next constant is the number of those that run at a time.
const SHORT: u32 = 10_000;
const AT_ONCE: u32 = 64;

/// Number of tasks that a restarted agent finds again.
const LONG: u32 = 1000;

/// Interval at which a job is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Pause before the idle measurement, and its duration.
const SETTLE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(20);

/// Longest wait for a job.
const PATIENCE: Duration = Duration::from_secs(600);

/// Results of the measurements.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// From the start of the agent's process until a pending task runs.
    pub first_task: Duration,
    /// From the submission of `SHORT` tasks of 10 ms until all of them are finished in the cell state.
    pub short_tasks: Duration,
    /// Time to start and await `SHORT` programs of 10 ms without a cell.
    pub forks: Duration,
    /// An agent without tasks.
    pub idle: Used,
    /// An agent with `LONG` tasks.
    pub busy: Used,
    /// From the restart of an agent with `LONG` tasks until it has reported them.
    pub found_again: Duration,
    /// From the kill of `LONG` tasks until none of their processes is left.
    pub killed: Duration,
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// The cell, and the folder of the agent.
struct World {
    program: PathBuf,
    dir: TempDir,
    cell: Processes,
    replicas: Replicas,
    _scheduler: Running,
}

/// Runs all measurements.
///
/// # Errors
/// If a process does not start, or a task fails.
pub fn measure(program: &Path, place: &Path) -> Result<Measured, String> {
    let world = World::new(program, place)?;
    let began = Instant::now();
    let first = world.submit("first", 1, "0")?;
    let agent = world.agent()?;
    world.until(first, |job| job.running + job.finished == 1)?;
    let first_task = began.elapsed();

    let began = Instant::now();
    let short = world.submit("short", SHORT, "0.01")?;
    world.until(short, |job| job.finished == SHORT)?;
    let short_tasks = began.elapsed();
    let forks = forks().map_err(|error| error.to_string())?;
    let idle = used(&agent)?;

    let long = world.submit("long", LONG, "10000")?;
    world.until(long, |job| job.running == LONG)?;
    let busy = used(&agent)?;
    drop(agent);
    let began = Instant::now();
    let _agent = world.agent()?;
    let found_again = began.elapsed();
    std::thread::sleep(SETTLE);
    let told = world.job(long)?;
    if (told.running, told.failures, told.pending) != (LONG, 0, 0) {
        return Err(format!("tasks were lost with the agent: {told:?}"));
    }
    let began = Instant::now();
    world.kill(long)?;
    while world.supervisors() > 0 && began.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
    }
    let killed = began.elapsed();
    world.until(long, |job| job.killed == LONG)?;
    Ok(Measured { first_task, short_tasks, forks, idle, busy, found_again, killed })
}

impl World {
    fn new(program: &Path, place: &Path) -> Result<World, String> {
        let text = |error: std::io::Error| error.to_string();
        let cell = Processes::bootstrap(program, place).map_err(text)?;
        let runtime = Arc::new(Runtime::new().map_err(text)?);
        let replicas = Replicas::new(&runtime, cell.clients());
        let scheduler = start(Command::new(program).args(["scheduler", "--cell"]).arg(all(&cell)))?;
        let dir = tempfile::tempdir_in(place).map_err(text)?;
        Ok(World { program: program.to_owned(), dir, cell, replicas, _scheduler: scheduler })
    }

    /// Starts the agent, and waits until it offers the machine.
    fn agent(&self) -> Result<Running, String> {
        let offer = [format!("--cpu={AT_ONCE}"), "--memory=1000GiB".to_owned()];
        let mut command = Command::new(&self.program);
        command.args(["agent", "--no-limits", "--name=box", "--heartbeat=1", "--cell"]);
        start(command.arg(all(&self.cell)).arg("--dir").arg(self.dir.path()).args(offer))
    }

    /// Submits tasks that sleep.
    fn submit(&self, name: &str, count: u32, seconds: &str) -> Result<JobId, String> {
        let cpu = if count == LONG { 1 } else { 1000 };
        let mut run = Run::new("/bin/sleep");
        run.args = vec![seconds.into()];
        let run = Some(Arc::new(run));
        let group = TaskGroup { run, ..TaskGroup::new(count, Amounts::new([cpu])) };
        let job = Job::batch(name, group);
        let submitted = (0..self.replicas.count()).map(|at| self.replicas.submit(at, &job));
        let found = submitted.into_iter().find_map(Result::ok);
        found.ok_or_else(|| format!("job {name} is not accepted"))
    }

    fn job(&self, id: JobId) -> Result<JobStatus, String> {
        let told = (0..self.replicas.count()).map(|at| self.replicas.job(at, id));
        let found = told.into_iter().find_map(Result::ok);
        found.ok_or_else(|| format!("no replica knows job {id}"))
    }

    fn kill(&self, id: JobId) -> Result<(), String> {
        let killed = (0..self.replicas.count()).map(|at| self.replicas.kill_job(at, id));
        let done = killed.into_iter().find_map(Result::ok);
        done.ok_or_else(|| format!("job {id} cannot be killed"))
    }

    /// Number of supervisors that run.
    fn supervisors(&self) -> usize {
        let folder = self.dir.path().display().to_string();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        lines.filter(|line| line.contains("supervise") && line.contains(&folder)).count()
    }

    /// Waits for a state of a job.
    fn until(&self, id: JobId, is_so: impl Fn(&JobStatus) -> bool) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let told = self.job(id)?;
            if is_so(&told) {
                return Ok(());
            }
            if told.failed > 0 || began.elapsed() > PATIENCE {
                let (running, finished, failed) = (told.running, told.finished, told.failed);
                return Err(format!(
                    "job {id} has {running} running tasks, {finished} finished, {failed} failed"
                ));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The addresses of all replicas.
fn all(cell: &Processes) -> String {
    let addresses = cell.clients().iter().map(ToString::to_string);
    addresses.collect::<Vec<_>>().join(",")
}

/// Starts a process, and waits for the line that it prints when it is ready.
fn start(command: &mut Command) -> Result<Running, String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = Running(command.spawn().map_err(|error| error.to_string())?);
    let mut line = String::new();
    let said = child.0.stdout.take().ok_or("it has no output")?;
    BufReader::new(said).read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() { Err("a process ended at once".to_owned()) } else { Ok(child) }
}

/// Time to start and await as many programs as there are short tasks, with `AT_ONCE` at a time.
fn forks() -> std::io::Result<Duration> {
    let began = Instant::now();
    let mut running = std::collections::VecDeque::new();
    for _ in 0..SHORT {
        if running.len() == AT_ONCE as usize {
            running.pop_front().map(|mut child: Child| child.wait()).transpose()?;
        }
        running.push_back(Command::new("/bin/sleep").arg("0.01").spawn()?);
    }
    for mut child in running {
        child.wait()?;
    }
    Ok(began.elapsed())
}

/// Resources of an agent over a time.
fn used(agent: &Running) -> Result<Used, String> {
    std::thread::sleep(SETTLE);
    let before = cpu(agent.0.id())?;
    std::thread::sleep(IDLE);
    let cpu_percent = (cpu(agent.0.id())? - before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    Ok(Used { cpu_percent, resident_mib: resident_mib(agent.0.id())? })
}
