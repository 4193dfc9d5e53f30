//! The capture: a copy of the cell's state, taken while commands are applied.
//!
//! ```text
//!   begin_capture        copies sequence numbers, tenants and everything small at once
//!   capture_more         copies descriptions and loads of machines, pages of jobs, reply caches and
//!      │    ▲            the list of ended jobs, a few pieces at a time; a command between two calls
//!      │    └─────────   copies a piece before it changes the piece, unless the piece is copied already
//!      ▼
//!   Captured::into_snapshot_state the state as it was when the capture began
//! ```
//!
//! The cell is behind one lock, and copying a large cell takes a second. So the lock is held only while a few pieces
//! are copied. While no capture runs, each change costs one branch that is never taken.

use super::SnapshotState;
use crate::fit::MachineStatus;
use crate::index::machine_index::MachineIndex;
use crate::state::ended_jobs::EndedJobs;
use crate::state::job_record::JobSnapshot;
use crate::state::machines::Machines;
use crate::state::registered::Registered;

/// A running capture, with everything that was copied so far. Only the jobs are elsewhere, in `Jobs`.
#[derive(Clone, Debug)]
pub struct Capture {
    pub(super) snapshot: SnapshotState,
    /// All rows below this one are copied. Of the later rows, those with a description in `snapshot` are copied.
    pub(super) next_row: usize,
    /// The reply caches of all schedulers below this position are copied.
    pub(super) next_scheduler: usize,
    /// Whether the reply cache is copied, for each scheduler.
    pub(super) has_reply_cache: Vec<bool>,
    pub(super) ended: EndedCopy,
}

/// Progress of copying the list of ended jobs, in positions of the list when the capture began.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedCopy {
    /// Length of the list when the capture began.
    pub(super) total: usize,
    /// Number of positions whose end time was already recorded when the capture began. The end times of the others
    /// were recorded later.
    pub(super) noticed: usize,
    /// Number of positions that are copied. Those of deleted jobs are skipped.
    pub(super) copied: usize,
    /// Number of positions that were forgotten since the capture began.
    pub(super) dropped: usize,
}

/// Number of machine rows per piece. This number of rows takes as long as a page of jobs, because each row increments a
/// reference counter in distant memory.
const ROWS_PIECE: usize = 512;

/// Number of ended jobs per piece. This number takes as long as a page of jobs.
pub(super) const ENDED_PIECE: usize = 1024;

impl Capture {
    /// Copies the description and load of the machine in a row, unless they are copied already or the row did not exist
    /// when the capture began.
    pub(super) fn save_row(
        &mut self,
        slot: usize,
        machines: &Machines,
        machine_index: &MachineIndex,
    ) {
        let Some(row) = self.snapshot.machines.get_mut(slot) else { return };
        if row.status == MachineStatus::Absent || row.machine.is_some() {
            return;
        }
        row.machine = machine_index.machines[slot].clone();
        if machines.has_loads()
            && let Some(load) = machines.load(slot)
        {
            self.snapshot.loads.push((slot as u32, load.clone()));
        }
    }

    /// Copies the next rows. Returns `false` if no row was left.
    pub(super) fn save_rows(&mut self, machines: &Machines, machine_index: &MachineIndex) -> bool {
        let from = self.next_row;
        self.next_row = self.snapshot.machines.len().min(from + ROWS_PIECE);
        (from..self.next_row).for_each(|slot| self.save_row(slot, machines, machine_index));
        from < self.next_row
    }

    /// Copies up to `count` more ended jobs. Returns `false` if no job was left.
    pub(super) fn save_ended(&mut self, ended: &EndedJobs, count: usize) -> bool {
        let EndedCopy { total, noticed, copied, dropped } = self.ended;
        let count = count.min(total - copied);
        if count == 0 {
            return false;
        }
        let end = copied + count;
        let next = ended.entries_from(copied - dropped).map(|(at, job)| (at + dropped, job));
        let next = next.take_while(|(position, _)| *position < end);
        self.snapshot.ended.extend(next.map(|(position, (id, at))| {
            // Times recorded after the capture began are left out.
            (*id, at.filter(|_| position < noticed))
        }));
        self.ended.copied = end;
        true
    }

    /// Copies the oldest `count` ended jobs, which will be forgotten next.
    pub fn before_forgetting(&mut self, ended: &EndedJobs, count: usize) {
        let EndedCopy { total, copied, dropped, .. } = self.ended;
        if copied < total {
            self.save_ended(ended, count.saturating_sub(copied - dropped));
            self.ended.dropped += count;
        }
    }

    /// Copies all ended jobs before one of them is deleted. Deletions are rare, because only people request them.
    pub fn before_deletion(&mut self, ended: &EndedJobs) {
        while self.save_ended(ended, ENDED_PIECE) {}
    }

    /// Copies the reply cache of a scheduler, unless it is copied already or the scheduler registered after the capture
    /// began.
    pub fn save_reply_caches(&mut self, index: usize, scheduler: &Registered) -> bool {
        let new = self.has_reply_cache.get(index) == Some(&false);
        if new {
            self.has_reply_cache[index] = true;
            if !crate::injected!(ReplyCachesNotInSnapshot) {
                self.snapshot.schedulers[index]
                    .reply_cache
                    .extend(scheduler.reply_cache.iter().cloned());
            }
        }
        new
    }
}

/// A complete capture in pieces. [`Captured::into_snapshot_state`] joins the pieces, and does not need a locked cell.
#[derive(Clone, Debug)]
pub struct Captured {
    pub(super) snapshot: SnapshotState,
    pub(super) pages: Vec<Vec<JobSnapshot>>,
}

impl Captured {
    /// Joins the pieces into the cell's state when the capture began.
    #[must_use]
    pub fn into_snapshot_state(self) -> SnapshotState {
        let Captured { mut snapshot, pages } = self;
        snapshot.jobs.reserve_exact(pages.iter().map(Vec::len).sum());
        snapshot.jobs.extend(pages.into_iter().flatten());
        snapshot.loads.sort_unstable_by_key(|(slot, _)| *slot);
        snapshot
    }
}
