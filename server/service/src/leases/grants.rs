//! Granting, renewal and revocation of leases, by commands to the cell.

use super::table::CHECK_MS;
use super::{LeaseRequest, Leases, Listed, NameOwner, RETRY_DELAY};
use crate::host::{Host, Try, unavailable, unknown};
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::SCHEDULERS_MAX;
use omega_core::{Command, HolderId, Lease, Outcome, SchedulerId, Text};
use omega_store::replica::Reply;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

impl Leases {
    /// Follows the leadership until `end` is dropped, so that leases run from the start of a leadership and not from
    /// the first request.
    pub(crate) async fn watch(host: Host, mut end: oneshot::Receiver<()>) {
        let mut checks = tokio::time::interval(Duration::from_millis(CHECK_MS));
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut end => return,
                // If this replica does not lead, there is nothing to do.
                _ = checks.tick() => drop(host.leases().check_leadership(&host)),
            }
        }
    }

    /// Leases a name to a process, if no process owns the name, or the owner's lease has expired.
    ///
    /// # Errors
    /// If another process owns the name, this replica is not the leader, or the outcome is unknown.
    pub(crate) async fn grant(
        &self,
        host: &Host,
        request: LeaseRequest,
        until: Instant,
    ) -> Result<(SchedulerId, u64), ApiError> {
        self.check_leadership(host)?;
        let other = host.read(|cell| cell.lease_of(&request.name));
        if let Some(other) = other.filter(|other| other.holder != request.lease.holder) {
            let owner = self.owner(other);
            if owner.remaining_ms > 0 {
                return Err(refused(&request.name, &owner));
            }
            submit(host, Command::RevokeLeases { holder: other.holder }, until).await?;
            self.shared.expirations.fetch_add(1, Ordering::Relaxed);
            let (name, silent) = (&*request.name, owner_name(&owner));
            tracing::warn!(
                name,
                silent,
                by = &*request.process,
                "the lease of a scheduler has \
                 expired, and another process takes its name"
            );
        }
        // The new lease begins here, so that it runs before another process requests the name.
        self.record_contact(host, request.lease.holder, request.process);
        let Lease { holder, lease_ms } = request.lease;
        let command = Command::GrantLease { name: request.name, holder, lease_ms };
        match submit(host, command, until).await {
            Ok(Outcome::Scheduler { id, next_transaction }) => Ok((id, next_transaction)),
            Ok(_) => Err(unknown()),
            Err(error) if error.code == ErrorCode::LeaseHeld => Err(error.retry_after(RETRY_DELAY)),
            Err(error) => Err(error),
        }
    }

    /// Renews a process's leases of these names.
    ///
    /// # Errors
    /// If the process no longer owns one of the names, or this replica is not the leader.
    pub(crate) async fn renew(
        &self,
        host: &Host,
        (holder, names): (HolderId, &[String]),
        process: Text,
        until: Instant,
    ) -> Result<(), ApiError> {
        self.check_leadership(host)?;
        if first_lost(host, holder, names).is_some() {
            // A new leader may not have applied everything that the previous leader committed.
            host.refresh(until).await?;
        }
        if let Some(name) = first_lost(host, holder, names) {
            let message = format!(
                "this process no longer owns the name of the scheduler {name:?}: it sent no \
                 renewal for longer than its lease, or its leases were revoked"
            );
            return Err(ApiError::new(ErrorCode::LeaseLost, message));
        }
        self.record_contact(host, holder, process);
        Ok(())
    }

    /// Revokes all names of a process.
    ///
    /// # Errors
    /// If no leader accepts the command in time, or its outcome is unknown.
    pub(crate) async fn end(
        &self,
        host: &Host,
        holder: HolderId,
        until: Instant,
    ) -> Result<(), ApiError> {
        host.apply_try(Command::RevokeLeases { holder }, Try::Again, until).await.map(drop)
    }

    /// All schedulers, with the owners of their names.
    ///
    /// # Errors
    /// If this replica does not lead.
    pub(crate) fn list(&self, host: &Host) -> Result<Vec<Listed>, ApiError> {
        self.check_leadership(host)?;
        let mut all = host.read(|cell| {
            let listed = |state: omega_cellstate::SchedulerState<'_>| {
                let owner = |lease| NameOwner { lease, process: "".into(), remaining_ms: 0 };
                let (id, name) = (state.id, state.name.clone());
                let next_transaction = state.next_transaction;
                Listed { id, name, next_transaction, owner: state.lease.map(owner) }
            };
            cell.schedulers().map(listed).collect::<Vec<_>>()
        });
        for owner in all.iter_mut().filter_map(|listed| listed.owner.as_mut()) {
            *owner = self.owner(owner.lease);
        }
        Ok(all)
    }

    /// Whether a process owns a name with a lease that has not expired. Only the leader has this information.
    pub(crate) fn is_owned(&self, host: &Host, name: &str) -> bool {
        let Some(lease) = host.read(|cell| cell.lease_of(name)) else { return false };
        self.check_leadership(host).is_err() || self.owner(lease).remaining_ms > 0
    }

    /// Checks whether this replica leads.
    fn check_leadership(&self, host: &Host) -> Result<(), ApiError> {
        let leadership = host.leadership();
        let term = leadership.is_leader.then_some(leadership.term);
        {
            // The time is read under the lock, so that later calls never have an earlier time.
            let mut table = self.shared.table.lock();
            table.check_leadership(term, self.now_ms());
        }
        if leadership.is_leader {
            return Ok(());
        }
        Err(host.no_leader("leases are kept by").retry_after(Duration::from_millis(CHECK_MS)))
    }

    fn record_contact(&self, host: &Host, holder: HolderId, process: Text) {
        let is_full = {
            let mut table = self.shared.table.lock();
            let now_ms = self.now_ms();
            table.record_contact(holder, process, now_ms);
            table.len() > 2 * SCHEDULERS_MAX
        };
        if is_full {
            // Only the entries of current owners are kept. The other processes were rejected, or their leases have
            // ended.
            let owners: BTreeSet<HolderId> = host.read(|cell| {
                cell.schedulers().filter_map(|state| Some(state.lease?.holder)).collect()
            });
            self.shared.table.lock().retain(|other| other == holder || owners.contains(&other));
        }
    }
}

/// The first of these names that the holder does not own.
fn first_lost<'n>(host: &Host, holder: HolderId, names: &'n [String]) -> Option<&'n String> {
    host.read(|cell| {
        let is_own = |lease: Option<Lease>| lease.is_some_and(|lease| lease.holder == holder);
        let own = cell.schedulers().filter(|state| is_own(state.lease));
        let own: BTreeSet<&str> = own.map(|state| &**state.name).collect();
        names.iter().find(|name| !own.contains(name.as_str()))
    })
}

/// Sends a command once. A further attempt must check leadership and leases again.
async fn submit(host: &Host, command: Command, until: Instant) -> Result<Outcome, ApiError> {
    let replies = host.begin(command, Try::Again).replies();
    match tokio::time::timeout_at(until, replies).await.ok().and_then(|mut all| all.pop()) {
        Some(Reply::Outcome(outcome)) => outcome.map_err(|rejection| ApiError::from(&rejection)),
        Some(Reply::Retry(again)) => Err(unavailable(again)),
        _ => Err(unknown()),
    }
}

fn owner_name(owner: &NameOwner) -> String {
    if owner.process.is_empty() { "another process".to_owned() } else { owner.process.to_string() }
}

fn refused(name: &str, owner: &NameOwner) -> ApiError {
    let left = Duration::from_millis(owner.remaining_ms);
    let message = format!(
        "{} owns the scheduler's name {name:?}: the name is free when that process ends, or after \
         {:.1} s without a renewal",
        owner_name(owner),
        left.as_secs_f64()
    );
    ApiError::new(ErrorCode::LeaseHeld, message).retry_after(left.min(RETRY_DELAY))
}
