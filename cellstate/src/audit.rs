//! The audit: a recount of all sums that the cell updates incrementally.
//!
//! It can run in any build and at any version. It recounts from the states of tasks and the descriptions of machines
//! and jobs.

use crate::audit_error::AuditError;
use crate::cell::Cell;
use crate::fit::MachineStatus;
use crate::index::machine_index::MachineIndex;
use crate::policy::{Placement, Policies};
use crate::rules::{Count, Pull, Step, TrackerId};
use crate::state::cores::CoresLeft;
use crate::state::demand_profiles::DemandProfileSums;
use crate::state::devices::Devices;
use crate::state::job_record::{JobRecord, tally};
use crate::state::machines::claimable;
use crate::state::map::FastMap;
use omega_core::{JobId, MachineId, TaskId, Version};
use std::collections::HashSet;

/// Sums that the audit recounts.
struct Recount {
    free: Vec<Vec<i64>>,
    demand_profiles: DemandProfileSums,
    devices: Vec<Option<Devices>>,
    cores: Vec<Option<CoresLeft>>,
    tasks: Vec<Vec<TaskId>>,
    tenants: Vec<Vec<i64>>,
    counts: FastMap<(TrackerId, u32), Count>,
    policies: Policies,
}

impl Cell {
    /// Recounts all sums, and returns the audited version.
    ///
    /// # Errors
    /// The first difference, in the order of [`AuditError`].
    pub fn audit(&self) -> Result<Version, AuditError> {
        let recount = self.recount()?;
        self.audit_machines(&recount)?;
        self.policies.audit(&recount.policies)?;
        self.audit_quotas()?;
        for (tenant, used) in self.tenants.iter().zip(&recount.tenants) {
            if tenant.used[..] != used[..] {
                return Err(AuditError::Tenant(tenant.terms.name.clone()));
            }
        }
        let counts = self.count_tenant_tasks().into_iter().zip(self.count_tenant_bytes());
        for (tenant, (tasks, bytes)) in self.tenants.iter().zip(counts) {
            if tenant.tasks != tasks || tenant.bytes != bytes {
                return Err(AuditError::Tenant(tenant.terms.name.clone()));
            }
        }
        for (id, recounted) in (0..).zip(self.count_requested()) {
            let differs = match self.tenants.requested(id) {
                Some(requested) => requested != recounted,
                None => recounted.iter().any(|requested| *requested > 0),
            };
            if differs {
                return Err(AuditError::Requested(
                    self.tenants.list[id as usize].terms.name.clone(),
                ));
            }
        }
        self.audit_rules(&recount)?;
        self.audit_sets()?;
        Ok(self.version)
    }

    fn recount(&self) -> Result<Recount, AuditError> {
        let rows = self.machines.row_count();
        let described = |slot: usize| self.machine_index.machines[slot].as_deref();
        let empty = vec![0; self.kinds.count()];
        let mut recount = Recount {
            free: (0..rows)
                .map(|slot| match described(slot) {
                    Some(machine) => claimable(machine, &self.kinds, &self.policy),
                    None => empty.clone(),
                })
                .collect(),
            demand_profiles: DemandProfileSums::default(),
            devices: (0..rows)
                .map(|slot| {
                    described(slot).filter(|m| m.devices > 0).map(|m| Devices::new(m.devices))
                })
                .collect(),
            cores: (0..rows)
                .map(|slot| described(slot).map(|m| m.numa).filter(|numa| !numa.is_empty()))
                .map(|numa| numa.as_ref().map(CoresLeft::all))
                .collect(),
            tasks: vec![Vec::new(); rows],
            tenants: vec![empty.clone(); self.tenants.iter().count()],
            counts: FastMap::default(),
            policies: self.policies.uncounted(),
        };
        let ended: HashSet<JobId> = self.ended.iter().map(|(id, _)| *id).collect();
        for (id, job) in self.jobs.iter() {
            let placed = job.tasks.iter().filter(|task| task.state.machine().is_some()).count();
            let alive = job.tasks.iter().filter(|task| !task.state.ended()).count();
            let is_right = (placed, alive) == (job.placed as usize, job.alive as usize);
            if !is_right || job.tally != tally(&job.tasks) {
                return Err(AuditError::JobCounts(id));
            }
            let is_listed = ended.contains(&id);
            if is_listed && job.scaled_to_zero
                || (is_listed || job.scaled_to_zero) != (alive == 0)
                || job.scaled_to_zero && !job.may_be_scaled_to_zero()
            {
                return Err(AuditError::Ended(id));
            }
            let listed = self.policies.gangs.is_waiting(id);
            if !job.gang_wait_is_right(self.now_ms) || listed != job.gang_wait.is_some() {
                return Err(AuditError::GangWait(id));
            }
            if !job.overrides_are_right() {
                return Err(AuditError::Allocation(id));
            }
            for (task, index) in job.tasks.iter().zip(0..) {
                if let Some(machine) = task.state.machine() {
                    let id = TaskId { job: id, index };
                    self.recount_task(id, job, machine, &mut recount)?;
                }
            }
        }
        Ok(recount)
    }

    fn recount_task(
        &self,
        id: TaskId,
        job: &JobRecord,
        machine: MachineId,
        recount: &mut Recount,
    ) -> Result<(), AuditError> {
        if self.machines.get(machine).is_none() {
            return Err(AuditError::NoMachine(id, machine));
        }
        let row = machine.row();
        let task = &job.tasks[id.index as usize];
        let (need, part) = (job.need(task), job.part(id.index));
        recount.tasks[row].push(id);
        let (tenant, request) = (job.tenant, part.request);
        let ports = job.ports.get(id.index);
        if ports.len() != need.any_ports() {
            return Err(AuditError::Ports(machine));
        }
        recount.policies.count(&Placement { row, job: &job.spec, tenant, need, request, ports }, 1);
        let taken = match part.demand_profiles {
            None => part.request.into(),
            Some(demand_profiles) => {
                recount.demand_profiles.shift(row, part.request, demand_profiles, 1)
            }
        };
        for (kind, charged) in need.charged(part.request).iter().enumerate() {
            recount.free[row][kind] -= taken[kind];
            for tenant in self.tenants.line(job.tenant) {
                recount.tenants[tenant as usize][kind] += charged;
            }
        }
        // If all devices of a task are optional, the task may have none.
        let has_devices = need.devices.is_some() || !task.devices.is_empty();
        if let Some(request) = part.devices.filter(|_| has_devices) {
            match &mut recount.devices[row] {
                Some(devices)
                    if task
                        .devices
                        .iter()
                        .all(|c| devices.left().get(c) >= Some(&(request.milli_each as i16))) =>
                {
                    devices.take(request, task.devices);
                }
                _ => return Err(AuditError::Devices(machine)),
            }
        }
        let cores = part.cores.copied().unwrap_or_default();
        match (need.cores, &mut recount.cores[row]) {
            (None, _) if cores.is_empty() => {}
            (Some(request), Some(left)) if cores.meet(request) && left.have(&cores) => {
                left.take(&cores);
            }
            _ => return Err(AuditError::Cores(machine)),
        }
        if let Some(rules) = &need.rules {
            let MachineIndex { rules: rule_index, sets, .. } = &self.machine_index;
            let mut count = |tracker: TrackerId, step| {
                let Some(domain) = rule_index.domain_of(tracker, row, sets) else { return };
                *recount.counts.entry((tracker, domain)).or_default() += step;
            };
            let none = Step::default();
            rules.matched.iter().for_each(|id| count(*id, Step { matched: 1, ..none }));
            rules.restricting.iter().for_each(|id| count(*id, Step { holders: 1, ..none }));
            rules.sought.iter().for_each(|id| count(*id, Step { seekers: 1, ..none }));
            for Pull { tracker, weight } in &rules.pulls {
                count(*tracker, Step { pullers: 1, pull: i64::from(*weight), ..none });
            }
        }
        Ok(())
    }

    fn audit_machines(&self, recount: &Recount) -> Result<(), AuditError> {
        for slot in 0..self.machines.row_count() {
            let id = self.machines.id(slot);
            let expected = &recount.free[slot];
            let found = self.machines.free(slot);
            if found != expected {
                let (found, expected) = (found.to_vec(), expected.clone());
                return Err(AuditError::Free { machine: id, found, expected });
            }
            if self.machines.demand_profiles(slot) != recount.demand_profiles.get(slot) {
                return Err(AuditError::DemandProfiles(id));
            }
            let row = self.machines.row(slot);
            let mut listed = row.tasks.clone();
            let mut placed = recount.tasks[slot].clone();
            listed.sort_unstable();
            placed.sort_unstable();
            if listed != placed || (row.status == MachineStatus::Absent && !listed.is_empty()) {
                return Err(AuditError::TaskList(id));
            }
            if self.machines.devices(slot).copied() != recount.devices[slot] {
                return Err(AuditError::Devices(id));
            }
            if self.machines.cores(slot).copied() != recount.cores[slot] {
                return Err(AuditError::Cores(id));
            }
        }
        Ok(())
    }

    /// Runs [`Cell::audit`], and checks that no machine is overcommitted. The second check is valid only if no machine
    /// and no overcommit bound of the cell was ever reduced, and no task was adopted.
    ///
    /// # Errors
    /// Those of [`Cell::audit`], or the first overcommitted machine.
    pub fn audit_no_overcommit(&self) -> Result<Version, AuditError> {
        let version = self.audit()?;
        for slot in 0..self.machines.row_count() {
            if self.machines.free(slot).iter().any(|free| *free < 0) {
                return Err(AuditError::Overcommitted(self.machines.id(slot)));
            }
        }
        Ok(version)
    }

    fn audit_rules(&self, recount: &Recount) -> Result<(), AuditError> {
        let mut seen = 0;
        for id in self.machine_index.rules.ids() {
            for (domain, count) in self.machine_index.rules.raw_counts(id) {
                seen += 1;
                if recount.counts.get(&(id, domain)) != Some(&count) {
                    return Err(AuditError::Rules);
                }
            }
            self.audit_members(id)?;
        }
        self.audit_matched()?;
        if !self.jobs.attributes_are_right() {
            return Err(AuditError::Rules);
        }
        if seen == recount.counts.len() { Ok(()) } else { Err(AuditError::Rules) }
    }

    /// Checks that each live group lists this tracker if the tracker counts the group's tasks.
    fn audit_members(&self, tracker: TrackerId) -> Result<(), AuditError> {
        let Some(key) = self.machine_index.rules.key(tracker) else {
            return Err(AuditError::Rules);
        };
        let is_listed = |(id, job): (JobId, &JobRecord)| {
            job.groups.iter().enumerate().all(|(index, group)| {
                let rules = group.need.rules.as_ref();
                !key.matches(crate::index::machine_index::member(id, &job.spec, index))
                    || rules.is_some_and(|rules| rules.matched.contains(&tracker))
            })
        };
        // Most trackers count the tasks of one job only, so groups of other jobs need no check.
        let all = match key.tracked.job() {
            Some(only) => self.jobs.get(only).is_none_or(|job| is_listed((only, job))),
            None => self.jobs.iter().all(is_listed),
        };
        if all { Ok(()) } else { Err(AuditError::Rules) }
    }

    /// Checks that each tracker in a live group's list counts the tasks of that group.
    fn audit_matched(&self) -> Result<(), AuditError> {
        for (id, job) in self.jobs.iter() {
            for (index, group) in job.groups.iter().enumerate() {
                let known = group.need.rules.iter().flat_map(|rules| &rules.matched);
                let mut keys = known.filter_map(|tracker| self.machine_index.rules.key(*tracker));
                if !keys.all(|key| {
                    key.matches(crate::index::machine_index::member(id, &job.spec, index))
                }) {
                    return Err(AuditError::Rules);
                }
            }
        }
        Ok(())
    }

    fn audit_sets(&self) -> Result<(), AuditError> {
        for (key, id) in self.machine_index.sets.iter() {
            for (slot, machine) in self.machine_index.machines.iter().enumerate() {
                let accepted = machine.as_ref().is_some_and(|machine| key.accepts(machine));
                if self.machine_index.sets.contains(id, slot) != accepted {
                    return Err(AuditError::Sets);
                }
            }
        }
        Ok(())
    }
}
