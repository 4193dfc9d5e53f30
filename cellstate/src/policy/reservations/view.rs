//! Reservations in a view, which uses the cell's check.

use super::{Line, Stay};
use crate::index::sets::Lanes;
use crate::policy::TenantTree;
use crate::view::{Block, View};
use omega_core::{Job, Reservation};

impl View {
    /// Whether there is a reservation.
    #[must_use]
    pub fn any_reservation(&self) -> bool {
        self.mirrors().reservations.is_any()
    }

    /// Every reservation, by name.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.mirrors().reservations.iter()
    }

    /// Whether a reservation may reject tasks of a job now.
    #[must_use]
    pub fn reservations_may_reject(&self, job: &Job) -> bool {
        if !self.any_reservation() {
            return false;
        }
        self.mirrors().reservations.binds(self.stay(job), || self.tenants_above(job))
    }

    /// The reservation that rejects tasks of a job on the machine in a row at present. If there are several, the one
    /// that begins first.
    #[must_use]
    pub fn reservation_on(&self, row: usize, job: &Job) -> Option<&Reservation> {
        if !self.any_reservation() {
            return None;
        }
        let reservations = &self.mirrors().reservations;
        let line = || self.tenants_above(job);
        reservations.reserved_by(row, self.stay(job), self.machine_index(), line)
    }

    /// Whether a reservation rejects a task of a job that would start at `now_ms` on the machine in a row.
    #[must_use]
    pub fn is_reserved_at(&self, row: usize, job: &Job, now_ms: u64) -> bool {
        if !self.any_reservation() {
            return false;
        }
        let stay = Stay { now_ms, run_ms: job.runtime_estimate_ms };
        let reservations = &self.mirrors().reservations;
        let line = || self.tenants_above(job);
        reservations.reserved_by(row, stay, self.machine_index(), line).is_some()
    }

    fn reserved_among(&self, lanes: Lanes, job: &Job) -> u64 {
        let reservations = &self.mirrors().reservations;
        let line = || self.tenants_above(job);
        reservations.reserved(lanes, self.stay(job), self.machine_index(), line)
    }

    fn stay(&self, job: &Job) -> Stay {
        Stay { now_ms: self.now_ms(), run_ms: job.runtime_estimate_ms }
    }

    /// A job's tenant and all tenants above it.
    fn tenants_above<'a>(&'a self, job: &'a Job) -> Line<'a> {
        self.tenant_tree().line_of(job)
    }
}

impl Block<'_> {
    /// The machines in `among` on which a reservation rejects tasks of a job.
    #[must_use]
    pub fn reserved(&self, job: &Job, among: u64) -> u64 {
        if self.view().any_reservation() {
            self.view().reserved_among(self.lanes(among), job)
        } else {
            0
        }
    }
}
