//! Peak hours in a view: the calendars and what batch holds where, and so it judges as the cell does at its
//! time.
//!
//! Its own claims of batch tasks are in the sums, as they are off the amounts.

use super::share_of;
use crate::facts::Need;
use crate::view::{Block, View};
use omega_core::{Job, JobKind, KindId, PeakCalendar, Text};

impl View {
    /// Every calendar of peaks, by name.
    pub fn peak_calendars(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.mirrors().peaks.iter()
    }

    /// Whether a peak holds back the tasks of a job, on some machine if any.
    #[must_use]
    pub fn holds_back(&self, job: &Job) -> bool {
        self.mirrors().peaks.any_holds() && job.kind == JobKind::Batch
    }

    /// The first kind of which batch would hold more than its share of the machine in a row now, with one task more
    /// that needs so much; with the name of the calendar that says so, and when its peak is over.
    #[must_use]
    pub fn peak_over(&self, row: usize, job: &Job, need: &Need) -> Option<(KindId, &Text, u64)> {
        let peaks = &self.mirrors().peaks;
        let kind = peaks.over_peak(row, (job.kind, &need.request), self.facts())?;
        let (name, ends_ms) = peaks.peak_on(row, kind, (self.now_ms(), self.facts()))?;
        Some((kind, name, ends_ms))
    }

    /// How much more of a kind batch may hold on the machine in a row now; below zero where it holds too much, `None`
    /// where no peak bounds it.
    #[must_use]
    pub fn batch_room(&self, row: usize, kind: KindId) -> Option<i64> {
        let shares = self.mirrors().peaks.shares_of(row, self.facts());
        let shares = shares.filter(|share| share.kind == kind);
        let most = shares.map(|share| share_of(row, share, self.facts())).min()?;
        Some(most - self.batch_allocated(row, kind))
    }

    /// Whether a peak holds on the machine in a row.
    #[must_use]
    pub fn is_peak_on(&self, row: usize) -> bool {
        let peaks = &self.mirrors().peaks;
        peaks.any_holds() && peaks.shares_of(row, self.facts()).next().is_some()
    }

    /// Whether a calendar is for the machine in a row.
    #[must_use]
    pub fn has_peaks(&self, row: usize) -> bool {
        self.mirrors().peaks.has_calendar(row, self.facts())
    }

    /// What batch holds of a kind on the machine in a row, this view's claims included; nothing is counted as long as
    /// there is no calendar of peaks.
    #[must_use]
    pub fn batch_allocated(&self, row: usize, kind: KindId) -> i64 {
        self.mirrors().peaks.held_of(row, kind)
    }
}

impl Block<'_> {
    /// Of the machines in `among`, those where batch would hold more than its share with one task more of a job
    /// that needs so much.
    #[must_use]
    pub fn over_peak(&self, job: &Job, need: &Need, among: u64) -> u64 {
        match self.view().holds_back(job) {
            true => {
                let (peaks, facts) = (&self.view().mirrors().peaks, self.view().facts());
                peaks.over_peak_among((self.index(), among), (&need.request, facts))
            }
            false => 0,
        }
    }
}
