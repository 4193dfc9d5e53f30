//! Recovery of a scheduler after a panic in a decision.
//!
//! A panic is a bug, in a plugin or in the library, and the same decision would panic again. So the job is set aside.
//! View and queue are rebuilt, because the panic may have corrupted them. Transactions with an unknown outcome are
//! dropped, because the first sync shows their results.

use super::round_state::RoundState;
use super::{Scheduler, Settings};
use crate::delay::Waits;
use crate::framework::profile::Profile;
use crate::queue::Queue;
use omega_cellstate::{Interest, View};
use omega_core::JobId;
use std::collections::BTreeSet;

/// The job that is being decided, and the jobs whose decisions panicked.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    deciding: Option<JobId>,
    jobs: BTreeSet<JobId>,
}

impl SetAside {
    /// Records that the decision on a job begins.
    pub(super) fn begin(&mut self, job: JobId) {
        self.deciding = Some(job);
    }

    /// Ends the decision.
    pub(super) fn end(&mut self) {
        self.deciding = None;
    }

    /// Whether a job is skipped.
    pub(super) fn contains(&self, job: JobId) -> bool {
        self.jobs.contains(&job)
    }

    /// The job whose decision did not end. A second call returns `None`.
    fn interrupted(&mut self) -> Option<JobId> {
        self.deciding.take()
    }

    fn add(&mut self, job: JobId) {
        self.jobs.insert(job);
    }

    fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.iter().copied()
    }
}

/// Prepares an empty view, so that its syncs bring all data that the profile reads.
pub(super) fn first_view(view: View, profile: &Profile, settings: &Settings) -> View {
    let interest = Interest::JobsOf(settings.takes.clone(), settings.share);
    let mut view = view.with_interest(interest);
    if profile.keeps_placements() {
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
    /// Sets aside the job whose decision panicked, rebuilds view and queue, and returns the job. The job gets no
    /// further turn in this scheduler's lifetime.
    ///
    /// Returns `None` if the scheduler cannot continue, because no decision was in progress, or because the profile
    /// has plugins that reserve, permit or prepare, and the claims that these plugins handle could not be undone.
    pub fn recover(&mut self) -> Option<JobId> {
        let job = self.set_aside.interrupted()?;
        if self.profile.chain.guards() {
            return None;
        }
        self.set_aside.add(job);
        self.view = first_view(self.view.begin_again(), &self.profile, &self.settings);
        self.queue = Queue::new(self.settings.backoff, self.profile.chain.order.clone());
        self.finder.reset();
        self.waits = Waits::default();
        self.round_state = RoundState::default();
        self.decisions.clear();
        self.tasks.clear();
        self.stale.clear();
        Some(job)
    }

    /// The jobs that were set aside, ascending.
    pub fn set_aside(&self) -> impl Iterator<Item = JobId> + '_ {
        self.set_aside.jobs()
    }
}
