//! Snapshots of a cell: its state as plain data, copied at once or in pieces.

use super::capture::{Capture, Captured, ENDED_PIECE, EndedCopy};
use super::{Image, SchedulerImage, TenantImage};
use crate::cell::Cell;
use crate::state::job_record::JobImage;
use crate::state::machines::MachineImage;
use crate::state::registered::Registered;
use omega_core::Amounts;

impl Cell {
    /// The state as plain data, copied at once. For large cells see [`Cell::begin_capture`].
    #[must_use]
    pub fn image(&self) -> Image {
        let mut image = self.small_parts();
        for (row, machine) in image.machines.iter_mut().zip(&self.facts.machines) {
            row.machine = machine.clone();
        }
        image.loads.extend(self.machines.loads());
        image.ended.extend(self.ended.iter());
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
        let (total, noticed) = (self.ended.positions(), self.ended.noticed());
        let ended = EndedCopy { total, noticed, copied: 0, dropped: 0 };
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
        let tenant = |tenant: &crate::state::tenants::Tenant| TenantImage {
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
