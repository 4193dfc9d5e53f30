//! Peak hours in a view, which uses the cell's check. The sums of batch allocations include the view's own claims.

use super::{PeakLimit, share_of};
use crate::index::need::Need;
use crate::view::{Block, View};
use omega_core::{Job, JobKind, KindId, PeakCalendar};

impl View {
    /// Every peak calendar, by name.
    pub fn peak_calendars(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.mirrors().peaks.iter()
    }

    /// Whether an active peak may at present reject tasks of a job on some machine.
    #[must_use]
    pub fn peaks_may_reject(&self, job: &Job) -> bool {
        self.mirrors().peaks.any_is_active() && job.kind == JobKind::Batch
    }

    /// Checks whether batch tasks would exceed their share of the machine in a row with one more task of this need. If
    /// so, returns the peak; otherwise `None`.
    #[must_use]
    pub fn peak_over(&self, row: usize, job: &Job, need: &Need) -> Option<PeakLimit<'_>> {
        let (peaks, machine_index) = (&self.mirrors().peaks, self.machine_index());
        let kind = peaks.over_peak(row, job.kind, &need.request, machine_index)?;
        let (calendar, ends_ms) = peaks.peak_on(row, kind, self.now_ms(), machine_index)?;
        Some(PeakLimit { kind, calendar, ends_ms })
    }

    /// The amount of a kind by which batch allocations on the machine in a row may grow now. It is negative if they
    /// exceed their share. `None` if no active peak bounds the kind.
    #[must_use]
    pub fn batch_room(&self, row: usize, kind: KindId) -> Option<i64> {
        let shares = self.mirrors().peaks.shares_of(row, self.machine_index());
        let shares = shares.filter(|share| share.kind == kind);
        let most = shares.map(|share| share_of(row, share, self.machine_index())).min()?;
        Some(most - self.batch_allocated(row, kind))
    }

    /// Whether a peak is active on the machine in a row.
    #[must_use]
    pub fn is_peak_on(&self, row: usize) -> bool {
        let peaks = &self.mirrors().peaks;
        peaks.any_is_active() && peaks.shares_of(row, self.machine_index()).next().is_some()
    }

    /// Whether a calendar covers the machine in a row.
    #[must_use]
    pub fn has_peaks(&self, row: usize) -> bool {
        self.mirrors().peaks.has_calendar(row, self.machine_index())
    }

    /// The amount of a kind that is allocated to batch tasks on the machine in a row, including this view's claims. It
    /// is 0 while there is no calendar.
    #[must_use]
    pub fn batch_allocated(&self, row: usize, kind: KindId) -> i64 {
        self.mirrors().peaks.batch_of(row, kind)
    }
}

impl Block<'_> {
    /// The machines in `among` on which batch tasks would exceed their share with one more task of this need.
    #[must_use]
    pub fn over_peak(&self, job: &Job, need: &Need, among: u64) -> u64 {
        if self.view().peaks_may_reject(job) {
            let (peaks, machine_index) =
                (&self.view().mirrors().peaks, self.view().machine_index());
            peaks.over_peak_among(self.lanes(among), &need.request, machine_index)
        } else {
            0
        }
    }
}
