//! What a view knows of reservations: all of them, and so it judges as the cell does at its time.

use super::{BLOCK, Block, View};
use crate::calendar::Stay;
use omega_core::{Job, Reservation, Text};
use smallvec::SmallVec;

impl View {
    /// Whether there is a reservation.
    #[must_use]
    pub fn any_reservation(&self) -> bool {
        !self.facts.calendar.is_empty()
    }

    /// Every reservation, by name.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.facts.calendar.iter()
    }

    /// Whether a reservation keeps tasks of a job off machines now.
    #[must_use]
    pub fn keeps_off(&self, job: &Job) -> bool {
        if !self.any_reservation() {
            return false;
        }
        self.facts.calendar.binds(self.stay(job), || self.line_of(job).into_iter())
    }

    /// Whether one keeps them off the machine in a row.
    pub(super) fn is_reserved(&self, row: usize, job: &Job) -> bool {
        self.any_reservation() && self.reserved_among((row / BLOCK, 1 << (row % BLOCK)), job) != 0
    }

    /// The reservation that keeps them off the machine in a row, of several the one that begins first.
    #[must_use]
    pub fn reservation_on(&self, row: usize, job: &Job) -> Option<&Reservation> {
        if !self.any_reservation() {
            return None;
        }
        self.facts.reserved_by(row, self.stay(job), || self.line_of(job).into_iter())
    }

    /// Whether one keeps a task of a job off the machine in a row that would come then.
    #[must_use]
    pub fn is_reserved_at(&self, row: usize, job: &Job, now_ms: u64) -> bool {
        if !self.any_reservation() {
            return false;
        }
        let stay = Stay { now_ms, run_ms: job.runtime_estimate_ms };
        self.facts.reserved_by(row, stay, || self.line_of(job).into_iter()).is_some()
    }

    fn reserved_among(&self, spots: (usize, u64), job: &Job) -> u64 {
        self.facts.reserved(spots, self.stay(job), || self.line_of(job).into_iter())
    }

    fn stay(&self, job: &Job) -> Stay {
        Stay { now_ms: self.now_ms, run_ms: job.runtime_estimate_ms }
    }

    /// The tenant of a job and all above it.
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]> {
        let above = self.tenant_line(&job.tenant).into_iter().map(|tenant| &tenant.terms.name);
        let line = above.filter(|name| **name != job.tenant);
        std::iter::once(&job.tenant).chain(line).collect()
    }

    /// Takes in the reservations that there are now.
    pub(super) fn set_reservations(&mut self, reservations: &[Reservation]) {
        self.facts.book_all(reservations);
        // What was remembered of any machine may not hold any more.
        (0..self.rows()).for_each(|row| self.columns.touch(row));
    }
}

impl Block<'_> {
    /// Of the machines in `among`, those that reservations keep from tasks of a job.
    #[must_use]
    pub fn reserved(&self, job: &Job, among: u64) -> u64 {
        match self.view().any_reservation() {
            true => self.view().reserved_among((self.index(), among), job),
            false => 0,
        }
    }
}
