//! The capture: a copy of the cell's state, taken while commands are applied.
//!
//! ```text
//!   begin_capture        copies sequence numbers, tenants and everything small at once
//!   capture_more         copies descriptions and loads of machines, pages of jobs, reply caches and
//!      │    ▲            the list of ended jobs, a few pieces at a time; a command between two calls
//!      │    └─────────   copies a piece before it changes the piece, unless the piece is copied already
//!      ▼
//!   Captured::into_image the state as it was when the capture began
//! ```
//!
//! The cell is behind one lock, and copying a large cell takes a second. So the lock is held only while a few pieces
//! are copied. While no capture runs, each change costs one branch that is never taken.

use super::{Image, JobImage, MachineImage, SchedulerImage, TenantImage};
use crate::cell::{Cell, Registered};
use crate::facts::Facts;
use crate::judge::MachineStatus;
use crate::machines::Machines;
use omega_core::{Amounts, JobId};
use std::collections::VecDeque;

/// A running capture, with everything that was copied so far. Only the jobs are elsewhere, in `Jobs`.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    image: Image,
    /// All rows below this one are copied. Of the later rows, those with a description in `image` are copied.
    next_row: usize,
    /// The reply caches of all schedulers below this position are copied.
    next_scheduler: usize,
    /// Whether the reply cache is copied, for each scheduler.
    has_answers: Vec<bool>,
    ended: EndedCopy,
}

/// Progress of copying the list of ended jobs.
#[derive(Clone, Copy, Debug)]
struct EndedCopy {
    /// Length of the list when the capture began.
    total: usize,
    /// Number of jobs in the list whose end time was already recorded when the capture began. The end times of the
    /// others were recorded later.
    noticed: usize,
    /// Number of jobs in the list that were forgotten since the capture began.
    dropped: usize,
}

/// Number of machine rows per piece. This number of rows takes as long as a page of jobs, because each row increments a
/// reference counter in distant memory.
const ROWS_PIECE: usize = 512;

/// Number of ended jobs per piece. This number takes as long as a page of jobs.
const ENDED_PIECE: usize = 1024;

impl Capture {
    /// Copies the description and load of the machine in a row, unless they are copied already or the row did not exist
    /// when the capture began.
    fn save_row(&mut self, slot: usize, machines: &Machines, facts: &Facts) {
        let Some(row) = self.image.machines.get_mut(slot) else { return };
        if row.status == MachineStatus::Absent || row.machine.is_some() {
            return;
        }
        row.machine = facts.machines[slot].clone();
        if machines.has_loads()
            && let Some(load) = machines.load(slot)
        {
            self.image.loads.push((slot as u32, load.clone()));
        }
    }

    /// Copies the next rows. Returns `false` if no row was left.
    fn save_rows(&mut self, machines: &Machines, facts: &Facts) -> bool {
        let from = self.next_row;
        self.next_row = self.image.machines.len().min(from + ROWS_PIECE);
        (from..self.next_row).for_each(|slot| self.save_row(slot, machines, facts));
        from < self.next_row
    }

    /// Copies up to `count` more ended jobs. Returns `false` if no job was left.
    fn save_ended(&mut self, ended: &VecDeque<(JobId, Option<u64>)>, count: usize) -> bool {
        let EndedCopy { total, noticed, dropped } = self.ended;
        let copied = self.image.ended.len();
        let count = count.min(total - copied);
        if count == 0 {
            return false;
        }
        let next = ended.range(copied - dropped..).take(count);
        self.image.ended.extend((copied..).zip(next).map(|(number, (id, at))| {
            // Times recorded after the capture began are left out.
            (*id, at.filter(|_| number < noticed))
        }));
        true
    }

    /// Copies the oldest `count` ended jobs, which will be forgotten next.
    pub(crate) fn before_forgetting(
        &mut self,
        ended: &VecDeque<(JobId, Option<u64>)>,
        count: usize,
    ) {
        let copied = self.image.ended.len();
        if copied < self.ended.total {
            self.save_ended(ended, count.saturating_sub(copied - self.ended.dropped));
            self.ended.dropped += count;
        }
    }

    /// Copies all ended jobs before one of them is deleted. Deletions are rare, because only people request them.
    pub(crate) fn before_deletion(&mut self, ended: &VecDeque<(JobId, Option<u64>)>) {
        while self.save_ended(ended, ENDED_PIECE) {}
    }

    /// Copies the reply cache of a scheduler, unless it is copied already or the scheduler registered after the capture
    /// began.
    pub(crate) fn save_answers(&mut self, index: usize, scheduler: &Registered) -> bool {
        let new = self.has_answers.get(index) == Some(&false);
        if new {
            self.has_answers[index] = true;
            if !crate::planted!(AnswersNotInSnapshot) {
                self.image.schedulers[index].answers.extend(scheduler.answers.iter().cloned());
            }
        }
        new
    }
}

/// A complete capture in pieces. [`Captured::into_image`] joins the pieces, and does not need a locked cell.
#[derive(Clone, Debug)]
pub struct Captured {
    image: Image,
    pages: Vec<Vec<JobImage>>,
}

impl Captured {
    /// Joins the pieces into the cell's state when the capture began.
    #[must_use]
    pub fn into_image(self) -> Image {
        let Captured { mut image, pages } = self;
        image.jobs.reserve_exact(pages.iter().map(Vec::len).sum());
        image.jobs.extend(pages.into_iter().flatten());
        image.loads.sort_unstable_by_key(|(slot, _)| *slot);
        image
    }
}

/// Snapshot states.
impl Cell {
    /// The state as plain data, copied at once. For large cells see [`Cell::begin_capture`].
    #[must_use]
    pub fn image(&self) -> Image {
        let mut image = self.small_parts();
        for (row, machine) in image.machines.iter_mut().zip(&self.facts.machines) {
            row.machine = machine.clone();
        }
        image.loads.extend(self.machines.loads());
        image.ended.extend(&self.ended);
        for (into, scheduler) in image.schedulers.iter_mut().zip(&self.schedulers) {
            into.answers.extend(scheduler.answers.iter().cloned());
        }
        let pages = vec![self.jobs.iter().map(|(id, job)| JobImage::of(id, job)).collect()];
        Captured { image, pages }.into_image()
    }

    /// Begins a capture of the present state, and drops a running one.
    ///
    /// This call takes about 3 ns per machine. Then call [`Cell::capture_more`] until it returns the capture. Commands
    /// may be applied between the calls.
    pub fn begin_capture(&mut self) {
        let image = self.small_parts();
        let has_answers = vec![false; image.schedulers.len()];
        let noticed = self.ended.partition_point(|(_, at)| at.is_some());
        let ended = EndedCopy { total: self.ended.len(), noticed, dropped: 0 };
        self.jobs.begin_saving();
        let (next_row, next_scheduler) = (0, 0);
        let capture = Capture { image, next_row, next_scheduler, has_answers, ended };
        self.capture = Some(Box::new(capture));
    }

    /// Continues the capture by at most `pieces` pieces, some 30 microseconds each: 512 machines, 256 jobs, one
    /// scheduler's reply cache, or 1024 ended jobs. Returns the capture if it is complete, and `None` if pieces are
    /// left or no capture is running.
    pub fn capture_more(&mut self, pieces: usize) -> Option<Captured> {
        let capture = self.capture.as_mut()?;
        let mut left = pieces;
        while left > 0 && capture.save_rows(&self.machines, &self.facts) {
            left -= 1;
        }
        while left > 0 && capture.next_scheduler < capture.has_answers.len() {
            let index = capture.next_scheduler;
            left -= usize::from(capture.save_answers(index, &self.schedulers[index]));
            capture.next_scheduler += 1;
        }
        while left > 0 && capture.save_ended(&self.ended, ENDED_PIECE) {
            left -= 1;
        }
        if left == 0 || self.jobs.save_more(left) == left {
            return None;
        }
        let image = self.capture.take()?.image;
        Some(Captured { image, pages: self.jobs.end_saving() })
    }

    /// Whether a capture is running.
    #[must_use]
    pub fn is_captured(&self) -> bool {
        self.capture.is_some()
    }

    /// Drops the running capture, if any.
    pub fn end_capture(&mut self) {
        self.capture = None;
        self.jobs.end_saving();
    }

    /// Copies a row before its description or load changes.
    pub(crate) fn before_row_changes(&mut self, slot: usize) {
        if let Some(capture) = &mut self.capture {
            capture.save_row(slot, &self.machines, &self.facts);
        }
    }

    /// The parts of the state that are not copied in pieces.
    fn small_parts(&self) -> Image {
        let rows = 0..self.machines.row_count();
        let tenant = |tenant: &crate::tenants::Tenant| TenantImage {
            name: tenant.terms.name.clone(),
            limit: tenant.terms.limit.clone(),
            tenant_config: tenant.terms.tenant_config.clone(),
            admits: tenant.admits.clone(),
        };
        let scheduler = |scheduler: &Registered| SchedulerImage {
            name: scheduler.name.clone(),
            hold: scheduler.hold,
            floor: scheduler.answers.floor,
            answers: Vec::new(),
        };
        let mut image = Image {
            kinds: self.kinds.clone(),
            version: self.version,
            now_ms: self.now_ms,
            policy: self.policy.clone(),
            evicted: Vec::new(),
            reservations: Vec::new(),
            cluster_capacity: Amounts::zero(),
            peaks: Vec::new(),
            machines: rows.map(|slot| MachineImage::of(None, self.machines.row(slot))).collect(),
            loads: Vec::new(),
            vacant: self.machines.vacant().to_vec(),
            next_job: self.jobs.next_id(),
            jobs: Vec::new(),
            ended: Vec::new(),
            tenants: self.tenants.iter().map(tenant).collect(),
            schedulers: self.schedulers.iter().map(scheduler).collect(),
        };
        self.policies.capture(&mut image);
        image
    }
}
