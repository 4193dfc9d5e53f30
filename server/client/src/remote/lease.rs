//! Leases of the scheduler names that this process owns, and their renewal.
//!
//! The cell decides which process owns a name, independently of all clocks. So a process that cannot reach the leader
//! keeps trying, and a process that was paused and still owns its name continues. The ownership ends when the leader
//! reports its end, or when the cell rejects a transaction as fenced.
//!
//! Renewals go to the leader on separate connections. A scheduler's reads and commits stay at its replica.

use crate::connect::{Address, Connections};
use crate::own_runtime::block_on;
use crate::proto::scheduling_service_client::SchedulingServiceClient;
use crate::proto::{EndLeasesRequest, RegisterRequest, RenewRequest};
use crate::{ApiError, ErrorCode, before_another_try};
use omega_core::{HolderId, SchedulerId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tonic::Request;
use tonic::transport::Channel;

/// Number of renewals within the time of a lease. With three renewals, a lease survives two lost renewals, or one lost
/// renewal and an election.
const RENEWALS: u32 = 3;

/// Time limit for one replica's reply. A reply takes milliseconds. Without a reply, the next replica is tried, which
/// may be the leader.
const ATTEMPT: Duration = Duration::from_secs(1);

/// Time limit for revoking the leases. If that fails, they expire by themselves.
const END_MAX: Duration = Duration::from_secs(2);

/// Settings of the leases of the names that a process registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Maximum time without a renewal before another process may take the names, from one second to one minute, in
    /// whole milliseconds.
    pub lease: Duration,
    /// Name of the process, such as `node7:4711`.
    pub process: String,
}

impl Default for LeaseSettings {
    /// Returns a lease time of ten seconds, within which the lease is renewed three times. After the loss of a leader,
    /// an election takes at most about two seconds. So the lease survives an election even if one renewal is lost.
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
    /// Names that are leased. Locked for one look-up or change at a time.
    leased: Mutex<LeasedNames>,
}

#[derive(Debug, Default)]
struct LeasedNames {
    names: BTreeSet<String>,
    lost: Option<ApiError>,
}

impl Lease {
    /// Starts the renewal of leases.
    pub(super) fn start(
        runtime: &Handle,
        address: &Address,
        settings: LeaseSettings,
    ) -> Result<Arc<Lease>, ApiError> {
        let connections = block_on(runtime, async { Connections::new(address) })?;
        // The keys of a new `RandomState` are random. 0 would mean that there is no id.
        let holder = HolderId(RandomState::new().hash_one(std::process::id()).max(1));
        let lease = Arc::new(Lease { connections, settings, holder, leased: Mutex::default() });
        runtime.spawn(lease.clone().renew_all());
        Ok(lease)
    }

    /// Leases a name. Returns the scheduler's id and the number of its next transaction.
    pub(super) async fn acquire(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<(SchedulerId, u64), ApiError> {
        if let Some(lost) = self.lease_loss() {
            return Err(lost);
        }
        let request = RegisterRequest {
            name: name.to_owned(),
            holder: self.holder.0,
            lease_ms: u32::try_from(self.settings.lease.as_millis()).unwrap_or(u32::MAX),
            process: self.settings.process.clone(),
        };
        let leased = register(&self.connections, request, patience).await?;
        self.leased.lock().names.insert(name.to_owned());
        Ok(leased)
    }

    pub(super) fn lease_loss(&self) -> Option<ApiError> {
        self.leased.lock().lost.clone()
    }

    /// Gives up all names.
    pub(super) async fn end(&self) -> Result<(), ApiError> {
        let names = std::mem::take(&mut self.leased.lock().names);
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
            let names: Vec<String> = self.leased.lock().names.iter().cloned().collect();
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
            let mut leased = self.leased.lock();
            // The leases are not lost if all names were released meanwhile. They are also not lost after a TLS error,
            // because certificates may be replaced while this process runs.
            if !may_be_tried_again(&error)
                && error.code != ErrorCode::Tls
                && !leased.names.is_empty()
            {
                leased.lost = Some(error);
                return;
            }
        }
    }
}

/// Registers a scheduler. Returns its id and the number of its next transaction.
pub(super) async fn register(
    connections: &Connections,
    request: RegisterRequest,
    patience: Duration,
) -> Result<(SchedulerId, u64), ApiError> {
    // The call is repeated, because registering a name twice does no harm.
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

/// Calls one replica after the other, until one answers or the time is over.
async fn round<T, F>(
    connections: &Connections,
    patience: Duration,
    send: impl Fn(Channel) -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, tonic::Status>>,
{
    let until = Instant::now() + patience;
    let mut tries = 0;
    loop {
        let connection = connections.current();
        let answer = tokio::time::timeout(ATTEMPT, send(connection.channel.clone())).await;
        let error = match answer {
            Ok(Ok(answer)) => {
                connections.log_recovery(&connection);
                return Ok(answer);
            }
            Ok(Err(status)) => ApiError::from(status),
            Err(_) => ApiError::new(ErrorCode::Late, "no answer came"),
        };
        let error = connections.explain(&connection, error, tries).await;
        tries += 1;
        if error.code == ErrorCode::Tls && tries < connections.count() {
            connections.leave(&connection);
            continue;
        }
        // The lease is running out, so the delay does not grow with the number of failures.
        let pause = before_another_try(&error, 0);
        if !may_be_tried_again(&error) || Instant::now() + pause >= until {
            return Err(error);
        }
        if tries >= connections.count() {
            connections.log_outage(&error);
        }
        connections.leave_for(&connection, &error);
        tokio::time::sleep(pause).await;
    }
}

/// Whether a retry, at this replica or another one, may succeed. A retry may apply the request twice.
pub(super) fn may_be_tried_again(error: &ApiError) -> bool {
    error.is_temporary()
        || matches!(error.code, ErrorCode::OutcomeUnknown | ErrorCode::Late | ErrorCode::Internal)
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(ATTEMPT);
    request
}
