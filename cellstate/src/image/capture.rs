//! Taking an image of a cell without stopping it.
//!
//! ```text
//!   begin_capture        sequence numbers, tenants and all that is small, at once
//!   capture_more         descriptions and loads of machines, pages of jobs, tables of answers, the
//!      │    ▲            list of ended jobs, a few pieces at a time; in between, commands go on:
//!      │    └─────────   whoever is about to change what is not copied yet copies it first
//!      ▼
//!   Captured::into_image the state as it was when the capture began
//! ```
//!
//! The cell is behind one short lock, and a large one takes a second to walk. So what is large is
//! copied piece by piece; the lock is held for one piece. Without a capture a change pays for one
//! branch that is never taken.

use super::{Image, JobImage, MachineImage, SchedulerImage, TenantImage};
use crate::cell::{Cell, Registered};
use crate::facts::Facts;
use crate::judge::MachineStatus;
use crate::machines::Machines;
use omega_core::{Amounts, JobId};
use std::collections::VecDeque;

/// A capture that goes on: what is copied so far, but for the jobs, which have their pages.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    image: Image,
    /// Rows before this one have their description and load in the image. So have those after it
    /// that have a description.
    next_row: usize,
    /// Schedulers before this position have their answers in the image.
    next_scheduler: usize,
    /// For each scheduler whether it has.
    has_answers: Vec<bool>,
    ended: EndedCopy,
}

/// How much of the list of ended jobs is to be copied.
#[derive(Clone, Copy, Debug)]
struct EndedCopy {
    /// How many there were when the capture began.
    total: usize,
    /// How many of these the cell had noticed then; the time of the others is set later.
    noticed: usize,
    /// How many were forgotten since.
    dropped: usize,
}

/// Rows of machines in a piece, as little work as a page of jobs: a counter of each is far away.
const ROWS_PIECE: usize = 512;

/// Ended jobs in a piece: as little work as a page of jobs.
const ENDED_PIECE: usize = 1024;

impl Capture {
    /// Copies the description and the load of the machine that is in a row, unless that was done or
    /// it came later.
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

    /// Copies some rows more. `false` if there was nothing to do.
    fn save_rows(&mut self, machines: &Machines, facts: &Facts) -> bool {
        let from = self.next_row;
        self.next_row = self.image.machines.len().min(from + ROWS_PIECE);
        (from..self.next_row).for_each(|slot| self.save_row(slot, machines, facts));
        from < self.next_row
    }

    /// Copies so many ended jobs more, if there are as many. `false` if there was nothing to do.
    fn save_ended(&mut self, ended: &VecDeque<(JobId, Option<u64>)>, count: usize) -> bool {
        let EndedCopy { total, noticed, dropped } = self.ended;
        let copied = self.image.ended.len();
        let count = count.min(total - copied);
        if count == 0 {
            return false;
        }
        let next = ended.range(copied - dropped..).take(count);
        self.image.ended.extend((copied..).zip(next).map(|(number, (id, at))| {
            // Those that were not noticed yet have been meanwhile, perhaps.
            (*id, at.filter(|_| number < noticed))
        }));
        true
    }

    /// Copies what is about to be forgotten: so many ended jobs, from the oldest on.
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

    /// Copies what a scheduler was answered, unless that was done or it came later.
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

/// A whole image in pieces, as [`Cell::capture_more`] gives it. To put it together is not done with
/// the cell's lock held.
#[derive(Clone, Debug)]
pub struct Captured {
    image: Image,
    pages: Vec<Vec<JobImage>>,
}

impl Captured {
    /// The image: the cell's state when the capture began.
    #[must_use]
    pub fn into_image(self) -> Image {
        let Captured { mut image, pages } = self;
        image.jobs.reserve_exact(pages.iter().map(Vec::len).sum());
        image.jobs.extend(pages.into_iter().flatten());
        image.loads.sort_unstable_by_key(|(slot, _)| *slot);
        image
    }
}

/// Images.
impl Cell {
    /// The state as plain data, made at once. In a large cell this takes long: see
    /// [`Cell::begin_capture`].
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

    /// Begins to take an image of the present state. A capture that goes on is given up.
    ///
    /// It takes some 3 ns for each machine; then call [`Cell::capture_more`] until
    /// that gives the image. Commands may be applied in between.
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

    /// Goes on with the capture by at most so many pieces, each of 512 machines, 256 jobs, one
    /// scheduler's answers, or 1024 ended jobs: some 30 microseconds. `Some` if that was all, or `None` if there is more, or no
    /// capture goes on.
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

    /// Whether a capture goes on.
    #[must_use]
    pub fn is_captured(&self) -> bool {
        self.capture.is_some()
    }

    /// Gives up the capture that goes on, if one does.
    pub fn end_capture(&mut self) {
        self.capture = None;
        self.jobs.end_saving();
    }

    /// A machine is about to get another description or load, or to go.
    pub(crate) fn before_row_changes(&mut self, slot: usize) {
        if let Some(capture) = &mut self.capture {
            capture.save_row(slot, &self.machines, &self.facts);
        }
    }

    /// The image but for what comes in pieces.
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
