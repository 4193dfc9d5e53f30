//! A scheduler after a panic in a decision.
//!
//! A panic is a bug, in a plugin or in the library, and the same decision would repeat it. So the
//! job is set aside, and view and queue are rebuilt, because the panic may have corrupted them.
//! Transactions with an unknown outcome are dropped, because the first sync shows their results.

use super::{Scheduler, Settings};
use crate::crowding::Crowding;
use crate::delay::Waits;
use crate::failures::Failures;
use crate::place::Placer;
use crate::profile::Profile;
use crate::queue::Queue;
use omega_cellstate::{Interest, View};
use omega_core::JobId;

/// Prepares an empty view for what a profile reads.
pub(super) fn first_view(view: View, profile: &Profile, settings: &Settings) -> View {
    let interest = Interest::JobsOf(settings.takes.clone(), settings.share);
    let mut view = view.with_interest(interest);
    if !profile.chain.post_filter.is_empty() {
        view = view.with_placements();
    }
    if let Some(backfill) = &profile.backfill {
        backfill.begin(profile.chain.order.clone());
        view = view.with_departures();
    }
    profile.prepare(&mut view);
    view
}

impl Scheduler {
    /// Sets aside the job whose decision panicked, rebuilds view and queue, and returns the job. It
    /// gets no further turn in this scheduler's lifetime.
    ///
    /// `None` if the scheduler cannot continue: no decision was in progress, or plugins have
    /// reservations that could not be released.
    pub fn recover(&mut self) -> Option<JobId> {
        let job = self.deciding.take()?;
        if self.profile.chain.guards() {
            return None;
        }
        self.set_aside.insert(job);
        self.view = first_view(self.view.begin_again(), &self.profile, &self.settings);
        self.queue = Queue::new(self.settings.patience, self.profile.chain.order.clone());
        self.placer = Placer::default();
        self.crowding = Crowding::default();
        self.failures = Failures::default();
        self.waits = Waits::default();
        self.unknown.clear();
        self.decided.clear();
        self.missed.clear();
        self.tasks.clear();
        self.stale.clear();
        (self.flying, self.held_until) = (0, None);
        (self.returned, self.late, self.resumed) = (false, false, false);
        self.claims_left = 0;
        Some(job)
    }

    /// The jobs that were set aside, ascending.
    pub fn set_aside(&self) -> impl Iterator<Item = JobId> + '_ {
        self.set_aside.iter().copied()
    }
}
