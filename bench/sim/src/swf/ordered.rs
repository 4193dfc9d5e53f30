//! Policies with an ordered queue: first come first served, EASY backfilling, and EASY with the shortest job first.
//!
//! The first job of the queue starts as soon as enough processors are free. Until then, FCFS starts no other job. EASY
//! makes a reservation for the first job, at the earliest time at which enough jobs will have ended by their users'
//! estimates (the *shadow*). Later jobs may start before that time if they end by then, or need only processors that
//! the first job will leave over. So backfilling never delays the first job's reservation, but may delay all other
//! jobs.
//!
//! The processors left over are counted as in the programs behind published figures: running jobs are taken in the
//! order of their expected ends until there are enough processors. Other jobs that end at that same time are not
//! counted. EASY does not define the order of jobs with equal ends. On logs with round estimates the order changes the
//! mean wait: [`Ties`] has the orders, [docs/swf.md] the measurements.
//!
//! While no job ends and the reservation stays, the time and the processors for backfilling only shrink, so a job that
//! could not be backfilled before cannot be backfilled now. In this case only new jobs are examined, which makes long
//! queues cheap.
//!
//! [docs/swf.md]: ../../../../docs/swf.md

use super::simulate::{Place, Policy};
use super::trace::SimJob;
use clap::ValueEnum;
use std::collections::BTreeSet;

/// Order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Order of submission.
    Submission,
    /// Shortest estimated run time first, then the order of submission.
    Shortest,
}

/// Jobs that may start before the first job of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// No job.
    None,
    /// Any job that does not delay the first job.
    Easy,
}

/// Order of running jobs with equal expected ends. A reservation takes their processors in this order until it has
/// enough, so the order determines how many are left over for other jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Ties {
    /// The job with the fewest processors first
    #[default]
    Smallest,
    /// The job with the most processors first
    Largest,
    /// The job that started first
    Started,
    /// The job that was submitted first
    Submitted,
    /// No order: a reservation counts the processors of all these jobs as free, even if some of the jobs would be
    /// enough. This leaves the most processors for backfill
    Together,
}

/// Reservation of the first job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Position in the list of the job that has the reservation.
    pub place: Place,
    /// Latest start of the job, by the users' estimates.
    pub shadow_ms: u64,
    /// Number of processors that will be left over at that time.
    extra: u64,
}

/// Expected end of a running job, its rank among jobs with equal ends, and its position in the list.
type Due = (u64, u64, Place);

/// An ordered queue.
pub struct Ordered<'a> {
    jobs: &'a [SimJob],
    order: Order,
    backfill: Backfill,
    ties: Ties,
    free: u64,
    /// Pending jobs in the order of the queue: the time by which they are ordered, and the position in the list.
    waiting: BTreeSet<(u64, Place)>,
    /// Jobs that arrived since the last call of the policy.
    came: Vec<Place>,
    /// Running jobs, by expected end.
    back: BTreeSet<Due>,
    /// Entry in `back` of each started job.
    due: Vec<Due>,
    /// Number of jobs that have started.
    started: u64,
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
        ties: Ties,
    ) -> Ordered<'a> {
        Ordered {
            jobs,
            order,
            backfill,
            ties,
            free: processors,
            waiting: BTreeSet::new(),
            came: Vec::new(),
            back: BTreeSet::new(),
            due: vec![(0, 0, 0); jobs.len()],
            started: 0,
            reservation: None,
            has_ended: false,
        }
    }

    /// Reservation of the first job in the queue, as of the last decision.
    #[must_use]
    pub fn reservation(&self) -> Option<Reservation> {
        self.reservation
    }

    fn rank(&self, place: Place) -> (u64, Place) {
        match self.order {
            // Positions in the list are already in the order of submission.
            Order::Submission => (0, place),
            Order::Shortest => (self.jobs[place].requested_ms, place),
        }
    }

    fn start_one(&mut self, place: Place, now_ms: u64) {
        let job = &self.jobs[place];
        self.free -= job.processors;
        let rank = match self.ties {
            Ties::Smallest => job.processors,
            Ties::Largest => u64::MAX - job.processors,
            Ties::Started => self.started,
            Ties::Submitted | Ties::Together => 0,
        };
        self.started += 1;
        self.due[place] = (now_ms + job.requested_ms, rank, place);
        self.back.insert(self.due[place]);
        self.waiting.remove(&self.rank(place));
    }

    /// Makes a reservation for a job that does not fit now.
    fn reserve(&self, place: Place) -> Reservation {
        let wanted = self.jobs[place].processors;
        let mut free = self.free;
        let mut shadow_ms = None;
        for (end_ms, _, running) in &self.back {
            let is_over = shadow_ms.is_some_and(|ms| self.ties != Ties::Together || ms != *end_ms);
            if is_over {
                break;
            }
            free += self.jobs[*running].processors;
            if free >= wanted {
                shadow_ms = Some(*end_ms);
            }
        }
        let shadow_ms = shadow_ms.expect("a job that fits the machine fits once all have ended");
        Reservation { place, shadow_ms, extra: free - wanted }
    }

    /// Starts, in order, those `candidates` that do not delay the reservation.
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
        self.free += self.jobs[place].processors;
        self.back.remove(&self.due[place]);
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
