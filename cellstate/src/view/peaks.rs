//! What a view knows of peaks: the calendars and what batch holds where, and so it judges as the cell does at its
//! time.
//!
//! Its own claims of batch tasks are in the sums, as they are off the amounts.

use super::{Block, View};
use crate::delta::Delta;
use crate::facts::Need;
use omega_core::{Job, JobKind, KindId, PeakCalendar, Text};

impl View {
    /// Every calendar of peaks, by name.
    pub fn peak_calendars(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.facts.peaks.iter()
    }

    /// Whether a peak holds back the tasks of a job, on some machine if any.
    #[must_use]
    pub fn holds_back(&self, job: &Job) -> bool {
        self.facts.peaks.any_holds() && job.kind == JobKind::Batch
    }

    /// The first kind of which batch would hold more than its share of the machine in a row now, with one task more
    /// that needs so much; with the name of the calendar that says so, and when its peak is over.
    #[must_use]
    pub fn peak_over(&self, row: usize, job: &Job, need: &Need) -> Option<(KindId, &Text, u64)> {
        let kind = self.facts.over_peak(row, (job.kind, &need.request))?;
        let (name, ends_ms) = self.facts.peak_on(row, kind, self.now_ms)?;
        Some((kind, name, ends_ms))
    }

    /// How much more of a kind batch may hold on the machine in a row now; below zero where it holds too much, `None`
    /// where no peak bounds it.
    #[must_use]
    pub fn batch_room(&self, row: usize, kind: KindId) -> Option<i64> {
        let shares = self.facts.shares_of(row).filter(|share| share.kind == kind);
        let most = shares.map(|share| self.facts.share(row, share)).min()?;
        Some(most - self.batch_allocated(row, kind))
    }

    /// Whether a peak holds on the machine in a row.
    #[must_use]
    pub fn is_peak_on(&self, row: usize) -> bool {
        self.facts.peaks.any_holds() && self.facts.shares_of(row).next().is_some()
    }

    /// Whether a calendar is for the machine in a row.
    #[must_use]
    pub fn has_peaks(&self, row: usize) -> bool {
        self.facts.has_calendar(row)
    }

    /// What batch holds of a kind on the machine in a row, this view's claims included; nothing is counted as long as
    /// there is no calendar of peaks.
    #[must_use]
    pub fn batch_allocated(&self, row: usize, kind: KindId) -> i64 {
        self.facts.peaks.held_of(row, kind)
    }

    /// Takes in the calendars that there are now, and what batch holds.
    pub(super) fn apply_peaks(&mut self, delta: &Delta) {
        if let Some(calendars) = &delta.peaks {
            self.facts.set_all_peaks(calendars, self.columns.kinds());
            // What was remembered of any machine may not hold any more.
            (0..self.rows()).for_each(|row| self.columns.touch(row));
        }
        let peaks = &mut self.facts.peaks;
        if peaks.is_empty() {
            return;
        }
        peaks.tell_time(self.now_ms);
        delta.slots.iter().for_each(|slot| peaks.clear_held(*slot as usize));
        delta.batch.iter().for_each(|(slot, held)| peaks.set_held(*slot as usize, held));
    }
}

impl Block<'_> {
    /// Of the machines in `among`, those where batch would hold more than its share with one task more of a job
    /// that needs so much.
    #[must_use]
    pub fn over_peak(&self, job: &Job, need: &Need, among: u64) -> u64 {
        match self.view().holds_back(job) {
            true => self.view().facts.over_peak_among((self.index(), among), &need.request),
            false => 0,
        }
    }
}
