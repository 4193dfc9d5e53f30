//! Granting, renewal and revocation of leases, by commands to the cell.

use super::table::LOOK_MS;
use super::{ASK_AGAIN, Held, Leases, Listed, Wish};
use crate::host::{Host, Try, unavailable, unknown};
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::SCHEDULERS_MAX;
use omega_core::{Command, Hold, HolderId, Outcome, SchedulerId, Text};
use omega_store::replica::Answer;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

impl Leases {
    /// Follows the leadership until `end` is dropped, so that leases run from the start of a leadership and not from
    /// the first request.
    pub(crate) async fn watch(host: Host, mut end: oneshot::Receiver<()>) {
        let mut looks = tokio::time::interval(Duration::from_millis(LOOK_MS));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut end => return,
                // If this replica does not lead, there is nothing to do.
                _ = looks.tick() => drop(host.leases().look(&host)),
            }
        }
    }

    /// Leases a name to a process, if no process owns the name, or the owner's lease has expired.
    ///
    /// # Errors
    /// If another process owns the name, this replica is not the leader, or the outcome is unknown.
    pub(crate) async fn hold(
        &self,
        host: &Host,
        wish: Wish,
        until: Instant,
    ) -> Result<(SchedulerId, u64), ApiError> {
        self.look(host)?;
        let other = host.read(|cell| cell.hold_of(&wish.name));
        if let Some(other) = other.filter(|other| other.holder != wish.hold.holder) {
            let held = self.held(other);
            if held.left_ms > 0 {
                return Err(refused(&wish.name, &held));
            }
            ask(host, Command::EndHolder { holder: other.holder }, until).await?;
            self.shared.silenced.fetch_add(1, Ordering::Relaxed);
            let (name, silent) = (&*wish.name, who(&held));
            tracing::warn!(
                name,
                silent,
                by = &*wish.process,
                "the lease of a scheduler has \
                 expired, and another process takes its name"
            );
        }
        // The new lease begins here, so that it runs before another process requests the name.
        self.hear(host, wish.hold.holder, wish.process);
        let Hold { holder, lease_ms } = wish.hold;
        let command = Command::HoldScheduler { name: wish.name, holder, lease_ms };
        match ask(host, command, until).await {
            Ok(Outcome::Scheduler { id, next_transaction }) => Ok((id, next_transaction)),
            Ok(_) => Err(unknown()),
            Err(error) if error.code == ErrorCode::LeaseHeld => Err(error.retry_after(ASK_AGAIN)),
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
        self.look(host)?;
        if lost(host, holder, names).is_some() {
            // A new leader may not have applied everything that the previous leader committed.
            host.refresh(until).await?;
        }
        if let Some(name) = lost(host, holder, names) {
            let say = format!(
                "this process no longer owns the name of the scheduler {name:?}: it sent no \
                 renewal for longer than its lease, or its leases were revoked"
            );
            return Err(ApiError::new(ErrorCode::LeaseLost, say));
        }
        self.hear(host, holder, process);
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
        host.apply_try(Command::EndHolder { holder }, Try::Again, until).await.map(drop)
    }

    /// All schedulers, with the owners of their names.
    ///
    /// # Errors
    /// If this replica does not lead.
    pub(crate) fn list(&self, host: &Host) -> Result<Vec<Listed>, ApiError> {
        self.look(host)?;
        let mut all = host.read(|cell| {
            let listed = |state: omega_cellstate::SchedulerState<'_>| {
                let held = |hold| Held { hold, process: "".into(), left_ms: 0 };
                let (id, name) = (state.id, state.name.clone());
                let next_transaction = state.next_transaction;
                Listed { id, name, next_transaction, held: state.hold.map(held) }
            };
            cell.schedulers().map(listed).collect::<Vec<_>>()
        });
        for held in all.iter_mut().filter_map(|listed| listed.held.as_mut()) {
            *held = self.held(held.hold);
        }
        Ok(all)
    }

    /// Whether a process owns a name with a lease that has not expired. Only the leader has this information.
    pub(crate) fn is_held(&self, host: &Host, name: &str) -> bool {
        let Some(hold) = host.read(|cell| cell.hold_of(name)) else { return false };
        self.look(host).is_err() || self.held(hold).left_ms > 0
    }

    /// Checks whether this replica leads.
    fn look(&self, host: &Host) -> Result<(), ApiError> {
        let leadership = host.leadership();
        let term = leadership.is_leader.then_some(leadership.term);
        {
            // The time is read under the lock, so that later calls never have an earlier time.
            let mut table = self.shared.table.lock();
            table.look(term, self.now_ms());
        }
        if leadership.is_leader {
            return Ok(());
        }
        Err(host.no_leader("leases are kept by").retry_after(Duration::from_millis(LOOK_MS)))
    }

    fn hear(&self, host: &Host, holder: HolderId, process: Text) {
        let is_full = {
            let mut table = self.shared.table.lock();
            let now_ms = self.now_ms();
            table.hear(holder, process, now_ms);
            table.len() > 2 * SCHEDULERS_MAX
        };
        if is_full {
            // Only the entries of current owners are kept. The other processes were rejected, or their leases have
            // ended.
            let known: BTreeSet<HolderId> = host.read(|cell| {
                cell.schedulers().filter_map(|state| Some(state.hold?.holder)).collect()
            });
            self.shared.table.lock().keep(|other| other == holder || known.contains(&other));
        }
    }
}

/// The first of these names that the holder does not own.
fn lost<'n>(host: &Host, holder: HolderId, names: &'n [String]) -> Option<&'n String> {
    host.read(|cell| {
        let is_own = |hold: Option<Hold>| hold.is_some_and(|hold| hold.holder == holder);
        let own = cell.schedulers().filter(|state| is_own(state.hold));
        let own: BTreeSet<&str> = own.map(|state| &**state.name).collect();
        names.iter().find(|name| !own.contains(name.as_str()))
    })
}

/// Sends a command once. A further attempt must check leadership and leases again.
async fn ask(host: &Host, command: Command, until: Instant) -> Result<Outcome, ApiError> {
    let asked = host.begin(command, Try::Again).answers();
    match tokio::time::timeout_at(until, asked).await.ok().and_then(|mut all| all.pop()) {
        Some(Answer::Outcome(outcome)) => outcome.map_err(|rejection| ApiError::from(&rejection)),
        Some(Answer::Again(again)) => Err(unavailable(again)),
        _ => Err(unknown()),
    }
}

fn who(held: &Held) -> String {
    if held.process.is_empty() { "another process".to_owned() } else { held.process.to_string() }
}

fn refused(name: &str, held: &Held) -> ApiError {
    let left = Duration::from_millis(held.left_ms);
    let say = format!(
        "{} owns the scheduler's name {name:?}: the name is free when that process ends, or after \
         {:.1} s without a renewal",
        who(held),
        left.as_secs_f64()
    );
    ApiError::new(ErrorCode::LeaseHeld, say).retry_after(left.min(ASK_AGAIN))
}
