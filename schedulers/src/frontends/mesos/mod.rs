//! Offers: for schedulers that want to be offered resources rather than look for them.
//!
//! In a two-level scheduler (Mesos, NSDI 2011) an allocator decides who is offered what, and *frameworks*
//! decide what to run on it. Here the allocator is a scheduler of the cell like any other: a [`Frontend`] has a
//! view of the whole cell, offers what is free in it, and makes transactions of what frameworks accept. So
//! frameworks share the machines with schedulers that look for themselves, and the cell judges all alike.
//!
//! ```text
//!   framework ◀── offers, withdrawals, what became of tasks ── Frontend ◀── sync ── cell ◀── others
//!       └──────── accept | decline | suppress | revive ──────▶  └──── commit ────▶ ▲────────┘
//! ```
//!
//! **Who is served.** Whoever has the lowest weighted dominant share ([`crate::dominant`]) of those that want
//! offers; of a tenant count its tasks of this front, and what it is offered until it is answered. Equal shares go by who was served
//! longer ago, then by id. It is offered up to [`Settings::machines_at_once`] machines, each whole or in
//! part, and then the shares are compared again.
//!
//! **What an offer is worth.** It is a promise among the frameworks of one front: nobody else of them sees
//! what is in it. It is no lock: others may place there, as they always may. If so much is placed that an
//! offer no longer holds, it is withdrawn with the next step, the newest of a machine first; if the framework
//! was quicker with its answer, the cell refuses what does not fit, and the framework is told. In return, a
//! slow framework keeps nobody waiting but the other frameworks of its front.
//!
//! Invariants, as of the front's view, after each step and each call:
//! - What is in the offers of a machine is free on it, all of them together: no part of it is in two.
//! - Free is offered, or available, or held back because its machine takes no tasks ([`Frontend::account`]).
//! - The devices of a machine are in one offer at most: a half of a device cannot be told from the other half.
//! - A call that returns an error has changed nothing.
//!
//! No clock is read: time comes in with [`Frontend::step`], and filters end at times of the same clock. The
//! front keeps nothing that outlives it: offers end with it, jobs and tasks are in the cell, and one that
//! is started again finds them there.
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

/// Frameworks of one front: each offer compares the shares of all. Mesos masters are run with hundreds.
pub const FRAMEWORKS_MAX: usize = 1024;

/// Offers that are out on one machine at a time: with more, parts are smaller than what tasks need.
pub const OFFERS_PER_MACHINE_MAX: usize = 64;
