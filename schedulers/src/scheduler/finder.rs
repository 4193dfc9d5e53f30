//! A scheduler's search for machines, which uses results of earlier searches and recent conflicts.

use super::conflict_backoff::ConflictBackoff;
use super::settings::{Placement, Settings};
use crate::framework::events::Events;
use crate::framework::profile::Profile;
use crate::placing::failures::Failures;
use crate::placing::place::{GroupPlacement, Placer};
use crate::placing::refusals::RejectingPlugins;
use crate::queue::Basis;
use omega_cellstate::{GroupRef, View};
use omega_core::TaskId;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// Finds machines on one view for one profile.
#[derive(Debug)]
pub(super) struct Finder {
    placer: Placer,
    rng: Pcg64,
    /// Placement settings, before conflict backoff is applied.
    placement: Placement,
    /// Task groups that found no machine. Empty if the settings disable the unschedulable cache.
    failures: Failures,
    remembers: bool,
    /// Whether machines were searched for the present job.
    has_searched: bool,
    conflict_backoff: ConflictBackoff,
}

impl Finder {
    /// Creates a finder with a scheduler's settings.
    pub(super) fn new(settings: &Settings) -> Finder {
        Finder {
            placer: Placer::default(),
            rng: Pcg64::seed_from_u64(settings.seed),
            placement: settings.placement,
            failures: Failures::default(),
            remembers: settings.failures,
            has_searched: false,
            conflict_backoff: ConflictBackoff::default(),
        }
    }

    /// Drops all results, because the view is replaced.
    pub(super) fn reset(&mut self) {
        self.placer = Placer::default();
        self.failures = Failures::default();
        self.conflict_backoff = ConflictBackoff::default();
    }

    /// Begins the search for a job's tasks.
    pub(super) fn begin_job(&mut self) {
        self.has_searched = false;
    }

    /// Basis of the rejection of a group of the present job.
    pub(super) fn basis(&self, view: &View, group: GroupRef) -> Basis {
        match (self.failures.includes(view, group), self.has_searched) {
            (false, _) => Basis::Job,
            (true, true) => Basis::Search,
            (true, false) => Basis::EarlierSearch,
        }
    }

    /// Claims machines in the view for tasks of a group, as far as there is room, in the order of the list. Returns
    /// the number of placed tasks.
    pub(super) fn place(
        &mut self,
        view: &mut View,
        profile: &Profile,
        group: GroupRef,
        tasks: &[TaskId],
    ) -> usize {
        if self.has_failed(view, profile, group) {
            return 0;
        }
        let placed = self.try_to_place(view, profile, group, tasks);
        // The claims of a gang may be undone immediately, so a gang's failures are not cached.
        let is_gang = view.job(group).0.is_placed_at_once();
        if self.remembers && placed < tasks.len() && !is_gang {
            self.failures.note(view, profile, group);
        }
        placed
    }

    /// Places tasks like [`Finder::place`], without regard to earlier failures.
    pub(super) fn try_to_place(
        &mut self,
        view: &mut View,
        profile: &Profile,
        group: GroupRef,
        tasks: &[TaskId],
    ) -> usize {
        self.has_searched = true;
        let wanted = GroupPlacement { profile, placement: self.placement(), group };
        self.placer.place(view, wanted, tasks, &mut self.rng)
    }

    /// Maximum number of a group's tasks that one search places.
    pub(super) fn tasks_of_a_search(
        &self,
        view: &View,
        profile: &Profile,
        group: GroupRef,
    ) -> usize {
        if self.placer.depends_on_others(view, profile, group) { 1 } else { usize::MAX }
    }

    /// Whether there is room for a task on any machine.
    pub(super) fn has_room(
        &mut self,
        view: &mut View,
        profile: &Profile,
        group: GroupRef,
        task: TaskId,
    ) -> bool {
        if self.has_failed(view, profile, group) {
            return false;
        }
        self.has_searched = true;
        let wanted = GroupPlacement { profile, placement: self.placement(), group };
        self.placer.has_room(view, wanted, task, &mut self.rng)
    }

    /// Whether tasks like those of the group found no machine, and no event since then may help them.
    fn has_failed(&mut self, view: &View, profile: &Profile, group: GroupRef) -> bool {
        self.remembers && self.failures.has(view, profile, group)
    }

    /// Returns the placement settings, with more candidates while many claims conflict.
    fn placement(&self) -> Placement {
        let near_best = self.placement.near_best.max(1);
        let near_best = near_best.saturating_mul(1 << self.conflict_backoff.level());
        Placement { near_best, ..self.placement }
    }

    /// Plugins that reject the tasks of a group that has no machine.
    pub(super) fn rejecting_plugins(
        &mut self,
        view: &View,
        profile: &Profile,
        group: GroupRef,
    ) -> RejectingPlugins {
        let known = self.failures.rejecting_plugins(view, profile, group);
        known.unwrap_or_else(|| RejectingPlugins::of(view, profile, group))
    }

    /// Whether events affect cached results.
    pub(super) fn listens(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Records events; `rows` are the machines concerned.
    pub(super) fn record_events(&mut self, events: Events, rows: &[u32]) {
        self.failures.record_events(events, rows);
    }

    /// Drops the cached failures, because the view has more room.
    pub(super) fn forget_failures(&mut self) {
        self.failures.forget();
    }

    /// Counts the claims of a transaction, and those that were rejected because of their machine.
    pub(super) fn note_conflicts(&mut self, claims: usize, conflicts: usize) {
        self.conflict_backoff.note(claims, conflicts);
    }

    /// Returns the level of conflict backoff.
    pub(super) fn conflict_backoff_level(&self) -> u32 {
        self.conflict_backoff.level()
    }
}
