//! Leases of the scheduler names that this process owns, and their renewal.
//!
//! The cell decides which process owns a name, whatever the clocks say. So a process that cannot
//! reach the leader keeps trying, and one that was paused and still owns its name continues. Its
//! ownership ends when the leader says so, or the cell rejects a transaction as fenced.
//!
//! Renewals go to the leader on separate connections; a scheduler's reads and commits stay at its
//! replica.

use crate::connect::{Address, Connections};
use crate::proto::scheduling_service_client::SchedulingServiceClient;
use crate::proto::{EndLeasesRequest, RegisterRequest, RenewRequest};
use crate::{ApiError, ErrorCode, before_another_try};
use omega_core::{HolderId, SchedulerId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tonic::Request;
use tonic::transport::Channel;

/// Renewals in each lease time: two may be lost, or one and an election.
const RENEWALS: u32 = 3;

/// Time limit of one replica's answer: an answer takes milliseconds, and the next replica may be
/// the leader.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Time to try to revoke the leases. They end by themselves, too.
const END_MAX: Duration = Duration::from_secs(2);

/// Settings of the leases of the names that a process registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Maximum silence of this process before another one may take its names: from one second to
    /// one minute, in whole milliseconds.
    pub lease: Duration,
    /// Name of the process, such as `node7:4711`.
    pub process: String,
}

impl Default for LeaseSettings {
    /// Ten seconds: an election after the loss of a leader takes two.
    fn default() -> LeaseSettings {
        let process = format!("process {}", std::process::id());
        LeaseSettings { lease: Duration::from_secs(10), process }
    }
}

/// Leases of this process.
#[derive(Debug)]
pub(super) struct Lease {
    connections: Connections,
    settings: LeaseSettings,
    holder: HolderId,
    /// Locked for one look-up or change.
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    names: BTreeSet<String>,
    lost: Option<ApiError>,
}

impl Lease {
    /// Starts the renewal of leases.
    pub(super) fn start(
        runtime: &Runtime,
        address: &Address,
        settings: LeaseSettings,
    ) -> Result<Arc<Lease>, ApiError> {
        let connections = runtime.block_on(async { Connections::new(address) })?;
        // The keys of a new state are drawn by chance; 0 would mean that there is none.
        let holder = HolderId(RandomState::new().hash_one(std::process::id()).max(1));
        let lease = Arc::new(Lease { connections, settings, holder, held: Mutex::default() });
        runtime.spawn(lease.clone().renew_all());
        Ok(lease)
    }

    /// Leases a name.
    pub(super) async fn hold(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<(SchedulerId, u64), ApiError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        let request = RegisterRequest {
            name: name.to_owned(),
            holder: self.holder.0,
            lease_ms: u32::try_from(self.settings.lease.as_millis()).unwrap_or(u32::MAX),
            process: self.settings.process.clone(),
        };
        let held = register(&self.connections, request, patience).await?;
        self.held.lock().names.insert(name.to_owned());
        Ok(held)
    }

    pub(super) fn lost(&self) -> Option<ApiError> {
        self.held.lock().lost.clone()
    }

    /// Gives all names up.
    pub(super) async fn end(&self) -> Result<(), ApiError> {
        let names = std::mem::take(&mut self.held.lock().names);
        if names.is_empty() {
            return Ok(());
        }
        let holder = self.holder.0;
        round(&self.connections, END_MAX, |channel| async move {
            let request = timed(EndLeasesRequest { holder, ..Default::default() });
            SchedulingServiceClient::new(channel).end_leases(request).await.map(drop)
        })
        .await
    }

    /// Renews the leases until they are lost, or the runtime ends.
    async fn renew_all(self: Arc<Lease>) {
        let every = self.settings.lease / RENEWALS;
        loop {
            tokio::time::sleep(every).await;
            let names: Vec<String> = self.held.lock().names.iter().cloned().collect();
            if names.is_empty() {
                continue;
            }
            let (holder, process) = (self.holder.0, self.settings.process.clone());
            let message = RenewRequest { holder, names, process };
            let renewed = round(&self.connections, every, |channel| {
                let request = timed(message.clone());
                async move { SchedulingServiceClient::new(channel).renew(request).await.map(drop) }
            });
            let Err(error) = renewed.await else { continue };
            let mut held = self.held.lock();
            // Released names are not lost, and certificates may be renewed while it runs.
            if !may_be_tried_again(&error) && error.code != ErrorCode::Tls && !held.names.is_empty()
            {
                held.lost = Some(error);
                return;
            }
        }
    }
}

/// Gives a scheduler an id.
pub(super) async fn register(
    connections: &Connections,
    request: RegisterRequest,
    patience: Duration,
) -> Result<(SchedulerId, u64), ApiError> {
    // To register twice does no harm.
    round(connections, patience, |channel| {
        let request = timed(request.clone());
        async move {
            let answer =
                SchedulingServiceClient::new(channel).register(request).await?.into_inner();
            Ok((SchedulerId(answer.scheduler), answer.next_transaction))
        }
    })
    .await
}

/// Calls one replica after the other until one answers or the time is over.
async fn round<T, F>(
    connections: &Connections,
    patience: Duration,
    ask: impl Fn(Channel) -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, tonic::Status>>,
{
    let until = Instant::now() + patience;
    let mut tries = 0;
    loop {
        let connection = connections.current();
        let answer = tokio::time::timeout(ATTEMPT, ask(connection.channel.clone())).await;
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(status)) => ApiError::from(status),
            Err(_) => ApiError::new(ErrorCode::Late, "no answer came"),
        };
        let error = match tries < connections.count() {
            true => connections.explain(&connection, error).await,
            false => error,
        };
        tries += 1;
        if error.code == ErrorCode::Tls && tries < connections.count() {
            connections.leave(&connection);
            continue;
        }
        // The lease is running out, so do not wait longer than the given delay.
        let pause = before_another_try(&error, 0);
        if !may_be_tried_again(&error) || Instant::now() + pause >= until {
            return Err(error);
        }
        connections.leave_for(&connection, &error);
        tokio::time::sleep(pause).await;
    }
}

/// Whether a retry, at this or another replica, may succeed. The request may then be sent twice.
pub(super) fn may_be_tried_again(error: &ApiError) -> bool {
    error.is_temporary()
        || matches!(error.code, ErrorCode::OutcomeUnknown | ErrorCode::Late | ErrorCode::Internal)
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(ATTEMPT);
    request
}
