//! A remote cell, with the interface of a cell in this process.
//!
//! ```text
//!   scheduler's threads                    one thread for the network
//!   sync   ◀── deltas that have come ◀──── subscription ◀──── stream of deltas ─── replica
//!   commit ──▶ queue of transactions ────▶ commits ────────▶ stream of commits ──▶ replica
//!              answer ◀─────────────────── in the order in which they were sent ◀──
//! ```
//!
//! The replica pushes changes, so a sync only reads the deltas that have arrived, without a request. Commits use one
//! stream, which has all of a scheduler's transactions in flight. When a connection breaks, both streams continue at
//! the next replica. Deltas continue from the last received version. Unanswered transactions are sent again with
//! unchanged ids and marked as sent, so that none is applied twice. The scheduler gets an error only if this fails for
//! ten seconds.
//!
//! With leases (`lease.rs`), the network thread renews the leases of this process.

mod commits;
mod lease;
mod readers;
mod subscription;
mod times;

use crate::connect::{Address, Connections};
use crate::own_runtime::OwnRuntime;
use crate::proto::RegisterRequest;
use crate::{ApiError, ErrorCode};
use commits::Commits;
use crossbeam_channel as channel;
use lease::{Lease, may_be_tried_again, register};
use omega_cellstate::{CellHandle, Delta, HandleError, Interest, Wake};
use omega_core::{Commit, SchedulerId, Text, Transaction, Version};
use readers::Readers;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use subscription::Position;
use times::PATIENCE;

pub use lease::LeaseSettings;

/// A cell that is used over a network. Several schedulers may use one handle or its clones, which share connections.
#[derive(Clone, Debug)]
pub struct RemoteCell {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connections: Connections,
    commits: Commits,
    readers: Readers,
    /// Version that the last conflict requires, and for which a sync waits; 0 if none. It orders no other memory
    /// accesses.
    wanted: Arc<AtomicU64>,
    /// Leases of this process, if it has any.
    lease: Option<Arc<Lease>>,
    /// Runtime of the network thread. It ends with the last handle, together with everything that runs on it.
    runtime: OwnRuntime,
}

impl RemoteCell {
    /// Prepares a connection to a cell. Nothing is sent yet.
    ///
    /// # Errors
    /// The address is invalid, or the network thread cannot be started.
    pub fn connect(address: &Address) -> Result<RemoteCell, ApiError> {
        RemoteCell::connect_as(address, None)
    }

    /// Connects with a lease on every name that is registered through this handle. No other process can then commit
    /// under the name, and another process can take the name over when this one ends. The leases are renewed while a
    /// clone of the result exists.
    ///
    /// # Errors
    /// Those of [`RemoteCell::connect`].
    pub fn with_leases(address: &Address, settings: LeaseSettings) -> Result<RemoteCell, ApiError> {
        RemoteCell::connect_as(address, Some(settings))
    }

    fn connect_as(
        address: &Address,
        settings: Option<LeaseSettings>,
    ) -> Result<RemoteCell, ApiError> {
        let runtime = OwnRuntime::start("omega-client")?;
        let connections = runtime.block_on(async { Connections::new(address) })?;
        let wanted = Arc::new(AtomicU64::new(0));
        let commits = Commits::start(runtime.handle(), connections.clone(), wanted.clone());
        let readers = Readers::new(connections.clone());
        let lease = match settings {
            Some(settings) => Some(Lease::start(runtime.handle(), address, settings)?),
            None => None,
        };
        let shared = Shared { connections, commits, readers, wanted, lease, runtime };
        Ok(RemoteCell { shared: Arc::new(shared) })
    }

    /// Registers a scheduler. Returns its id and the number of its next transaction. With leases, this process then
    /// owns the name. While another process owns the name, the call fails and may be repeated (see
    /// [`RemoteCell::stand_by`]). Unlike an error of [`CellHandle::register`], this one has the address and the cause.
    ///
    /// # Errors
    /// The name is rejected or another process owns it, this process has lost its leases, or no replica answers for ten
    /// seconds.
    pub fn acquire(&self, name: &str) -> Result<(SchedulerId, u64), ApiError> {
        self.acquire_within(name, PATIENCE)
    }

    /// Registers as a standby, which tries again until the name is free. Returns the scheduler's id and the number of
    /// its next transaction. After each failure, `wait` is called with the error. `wait` delays the next attempt, for
    /// instance by a quarter of a second. If `wait` gives up, the result is `None`.
    ///
    /// # Errors
    /// The name is rejected for a reason other than its ownership by another process.
    pub fn stand_by(
        &self,
        name: &str,
        mut wait: impl FnMut(&ApiError) -> ControlFlow<()>,
    ) -> Result<Option<(SchedulerId, u64)>, ApiError> {
        loop {
            let why = match self.acquire_within(name, PATIENCE / 10) {
                Ok(held) => return Ok(Some(held)),
                Err(why) => why,
            };
            if why.code != ErrorCode::LeaseHeld && !may_be_tried_again(&why) {
                return Err(why);
            }
            if wait(&why).is_break() {
                return Ok(None);
            }
        }
    }

    /// Returns the reason why this process has lost its leases; `None` if it has not lost them. After the loss, the
    /// cell rejects all commits of this process, so the process should stop.
    #[must_use]
    pub fn lease_loss(&self) -> Option<ApiError> {
        self.shared.lease.as_ref()?.lease_loss()
    }

    /// Releases all leased names, so that a standby need not wait until the leases expire. Call this when no
    /// transaction is in flight; later transactions would be fenced.
    ///
    /// # Errors
    /// No replica answers for two seconds. The leases expire by themselves then.
    pub fn end_leases(&self) -> Result<(), ApiError> {
        match &self.shared.lease {
            Some(lease) => self.shared.runtime.block_on(lease.end()),
            None => Ok(()),
        }
    }

    fn acquire_within(
        &self,
        name: &str,
        patience: Duration,
    ) -> Result<(SchedulerId, u64), ApiError> {
        let Shared { connections, lease, runtime, .. } = &*self.shared;
        match lease {
            Some(lease) => runtime.block_on(lease.acquire(name, patience)),
            None => {
                let request = RegisterRequest { name: name.to_owned(), ..Default::default() };
                runtime.block_on(register(connections, request, patience))
            }
        }
    }
}

impl CellHandle for RemoteCell {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.acquire(&name).map_err(|error| handle_error(&error))
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        let Shared { readers, runtime, wanted, .. } = &*self.shared;
        let (position, runtime) = (Position::of(since, delta), runtime.handle());
        let mut subscription = readers.take(interest, position, runtime);
        let read = subscription.read(runtime, since, wanted, delta);
        readers.put_back(subscription);
        read
    }

    fn watch(&self, interest: &Interest, wake: Wake) -> bool {
        self.shared.readers.watch(interest, wake);
        true
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.commit_all(&[txn]).pop().expect("each transaction has an answer")
    }

    fn commit_all(&self, txns: &[&Transaction]) -> Vec<Result<Commit, HandleError>> {
        let begin = |txn: &&Transaction| {
            let (reply, answer) = channel::bounded(1);
            self.shared.commits.send(txn, reply);
            answer
        };
        let begun: Vec<_> = txns.iter().map(begin).collect();
        // A transaction can only lack a reply if the runtime has ended, which this handle prevents.
        let answer = |to: channel::Receiver<_>| to.recv().unwrap_or(Err(HandleError::Unknown));
        begun.into_iter().map(answer).collect()
    }
}

/// Converts the error of a call that is not a commit to the error for a scheduler.
fn handle_error(error: &ApiError) -> HandleError {
    match error.code {
        ErrorCode::OutcomeUnknown | ErrorCode::Late => HandleError::Unavailable,
        _ if error.is_temporary() => HandleError::Unavailable,
        _ => HandleError::Denied(error.message.as_str().into()),
    }
}
