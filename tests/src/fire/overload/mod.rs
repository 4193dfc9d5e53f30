//! Measures a server that gets ten times the load that it can serve.
//!
//! Schedulers with certificates move tasks, with one call each. The measurement has three parts. First, each scheduler
//! waits for its replies; this is the peak. Then there are ten times as many calls, from clients that respect retry
//! delays. At last, calls are made at ten times the peak rate, regardless of replies and rejections. All the time, an
//! operator describes the cell, and agents send heartbeats for a thousand machines.
//!
//! If the system allows it (`taskset`), clients run on separate processors, so that they take no time from the server.
//! If other programs run on the computer, replies per second of the server's processor time are more meaningful than
//! rates.

mod flood;
mod server;

use super::standing::{cpu, resident_mib};
use flood::{Caller, Counts, closed, open, prepare};
use omega_client::proto;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::{ApiError, ErrorCode};
use server::{AgentProcess, MACHINES, Server, channel, pin};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;

/// Number of concurrent calls of each scheduler at the peak. There are few connections with many calls.
const IN_FLIGHT: usize = 32;

/// Load of the overloads, as a multiple of the peak.
const TIMES: usize = 10;

/// Share of the peak rate at which the server is considered recovered; the next constant is the longest wait for this.
const RECOVERED: f64 = 0.8;
const PATIENCE: Duration = Duration::from_secs(120);

/// Interval between the operator's calls.
const OPERATOR: Duration = Duration::from_millis(50);

/// Work of a server for schedulers during a span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Calls made per second.
    pub offered: f64,
    /// Replies per second.
    pub answered: f64,
    /// Replies per second of the server's processor time.
    pub per_core: f64,
    /// Rejected calls per second.
    pub refused: f64,
    /// Mean number of processors that the server used.
    pub cores: f64,
}

impl Done {
    /// Ratio of this span's rate of replies to that of the peak, and the ratio of the replies per processor time.
    #[must_use]
    pub fn of(&self, peak: &Done) -> (f64, f64) {
        (self.answered / peak.answered, self.per_core / peak.per_core)
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { offered, answered, per_core, refused, cores } = self;
        write!(
            f,
            "offered {offered:.0}/s, answered {answered:.0}/s ({per_core:.0} per core-second, {cores:.2} cores), \
             refused {refused:.0}/s"
        )
    }
}

/// Observations of other callers and of the system in a span.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Median and 99th percentile of the operator's response times, in milliseconds.
    pub operator_ms: (f64, f64),
    /// Number of the operator's calls that failed before their deadlines.
    pub operator_failed: usize,
    /// Number of the operator's calls that were not answered by their deadlines.
    pub operator_late: usize,
    /// Maximum memory of the server, in mebibytes.
    pub resident_mib: f64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Part with clients that wait for their replies.
    pub peak: Done,
    /// Part with ten times as many calls, from clients that respect retry delays.
    pub patient: Done,
    /// Part with calls at ten times the peak rate, by clients that ignore rejections.
    pub hostile: Done,
    /// Latency of an operator: at the peak, and in both overloads.
    pub seen: (Seen, Seen),
    /// Number of machines that were declared unreachable, although their agents sent heartbeats all the time.
    pub machines_lost: u32,
    /// Time from the end of the overload until four fifths of the peak rate, by processor time, were reached for a
    /// second.
    pub recovery: Duration,
    /// Whether clients and server ran on separate processors.
    pub apart: bool,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { peak, patient, hostile, seen: (before, under), .. } = self;
        let apart = if self.apart { "other" } else { "the same" };
        writeln!(f, "those who ask have {apart} processors")?;
        writeln!(f, "peak:    {peak}")?;
        for (name, done) in [("patient", patient), ("hostile", hostile)] {
            let (goodput, per_core) = done.of(peak);
            writeln!(f, "{name}: {done}: {goodput:.2} of the peak, {per_core:.2} per core-second")?;
        }
        for (name, seen) in [("at the peak", before), ("overloaded", under)] {
            let Seen { operator_ms: (half, most), operator_failed, operator_late, resident_mib } =
                seen;
            writeln!(
                f,
                "{name}: operator p50 {half:.1} ms, p99 {most:.1} ms, {operator_failed} failed, \
                 {operator_late} late; memory at \
                 most {resident_mib:.0} MiB"
            )?;
        }
        let (lost, recovery) = (self.machines_lost, self.recovery.as_secs_f64());
        write!(f, "{lost} of {MACHINES} machines lost; recovered in {recovery:.1} s")
    }
}

/// Starts a server, and overloads it twice for this time.
///
/// # Errors
/// If the server does not start, dies, or does not recover for a long time.
pub fn measure(program: &Path, place: &Path, span: Duration) -> Result<Told, String> {
    let text = |error: std::io::Error| error.to_string();
    let dir = tempfile::tempdir_in(place).map_err(text)?;
    let server = Server::start(program, dir.path())?;
    let apart = Apart::begin(server.child.id());
    // Threads that are created from here on run on the same processors.
    let runtime = Runtime::new().map_err(text)?;
    let callers = runtime.block_on(prepare(dir.path(), server.listen))?;
    let _agents = AgentProcess::start(program, dir.path(), server.listen)?;
    let measured = Measured { runtime, callers, server, span };
    let mut told = Told { apart: apart.is_some(), ..Told::default() };
    let at_peak = Operator::start(dir.path(), &measured.server)?;
    told.peak = measured.closed(IN_FLIGHT, span)?;
    told.seen.0 = at_peak.end();
    let overloaded = Operator::start(dir.path(), &measured.server)?;
    told.patient = measured.closed(IN_FLIGHT * TIMES, span)?;
    told.hostile = measured.open(told.peak.answered as u64 * TIMES as u64)?;
    told.seen.1 = overloaded.end();
    let ended = Instant::now();
    while measured.closed(IN_FLIGHT, Duration::from_secs(1))?.of(&told.peak).1 < RECOVERED {
        if ended.elapsed() > PATIENCE {
            return Err(format!("it does not recover: {told}"));
        }
    }
    told.recovery = ended.elapsed();
    let channel =
        measured.entered(|| channel(dir.path(), measured.server.listen, "operator-ann"))?;
    let cell = measured.runtime.block_on(describe(&channel)).map_err(|error| error.to_string())?;
    // The additional machine is the one that the schedulers use.
    told.machines_lost = (MACHINES + 1).saturating_sub(cell.machines);
    Ok(told)
}

/// A server and its clients.
struct Measured {
    runtime: Runtime,
    callers: Vec<Caller>,
    server: Server,
    span: Duration,
}

impl Measured {
    fn entered<T>(&self, make: impl FnOnce() -> T) -> T {
        let _entered = self.runtime.enter();
        make()
    }

    fn closed(&self, in_flight: usize, span: Duration) -> Result<Done, String> {
        let (counts, before) = (Arc::new(Counts::default()), cpu(self.server.child.id())?);
        let took = self.runtime.block_on(closed(&self.callers, (in_flight, span), &counts));
        self.done(&counts, before, took)
    }

    fn open(&self, rate: u64) -> Result<Done, String> {
        let (counts, before) = (Arc::new(Counts::default()), cpu(self.server.child.id())?);
        self.runtime.block_on(open(&self.callers, (rate, self.span), &counts));
        self.done(&counts, before, self.span)
    }

    fn done(&self, counts: &Counts, before: Duration, took: Duration) -> Result<Done, String> {
        let worked = (cpu(self.server.child.id())? - before).as_secs_f64();
        let took = took.as_secs_f64();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
        Ok(Done {
            offered: count(&counts.offered) / took,
            answered: count(&counts.answered) / took,
            per_core: count(&counts.answered) / worked,
            refused: count(&counts.refused) / took,
            cores: worked / took,
        })
    }
}

/// Assignment of processors: the first half is for the server, the rest for this process and its children.
struct Apart {
    all: String,
}

impl Apart {
    fn begin(server: u32) -> Option<Apart> {
        let count = std::thread::available_parallelism().ok()?.get();
        let half = count / 2;
        let (first, second) =
            (format!("0-{}", half.checked_sub(1)?), format!("{half}-{}", count - 1));
        let apart = Apart { all: format!("0-{}", count - 1) };
        (pin(server, &first) && pin(std::process::id(), &second)).then_some(apart)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Pinning this process has worked before, so the result is not checked again.
        let _ = pin(std::process::id(), &self.all);
    }
}

/// An operator that calls `DescribeCell` on a separate thread, and reads the server's memory.
struct Operator {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Operator {
    fn start(dir: &Path, server: &Server) -> Result<Operator, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let channel = runtime.block_on(async { channel(dir, server.listen, "operator-ann") })?;
        let (ended, process) = (Arc::new(AtomicBool::new(false)), server.child.id());
        let until = ended.clone();
        let thread = std::thread::spawn(move || runtime.block_on(watch(channel, process, &until)));
        Ok(Operator { ended, thread })
    }

    fn end(self) -> Seen {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

async fn watch(channel: Channel, process: u32, ended: &AtomicBool) -> Seen {
    let (mut took_ms, mut seen) = (Vec::new(), Seen::default());
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        match describe(&channel).await {
            Ok(_) => took_ms.push(began.elapsed().as_secs_f64() * 1000.0),
            Err(error) if error.code == ErrorCode::Late => seen.operator_late += 1,
            Err(_) => seen.operator_failed += 1,
        }
        seen.resident_mib = seen.resident_mib.max(resident_mib(process).unwrap_or(0.0));
        tokio::time::sleep(OPERATOR).await;
    }
    took_ms.sort_by(f64::total_cmp);
    let at = |percent: usize| took_ms.get(took_ms.len() * percent / 100).copied();
    seen.operator_ms = (at(50).unwrap_or(f64::NAN), at(99).unwrap_or(f64::NAN));
    seen
}

async fn describe(channel: &Channel) -> Result<proto::DescribeCellResponse, ApiError> {
    let mut client = CellServiceClient::new(channel.clone());
    let told = client.describe_cell(proto::DescribeCellRequest {}).await;
    Ok(told?.into_inner())
}
