//! Question: what does a server do when it is asked for ten times as much as it can do?
//!
//! Schedulers with certificates of their own move tasks, each call by itself. First each waits for its answers:
//! that is the peak. Then calls come at ten times that rate whether or not there are answers. Meanwhile an operator
//! asks what the cell is. Those who ask run on the processors of the server, so all rates are theirs, too: what the
//! server did for each second that it was given tells more.

use super::standing::{cpu, resident_mib};
use omega_client::connect::tls_endpoint;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::{Tls, proto};
use omega_core::{Amounts, Job, Machine, TaskGroup};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tonic::transport::{Channel, Endpoint};

/// Schedulers, and how many calls each has on the way at the peak: a few connections with many calls.
const SCHEDULERS: usize = 8;
const IN_FLIGHT: usize = 32;

/// Connections of each: a connection has at most 128 calls, and all together are more than a server answers
/// at once.
const CONNECTIONS: usize = 6;

/// Tasks of each scheduler; each call moves one.
const TASKS: u32 = 256;

/// How many times the peak is asked for.
const TIMES: u64 = 10;

/// Calls that those who ask keep open at the most: more would measure their memory.
const OPEN_MAX: usize = 20_000;

/// Which part of the peak is as before, and how long that is waited for.
const RECOVERED: f64 = 0.8;
const PATIENCE: Duration = Duration::from_secs(120);

/// How often the operator asks.
const OPERATOR: Duration = Duration::from_millis(50);

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Answers a second when each waits for its answers.
    pub peak: f64,
    /// The same of each second that the server's processors worked.
    pub peak_per_core: f64,
    /// Calls a second that were made then.
    pub offered: f64,
    /// Answers a second under them.
    pub goodput: f64,
    /// The same of each second that the server's processors worked.
    pub goodput_per_core: f64,
    /// Calls a second that were refused.
    pub refused: f64,
    /// The operator's answers: half of them, and 99 of 100, came within, in milliseconds.
    pub operator_ms: (f64, f64),
    /// Operator's calls that failed.
    pub operator_failed: usize,
    /// The most memory of the server before and while, in mebibytes.
    pub resident_mib: (f64, f64),
    /// From the end of the overload until a second had four fifths of the peak, for what the server worked.
    pub recovery: Duration,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "peak {:.0}/s ({:.0} per core-second of the server); offered {:.0}/s: answered {:.0}/s ({:.2} of the \
             peak; {:.0} per core-second, {:.2}), refused {:.0}/s; operator p50 {:.1} ms, p99 {:.1} ms, {} failed; \
             memory {:.0} MiB, then at most {:.0} MiB; recovered in {:.1} s",
            self.peak,
            self.peak_per_core,
            self.offered,
            self.goodput,
            self.goodput / self.peak,
            self.goodput_per_core,
            self.goodput_per_core / self.peak_per_core,
            self.refused,
            self.operator_ms.0,
            self.operator_ms.1,
            self.operator_failed,
            self.resident_mib.0,
            self.resident_mib.1,
            self.recovery.as_secs_f64(),
        )
    }
}

/// Starts a server, and asks far too much of it for a span of time.
///
/// # Errors
/// If it does not start, is not there any more, or does not recover for long.
pub fn measure(program: &Path, place: &Path, span: Duration) -> Result<Told, String> {
    let dir = tempfile::tempdir_in(place).map_err(|error| error.to_string())?;
    let server = Server::start(program, dir.path())?;
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let callers = runtime.block_on(prepare(dir.path(), server.listen))?;
    let process = server.child.id();
    let mut told = Told { resident_mib: (resident_mib(process)?, 0.0), ..Told::default() };
    let calm = |span| {
        let before = cpu(process)?;
        let (answered, took) = runtime.block_on(closed(&callers, span));
        let worked = (cpu(process)? - before).as_secs_f64();
        Ok::<_, String>((answered / took.as_secs_f64(), answered / worked))
    };
    (told.peak, told.peak_per_core) = calm(span)?;
    let counts = Arc::new(Counts::default());
    let operator = {
        let _entered = runtime.enter();
        channel(dir.path(), server.listen, "operator-ann")?
    };
    let watching = runtime.spawn(watch(operator, process, counts.clone()));
    let before = cpu(process)?;
    runtime.block_on(open(&callers, (told.peak as u64 * TIMES, span), &counts));
    counts.ended.store(true, Ordering::Relaxed);
    let answered = counts.answered.load(Ordering::Relaxed) as f64;
    told.goodput_per_core = answered / (cpu(process)? - before).as_secs_f64();
    let per_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / span.as_secs_f64();
    told.offered = per_second(&counts.offered);
    told.goodput = per_second(&counts.answered);
    told.refused = per_second(&counts.refused);
    let ended = Instant::now();
    while calm(Duration::from_secs(1))?.1 < told.peak_per_core * RECOVERED {
        if ended.elapsed() > PATIENCE {
            return Err(format!("it does not recover: {told}"));
        }
    }
    told.recovery = ended.elapsed();
    let (mut operator_ms, failed, most) =
        runtime.block_on(watching).map_err(|error| error.to_string())?;
    operator_ms.sort_by(f64::total_cmp);
    let at = |percent: usize| operator_ms.get(operator_ms.len() * percent / 100).copied();
    told.operator_ms = (at(50).unwrap_or(f64::NAN), at(99).unwrap_or(f64::NAN));
    told.operator_failed = failed;
    told.resident_mib.1 = most;
    Ok(told)
}

/// A server that asks for certificates. It is killed in the end.
struct Server {
    child: Child,
    listen: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

impl Server {
    fn start(program: &Path, dir: &Path) -> Result<Server, String> {
        let text = |error: std::io::Error| error.to_string();
        let make = |arguments: &[&str]| {
            let said = Command::new(program).current_dir(dir).arg("cert").args(arguments).output();
            let said = said.map_err(text)?;
            let wrong = || String::from_utf8_lossy(&said.stderr).into_owned();
            if said.status.success() { Ok(()) } else { Err(wrong()) }
        };
        make(&["authority", "--dir=certs"])?;
        let schedulers = (0..SCHEDULERS).map(|i| format!("scheduler/s{i}"));
        let others = ["operator/ann", "replica/1"].map(str::to_owned);
        for whom in schedulers.chain(others) {
            make(&["issue", &whom, "--cell-name=test", "--dir=certs"])?;
        }
        let listen = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_err(text)?;
        let mut child = Command::new(program)
            .current_dir(dir)
            .args(["serve", "--dir=cell", "--cell-name=test", "--tls-cert=certs/replica-1.pem"])
            .args(["--tls-key=certs/replica-1.key", "--client-ca=certs/ca.pem"])
            .arg(format!("--listen={listen}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let mut line = String::new();
        let said = child.stdout.take().ok_or("it has no output")?;
        BufReader::new(said).read_line(&mut line).map_err(text)?;
        Ok(Server { child, listen })
    }
}

fn channel(dir: &Path, to: SocketAddr, name: &str) -> Result<Channel, String> {
    let file =
        |name: String| std::fs::read(dir.join("certs").join(name)).map_err(|e| e.to_string());
    let tls = Tls {
        authority: file("ca.pem".to_owned())?,
        certificate: file(format!("{name}.pem"))?,
        key: file(format!("{name}.key"))?,
        server_name: None,
    };
    let endpoint = Endpoint::from_shared(format!("https://{to}")).map_err(|e| e.to_string())?;
    Ok(tls_endpoint(endpoint, &tls).map_err(|error| error.to_string())?.connect_lazy())
}

/// A scheduler with its connection.
#[derive(Clone)]
struct Caller {
    channels: Vec<Channel>,
    scheduler: u32,
    job: u64,
    next: Arc<AtomicU64>,
}

/// One machine, and a job for each scheduler.
async fn prepare(dir: &Path, to: SocketAddr) -> Result<Vec<Caller>, String> {
    let operator = channel(dir, to, "operator-ann")?;
    let machine = Machine::new("m", Amounts::new([1 << 30, 1 << 45]));
    let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
    let mut machines = MachineServiceClient::new(operator.clone());
    machines.register_machine(request).await.map_err(|error| error.to_string())?;
    let mut callers = Vec::new();
    for i in 0..SCHEDULERS {
        let name = format!("s{i}");
        let group = TaskGroup::new(TASKS, Amounts::new([1, 1]));
        let job = Job { scheduler: name.as_str().into(), ..Job::batch(format!("job-{i}"), group) };
        let request = proto::SubmitJobRequest { job: Some((&job).into()) };
        let mut jobs = JobServiceClient::new(operator.clone());
        let job = jobs.submit_job(request).await.map_err(|error| error.to_string())?;
        let connect = |_| channel(dir, to, &format!("scheduler-s{i}"));
        let channels = (0..CONNECTIONS).map(connect).collect::<Result<Vec<_>, String>>()?;
        let mut client = SchedulingServiceClient::new(channels[0].clone());
        let told = client.register(proto::RegisterRequest { name, ..Default::default() }).await;
        let told = told.map_err(|error| error.to_string())?.into_inner();
        let next = Arc::new(AtomicU64::new(told.next_transaction));
        callers.push(Caller {
            channels,
            scheduler: told.scheduler,
            job: job.into_inner().id,
            next,
        });
    }
    Ok(callers)
}

impl Caller {
    /// Moves a task to where it is.
    async fn call(&self) -> Result<(), tonic::Status> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let index = number as u32 % TASKS;
        let request = proto::CommitRequest {
            scheduler: self.scheduler,
            number,
            releases: vec![proto::TaskId { job: self.job, index }],
            claim_jobs: vec![self.job],
            claim_indices: vec![index],
            claim_slots: vec![0],
            claim_seen: vec![0],
            ..Default::default()
        };
        let channel = self.channels[number as usize % CONNECTIONS].clone();
        let mut client = SchedulingServiceClient::new(channel);
        client.commit(request).await.map(drop)
    }
}

/// Answers, and the time that they took, when each call waits for the one before it.
async fn closed(callers: &[Caller], span: Duration) -> (f64, Duration) {
    let (began, answered) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut calls = Vec::new();
    for caller in callers {
        for _ in 0..IN_FLIGHT {
            let (caller, answered) = (caller.clone(), answered.clone());
            calls.push(tokio::spawn(async move {
                while began.elapsed() < span {
                    match caller.call().await {
                        Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                        // As those do who were told when to come again.
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            }));
        }
    }
    for call in calls {
        // One that panics is missed in the count.
        let _ = call.await;
    }
    (answered.load(Ordering::Relaxed) as f64, began.elapsed())
}

/// What became of the calls of an overload.
#[derive(Debug, Default)]
struct Counts {
    offered: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    ended: AtomicBool,
}

/// Calls at a rate, whether or not there are answers.
async fn open(callers: &[Caller], (rate, span): (u64, Duration), counts: &Arc<Counts>) {
    let (began, places) = (Instant::now(), Arc::new(Semaphore::new(OPEN_MAX)));
    let mut made = 0;
    while began.elapsed() < span {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while made < due {
            made += 1;
            counts.offered.fetch_add(1, Ordering::Relaxed);
            // Beyond it the caller has given up before it has called.
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let caller = callers[made as usize % callers.len()].clone();
            let counts = counts.clone();
            tokio::spawn(async move {
                let of = match caller.call().await {
                    Ok(()) => &counts.answered,
                    Err(_) => &counts.refused,
                };
                if !counts.ended.load(Ordering::Relaxed) {
                    of.fetch_add(1, Ordering::Relaxed);
                }
                drop(place);
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Asks as an operator, and looks at the server's memory, until the overload ends.
async fn watch(channel: Channel, process: u32, counts: Arc<Counts>) -> (Vec<f64>, usize, f64) {
    let (mut took_ms, mut failed, mut most) = (Vec::new(), 0, 0.0_f64);
    while !counts.ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        let mut client = CellServiceClient::new(channel.clone());
        match client.describe_cell(proto::DescribeCellRequest {}).await {
            Ok(_) => took_ms.push(began.elapsed().as_secs_f64() * 1000.0),
            Err(_) => failed += 1,
        }
        most = most.max(resident_mib(process).unwrap_or(0.0));
        tokio::time::sleep(OPERATOR).await;
    }
    (took_ms, failed, most)
}
