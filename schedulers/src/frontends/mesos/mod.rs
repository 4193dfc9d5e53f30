//! Offers: for schedulers that choose among offered resources instead of searching for free machines.
//!
//! In a two-level scheduler (Mesos, NSDI 2011) an allocator offers resources to *frameworks*, which decide which tasks
//! to run on them. Here the allocator is an ordinary scheduler of the cell. A [`Frontend`] has a view of the whole
//! cell, offers its free resources, and submits accepted offers as transactions. So frameworks share the machines with
//! other schedulers, and the cell checks all transactions by the same rules.
//!
//! ```text
//!   framework ◀── offers, withdrawals, ends of tasks ───────── Frontend ◀── sync ── cell ◀── others
//!       └──────── accept | decline | suppress | revive ──────▶  └──── commit ────▶ ▲────────┘
//! ```
//!
//! **Order.** The next offers go to the framework with the lowest weighted dominant share ([`crate::queue::dominant`])
//! among those that accept offers. A tenant's share counts its tasks of this frontend and its open offers. If shares
//! are equal, the framework that was served longest ago is next, then the framework with the lower id. This framework
//! is offered up to [`Settings::machines_at_once`] machines, whole or in part; then the shares are compared again.
//!
//! **Meaning of an offer.** An offer reserves resources only among the frameworks of one frontend. An offer is not a
//! lock: other schedulers may still place tasks on the machine. If these tasks leave too little room for the offers of
//! the machine, the next step withdraws offers, the newest first. If the framework has already accepted such an offer,
//! the cell rejects the tasks that do not fit, and the framework gets an event. So a slow framework delays only the
//! other frameworks of its frontend.
//!
//! Invariants on the frontend's view, after each step and each call:
//! - The offers of a machine add up to no more than its free resources.
//! - Every free resource is offered, available, or held back because its machine accepts no tasks
//!   ([`Frontend::account`]).
//! - The devices of a machine are in at most one offer, because an offer cannot name a part of a
//!   device.
//! - A call that returns an error has changed nothing.
//!
//! The frontend reads no clock: the caller passes the time to [`Frontend::step`], and filters use the same clock. The
//! frontend stores nothing: its offers end with the process, and after a restart it finds its jobs and tasks in the
//! cell.
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

/// Maximum number of frameworks of a frontend. The number is limited because the shares of all frameworks are compared
/// for each offer. Mesos masters run with hundreds of frameworks.
pub const FRAMEWORKS_MAX: usize = 1024;

/// Maximum number of open offers of one machine. With more offers, each could be smaller than a task needs.
pub const OFFERS_PER_MACHINE_MAX: usize = 64;
