//! Measures the time from the start of a server with a large cell until it is ready, and the resources of an idle
//! server.

use super::calls::Replicas;
use super::cell::Processes;
use crate::ports;
use omega_cellstate::Cell;
use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, MachineId, TaskGroup, TaskId};
use omega_store::directory::{Directory, EngineKind, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::replica::bootstrap_with;
use omega_store::{CellId, Origin, RealDisk};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Pause before an idle server is measured; the next constant is the duration of the measurement.
const SETTLE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(20);

/// Clock ticks per second, which is the unit of processor time in Linux' `/proc`.
const TICKS: f64 = 100.0;

/// Resource usage of a process.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// Processor time in percent of one processor.
    pub cpu_percent: f64,
    /// Resident memory, in mebibytes.
    pub resident_mib: f64,
}

/// Resources that a start needs.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Time until the server listens.
    pub listens: Duration,
    /// Time until the server has replied with the whole cell.
    pub answers: Duration,
    /// Processor time of all threads of the server until that reply.
    pub cpu: Duration,
    /// Resident memory of the server at that time, in mebibytes.
    pub resident_mib: f64,
}

/// Starts a server of a cell with this many machines and placed tasks.
///
/// # Errors
/// If the server does not start.
pub fn start(program: &Path, place: &Path, machines: u32, tasks: u32) -> Result<Ready, String> {
    let text = |error: std::io::Error| error.to_string();
    let dir = tempfile::tempdir_in(place).map_err(text)?;
    make(&dir.path().join("cell"), &filled(machines, tasks)?)?;
    let listen = ports::address();
    let began = Instant::now();
    let mut child = Program::new(program)
        .current_dir(dir.path())
        .args(["serve", "--dir=cell", &format!("--listen={listen}")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(text)?;
    let ready = until_ready(&mut child, listen, (began, machines));
    let _ = (child.kill(), child.wait());
    ready
}

fn until_ready(
    child: &mut Child,
    listen: SocketAddr,
    (began, machines): (Instant, u32),
) -> Result<Ready, String> {
    let mut line = String::new();
    let said = child.stdout.take().ok_or("it has no output")?;
    BufReader::new(said).read_line(&mut line).map_err(|error| error.to_string())?;
    let listens = began.elapsed();
    if !line.contains("listens on") {
        return Err(format!("it does not start: {line:?}"));
    }
    let runtime = Arc::new(Runtime::new().map_err(|error| error.to_string())?);
    let replica = Replicas::new(&runtime, &[listen]);
    loop {
        let told = replica.describe(0);
        if told.is_ok_and(|told| !told.stale && told.machines == machines) {
            let (cpu, resident_mib) = (cpu(child.id())?, resident_mib(child.id())?);
            return Ok(Ready { listens, answers: began.elapsed(), cpu, resident_mib });
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it has ended: {status}"));
        }
    }
}

/// Resources of each replica of an idle, empty cell.
///
/// # Errors
/// If the cell does not start.
pub fn idle(program: &Path, place: &Path) -> Result<Vec<Used>, String> {
    let cell = Processes::bootstrap(program, place).map_err(|error| error.to_string())?;
    std::thread::sleep(SETTLE);
    let processes: Vec<u32> = cell.ids().filter_map(|id| cell.process(id)).collect();
    let before: Vec<Duration> = processes.iter().map(|id| cpu(*id)).collect::<Result<_, _>>()?;
    std::thread::sleep(IDLE);
    let used = |(id, before): (&u32, &Duration)| {
        let cpu_percent = (cpu(*id)? - *before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
        Ok(Used { cpu_percent, resident_mib: resident_mib(*id)? })
    };
    processes.iter().zip(&before).map(used).collect()
}

/// Processor time of a process so far.
///
/// # Errors
/// If there is no such process.
pub fn cpu(process: u32) -> Result<Duration, String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let stat = stat.map_err(|error| error.to_string())?;
    // Only the fields after the name, which is in brackets, are counted; the first of them is the third field of the
    // file.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS))
}

/// The resident memory of a process, in mebibytes.
///
/// # Errors
/// If there is no such process.
pub fn resident_mib(process: u32) -> Result<f64, String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib / 1024.0).ok_or_else(|| "it tells no memory".to_owned())
}

/// A cell in which all tasks are placed.
fn filled(machines: u32, tasks: u32) -> Result<Cell, String> {
    let mut cell = Cell::new(Kinds::standard());
    let mut apply = |command| cell.apply(command).map(drop).map_err(|error| error.to_string());
    for i in 0..machines {
        let amounts = Amounts::new([64_000, 256 << 30]);
        apply(Command::RegisterMachine(Machine::new(format!("machine-{i}"), amounts)))?;
    }
    // Number of tasks of a job; jobs of traces have some tens.
    const EACH: u32 = 100;
    for i in 0..tasks / EACH {
        let group = TaskGroup::new(EACH, Amounts::new([1000, 1 << 30]));
        apply(Command::SubmitJob(Job::batch(format!("job-{i}"), group)))?;
        for index in 0..EACH {
            let machine = MachineId::first((i * EACH + index) % machines);
            apply(Command::AdoptTask { task: TaskId { job: JobId(i.into()), index }, machine })?;
        }
    }
    Ok(cell)
}

/// Creates the directory of a replica that is the only one of its cell.
fn make(path: &Path, cell: &Cell) -> Result<(), String> {
    let origin = Origin { cell: CellId(1), kinds: cell.kinds().clone() };
    let replica = ReplicaId(1);
    let identity = Identity { origin, replica, engine: EngineKind::Segment };
    let directory = Directory::create(Arc::new(RealDisk), path, identity);
    let directory = directory.map_err(|error| error.to_string())?;
    let founding = Membership::initial([replica]);
    bootstrap_with(&directory, &founding, cell).map_err(|error| error.to_string())
}
