//! The calendars of peaks that there are, and what batch holds where.
//!
//! The master has them and every view its own, in the [`Facts`] that both judge by. While there is a calendar, what
//! the batch tasks of each machine hold together is kept as a sum, and of a machine on which a peak holds that sum may
//! not rise over the share. Without calendars nothing is summed, and a claim costs one look at an empty list.
//!
//! The peaks that hold are looked up when the time moves, not when a claim is judged. When one begins or is over, the
//! cell has a new version: so views hear of it, and jobs that were refused are tried again.
//!
//! Invariant: calendars are by name, ascending, no two of one name; `shares` are those of the peaks that hold at the
//! time that was last told, ascending by kind; `held` is empty if there are no calendars.

use crate::cell::{Cell, Change};
use crate::facts::Facts;
use crate::jobs::JobRecord;
use crate::sets::{SetId, SetKey};
use crate::validate;
use omega_core::limits::PEAK_CALENDARS_MAX;
use omega_core::{
    JobKind, KindId, KindShare, MachineId, Outcome, Peak, PeakCalendar, Rejection, TaskId, Text,
};

/// How long before a peak begins or is over the cell should hear the time often.
const SOON_MS: u32 = 30_000;

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peaks {
    calendars: Vec<(PeakCalendar, SetId)>,
    shares: Vec<(SetId, KindShare)>,
    /// What batch holds of each kind, machine by machine.
    held: Vec<i64>,
    kinds: usize,
}

impl Peaks {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.calendars.is_empty()
    }

    /// Whether a peak holds.
    #[inline]
    pub(crate) fn any_holds(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Every calendar, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.calendars.iter().map(|(calendar, _)| calendar)
    }

    fn each_peak(&self) -> impl Iterator<Item = &Peak> {
        self.iter().flat_map(|calendar| &calendar.peaks)
    }

    /// Whether a peak begins or is over soon.
    pub(crate) fn is_near_an_edge(&self, now_ms: u64) -> bool {
        self.each_peak().any(|peak| peak.changes_within(now_ms, SOON_MS))
    }

    /// Whether other peaks hold at one time than at another.
    pub(crate) fn change_between(&self, one_ms: u64, other_ms: u64) -> bool {
        self.each_peak().any(|peak| peak.holds(one_ms) != peak.holds(other_ms))
    }

    /// Looks up which peaks hold now.
    pub(crate) fn tell_time(&mut self, now_ms: u64) {
        self.shares.clear();
        for (calendar, machines) in &self.calendars {
            let peaks = calendar.peaks.iter().filter(|peak| peak.holds(now_ms));
            let shares = peaks.flat_map(|peak| &peak.batch_max);
            self.shares.extend(shares.map(|share| (*machines, *share)));
        }
        self.shares.sort_by_key(|(_, share)| share.kind);
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.calendars.binary_search_by(|(known, _)| (*known.name).cmp(name))
    }

    /// What batch holds of each kind on the machine in a row; nothing of it is kept if it is nothing.
    pub(crate) fn held(&self, row: usize) -> &[i64] {
        self.held.get(row * self.kinds..).and_then(|held| held.get(..self.kinds)).unwrap_or(&[])
    }

    pub(crate) fn held_of(&self, row: usize, kind: KindId) -> i64 {
        self.held(row).get(kind.index()).copied().unwrap_or(0)
    }

    fn held_mut(&mut self, row: usize) -> &mut [i64] {
        let end = (row + 1) * self.kinds;
        if self.held.len() < end {
            self.held.resize(end, 0);
        }
        &mut self.held[row * self.kinds..end]
    }

    /// Says what batch holds on the machine in a row.
    pub(crate) fn set_held(&mut self, row: usize, held: &[i64]) {
        let known = self.held_mut(row);
        known.fill(0);
        known.iter_mut().zip(held).for_each(|(known, held)| *known = *held);
    }

    /// Says that it holds nothing there.
    pub(crate) fn clear_held(&mut self, row: usize) {
        if self.held.len() > row * self.kinds {
            self.held_mut(row).fill(0);
        }
    }

    /// Counts what a task of such a job takes of a machine, or with `sign` -1 gives back.
    #[inline]
    pub(crate) fn count(&mut self, row: usize, (kind, amounts): (JobKind, &[i64]), sign: i64) {
        if !self.calendars.is_empty() && kind == JobKind::Batch {
            let held = self.held_mut(row).iter_mut();
            held.zip(amounts).for_each(|(held, amount)| *held += sign * amount);
        }
    }
}

impl Facts {
    /// Adds a calendar, or puts it in the place of the one of its name.
    fn set_peaks(&mut self, calendar: PeakCalendar) {
        self.remove_peaks(&calendar.name);
        let Err(at) = self.peaks.place(&calendar.name) else { return };
        let key = SetKey::Match(vec![calendar.machines.clone()]);
        let machines = self.sets.acquire(key, &self.machines);
        self.peaks.calendars.insert(at, (calendar, machines));
    }

    fn remove_peaks(&mut self, name: &str) {
        let Ok(at) = self.peaks.place(name) else { return };
        let (_, machines) = self.peaks.calendars.remove(at);
        self.sets.release(machines);
    }

    /// Makes these the calendars that there are, in a cell of so many kinds; that batch holds something is to be
    /// said anew.
    pub(crate) fn set_all_peaks(&mut self, calendars: &[PeakCalendar], kinds: usize) {
        for (_, machines) in std::mem::take(&mut self.peaks).calendars {
            self.sets.release(machines);
        }
        self.peaks.kinds = kinds;
        calendars.iter().for_each(|calendar| self.set_peaks(calendar.clone()));
    }

    /// The shares of the machine in a row that batch may hold now.
    pub(crate) fn shares_of(&self, row: usize) -> impl Iterator<Item = KindShare> + '_ {
        let here = move |set: SetId| self.sets.contains(set, row);
        self.peaks.shares.iter().filter(move |(set, _)| here(*set)).map(|(_, share)| *share)
    }

    /// Whether a calendar is for the machine in a row.
    pub(crate) fn has_calendar(&self, row: usize) -> bool {
        self.peaks.calendars.iter().any(|(_, machines)| self.sets.contains(*machines, row))
    }

    fn exceeds(&self, row: usize, share: KindShare, more: &[i64]) -> bool {
        let more = more.get(share.kind.index()).copied().unwrap_or(0);
        // A kind that is not asked for does not count, even where batch holds too much of it.
        more > 0 && self.peaks.held_of(row, share.kind) + more > self.share(row, share)
    }

    /// How much of the machine in a row a share is.
    pub(crate) fn share(&self, row: usize, share: KindShare) -> i64 {
        let machine = self.machines.get(row).and_then(Option::as_ref);
        machine.map_or(0, |machine| share.of(machine.capacity.get(share.kind)) as i64)
    }

    /// The first kind of which batch would hold more than its share of the machine in a row, if a task of such a job
    /// took so much more there.
    #[inline]
    pub(crate) fn over_peak(&self, row: usize, (kind, more): (JobKind, &[i64])) -> Option<KindId> {
        if !self.peaks.any_holds() || kind != JobKind::Batch {
            return None;
        }
        self.shares_of(row).find(|share| self.exceeds(row, *share, more)).map(|share| share.kind)
    }

    /// Of the machines `64 * word ..` in `among`, those where batch would hold more than its share, if a task took
    /// so much more there.
    pub(crate) fn over_peak_among(&self, (word, among): (usize, u64), more: &[i64]) -> u64 {
        let mut over = 0;
        for (machines, share) in &self.peaks.shares {
            let mut left = self.sets.word(*machines, word) & among & !over;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                over |= u64::from(self.exceeds(word * 64 + lane, *share, more)) << lane;
            }
        }
        over
    }

    /// Of which kinds batch holds more than its share of the machine in a row.
    pub(crate) fn excess(&self, row: usize) -> impl Iterator<Item = (KindId, i64)> + '_ {
        let excess = move |share: KindShare| {
            let over = self.peaks.held_of(row, share.kind) - self.share(row, share);
            (over > 0).then_some((share.kind, over))
        };
        self.shares_of(row).filter_map(excess)
    }

    /// The peak that holds on the machine in a row and bounds a kind, and is over last, with its calendar's name.
    pub(crate) fn peak_on(&self, row: usize, kind: KindId, now_ms: u64) -> Option<(&Text, u64)> {
        let here = self.peaks.calendars.iter().filter(|(_, set)| self.sets.contains(*set, row));
        let bounds = |peak: &&Peak| peak.batch_max.iter().any(|share| share.kind == kind);
        let ends = here.flat_map(|(calendar, _)| {
            let peaks = calendar.peaks.iter().filter(bounds);
            peaks.filter_map(|peak| Some((&calendar.name, peak.ends_ms(now_ms)?)))
        });
        ends.max_by_key(|(_, ends)| *ends)
    }
}

/// How often batch stepped back on machines of which it held more than its share, and grew on machines of a calendar,
/// since this process has the cell. It is no part of its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakCounts {
    /// Tasks that came to hold less.
    pub throttled: u64,
    /// Tasks that were released or evicted.
    pub released: u64,
    /// Tasks that came to hold more.
    pub grown: u64,
}

impl Cell {
    /// How often batch stepped back for peaks, and grew again, since this process has the cell.
    #[must_use]
    pub fn peak_counts(&self) -> PeakCounts {
        self.peak_counts
    }

    /// Whether a task is batch on a machine of which batch holds more than its share now.
    pub(crate) fn is_over_its_share(&self, task: TaskId) -> bool {
        let row = || {
            let (job, record) = self.jobs.task(task)?;
            let row = record.state.machine()?.row();
            (job.spec.kind == JobKind::Batch).then_some(row)
        };
        self.facts.peaks.any_holds()
            && row().is_some_and(|row| self.facts.excess(row).next().is_some())
    }

    /// Counts what a transaction did, once it is taken.
    pub(crate) fn count_peaks(&mut self, more: PeakCounts) {
        self.peak_counts.throttled += more.throttled;
        self.peak_counts.released += more.released;
        self.peak_counts.grown += more.grown;
    }

    /// Every calendar of peaks, by name.
    pub fn peak_calendars(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.facts.peaks.iter()
    }

    /// What the batch tasks of a machine hold together of a kind. It is counted only while there is a calendar of
    /// peaks, and of a task whose demand varies over the day the highest point is.
    #[must_use]
    pub fn batch_allocated(&self, machine: MachineId, kind: KindId) -> i64 {
        let known = self.machines.get(machine);
        known.map_or(0, |_| self.facts.peaks.held_of(machine.row(), kind))
    }

    /// On how many machines batch holds more than its share at this time of day.
    #[must_use]
    pub fn machines_over_peak(&self) -> usize {
        if !self.facts.peaks.any_holds() {
            return 0;
        }
        self.facts.sets.present().filter(|row| self.facts.excess(*row).next().is_some()).count()
    }

    pub(crate) fn set_peaks(&mut self, calendar: PeakCalendar) -> Result<Outcome, Rejection> {
        validate::peaks(&calendar, &self.kinds)?;
        let place = self.facts.peaks.place(&calendar.name);
        if place.is_ok_and(|at| self.facts.peaks.calendars[at].0 == calendar) {
            return Ok(Outcome::Done(self.version));
        }
        let count = self.facts.peaks.calendars.len() + 1;
        if place.is_err() && count > PEAK_CALENDARS_MAX {
            return Err(validate::too_many("calendars of peaks", count, PEAK_CALENDARS_MAX));
        }
        let others = self.peak_calendars().filter(|other| other.name != calendar.name);
        validate::all_peaks(others.chain([&calendar]))?;
        let version = self.begin();
        self.change_peaks(|facts| facts.set_peaks(calendar));
        self.log.push(Change::Peaks);
        Ok(Outcome::Done(version))
    }

    pub(crate) fn remove_peaks(&mut self, name: &Text) -> Result<Outcome, Rejection> {
        if self.facts.peaks.place(name).is_err() {
            return Err(Rejection::UnknownPeaks(name.clone()));
        }
        let version = self.begin();
        self.change_peaks(|facts| facts.remove_peaks(name));
        self.log.push(Change::Peaks);
        Ok(Outcome::Done(version))
    }

    /// Changes the calendars. With the first one, what batch holds begins to be counted, and ends with the last.
    pub(crate) fn change_peaks(&mut self, change: impl FnOnce(&mut Facts)) {
        let before = self.facts.peaks.is_empty();
        self.facts.peaks.kinds = self.kinds.count();
        change(&mut self.facts);
        self.facts.peaks.tell_time(self.now_ms);
        match (before, self.facts.peaks.is_empty()) {
            (true, false) => self.facts.peaks.held = self.count_batch(),
            (_, true) => self.facts.peaks.held = Vec::new(),
            (false, false) => {}
        }
    }

    /// What batch holds of each kind, machine by machine, counted anew.
    pub(crate) fn count_batch(&self) -> Vec<i64> {
        let kinds = self.kinds.count();
        let mut held = vec![0; self.machines.row_count() * kinds];
        let is_batch = |job: &&JobRecord| job.spec.kind == JobKind::Batch;
        for (_, job) in self.jobs.iter().filter(|(_, job)| is_batch(job)) {
            for (task, index) in job.tasks.iter().zip(0..) {
                let Some(machine) = task.state.machine() else { continue };
                let row = &mut held[machine.row() * kinds..][..kinds];
                let part = job.part(index);
                row.iter_mut().zip(part.request).for_each(|(held, amount)| *held += amount);
            }
        }
        held
    }

    /// Whether what is kept of what batch holds is what a recount says.
    pub(crate) fn batch_is_right(&self) -> bool {
        let peaks = &self.facts.peaks;
        if peaks.is_empty() {
            return peaks.held.is_empty();
        }
        let recount = self.count_batch();
        let rows = recount.len().max(peaks.held.len());
        let at = |held: &[i64], i: usize| held.get(i).copied().unwrap_or(0);
        (0..rows).all(|i| at(&recount, i) == at(&peaks.held, i))
    }
}
