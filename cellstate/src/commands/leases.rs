//! Owners of scheduler names, and the fencing of former owners.
//!
//! A process that seems dead may only be paused. If it resumes after another process has taken its scheduler's name,
//! both processes assign the same transaction numbers. So whenever a name changes owners, its transaction numbers skip
//! far ahead to a *floor*, and new transactions with numbers below the floor are rejected:
//!
//! ```text
//!   numbers   0 ── first owner ── next ─ ─ ─ skipped ─ ─ ─ floor ── second owner ── next ──▶
//!             cached: the result is repeated   new: fenced             new: committed
//! ```
//!
//! Invariant: `floor <= next`. So a number at or above `next` is never fenced, and a scheduler whose numbers ascend
//! pays nothing for the check.
//!
//! The cell reads no clock, so it does not detect owners that stopped renewing their leases. The component that tracks
//! leases revokes the names of such an owner with [`omega_core::Command::RevokeLeases`].

use crate::cell::Cell;
use crate::commands::bounds::too_many;
use crate::commands::texts;
use crate::state::registered::Registered;
use crate::state::reply_cache::{CachedReply, ReplyCache};
use omega_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN, NUMBERS_SKIPPED, SCHEDULERS_MAX};
use omega_core::{HolderId, Lease, Outcome, Rejection, SchedulerId, Text};

impl Cell {
    /// Registers a scheduler name and returns its id.
    pub(crate) fn register_scheduler(&mut self, name: Text) -> Result<Outcome, Rejection> {
        texts::name("scheduler", &name)?;
        let index = match self.scheduler_index(&name) {
            Some(index) => match self.schedulers[index].lease {
                Some(lease) => return Err(Rejection::NameHeld { name, holder: lease.holder }),
                None => index,
            },
            None => {
                self.one_scheduler_more()?;
                self.begin();
                self.add_scheduler(name)
            }
        };
        Ok(self.scheduler_outcome(index))
    }

    /// Assigns a scheduler's name to a process.
    pub(crate) fn grant_lease(&mut self, name: Text, lease: Lease) -> Result<Outcome, Rejection> {
        texts::name("scheduler", &name)?;
        if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&lease.lease_ms) {
            return Err(Rejection::BadLease { given: lease.lease_ms });
        }
        let known = self.scheduler_index(&name);
        match known
            .and_then(|index| self.schedulers[index].lease.map(|lease| (index, lease.holder)))
        {
            Some((index, holder)) if holder == lease.holder => {
                return Ok(self.scheduler_outcome(index));
            }
            Some((_, holder)) => return Err(Rejection::NameHeld { name, holder }),
            None => {}
        }
        if known.is_none() {
            self.one_scheduler_more()?;
        }
        self.begin();
        let index = known.unwrap_or_else(|| self.add_scheduler(name));
        let scheduler = &mut self.schedulers[index];
        scheduler.lease = Some(lease);
        scheduler.reply_cache.skip();
        Ok(self.scheduler_outcome(index))
    }

    /// Revokes all names of a process.
    pub(crate) fn revoke_leases(&mut self, holder: HolderId) -> Outcome {
        let is_leased =
            |scheduler: &Registered| scheduler.lease.is_some_and(|h| h.holder == holder);
        if self.schedulers.iter().any(is_leased) {
            self.begin();
            for scheduler in self.schedulers.iter_mut().filter(|scheduler| is_leased(scheduler)) {
                scheduler.lease = None;
                scheduler.reply_cache.skip();
            }
        }
        Outcome::Done(self.version)
    }

    fn scheduler_index(&self, name: &Text) -> Option<usize> {
        self.schedulers.iter().position(|scheduler| scheduler.name == *name)
    }

    fn one_scheduler_more(&self) -> Result<(), Rejection> {
        if self.schedulers.len() >= SCHEDULERS_MAX {
            Err(too_many("schedulers", SCHEDULERS_MAX + 1, SCHEDULERS_MAX))
        } else {
            Ok(())
        }
    }

    fn add_scheduler(&mut self, name: Text) -> usize {
        self.schedulers.push(Registered::new(name));
        self.schedulers.len() - 1
    }

    fn scheduler_outcome(&self, index: usize) -> Outcome {
        let next_transaction = self.schedulers[index].reply_cache.next;
        Outcome::Scheduler { id: SchedulerId(index as u32), next_transaction }
    }
}

impl ReplyCache {
    /// Skips all transaction numbers that transactions of the former owner may still use.
    fn skip(&mut self) {
        self.next = self.next.saturating_add(NUMBERS_SKIPPED);
        self.floor = self.next;
    }
}

/// A registered scheduler, as [`Cell::schedulers`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerState<'a> {
    /// Id of the scheduler.
    pub id: SchedulerId,
    /// Name of the scheduler.
    pub name: &'a Text,
    /// The owner of the name, if any.
    pub lease: Option<Lease>,
    /// The lowest number above all numbers that were used or skipped for the scheduler's transactions.
    pub next_transaction: u64,
}

/// Queries about schedulers.
impl Cell {
    /// Every registered scheduler, by id.
    pub fn schedulers(&self) -> impl Iterator<Item = SchedulerState<'_>> {
        (0..).map(SchedulerId).zip(&self.schedulers).map(|(id, scheduler)| SchedulerState {
            id,
            name: &scheduler.name,
            lease: scheduler.lease,
            next_transaction: scheduler.reply_cache.next,
        })
    }

    /// The cached results of a scheduler's transactions, at most [`omega_core::limits::REPLIES_PER_SCHEDULER`], in no
    /// particular order.
    pub fn cached_replies(&self, id: SchedulerId) -> impl Iterator<Item = &CachedReply> {
        let all = self.schedulers.get(id.0 as usize).into_iter();
        all.flat_map(|one| one.reply_cache.iter()).filter(|reply| !reply.is_forgotten())
    }

    /// The cached result of one transaction of a scheduler.
    #[must_use]
    pub fn cached_reply(&self, id: SchedulerId, number: u64) -> Option<&CachedReply> {
        let reply = self.schedulers.get(id.0 as usize)?.reply_cache.get(number);
        reply.filter(|reply| !reply.is_forgotten())
    }

    /// The owner of a scheduler's name, if any.
    #[must_use]
    pub fn lease_of(&self, name: &str) -> Option<Lease> {
        self.schedulers.iter().find(|scheduler| *scheduler.name == *name)?.lease
    }
}
