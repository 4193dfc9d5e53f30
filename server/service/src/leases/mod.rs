//! Leases of scheduler names: renewal, expiry and takeover.
//!
//! ```text
//!   scheduler A ── Renew ──▶ leader's memory: last heartbeat of A
//!   standby B ─── Register ─▶ owned by A: has A's lease expired?
//!                               no:  LEASE_HELD, ask again
//!                               yes: EndHolder A ─▶ HoldScheduler B ─▶ the log     A is fenced from here
//! ```
//!
//! The time of a lease only decides when a takeover is *tried*. Safety comes from the log: in it, a name has one owner
//! at a time, and transactions of the former owner are rejected. A wrong clock, a deposed leader that still acts as
//! leader, or an owner that resumes after a pause can cause an unnecessary takeover. None of them can lead to two
//! processes that commit. Renewals stay in memory, because they are not worth a write to the log.
//!
//! An expired lease is not ended before another process requests the name: a scheduler that was paused for a minute
//! without a standby continues as if nothing had happened. All names of a process are released together. Otherwise, a
//! standby that requests only some of the names would leave the others owned by the old process.

mod table;

use crate::host::{Host, Try, unavailable, unknown};
use omega_cellstate::Cell;
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::SCHEDULERS_MAX;
use omega_core::text::is_hidden;
use omega_core::{Command, Hold, HolderId, Outcome, SchedulerId, Text};
use omega_store::replica::Answer;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use table::{LOOK_MS, Table};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

/// Retry interval of a standby. It is short enough for a prompt takeover after an orderly end, and long enough to cost
/// little.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The leases known to this replica. Clones share them.
#[derive(Clone, Debug)]
pub struct Leases {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    /// Locked to look up or change one owner.
    table: Mutex<Table>,
    /// Number of owners whose expired leases were ended. The order of its updates relative to other memory does not
    /// matter.
    silenced: AtomicU64,
}

/// Request of a process for the lease of a name.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) name: Text,
    pub(crate) hold: Hold,
    pub(crate) process: Text,
}

/// A scheduler, and the owner of its name.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) id: SchedulerId,
    pub(crate) name: Text,
    pub(crate) next_transaction: u64,
    pub(crate) held: Option<Held>,
}

/// Owner of a name, and its lease.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    /// Description of the process; empty until the process has sent a message.
    pub(crate) process: Text,
    pub(crate) left_ms: u64,
}

impl Default for Leases {
    fn default() -> Leases {
        let table = Mutex::default();
        let shared = Shared { began: Instant::now(), table, silenced: AtomicU64::new(0) };
        Leases { shared: Arc::new(shared) }
    }
}

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

    /// Number of owners whose leases this replica ended because they had expired.
    pub(crate) fn silenced(&self) -> u64 {
        self.shared.silenced.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        self.shared.began.elapsed().as_millis() as u64
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

    fn held(&self, hold: Hold) -> Held {
        let table = self.shared.table.lock();
        let process = table.process(hold.holder).cloned().unwrap_or_else(|| "".into());
        Held { hold, process, left_ms: table.left_ms(hold, self.now_ms()) }
    }
}

/// A public mark of a process: a 32-bit one-way hash of the process's number. The number itself is secret, because a
/// caller with the number could act as the process.
pub(crate) fn mark(holder: HolderId) -> u32 {
    let hash = digest(&SHA256, &holder.0.to_le_bytes());
    let first = hash.as_ref().first_chunk().expect("a hash has 32 bytes");
    u32::from_le_bytes(*first)
}

/// Returns the owner of a name; `None` if no owner with this mark has the name.
///
/// # Errors
/// If no scheduler has the name.
pub(crate) fn marked(cell: &Cell, name: &str, of: u32) -> Result<Option<HolderId>, ApiError> {
    if !cell.schedulers().any(|state| **state.name == *name) {
        let say = format!(
            "there is no scheduler {name:?}: run `omega lease list` to see the \
             existing ones"
        );
        return Err(ApiError::new(ErrorCode::UnknownScheduler, say));
    }
    Ok(cell.hold_of(name).map(|hold| hold.holder).filter(|holder| mark(*holder) == of))
}

/// Maximum bytes of a process description, so that a list of all schedulers fits into one message.
const PROCESS_BYTES_MAX: usize = 256;

/// The description of a process, truncated if too long.
pub(crate) fn process_name(given: &str) -> Text {
    let plain: String = given.chars().filter(|letter| !is_hidden(*letter)).collect();
    let end =
        (0..=plain.len().min(PROCESS_BYTES_MAX)).rev().find(|end| plain.is_char_boundary(*end));
    plain[..end.unwrap_or(0)].into()
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
