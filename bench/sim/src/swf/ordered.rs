//! Policies with an ordered queue: first come first served, EASY backfilling, and EASY with the shortest job first.
//!
//! The first job in order starts as soon as enough processors are free. Until then, FCFS lets all jobs wait. EASY
//! reserves for the first job the earliest time at which enough jobs will have ended by their users' estimates (the
//! *shadow*); later jobs may start in the meantime if they end by then, or need only processors that the first job will
//! leave over. So backfilling never delays that reservation, but may delay all other jobs.
//!
//! The processors left over are counted as in the programs behind published figures: running jobs are taken in the
//! order of their expected ends, of equal ones the smallest first, until there are enough processors. Other jobs that
//! end at that very time are not counted. On logs with round estimates this changes the mean wait by a third, and even
//! the order of equal ones by two percent: [docs/swf.md] has the measurements.
//!
//! A job that could not be backfilled cannot be as long as no job ends and the reservation stays, since less time and
//! fewer processors are left. Then only new jobs are examined, which keeps long queues cheap.
//!
//! [docs/swf.md]: ../../../../docs/swf.md

use super::simulate::{Place, Policy};
use super::trace::SimJob;
use std::collections::BTreeSet;

/// Order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Order of submission.
    Submission,
    /// Shortest estimated run time first, then the order of submission.
    Shortest,
}

/// Jobs that may start before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// No backfill.
    None,
    /// Any job that does not delay the first.
    Easy,
}

/// Reservation of the first job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Job of the reservation.
    pub place: Place,
    /// Latest start, by the users' estimates.
    pub shadow_ms: u64,
    /// Processors that will be left over then.
    extra: u64,
}

/// Expected end of a running job, its processors, and its place.
type Due = (u64, u64, Place);

/// An ordered queue.
pub struct Ordered<'a> {
    jobs: &'a [SimJob],
    order: Order,
    backfill: Backfill,
    free: u64,
    /// Pending jobs by rank: the time by which they are ordered, and the place.
    waiting: BTreeSet<(u64, Place)>,
    /// Jobs that arrived since the last call of the policy.
    came: Vec<Place>,
    /// Processors in use, by expected end.
    back: BTreeSet<Due>,
    /// Expected end of each started job.
    deadline_ms: Vec<u64>,
    reservation: Option<Reservation>,
    /// Whether any job ended since the last call of the policy.
    has_ended: bool,
}

impl<'a> Ordered<'a> {
    /// An empty queue for a machine with a number of processors.
    #[must_use]
    pub fn new(
        jobs: &'a [SimJob],
        processors: u64,
        order: Order,
        backfill: Backfill,
    ) -> Ordered<'a> {
        Ordered {
            jobs,
            order,
            backfill,
            free: processors,
            waiting: BTreeSet::new(),
            came: Vec::new(),
            back: BTreeSet::new(),
            deadline_ms: vec![0; jobs.len()],
            reservation: None,
            has_ended: false,
        }
    }

    /// Reservation of the first job in the queue, at the last decision.
    #[must_use]
    pub fn reservation(&self) -> Option<Reservation> {
        self.reservation
    }

    fn rank(&self, place: Place) -> (u64, Place) {
        match self.order {
            // Places have the order of submission.
            Order::Submission => (0, place),
            Order::Shortest => (self.jobs[place].requested_ms, place),
        }
    }

    fn start_one(&mut self, place: Place, now_ms: u64) {
        let job = &self.jobs[place];
        self.free -= job.processors;
        self.deadline_ms[place] = now_ms + job.requested_ms;
        self.back.insert((self.deadline_ms[place], job.processors, place));
        self.waiting.remove(&self.rank(place));
    }

    /// Reserves processors for a job that does not fit now.
    fn reserve(&self, place: Place) -> Reservation {
        let wanted = self.jobs[place].processors;
        let mut free = self.free;
        for (shadow_ms, processors, _) in &self.back {
            free += processors;
            if free >= wanted {
                return Reservation { place, shadow_ms: *shadow_ms, extra: free - wanted };
            }
        }
        unreachable!("once all have ended there is room for a job that fits the machine")
    }

    /// Starts the `candidates` that delay no reservation, in order.
    fn fill(&mut self, now_ms: u64, candidates: &[Place], starting: &mut Vec<Place>) {
        let Some(mut reservation) = self.reservation else { return };
        for place in candidates.iter().copied().filter(|place| *place != reservation.place) {
            if self.free == 0 {
                break;
            }
            let job = &self.jobs[place];
            let ends_in_time = now_ms + job.requested_ms <= reservation.shadow_ms;
            if job.processors > self.free || !(ends_in_time || job.processors <= reservation.extra)
            {
                continue;
            }
            if !ends_in_time {
                reservation.extra -= job.processors;
            }
            self.start_one(place, now_ms);
            starting.push(place);
        }
        self.reservation = Some(reservation);
    }
}

impl Policy for Ordered<'_> {
    fn submitted(&mut self, place: Place, _now_ms: u64) {
        self.waiting.insert(self.rank(place));
        self.came.push(place);
    }

    fn ended(&mut self, place: Place, _now_ms: u64) {
        let processors = self.jobs[place].processors;
        self.free += processors;
        self.back.remove(&(self.deadline_ms[place], processors, place));
        self.has_ended = true;
    }

    fn start(&mut self, now_ms: u64, starting: &mut Vec<Place>) {
        let mut came = std::mem::take(&mut self.came);
        while let Some((_, place)) = self.waiting.first().copied() {
            if self.jobs[place].processors > self.free {
                break;
            }
            self.start_one(place, now_ms);
            starting.push(place);
        }
        if self.backfill == Backfill::Easy {
            let first = self.waiting.first().map(|(_, place)| *place);
            let reservation = first.map(|place| self.reserve(place));
            if reservation == self.reservation && !self.has_ended {
                came.retain(|place| self.waiting.contains(&self.rank(*place)));
                came.sort_by_key(|place| self.rank(*place));
            } else {
                came.clear();
                if self.free > 0 {
                    came.extend(self.waiting.iter().map(|(_, place)| *place));
                }
            }
            self.reservation = reservation;
            self.fill(now_ms, &came, starting);
        }
        came.clear();
        self.came = came;
        self.has_ended = false;
    }
}
