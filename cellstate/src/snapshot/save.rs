//! Snapshots of a cell: its state as plain data, copied at once or in pieces.

use super::capture::{Capture, Captured, ENDED_PIECE, EndedCopy};
use super::{SchedulerSnapshot, SnapshotState, TenantSnapshot};
use crate::cell::Cell;
use crate::state::job_record::JobSnapshot;
use crate::state::machines::MachineSnapshot;
use crate::state::registered::Registered;
use omega_core::Amounts;

impl Cell {
    /// The state as plain data, copied at once. For large cells see [`Cell::begin_capture`].
    #[must_use]
    pub fn snapshot_state(&self) -> SnapshotState {
        let mut snapshot = self.small_parts();
        for (row, machine) in snapshot.machines.iter_mut().zip(&self.machine_index.machines) {
            row.machine = machine.clone();
        }
        snapshot.loads.extend(self.machines.loads());
        snapshot.ended.extend(self.ended.iter());
        for (into, scheduler) in snapshot.schedulers.iter_mut().zip(&self.schedulers) {
            into.reply_cache.extend(scheduler.reply_cache.iter().cloned());
        }
        let pages = vec![self.jobs.iter().map(|(id, job)| JobSnapshot::of(id, job)).collect()];
        Captured { snapshot, pages }.into_snapshot_state()
    }

    /// Begins a capture of the present state, and drops a running one.
    ///
    /// This call takes about 3 ns per machine. Then call [`Cell::capture_more`] until it returns the capture. Commands
    /// may be applied between the calls.
    pub fn begin_capture(&mut self) {
        let snapshot = self.small_parts();
        let has_reply_cache = vec![false; snapshot.schedulers.len()];
        let (total, noticed) = (self.ended.positions(), self.ended.noticed());
        let ended = EndedCopy { total, noticed, copied: 0, dropped: 0 };
        self.jobs.begin_saving();
        let (next_row, next_scheduler) = (0, 0);
        let capture = Capture { snapshot, next_row, next_scheduler, has_reply_cache, ended };
        self.capture = Some(Box::new(capture));
    }

    /// Continues the capture by at most `pieces` pieces, some 30 microseconds each: 512 machines, 256 jobs, one
    /// scheduler's reply cache, or 1024 ended jobs. Returns the capture if it is complete, and `None` if pieces are
    /// left or no capture is running.
    pub fn capture_more(&mut self, pieces: usize) -> Option<Captured> {
        let capture = self.capture.as_mut()?;
        let mut left = pieces;
        while left > 0 && capture.save_rows(&self.machines, &self.machine_index) {
            left -= 1;
        }
        while left > 0 && capture.next_scheduler < capture.has_reply_cache.len() {
            let index = capture.next_scheduler;
            left -= usize::from(capture.save_reply_caches(index, &self.schedulers[index]));
            capture.next_scheduler += 1;
        }
        while left > 0 && capture.save_ended(&self.ended, ENDED_PIECE) {
            left -= 1;
        }
        if left == 0 || self.jobs.save_more(left) == left {
            return None;
        }
        let snapshot = self.capture.take()?.snapshot;
        Some(Captured { snapshot, pages: self.jobs.end_saving() })
    }

    /// Whether a capture is running.
    #[must_use]
    pub fn is_captured(&self) -> bool {
        self.capture.is_some()
    }

    /// Copies a row before its description or load changes.
    pub(crate) fn before_row_changes(&mut self, slot: usize) {
        if let Some(capture) = &mut self.capture {
            capture.save_row(slot, &self.machines, &self.machine_index);
        }
    }

    /// The parts of the state that are not copied in pieces.
    fn small_parts(&self) -> SnapshotState {
        let rows = 0..self.machines.row_count();
        let tenant = |tenant: &crate::state::tenants::Tenant| TenantSnapshot {
            name: tenant.terms.name.clone(),
            limit: tenant.terms.limit.clone(),
            tenant_config: tenant.terms.tenant_config.clone(),
            admits: tenant.admits.clone(),
        };
        let scheduler = |scheduler: &Registered| SchedulerSnapshot {
            name: scheduler.name.clone(),
            lease: scheduler.lease,
            floor: scheduler.reply_cache.floor,
            reply_cache: Vec::new(),
        };
        let mut snapshot = SnapshotState {
            kinds: self.kinds.clone(),
            version: self.version,
            now_ms: self.now_ms,
            policy: self.policy.clone(),
            evicted: Vec::new(),
            reservations: Vec::new(),
            cluster_capacity: Amounts::zero(),
            peaks: Vec::new(),
            machines: rows.map(|slot| MachineSnapshot::of(None, self.machines.row(slot))).collect(),
            loads: Vec::new(),
            vacant: self.machines.vacant().to_vec(),
            next_job: self.jobs.next_id(),
            jobs: Vec::new(),
            ended: Vec::new(),
            tenants: self.tenants.iter().map(tenant).collect(),
            schedulers: self.schedulers.iter().map(scheduler).collect(),
        };
        self.policies.capture(&mut snapshot);
        snapshot
    }
}
