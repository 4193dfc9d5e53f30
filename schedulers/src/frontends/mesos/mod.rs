//! Offers: for schedulers that choose among offered resources instead of searching for free
//! machines.
//!
//! In a two-level scheduler (Mesos, NSDI 2011) an allocator offers resources to *frameworks*, which
//! decide what to run on them. Here the allocator is a scheduler of the cell like any other. A
//! [`Frontend`] has a view of the whole cell, offers its free resources, and submits accepted
//! offers as transactions. So frameworks share the machines with other schedulers, and the cell
//! checks all transactions by the same rules.
//!
//! ```text
//!   framework ◀── offers, withdrawals, ends of tasks ───────── Frontend ◀── sync ── cell ◀── others
//!       └──────── accept | decline | suppress | revive ──────▶  └──── commit ────▶ ▲────────┘
//! ```
//!
//! **Order.** The next offer goes to the framework with the lowest weighted dominant share
//! ([`crate::dominant`]) among those that accept offers. A tenant's share counts its tasks of this
//! frontend and its open offers. Of equal shares, the framework served longest ago is first, then
//! the lower id. It is offered up to [`Settings::machines_at_once`] machines, whole or in part;
//! then the shares are compared again.
//!
//! **Meaning of an offer.** No other framework of the same frontend is offered these resources. It
//! is no lock: other schedulers may still place tasks there. If their tasks no longer leave room
//! for an offer, the next step withdraws it, the newest of a machine first. If the framework has
//! already accepted it, the cell rejects what does not fit, and the framework gets an update. So a
//! slow framework delays only the other frameworks of its frontend.
//!
//! Invariants on the frontend's view, after each step and each call:
//! - The offers of a machine add up to no more than its free resources.
//! - Every free resource is offered, available, or held back because its machine accepts no tasks
//!   ([`Frontend::account`]).
//! - The devices of a machine are in at most one offer, because an offer cannot name a part of a
//!   device.
//! - A call that returns an error has changed nothing.
//!
//! It reads no clock: the caller passes the time to [`Frontend::step`], and filters use the same
//! clock. It stores nothing: offers end with the frontend, and a restarted one finds its jobs and
//! tasks in the cell.
//!
//! In reading order: `messages.rs`, `open_offers.rs`, `filter.rs`, `frontend.rs`, `allot.rs`, `answers.rs`.

mod allot;
mod answers;
mod filter;
mod frontend;
mod messages;
mod open_offers;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use frontend::Frontend;
pub use messages::{
    AcceptError, Account, Counters, Event, Framework, FrameworkId, Happened, Launch, NotLaunched,
    Offer, OfferError, OfferId, Portion, Refuse, RegisterError, Settings, Withdrawn,
};

/// Maximum number of frameworks of a frontend, because each offer compares the shares of all. Mesos masters are run
/// with hundreds.
pub const FRAMEWORKS_MAX: usize = 1024;

/// Maximum number of open offers of one machine. With more, the parts would be smaller than a task needs.
pub const OFFERS_PER_MACHINE_MAX: usize = 64;
