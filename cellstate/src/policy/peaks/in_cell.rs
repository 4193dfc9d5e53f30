//! Peak hours in the cell: their commands, counts and sums.

use super::{PeakCounts, Peaks};
use crate::cell::{Cell, Change};
use crate::commands::bounds::too_many;
use crate::commands::validate;
use crate::commit::Review;
use crate::index::machine_index::MachineIndex;
use crate::policy::CellPolicy;
use crate::policy::set::Listed;
use crate::state::job_record::JobRecord;
use omega_core::limits::PEAK_CALENDARS_MAX;
use omega_core::{JobKind, KindId, MachineId, Outcome, PeakCalendar, Rejection, Text};

impl CellPolicy for Peaks {
    fn settle(cell: &mut Cell, review: &Review<'_>, note: PeakCounts) {
        if !review.steps.is_empty() {
            let counts = &mut cell.policies.peaks.counts;
            counts.throttled += note.throttled;
            counts.released += note.released;
            counts.restored += note.restored;
        }
    }
}

impl Cell {
    /// Counts of batch tasks that were throttled, released or restored on machines with peak hours, since this process
    /// started.
    #[must_use]
    pub fn peak_counts(&self) -> PeakCounts {
        self.policies.peaks.counts
    }

    /// Every peak calendar, by name.
    pub fn peak_calendars(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.policies.peaks.iter()
    }

    /// The amount of a kind that is allocated to the batch tasks of a machine; 0 while there is no calendar. A task
    /// with a demand profile counts with its highest point.
    #[must_use]
    pub fn batch_allocated(&self, machine: MachineId, kind: KindId) -> i64 {
        let known = self.machines.get(machine);
        known.map_or(0, |_| self.policies.peaks.batch_of(machine.row(), kind))
    }

    /// The number of machines on which batch tasks exceed their share at present.
    #[must_use]
    pub fn machines_over_peak(&self) -> usize {
        if !self.policies.peaks.any_is_active() {
            return 0;
        }
        self.machine_index
            .sets
            .present()
            .filter(|row| self.policies.peaks.excess(*row, &self.machine_index).next().is_some())
            .count()
    }

    pub(crate) fn set_peaks(&mut self, calendar: PeakCalendar) -> Result<Outcome, Rejection> {
        validate::peaks(&calendar, &self.kinds)?;
        let place = self.policies.peaks.place(&calendar.name);
        if place.is_ok_and(|at| self.policies.peaks.calendars[at].0 == calendar) {
            return Ok(Outcome::Done(self.version));
        }
        let count = self.policies.peaks.calendars.len() + 1;
        if place.is_err() && count > PEAK_CALENDARS_MAX {
            return Err(too_many("peak calendars", count, PEAK_CALENDARS_MAX));
        }
        let others = self.peak_calendars().filter(|other| other.name != calendar.name);
        validate::all_peaks(others.chain([&calendar]))?;
        let version = self.begin();
        self.change_peaks(|peaks, machine_index| peaks.set(calendar, machine_index));
        self.log.push(Change::Policy(Peaks::BIT));
        Ok(Outcome::Done(version))
    }

    pub(crate) fn remove_peaks(&mut self, name: &Text) -> Result<Outcome, Rejection> {
        if self.policies.peaks.place(name).is_err() {
            return Err(Rejection::UnknownPeaks(name.clone()));
        }
        let version = self.begin();
        self.change_peaks(|peaks, machine_index| peaks.remove(name, machine_index));
        self.log.push(Change::Policy(Peaks::BIT));
        Ok(Outcome::Done(version))
    }

    /// Changes the calendars. Batch allocations are summed only while there is a calendar.
    fn change_peaks(&mut self, change: impl FnOnce(&mut Peaks, &mut MachineIndex)) {
        let peaks = &mut self.policies.peaks;
        let before = peaks.is_empty();
        peaks.kinds = self.kinds.count();
        change(peaks, &mut self.machine_index);
        peaks.set_time(self.now_ms);
        match (before, peaks.is_empty()) {
            (true, false) => self.policies.peaks.batch = self.count_batch(),
            (_, true) => self.policies.peaks.batch = Vec::new(),
            (false, false) => {}
        }
    }

    /// Recounts the batch allocations of each kind on each machine, in the layout of `Peaks::held`.
    fn count_batch(&self) -> Vec<i64> {
        let kinds = self.kinds.count();
        let mut allocated = vec![0; self.machines.row_count() * kinds];
        let is_batch = |job: &&JobRecord| job.spec.kind == JobKind::Batch;
        for (_, job) in self.jobs.iter().filter(|(_, job)| is_batch(job)) {
            for (task, index) in job.tasks.iter().zip(0..) {
                let Some(machine) = task.state.machine() else { continue };
                let row = &mut allocated[machine.row() * kinds..][..kinds];
                let part = job.part(index);
                row.iter_mut()
                    .zip(part.request)
                    .for_each(|(allocated, amount)| *allocated += amount);
            }
        }
        allocated
    }
}
