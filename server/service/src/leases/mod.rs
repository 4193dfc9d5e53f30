//! Leases of scheduler names: renewal, expiry and takeover.
//!
//! ```text
//!   scheduler A ── Renew ──▶ leader's memory: last heartbeat of A
//!   standby B ─── Register ─▶ owned by A: has A's lease expired?
//!                               no:  LEASE_HELD, ask again
//!                               yes: RevokeLeases A ─▶ GrantLease B ─▶ the log     A is fenced from here
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

mod grants;
mod table;

use omega_cellstate::{Cell, SchedulerState};
use omega_client::{ApiError, ErrorCode};
use omega_core::text::is_hidden;
use omega_core::{HolderId, Lease, SchedulerId, Text};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use table::Table;
use tokio::time::Instant;

/// Retry interval of a standby. It is short enough for a prompt takeover after an orderly end, and long enough to cost
/// little.
const RETRY_DELAY: Duration = Duration::from_millis(250);

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
    expirations: AtomicU64,
}

/// Request of a process for the lease of a name.
#[derive(Clone, Debug)]
pub(crate) struct LeaseRequest {
    pub(crate) name: Text,
    pub(crate) lease: Lease,
    pub(crate) process: Text,
}

/// A scheduler, and the owner of its name.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) id: SchedulerId,
    pub(crate) name: Text,
    pub(crate) next_transaction: u64,
    pub(crate) owner: Option<NameOwner>,
}

/// Owner of a name, and its lease.
#[derive(Clone, Debug)]
pub(crate) struct NameOwner {
    pub(crate) lease: Lease,
    /// Description of the process; empty until the process has sent a message.
    pub(crate) process: Text,
    pub(crate) remaining_ms: u64,
}

impl Default for Leases {
    fn default() -> Leases {
        let table = Mutex::default();
        let shared = Shared { began: Instant::now(), table, expirations: AtomicU64::new(0) };
        Leases { shared: Arc::new(shared) }
    }
}

impl Leases {
    /// Number of owners whose leases this replica ended because they had expired.
    pub(crate) fn expirations(&self) -> u64 {
        self.shared.expirations.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        self.shared.began.elapsed().as_millis() as u64
    }

    fn owner(&self, lease: Lease) -> NameOwner {
        let table = self.shared.table.lock();
        let process = table.process(lease.holder).cloned().unwrap_or_else(|| "".into());
        NameOwner { lease, process, remaining_ms: table.remaining_ms(lease, self.now_ms()) }
    }
}

/// A public mark of a process: a 32-bit one-way hash of the process's number. The number itself is secret, because a
/// caller with the number could act as the process.
pub(crate) fn mark(holder: HolderId) -> u32 {
    let hash = digest(&SHA256, &holder.0.to_le_bytes());
    let first = hash.as_ref().first_chunk().expect("a hash has 32 bytes");
    u32::from_le_bytes(*first)
}

/// Returns the scheduler with this name.
///
/// # Errors
/// If no scheduler has the name.
pub(crate) fn scheduler<'c>(cell: &'c Cell, name: &str) -> Result<SchedulerState<'c>, ApiError> {
    cell.schedulers().find(|state| **state.name == *name).ok_or_else(|| {
        let message = format!(
            "there is no scheduler {name:?}: run `omega lease list` to see the \
             existing ones"
        );
        ApiError::new(ErrorCode::UnknownScheduler, message)
    })
}

/// Returns the owner of a name; `None` if no owner with this mark has the name.
///
/// # Errors
/// If no scheduler has the name.
pub(crate) fn marked(cell: &Cell, name: &str, of: u32) -> Result<Option<HolderId>, ApiError> {
    scheduler(cell, name)?;
    Ok(cell.lease_of(name).map(|lease| lease.holder).filter(|holder| mark(*holder) == of))
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
