//! Peak hours: calendars of hours in which batch tasks may have only a share of a machine, and the sums of batch
//! allocations.
//!
//! The cell and each view have the calendars and use one check. While there is a calendar, the allocations of the batch
//! tasks on each machine are summed. During a peak, claims that would raise this sum above the share are rejected.
//! Without calendars nothing is summed, and a claim costs one test of an empty list.
//!
//! The active peaks are determined when the cell's time changes, not at each claim. When a peak begins or ends, the
//! cell starts a new version. So views are updated, and schedulers retry rejected jobs.
//!
//! Invariant: calendars ascend by unique name. `shares` has the shares of the peaks active at the cell's time,
//! ascending by kind. `held` is empty if there are no calendars.

mod in_cell;
mod view;

use super::{Applying, Columns, Context, Ledger, Mirror, Placement, Policy, Restoring, RowsAgain};
use crate::audit_error::AuditError;
use crate::commands::validate;
use crate::index::machine_index::MachineIndex;
use crate::index::sets::{Lanes, SetId, SetKey};
use crate::snapshot::{SnapshotState, SnapshotStateError};
use omega_core::limits::PEAK_CALENDARS_MAX;
use omega_core::{Job, JobKind, KindId, KindShare, Peak, PeakCalendar, Reason, TaskGroup, Text};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// The time before the start or end of a peak during which the cell should receive `Expire` often.
const SOON_MS: u32 = 30_000;

/// The policy of peak hours. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Peaks {
    calendars: Vec<(PeakCalendar, SetId)>,
    shares: Vec<(SetId, KindShare)>,
    /// Sums of batch allocations by row: all kinds of the first row, then all kinds of the second, and so on.
    batch: Vec<i64>,
    kinds: usize,
    /// Counts for metrics, which are not part of the cell's state.
    counts: PeakCounts,
}

impl Peaks {
    #[inline]
    fn is_empty(&self) -> bool {
        self.calendars.is_empty()
    }

    /// Whether a peak is active.
    #[inline]
    fn any_is_active(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Every calendar, by name.
    fn iter(&self) -> impl Iterator<Item = &PeakCalendar> {
        self.calendars.iter().map(|(calendar, _)| calendar)
    }

    fn each_peak(&self) -> impl Iterator<Item = &Peak> {
        self.iter().flat_map(|calendar| &calendar.peaks)
    }

    /// Determines the peaks that are active at a time.
    fn set_time(&mut self, now_ms: u64) {
        self.shares.clear();
        for (calendar, machines) in &self.calendars {
            let peaks = calendar.peaks.iter().filter(|peak| peak.is_active(now_ms));
            let shares = peaks.flat_map(|peak| &peak.batch_max);
            self.shares.extend(shares.map(|share| (*machines, *share)));
        }
        self.shares.sort_by_key(|(_, share)| share.kind);
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.calendars.binary_search_by(|(known, _)| (*known.name).cmp(name))
    }

    /// The batch allocations of each kind on the machine in a row; empty if there are none.
    fn batch_on(&self, row: usize) -> &[i64] {
        self.batch
            .get(row * self.kinds..)
            .and_then(|allocated| allocated.get(..self.kinds))
            .unwrap_or(&[])
    }

    fn batch_of(&self, row: usize, kind: KindId) -> i64 {
        self.batch_on(row).get(kind.index()).copied().unwrap_or(0)
    }

    fn batch_mut(&mut self, row: usize) -> &mut [i64] {
        let end = (row + 1) * self.kinds;
        if self.batch.len() < end {
            self.batch.resize(end, 0);
        }
        &mut self.batch[row * self.kinds..end]
    }

    /// Sets the batch allocations on the machine in a row.
    fn set_batch(&mut self, row: usize, allocated: &[i64]) {
        let known = self.batch_mut(row);
        known.fill(0);
        known.iter_mut().zip(allocated).for_each(|(known, allocated)| *known = *allocated);
    }

    /// Clears the batch allocations on the machine in a row.
    fn clear_batch(&mut self, row: usize) {
        if self.batch.len() > row * self.kinds {
            self.batch_mut(row).fill(0);
        }
    }
}

impl Peaks {
    /// Adds a calendar, or replaces the calendar with an equal name.
    fn set(&mut self, calendar: PeakCalendar, machine_index: &mut MachineIndex) {
        self.remove(&calendar.name, machine_index);
        let Err(at) = self.place(&calendar.name) else { return };
        let key = SetKey::Match(vec![calendar.machines.clone()]);
        let machines = machine_index.sets.acquire(key, &machine_index.machines);
        self.calendars.insert(at, (calendar, machines));
    }

    fn remove(&mut self, name: &str, machine_index: &mut MachineIndex) {
        let Ok(at) = self.place(name) else { return };
        let (_, machines) = self.calendars.remove(at);
        machine_index.sets.release(machines);
    }

    /// Replaces all calendars, in a cell with `kinds` kinds. The caller must set the batch allocations afterwards.
    fn set_all(
        &mut self,
        calendars: &[PeakCalendar],
        machine_index: &mut MachineIndex,
        kinds: usize,
    ) {
        for (_, machines) in std::mem::take(self).calendars {
            machine_index.sets.release(machines);
        }
        self.kinds = kinds;
        calendars.iter().for_each(|calendar| self.set(calendar.clone(), machine_index));
    }

    /// The shares of batch tasks that active peaks set for the machine in a row.
    fn shares_of<'a>(
        &'a self,
        row: usize,
        machine_index: &'a MachineIndex,
    ) -> impl Iterator<Item = KindShare> + 'a {
        let here = move |set: SetId| machine_index.sets.contains(set, row);
        self.shares.iter().filter(move |(set, _)| here(*set)).map(|(_, share)| *share)
    }

    /// Whether a calendar covers the machine in a row.
    fn has_calendar(&self, row: usize, machine_index: &MachineIndex) -> bool {
        self.calendars.iter().any(|(_, machines)| machine_index.sets.contains(*machines, row))
    }

    fn exceeds(
        &self,
        row: usize,
        share: KindShare,
        more: &[i64],
        machine_index: &MachineIndex,
    ) -> bool {
        let more = more.get(share.kind.index()).copied().unwrap_or(0);
        // A kind that is not requested always fits, even if batch tasks exceed their share of it.
        more > 0 && self.batch_of(row, share.kind) + more > share_of(row, share, machine_index)
    }

    /// The first kind of which batch tasks would exceed their share of a row's machine if `more` were added to their
    /// allocations. `None` if there is no such kind, or if the job is not a batch job.
    #[inline]
    fn over_peak(
        &self,
        row: usize,
        kind: JobKind,
        more: &[i64],
        machine_index: &MachineIndex,
    ) -> Option<KindId> {
        if !self.any_is_active() || kind != JobKind::Batch {
            return None;
        }
        let mut shares = self.shares_of(row, machine_index);
        shares.find(|share| self.exceeds(row, *share, more, machine_index)).map(|share| share.kind)
    }

    /// The machines among `lanes` on which batch tasks would exceed their share if `more` were added to their
    /// allocations.
    fn over_peak_among(&self, lanes: Lanes, more: &[i64], machine_index: &MachineIndex) -> u64 {
        let Lanes { block, among } = lanes;
        let mut over = 0;
        for (machines, share) in &self.shares {
            let mut left = machine_index.sets.word(*machines, block) & among & !over;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                let exceeds = self.exceeds(block * 64 + lane, *share, more, machine_index);
                over |= u64::from(exceeds) << lane;
            }
        }
        over
    }

    /// The kinds of which batch tasks have more than their share of the machine in a row, each with the excess amount.
    fn excess<'a>(
        &'a self,
        row: usize,
        machine_index: &'a MachineIndex,
    ) -> impl Iterator<Item = (KindId, i64)> + 'a {
        let excess = move |share: KindShare| {
            let over = self.batch_of(row, share.kind) - share_of(row, share, machine_index);
            (over > 0).then_some((share.kind, over))
        };
        self.shares_of(row, machine_index).filter_map(excess)
    }

    /// Whether batch tasks exceed their share of the machine in a row now.
    fn is_over_its_share(&self, row: usize, machine_index: &MachineIndex) -> bool {
        self.any_is_active() && self.excess(row, machine_index).next().is_some()
    }

    /// The active peak that bounds a kind on the machine in a row: the name of its calendar, and the time of its end.
    /// If there are several, the peak that ends last.
    fn peak_on(
        &self,
        row: usize,
        kind: KindId,
        now_ms: u64,
        machine_index: &MachineIndex,
    ) -> Option<(&Text, u64)> {
        let here = self.calendars.iter().filter(|(_, set)| machine_index.sets.contains(*set, row));
        let bounds = |peak: &&Peak| peak.batch_max.iter().any(|share| share.kind == kind);
        let ends = here.flat_map(|(calendar, _)| {
            let peaks = calendar.peaks.iter().filter(bounds);
            peaks.filter_map(|peak| Some((&calendar.name, peak.ends_ms(now_ms)?)))
        });
        ends.max_by_key(|(_, ends)| *ends)
    }
}

/// An active peak that keeps batch tasks off a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakLimit<'a> {
    /// The first kind of which batch tasks would exceed their share.
    pub kind: KindId,
    /// Name of the calendar.
    pub calendar: &'a Text,
    /// End of the peak.
    pub ends_ms: u64,
}

/// A share of the machine in a row as an amount; 0 if the row is empty.
fn share_of(row: usize, share: KindShare, machine_index: &MachineIndex) -> i64 {
    let machine = machine_index.machines.get(row).and_then(Option::as_ref);
    machine.map_or(0, |machine| share.of(machine.capacity.get(share.kind)) as i64)
}

impl Ledger for Peaks {
    #[inline]
    fn is_checking(&self, _: &MachineIndex) -> bool {
        self.any_is_active()
    }

    #[inline]
    fn is_counting(&self) -> bool {
        !self.is_empty()
    }

    fn admit(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        let over = self.over_peak(at.row, at.job.kind, at.request, context.machine_index);
        over.map_or(Ok(()), |kind| Err(Reason::PeakHours(kind)))
    }

    fn count(&mut self, at: &Placement<'_>, sign: i64) {
        let allocated = self.batch_mut(at.row).iter_mut();
        allocated.zip(at.request).for_each(|(allocated, amount)| *allocated += sign * amount);
    }
}

impl Policy for Peaks {
    type Columns = PeakColumns;
    type Mirror = Peaks;
    type Note = PeakCounts;
    const WRITES_ROWS: bool = true;

    fn concerns(job: &Job, _: &TaskGroup) -> bool {
        job.kind == JobKind::Batch
    }

    fn admit_resize(&self, by: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        self.admit(by, context)
    }

    fn resize(&mut self, by: &Placement<'_>) {
        self.count(by, 1);
    }

    fn note_resize(&self, by: &Placement<'_>, machine_index: &MachineIndex, note: &mut PeakCounts) {
        let shrinks = by.request.iter().any(|more| *more < 0);
        let grows = by.request.iter().any(|more| *more > 0);
        note.throttled += u64::from(shrinks && self.is_over_its_share(by.row, machine_index));
        note.restored += u64::from(grows && self.has_calendar(by.row, machine_index));
    }

    fn note_removal(
        &self,
        at: &Placement<'_>,
        machine_index: &MachineIndex,
        note: &mut PeakCounts,
    ) {
        note.released += u64::from(self.is_over_its_share(at.row, machine_index));
    }

    fn write_row(&self, slot: u32, columns: &mut PeakColumns) {
        let allocated = self.batch_on(slot as usize);
        if allocated.iter().any(|allocated| *allocated != 0) {
            columns.batch.push((slot, SmallVec::from_slice(allocated)));
        }
    }

    /// Writes the calendars, and the batch allocations of all rows. Does nothing if an earlier log entry has already
    /// written them to the delta.
    fn write_change(&self, columns: &mut PeakColumns, rows: usize) {
        if columns.calendars.is_some() {
            return;
        }
        columns.calendars = Some(self.iter().cloned().collect());
        columns.batch.clear();
        if self.is_counting() {
            (0..rows as u32).for_each(|slot| self.write_row(slot, columns));
        }
    }

    fn write_whole(&self, columns: &mut PeakColumns) {
        if self.is_counting() {
            columns.calendars = Some(self.iter().cloned().collect());
        }
    }

    fn is_near_an_edge(&self, now_ms: u64) -> bool {
        self.each_peak().any(|peak| peak.changes_within(now_ms, SOON_MS))
    }

    fn depends_on_time(&self) -> bool {
        self.is_counting()
    }

    fn changes_between(&self, before_ms: u64, now_ms: u64) -> bool {
        self.each_peak().any(|peak| peak.is_active(before_ms) != peak.is_active(now_ms))
    }

    fn pass_time(&mut self, _: &mut MachineIndex, now_ms: u64) {
        self.set_time(now_ms);
    }

    fn capture(&self, snapshot: &mut SnapshotState) {
        snapshot.peaks = self.iter().cloned().collect();
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        let Restoring { snapshot, machine_index, kinds } = restoring;
        let list = &snapshot.peaks;
        let max = PEAK_CALENDARS_MAX as u64;
        SnapshotStateError::check_count("peak calendars", list.len() as u64, max)?;
        if let Some(pair) = list.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            return Err(SnapshotStateError::Peaks(pair[1].name.clone()));
        }
        list.iter().try_for_each(|calendar| validate::peaks(calendar, kinds))?;
        self.set_all(list, machine_index, kinds.count());
        self.set_time(snapshot.now_ms);
        Ok(())
    }

    fn hash(&self, into: &mut impl Hasher) {
        self.iter().for_each(|calendar| ("peaks", calendar).hash(into));
    }

    fn hash_snapshot(snapshot: &SnapshotState, into: &mut impl Hasher) {
        snapshot.peaks.iter().for_each(|calendar| ("peaks", calendar).hash(into));
    }

    /// Compares the batch allocations of all rows. A row beyond the end of a list has none.
    fn audit(&self, recount: &Peaks) -> Result<(), AuditError> {
        let rows = recount.batch.len().max(self.batch.len());
        let at = |allocated: &[i64], i: usize| allocated.get(i).copied().unwrap_or(0);
        let is_right = (0..rows).all(|i| at(&recount.batch, i) == at(&self.batch, i));
        let is_right = is_right && (self.is_counting() || self.batch.is_empty());
        if is_right { Ok(()) } else { Err(AuditError::Batch) }
    }

    fn uncounted(&self) -> Peaks {
        Peaks { batch: Vec::new(), ..self.clone() }
    }
}

impl Mirror<PeakColumns> for Peaks {
    fn reset(&mut self) {
        *self = Peaks::default();
    }

    fn apply(&mut self, PeakColumns { calendars, batch }: &PeakColumns, applying: Applying<'_>) {
        let Applying { slots, now_ms, machine_index, kinds, stale, .. } = applying;
        if let Some(calendars) = calendars {
            self.set_all(calendars, machine_index, kinds);
            *stale = true;
        }
        if self.is_empty() {
            return;
        }
        self.set_time(now_ms);
        slots.iter().for_each(|slot| self.clear_batch(*slot as usize));
        batch.iter().for_each(|(slot, allocated)| self.set_batch(*slot as usize, allocated));
    }
}

/// The columns of peak hours in a delta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeakColumns {
    /// All calendars, ordered by name. In a full delta, set if there are any. In another delta, set if a calendar or
    /// the set of active peaks has changed.
    pub calendars: Option<Vec<PeakCalendar>>,
    /// The changed rows with batch allocations, each with its amount of every kind. A changed row that is not listed
    /// has none. If `calendars` is set, all rows count as changed. Empty while there are no calendars.
    pub batch: Vec<(u32, SmallVec<[i64; 4]>)>,
}

impl Columns for PeakColumns {
    fn clear(&mut self) {
        self.calendars = None;
        self.batch.clear();
    }

    fn append(&mut self, later: &PeakColumns, again: &RowsAgain<'_>) {
        if later.calendars.is_some() {
            self.batch.clear();
            self.calendars.clone_from(&later.calendars);
        } else {
            again.forget_in(&mut self.batch);
        }
        self.batch.extend_from_slice(&later.batch);
    }
}

/// Counts of batch tasks since this process started: those that shrank or left while batch tasks exceeded their share
/// of the machine, and those that grew on a machine of a calendar. The counts are not part of the cell's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakCounts {
    /// Tasks whose allocation shrank.
    pub throttled: u64,
    /// Tasks that were released or evicted.
    pub released: u64,
    /// Tasks whose allocation grew.
    pub restored: u64,
}
