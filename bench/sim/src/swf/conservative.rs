//! Conservative backfilling: every job has a reservation from its submission on.
//!
//! A job is put into the earliest gap that is free for its estimated run time, so it delays no earlier job. If a job
//! ends early, the rest of its slot becomes a gap. Pending jobs are then moved forward in the order of submission, each
//! to its earliest possible start and never to a later one. So no job starts after its first reservation.
//!
//! A job can only move to a time at which processors became free. So a pass over the queue considers only the slots
//! that became free during this pass or since the previous pass, and no time after the latest end of these slots. Most
//! passes therefore end after a few steps.

use super::profile::{Gap, Limits, Profile, Slot};
use super::simulate::{Place, Policy};
use super::trace::SimJob;
use std::collections::BTreeSet;

/// The queue, with the calendar of its reservations.
pub struct Conservative<'a> {
    jobs: &'a [SimJob],
    profile: Profile,
    /// Pending jobs, in the order of submission.
    waiting: BTreeSet<Place>,
    /// Jobs by the start of their reservations.
    by_start: BTreeSet<(u64, Place)>,
    /// The reserved or actual start of each job.
    starts_ms: Vec<u64>,
    /// The start of each job's first reservation.
    first_ms: Vec<u64>,
    /// Time after which no gap needs to be examined.
    gaps_end_ms: u64,
    has_gap: bool,
}

impl<'a> Conservative<'a> {
    /// An empty queue for a machine with a number of processors.
    #[must_use]
    pub fn new(jobs: &'a [SimJob], processors: u64) -> Conservative<'a> {
        Conservative {
            jobs,
            profile: Profile::new(processors),
            waiting: BTreeSet::new(),
            by_start: BTreeSet::new(),
            starts_ms: vec![0; jobs.len()],
            first_ms: vec![0; jobs.len()],
            gaps_end_ms: 0,
            has_gap: false,
        }
    }

    /// The start of each job's first reservation.
    #[cfg(test)]
    pub(super) fn first_reservations_ms(&self) -> &[u64] {
        &self.first_ms
    }

    /// The slot of a job that starts at this time.
    fn slot(&self, place: Place, start_ms: u64) -> Slot {
        let job = &self.jobs[place];
        Slot { start_ms, end_ms: start_ms + job.requested_ms, processors: job.processors }
    }

    /// The gap that a job needs to start.
    fn gap(&self, place: Place) -> Gap {
        let job = &self.jobs[place];
        Gap { processors: job.processors, for_ms: job.requested_ms }
    }

    /// Moves jobs forward if any job ended early since the last call.
    fn move_up(&mut self, now_ms: u64) {
        if !std::mem::take(&mut self.has_gap) {
            return;
        }
        let mut gaps_end_ms = self.gaps_end_ms;
        self.gaps_end_ms = 0;
        let waiting: Vec<Place> = self.waiting.iter().copied().collect();
        for place in waiting {
            let old_ms = self.starts_ms[place];
            let limits = Limits { before_ms: old_ms.min(gaps_end_ms), own_ms: old_ms };
            let Some(start_ms) = self.profile.search(now_ms, limits, self.gap(place)) else {
                continue;
            };
            let (old, new) = (self.slot(place, old_ms), self.slot(place, start_ms));
            self.profile.give_back(old);
            self.profile.take(new);
            self.by_start.remove(&(old_ms, place));
            self.by_start.insert((start_ms, place));
            self.starts_ms[place] = start_ms;
            gaps_end_ms = gaps_end_ms.max(old.end_ms);
            // Earlier jobs of this pass may use the gap in the next pass.
            self.gaps_end_ms = self.gaps_end_ms.max(old.end_ms);
        }
    }
}

impl Policy for Conservative<'_> {
    fn submitted(&mut self, place: Place, now_ms: u64) {
        // Jobs that already have reservations move forward before the new job gets its reservation.
        self.move_up(now_ms);
        let start_ms = self.profile.earliest(now_ms, self.gap(place));
        self.profile.take(self.slot(place, start_ms));
        self.starts_ms[place] = start_ms;
        self.first_ms[place] = start_ms;
        self.waiting.insert(place);
        self.by_start.insert((start_ms, place));
    }

    fn ended(&mut self, place: Place, now_ms: u64) {
        let due = self.slot(place, self.starts_ms[place]);
        if due.end_ms > now_ms {
            self.profile.give_back(Slot { start_ms: now_ms, ..due });
            self.gaps_end_ms = self.gaps_end_ms.max(due.end_ms);
            self.has_gap = true;
        }
    }

    fn start(&mut self, now_ms: u64, starting: &mut Vec<Place>) {
        self.profile.forget_before(now_ms);
        self.move_up(now_ms);
        while let Some((start_ms, place)) = self.by_start.first().copied()
            && start_ms <= now_ms
        {
            self.by_start.pop_first();
            self.waiting.remove(&place);
            starting.push(place);
        }
    }

    fn wakes_ms(&self) -> Option<u64> {
        self.by_start.first().map(|(start_ms, _)| *start_ms)
    }
}
