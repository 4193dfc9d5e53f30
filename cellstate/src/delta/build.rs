//! Building of deltas from the cell and its change log.

use crate::cell::{Cell, Change};
use crate::delta::log::Counts;
use crate::delta::{Delta, Interest, JobDelta, MachineDelta, Share};
use crate::rules::TrackerId;
use crate::state::job_record::OwnerId;
use omega_core::{JobId, Version};
use std::collections::HashSet;

impl Cell {
    /// Fills `delta` with the changes from a version to the present one.
    ///
    /// `delta` gets the whole state in these cases: `since` is `Version(0)`, unknown, too old or in the future; or the
    /// last delta in this buffer had another lineage.
    pub fn delta_since(&self, since: Version, interest: &Interest, delta: &mut Delta) {
        let (lineage, related) = (delta.lineage, delta.lineage == self.lineage);
        self.write_head(since, delta);
        if since == self.version && since != Version(0) && related {
            return;
        }
        let Some(counts) = self.counts_since(since, lineage) else {
            return self.write_everything(interest, delta);
        };
        self.write_rows_and_tenants(since, counts, delta);
        let wanted = self.wanted(interest);
        for change in self.log.since(since) {
            if change.job().is_none_or(|(owner, job)| wanted.includes(owner, job)) {
                self.write_change(change, delta);
            }
        }
    }

    /// Clears a delta, and writes the parts that every delta has.
    pub(crate) fn write_head(&self, since: Version, delta: &mut Delta) {
        delta.clear();
        delta.lineage = self.lineage;
        delta.from = since;
        delta.to = self.version;
        delta.now_ms = self.now_ms;
        delta.rows = self.machines.row_count();
        delta.overcommit_max = self.policy.overcommit_max.clone();
        delta.bands.clone_from(&self.policy.bands);
        delta.evictions_left = self.evictions_left();
        self.policies.write_head(&mut delta.policies);
    }

    /// Writes the rows and tenants that changed after a version.
    pub(crate) fn write_rows_and_tenants(&self, since: Version, counts: Counts, delta: &mut Delta) {
        if counts.rows <= self.machines.row_count() {
            self.write_rows_since(since, delta)
        } else {
            self.write_rows(delta)
        }
        self.tenants.changed_since(since).for_each(|tenant| delta.push_tenant(tenant));
    }

    /// Counts the changes since a version of a lineage; `None` if a delta would contain the whole state.
    #[must_use]
    pub fn change_count_since(&self, since: Version, lineage: Version) -> Option<usize> {
        self.counts_since(since, lineage).map(|counts| counts.others + counts.rows)
    }

    /// Counts the changed rows and the other changes since a version.
    pub(crate) fn counts_since(&self, since: Version, lineage: Version) -> Option<Counts> {
        if lineage != self.lineage || since == Version(0) || since > self.version {
            return None;
        }
        self.log.counts_since(since)
    }

    /// Number of tasks that are written with a changed job.
    pub(crate) fn tasks_of_change(&self, change: &Change) -> usize {
        let Change::Job(id, _) = *change else { return 0 };
        let job = self.jobs.get(id).filter(|job| job.alive > 0 && job.resized);
        job.map_or(0, |job| job.tasks.len())
    }

    /// Writes the present state of a changed object.
    pub(crate) fn write_change(&self, change: &Change, delta: &mut Delta) {
        match *change {
            Change::Machine(slot) => self.write_machine(slot, delta),
            Change::Tracker(id) => self.write_tracker(id, delta),
            Change::Count(id, domain) => {
                if let Some((name, count)) = self.machine_index.rules.named_count(id, domain) {
                    delta.counts.push((id, name, count));
                }
            }
            Change::Quota => delta.quotas = true,
            Change::Policy(some) => {
                self.policies.write_change(some, &mut delta.policies, delta.rows)
            }
            Change::Job(id, _) => self.write_job(id, delta),
            Change::Task(id, _) => {
                if let Some((job, task)) = self.jobs.task(id) {
                    delta.push_task(id, job, task);
                }
            }
        }
    }

    fn write_everything(&self, interest: &Interest, delta: &mut Delta) {
        delta.full = true;
        delta.from = Version(0);
        delta.kinds = Some(self.kinds.clone());
        for slot in 0..self.machines.row_count() as u32 {
            self.write_machine(slot, delta);
        }
        self.write_rows(delta);
        self.policies.write_whole(&mut delta.policies);
        for id in self.machine_index.rules.ids() {
            self.write_tracker(id, delta);
        }
        self.tenants.all_in_deltas().iter().for_each(|tenant| delta.push_tenant(tenant));
        let optional = self.wanted(interest);
        for (id, job) in self.jobs.iter() {
            if job.alive == 0 || !optional.includes(job.owner, id) {
                continue;
            }
            delta.jobs.push(JobDelta { id, job: Some(job.spec.clone()) });
            delta.push_tasks(id, job);
        }
    }

    fn write_rows(&self, delta: &mut Delta) {
        (0..self.machines.row_count() as u32).for_each(|slot| self.write_row(slot, delta));
    }

    fn write_row(&self, slot: u32, delta: &mut Delta) {
        let row = slot as usize;
        delta.slots.push(slot);
        delta.sequences.push(self.machines.row(row).sequence);
        delta.free.extend_from_slice(self.machines.free(row));
        self.write_parts(slot, delta);
    }

    /// Writes the rows that changed after a version.
    fn write_rows_since(&self, since: Version, delta: &mut Delta) {
        let Some(parts) = self.log.amounts_since(since) else {
            return self.log.rows_since(since).for_each(|slot| self.write_row(slot, delta));
        };
        delta.slots.extend(self.log.rows_since(since));
        for part in parts {
            delta.sequences.extend_from_slice(part.sequences);
            delta.free.extend_from_slice(part.free);
        }
        if self.machines.has_parts() || self.policies.any_writes_rows() {
            self.log.rows_since(since).for_each(|slot| self.write_parts(slot, delta));
        }
        debug_assert!(self.ends_at_present(delta), "a row changed after it was logged");
    }

    /// Whether some row may have a value that a delta removes by not listing it. Merging deltas then takes a search for
    /// such rows.
    pub(crate) fn has_sparse_row_values(&self) -> bool {
        self.machines.has_demand_profiles() || self.policies.any_writes_rows()
    }

    /// Whether the last copy of each row in a delta is the present state.
    fn ends_at_present(&self, delta: &Delta) -> bool {
        let kinds = self.machines.kinds();
        let mut seen = HashSet::new();
        (0..delta.slots.len()).rev().all(|at| {
            let row = delta.slots[at] as usize;
            !seen.insert(row)
                || delta.sequences[at] == self.machines.row(row).sequence
                    && delta.free[at * kinds..][..kinds] == *self.machines.free(row)
        })
    }

    /// Writes the data of a row that most rows lack: devices, exclusive cores, demand profiles, columns of policies,
    /// and load.
    fn write_parts(&self, slot: u32, delta: &mut Delta) {
        let row = slot as usize;
        if self.machines.has_devices()
            && let Some(devices) = self.machines.devices(row)
        {
            delta.devices.push((slot, *devices));
        }
        if self.machines.has_cores()
            && let Some(cores) = self.machines.cores(row)
        {
            delta.cores.push((slot, *cores));
        }
        if let Some(sum) = self.machines.demand_profiles(row) {
            delta.demand_profiles.push((slot, sum.clone()));
        }
        self.policies.write_row(slot, &mut delta.policies);
        if self.machines.has_loads()
            && let Some(load) = self.machines.load(row)
        {
            delta.loads.push((slot, load.clone()));
        }
    }

    fn write_machine(&self, slot: u32, delta: &mut Delta) {
        let row = self.machines.row(slot as usize);
        delta.machines.push(MachineDelta {
            slot,
            incarnation: row.incarnation,
            status: row.status_for_tasks(),
            machine: self.machine_index.machines.get(slot as usize).cloned().flatten(),
        });
    }

    fn write_tracker(&self, id: TrackerId, delta: &mut Delta) {
        delta.trackers.push((id, self.machine_index.rules.key(id).cloned()));
        let counts = self.machine_index.rules.counts(id);
        delta.counts.extend(counts.map(|(domain, count)| (id, domain, count)));
    }

    fn write_job(&self, id: JobId, delta: &mut Delta) {
        let job = self.jobs.get(id).filter(|job| job.alive > 0);
        delta.jobs.push(JobDelta { id, job: job.map(|job| job.spec.clone()) });
        if let Some(job) = job.filter(|job| job.resized) {
            // After a resize, the groups' counts no longer determine how many tasks there are and to which group each
            // belongs.
            delta.push_tasks(id, job);
        }
    }

    /// The jobs of an interest.
    pub(crate) fn wanted(&self, interest: &Interest) -> Wanted {
        match interest {
            Interest::Machines => Wanted::None,
            Interest::AllJobs => Wanted::All,
            Interest::JobsOf(name, share) => {
                self.jobs.owner(name).map_or(Wanted::None, |owner| Wanted::Of(owner, *share))
            }
        }
    }
}

/// An [`Interest`] with the number of its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    None,
    Of(OwnerId, Share),
    All,
}

impl Wanted {
    pub(crate) fn includes(self, owner: OwnerId, job: JobId) -> bool {
        match self {
            Wanted::None => false,
            Wanted::Of(wanted, share) => wanted == owner && share.includes(job),
            Wanted::All => true,
        }
    }
}
