//! Clients that send too many calls: schedulers that move one task per call.

use super::server::{SCHEDULERS, channel};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::{ApiError, before_another_try, proto};
use omega_core::{Amounts, Job, Machine, TaskGroup};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tonic::transport::Channel;

/// Number of connections of each scheduler. A connection has at most 128 calls, and all connections together have more
/// calls than a server processes at the same time.
const CONNECTIONS: usize = 6;

/// Number of tasks of each scheduler.
const TASKS: u32 = 256;

/// Maximum number of open calls of the clients. With more, the memory of the clients would determine the result, not
/// the server.
const OPEN_MAX: usize = 20_000;

/// Counters of calls.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) begun: AtomicU64,
    pub(super) offered: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) ended: AtomicBool,
}

/// A scheduler with its connection.
#[derive(Clone)]
pub(super) struct Caller {
    channels: Vec<Channel>,
    scheduler: u32,
    job: u64,
    next: Arc<AtomicU64>,
}

/// Creates a machine with room for all tasks, and a job for each scheduler.
pub(super) async fn prepare(dir: &Path, to: SocketAddr) -> Result<Vec<Caller>, String> {
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
    /// Moves a task to the machine on which it already is.
    pub(super) async fn call(&self) -> Result<(), tonic::Status> {
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

/// Makes closed-loop calls, with this many concurrent calls for each scheduler. Rejected calls are retried as by the
/// client library.
pub(super) async fn closed(
    callers: &[Caller],
    (in_flight, span): (usize, Duration),
    counts: &Arc<Counts>,
) -> Duration {
    let began = Instant::now();
    let mut calls = Vec::new();
    for caller in callers {
        for _ in 0..in_flight {
            let (caller, counts) = (caller.clone(), counts.clone());
            calls.push(tokio::spawn(async move {
                while began.elapsed() < span {
                    counts.offered.fetch_add(1, Ordering::Relaxed);
                    let Err(status) = caller.call().await else {
                        counts.answered.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                    let pause = before_another_try(&ApiError::from(status), 0);
                    tokio::time::sleep(pause).await;
                }
            }));
        }
    }
    for call in calls {
        // If a call panics, its count is missing.
        let _ = call.await;
    }
    began.elapsed()
}

/// Makes open-loop calls at a rate, regardless of replies and rejections.
pub(super) async fn open(callers: &[Caller], (rate, span): (u64, Duration), counts: &Arc<Counts>) {
    let (began, places) = (Instant::now(), Arc::new(Semaphore::new(OPEN_MAX)));
    let mut made = 0;
    while began.elapsed() < span {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        counts.offered.fetch_add(due - made, Ordering::Relaxed);
        // Calls above the maximum number of open calls are counted as given up.
        let free = places.available_permits().min((due - made) as usize);
        for _ in 0..free {
            let Ok(place) = places.clone().try_acquire_owned() else { break };
            let at = counts.begun.fetch_add(1, Ordering::Relaxed) as usize;
            let caller = callers[at % callers.len()].clone();
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
        made = due;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    counts.ended.store(true, Ordering::Relaxed);
}
