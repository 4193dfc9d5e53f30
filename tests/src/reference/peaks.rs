//! Peak hours: a list of calendars, which is evaluated for each task and machine.

use super::{Reference, validate};
use omega_core::{
    Amounts, JobKind, KindId, Outcome, Peak, PeakCalendar, Reason, Rejection, TaskId, Text,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

impl Reference {
    pub(super) fn set_peaks(&mut self, asked: PeakCalendar) -> Result<Outcome, Rejection> {
        validate::peaks(&asked, &self.kinds)?;
        if self.peaks.get(&asked.name) == Some(&asked) {
            return Ok(Outcome::Done(self.version));
        }
        if self.peaks.len() >= 64 && !self.peaks.contains_key(&asked.name) {
            return Err(Rejection::TooMany { what: "".into(), given: 65, max: 64 });
        }
        self.peaks.insert(asked.name.clone(), asked);
        Ok(self.done())
    }

    pub(super) fn remove_peaks(&mut self, name: &Text) -> Result<Outcome, Rejection> {
        match self.peaks.remove(name) {
            Some(_) => Ok(self.done()),
            None => Err(Rejection::UnknownPeaks(name.clone())),
        }
    }

    /// All calendars, by name.
    #[must_use]
    pub fn peak_calendars(&self) -> Vec<&PeakCalendar> {
        self.peaks.values().collect()
    }

    /// The peaks that are active at a time, by calendar and position.
    pub(super) fn peaks_at(&self, now_ms: u64) -> Vec<(&Text, usize)> {
        let mut all = Vec::new();
        for (name, calendar) in &self.peaks {
            let held = calendar.peaks.iter().enumerate().filter(|(_, peak)| holds(peak, now_ms));
            all.extend(held.map(|(at, _)| (name, at)));
        }
        all
    }

    /// Allocation of the batch tasks of a machine.
    #[must_use]
    pub fn batch_allocated(&self, row: usize, kind: KindId) -> i128 {
        let batch = self.placed().filter(|(_, job, _, at)| *at == row && is_batch(job));
        batch.map(|(_, job, task, _)| i128::from(job.allocation(task).get(kind))).sum()
    }

    /// Present limit for batch tasks; `None` if there is none.
    #[must_use]
    pub fn batch_max(&self, row: usize, kind: KindId) -> Option<i128> {
        let host = self.rows[row].machine.as_ref()?;
        let here = self.peaks.values().filter(|calendar| calendar.machines.matches(&host.spec));
        let peaks = here.flat_map(|calendar| &calendar.peaks).filter(|p| holds(p, self.now_ms));
        let shares = peaks.flat_map(|peak| &peak.batch_max).filter(|share| share.kind == kind);
        let capacity = i128::from(host.spec.capacity.get(kind));
        shares.map(|share| capacity * i128::from(share.percent) / 100).min()
    }

    /// Whether peak hours now exclude a task with these additional amounts from a machine.
    pub(super) fn check_peaks(
        &self,
        id: omega_core::JobId,
        row: usize,
        more: &[(KindId, i128)],
    ) -> Result<(), Reason> {
        if !is_batch(&self.jobs[&id]) {
            return Ok(());
        }
        for (kind, more) in more.iter().filter(|(_, more)| *more > 0) {
            if let Some(most) = self.batch_max(row, *kind)
                && self.batch_allocated(row, *kind) + more > most
            {
                return Err(Reason::PeakHours(*kind));
            }
        }
        Ok(())
    }

    /// Kinds in which a task's allocation would grow, in ascending order, each with its growth.
    pub(super) fn growth(&self, task: TaskId, to: &Amounts) -> Vec<(KindId, i128)> {
        let held = self.task(task).map(|(job, task)| job.allocation(task)).unwrap_or_default();
        let kinds = (0..self.kinds.count() as u8).map(KindId);
        let more = |kind| (kind, i128::from(to.get(kind)) - i128::from(held.get(kind)));
        kinds.map(more).filter(|(_, more)| *more > 0).collect()
    }
}

fn is_batch(job: &super::ReferenceJob) -> bool {
    job.spec.kind == JobKind::Batch
}

/// Whether a peak is active. It may have begun today or yesterday, so both days are checked.
fn holds(peak: &Peak, now_ms: u64) -> bool {
    let (from, until) = (u64::from(peak.from_ms), u64::from(peak.until_ms));
    let until = if until < from { until + DAY_MS } else { until };
    let today = now_ms % DAY_MS;
    [today, today + DAY_MS].into_iter().any(|at| from <= at && at < until)
}
