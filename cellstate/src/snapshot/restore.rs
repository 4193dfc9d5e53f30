//! Restoring a cell from an untrusted snapshot.
//!
//! Data that commands also contain is checked by the code that checks commands. Data that the cell wrote itself
//! (states, numbers, lists) is checked here before use. Tasks are counted in the rules last, because a tracker of a
//! later job may match tasks of an earlier one.

use super::{SchedulerSnapshot, SnapshotState, SnapshotStateError};
use crate::cell::Cell;
use crate::commands::validate::{self, GroupCounts};
use crate::delta::log::ChangeLog;
use crate::fit::MachineStatus;
use crate::index::machine_index::{JobGroup, Trackers, member};
use crate::policy::ports::TaskPorts;
use crate::policy::{Placement, Restoring};
use crate::rules::GroupRules;
use crate::state::allocation_overrides::{AllocationOverrides, values_of};
use crate::state::cores::TaskCores;
use crate::state::ended_jobs::EndedJobs;
use crate::state::job_record::{GroupRecord, JobRecord, JobSnapshot, TaskRecord, tally};
use crate::state::jobs::Jobs;
use crate::state::machines::{FREE_MIN, claimable};
use crate::state::registered::Registered;
use crate::state::reply_cache::{self, ReplyCache};
use omega_core::limits::{
    CHANGES_MAX, CONFLICTS_PER_SCHEDULER, JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, MACHINES_MAX,
    REPLIES_PER_SCHEDULER, SCHEDULERS_MAX, TENANTS_MAX, TRANSACTION_ITEMS_MAX,
};
use omega_core::{
    Amounts, Conflict, Job, JobId, Kinds, MachineId, NodeCores, SchedulerId, TaskId, TenantConfig,
    Text, Version,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Upper bound of restored versions. No running cell reaches this version, and a cell that is restored at the bound can
/// count on without an overflow.
const VERSION_MAX: u64 = 1 << 62;

/// Upper bound of restored incarnations. In a running cell no row is reused so often, and a row at the bound can be
/// reused as often again without an overflow.
const INCARNATION_MAX: u32 = u32::MAX / 2;

/// Upper bound of the number of updates of rule counters by all placed tasks. Counters are `u32`, so with this bound
/// none overflows. A million machines with a hundred tasks each, and forty rules per task, stay below it.
const COUNTED_MAX: u64 = u32::MAX as u64;

impl Cell {
    /// Restores the cell from which a snapshot was taken. If several cells are restored from it, each needs its own
    /// schedulers and views, as after a clone (see [`Cell`]).
    ///
    /// # Errors
    /// Parts of the snapshot contradict each other, or no sequence of commands leads to this state.
    pub fn from_snapshot_state(snapshot: SnapshotState) -> Result<Cell, SnapshotStateError> {
        let kinds = snapshot.kinds.iter().map(|(_, kind)| kind.clone()).collect();
        let mut cell = Cell::new(Kinds::new(kinds)?);
        SnapshotStateError::check_count("jobs", snapshot.next_job.0, JOBS_MAX)?;
        if snapshot.version.0 > VERSION_MAX {
            return Err(SnapshotStateError::Version(snapshot.version));
        }
        cell.version = snapshot.version;
        cell.tenants.begin(snapshot.version);
        cell.lineage = snapshot.version;
        cell.now_ms = snapshot.now_ms;
        validate::policy(&snapshot.policy)?;
        cell.policy = snapshot.policy.clone();
        cell.log = ChangeLog::new(snapshot.version, CHANGES_MAX, cell.kinds.count());
        cell.restore_machines(&snapshot)?;
        let restoring = Restoring {
            snapshot: &snapshot,
            machine_index: &mut cell.machine_index,
            kinds: &cell.kinds,
        };
        cell.policies.restore(restoring)?;
        let tenants = snapshot.tenants.len() as u64;
        SnapshotStateError::check_count("tenants", tenants, TENANTS_MAX as u64)?;
        for tenant in &snapshot.tenants {
            crate::commands::texts::name("tenant", &tenant.name)?;
            if cell.tenants.get(&tenant.name).is_some() {
                return Err(twice("tenant", &tenant.name));
            }
            if let Some(limit) = &tenant.limit {
                validate::quota(&tenant.name, limit, &cell.kinds)?;
            }
            cell.tenants.set_limit(&tenant.name, tenant.limit.clone());
            if let Some(limit) = &tenant.admits {
                validate::quota(&tenant.name, limit, &cell.kinds)?;
                cell.tenants.set_admission(&tenant.name, Some(limit.clone()));
            }
        }
        for tenant in snapshot.tenants.iter().filter(|t| t.tenant_config != TenantConfig::default())
        {
            validate::tenant_config(&tenant.name, &tenant.tenant_config, &cell.kinds)?;
            if let Some(parent) = &tenant.tenant_config.parent
                && cell.tenants.id(parent).is_none()
            {
                return Err(SnapshotStateError::NoParent(tenant.name.clone()));
            }
            cell.tenants.set_tenant(&tenant.name, tenant.tenant_config.clone())?;
        }
        cell.restore_schedulers(snapshot.schedulers)?;
        cell.jobs = Jobs::starting_at(snapshot.next_job, snapshot.jobs.len());
        let mut before = None;
        for job in snapshot.jobs {
            if job.id >= snapshot.next_job || before.is_some_and(|before| before >= job.id) {
                return Err(SnapshotStateError::JobOrder(job.id));
            }
            before = Some(job.id);
            cell.restore_job(job)?;
        }
        cell.restore_ended(snapshot.ended)?;
        let tasks = cell.count_tenant_tasks();
        cell.tenants.list.iter_mut().zip(tasks).for_each(|(tenant, count)| tenant.tasks = count);
        cell.recount_requested();
        if !cell.machine_index.rules.is_empty() {
            cell.restore_counts()?;
        }
        cell.machines.note_full_rows();
        cell.policies.refresh(&cell.machine_index);
        Ok(cell)
    }

    fn restore_machines(&mut self, snapshot: &SnapshotState) -> Result<(), SnapshotStateError> {
        SnapshotStateError::check_count(
            "rows of machines",
            snapshot.machines.len() as u64,
            MACHINES_MAX as u64,
        )?;
        for (slot, row) in (0..).zip(&snapshot.machines) {
            let absent = row.status == MachineStatus::Absent;
            if row.machine.is_none() != absent
                || row.status == MachineStatus::Full
                || row.sequence.0 > snapshot.version.0
                || row.incarnation > INCARNATION_MAX
            {
                return Err(SnapshotStateError::Row(slot));
            }
            let mut amounts = Vec::new();
            if let Some(machine) = &row.machine {
                validate::machine(machine, &self.kinds)?;
                if self.machines.by_name(&machine.name).is_some() {
                    return Err(twice("machine", &machine.name));
                }
                amounts = claimable(machine, &self.kinds, &self.policy);
            }
            self.machines.put(row, &amounts);
            self.machine_index.set_machine(slot as usize, row.machine.clone());
        }
        let mut vacant = vec![false; snapshot.machines.len()];
        for slot in &snapshot.vacant {
            match (vacant.get_mut(*slot as usize), snapshot.machines.get(*slot as usize)) {
                (Some(vacant), Some(row)) if !*vacant && row.machine.is_none() => *vacant = true,
                _ => return Err(SnapshotStateError::Vacant),
            }
        }
        if snapshot
            .machines
            .iter()
            .zip(&vacant)
            .any(|(row, vacant)| row.machine.is_none() != *vacant)
        {
            return Err(SnapshotStateError::Vacant);
        }
        self.machines.set_vacant(snapshot.vacant.clone());
        let mut before = None;
        for (slot, load) in &snapshot.loads {
            let machine = self.machine_index.machines.get(*slot as usize).and_then(Option::as_ref);
            let machine = machine.filter(|_| before.is_none_or(|before| before < *slot));
            let machine = machine.filter(|_| load.at_ms <= self.now_ms);
            let machine = machine.ok_or(SnapshotStateError::Load(*slot))?;
            validate::load(&machine.name, &load.used, &self.kinds)?;
            validate::load(&machine.name, &load.claimed, &self.kinds)?;
            before = Some(*slot);
            self.machines.set_load(*slot as usize, load.clone());
        }
        Ok(())
    }

    fn restore_schedulers(
        &mut self,
        schedulers: Vec<SchedulerSnapshot>,
    ) -> Result<(), SnapshotStateError> {
        SnapshotStateError::check_count(
            "schedulers",
            schedulers.len() as u64,
            SCHEDULERS_MAX as u64,
        )?;
        for (id, snapshot) in (0..).map(SchedulerId).zip(schedulers) {
            crate::commands::texts::name("scheduler", &snapshot.name)?;
            if self.schedulers.iter().any(|other| other.name == snapshot.name) {
                return Err(twice("scheduler", &snapshot.name));
            }
            let SchedulerSnapshot { name, lease, floor, reply_cache } = snapshot;
            // Whenever a name gets an owner, its transaction numbers skip ahead, so the `floor` of an owned name is
            // above 0.
            let lease_ms = LEASE_MS_MIN..=LEASE_MS_MAX;
            if lease.is_some_and(|lease| !lease_ms.contains(&lease.lease_ms) || floor == 0) {
                return Err(SnapshotStateError::Lease(id));
            }
            let reply_cache = restore_reply_cache(reply_cache, self.version);
            let mut reply_cache = reply_cache.ok_or(SnapshotStateError::CachedReply(id))?;
            reply_cache.floor = floor;
            reply_cache.next = reply_cache.next.max(floor);
            self.schedulers.push(Registered { lease, reply_cache, ..Registered::new(name) });
        }
        Ok(())
    }

    fn restore_job(&mut self, snapshot: JobSnapshot) -> Result<(), SnapshotStateError> {
        let JobSnapshot {
            id,
            mut spec,
            versions,
            resized,
            killed,
            gang_wait,
            overrides,
            cores,
            ..
        } = snapshot;
        // No hash covers the time of a submission, so a wrong one is corrected.
        let (submitted_ms, tasks) = (snapshot.submitted_ms.min(self.now_ms), snapshot.tasks);
        let counts = if resized { GroupCounts::Resized } else { GroupCounts::AsSubmitted };
        let bytes = validate::job(&spec, counts, &self.kinds)?;
        if !tasks_match(&spec, counts, &tasks) {
            return Err(SnapshotStateError::Tasks(id));
        }
        if self.jobs.by_name(&spec.name).is_some() {
            return Err(twice("job", &spec.name));
        }
        let tenant = self.tenants.id(&spec.tenant).ok_or(SnapshotStateError::NoTenant(id))?;
        // A description that was just decoded has no other owner.
        if let Some(spec) = Arc::get_mut(&mut spec) {
            spec.tenant = self.tenants.name(tenant).clone();
            self.jobs.share_parts(spec);
        }
        let alive = tasks.iter().filter(|task| !task.state.ended()).count() as u32;
        let placed = tasks.iter().filter(|task| task.state.machine().is_some()).count() as u32;
        // An ended job needs no trackers.
        let groups = if alive > 0 { self.restore_groups(id, &spec) } else { SmallVec::new() };
        let owner = self.jobs.add_to_owner(&spec.scheduler);
        let mut job = JobRecord {
            spec,
            versions,
            submitted_ms,
            owner,
            tenant,
            bytes,
            groups,
            tally: tally(&tasks),
            tasks,
            resized,
            killed,
            scaled_to_zero: false,
            placed,
            alive,
            gang_wait,
            overrides: AllocationOverrides::default(),
            cores: TaskCores::default(),
            ports: TaskPorts::default(),
        };
        if !job.versions_are_right(self.now_ms) {
            return Err(SnapshotStateError::Versions(id));
        }
        for version in &job.versions {
            job.bytes += validate::job(&version.spec, GroupCounts::Resized, &self.kinds)?;
        }
        self.tenants.list[tenant as usize].bytes += job.kept_bytes();
        if !job.gang_wait_is_right(self.now_ms) {
            return Err(SnapshotStateError::GangWait(id));
        }
        self.restore_overrides(&mut job, &overrides).ok_or(SnapshotStateError::Allocation(id))?;
        restore_cores(id, &mut job, &cores)?;
        restore_ports(id, &mut job, snapshot.ports)?;
        if gang_wait.is_some() {
            self.policies.gangs.restore_wait(id);
        }
        for (index, task) in (0..).zip(&job.tasks) {
            self.restore_task(TaskId { job: id, index }, &job, task)?;
        }
        self.jobs.put(id, job);
        Ok(())
    }

    fn restore_groups(&mut self, id: JobId, spec: &Arc<Job>) -> SmallVec<[GroupRecord; 1]> {
        let kinds = self.kinds.count();
        let groups = (0..spec.groups.len()).map(|index| {
            let group = JobGroup { id, job: spec, index };
            let need = self.machine_index.compile_shared(group, kinds, Trackers::Make).0;
            GroupRecord { need }
        });
        groups.collect()
    }

    /// Records allocations that differ from the group's request. `None` if one of them is impossible.
    fn restore_overrides(&self, job: &mut JobRecord, overrides: &[(u32, Amounts)]) -> Option<()> {
        if !overrides.is_sorted_by(|(one, _), (other, _)| one < other) {
            return None;
        }
        for (index, amounts) in overrides {
            job.tasks.get(*index as usize)?.state.machine()?;
            if amounts.first_invalid(&self.kinds).is_some() {
                return None;
            }
            job.set_allocation(*index, values_of(amounts, self.kinds.count()));
        }
        (job.overrides.len() == overrides.len()).then_some(())
    }

    /// Places a task on a machine, but does not count it in the rules yet.
    fn restore_task(
        &mut self,
        id: TaskId,
        job: &JobRecord,
        task: &TaskRecord,
    ) -> Result<(), SnapshotStateError> {
        let latest = if task.state.machine().is_some() { self.now_ms } else { 0 };
        if task.placed_ms > latest {
            return Err(SnapshotStateError::PlacedAt(id));
        }
        let Some(machine) = task.state.machine() else {
            return if task.devices.is_empty() {
                Ok(())
            } else {
                Err(SnapshotStateError::Devices(id))
            };
        };
        if self.machines.get(machine).is_none() {
            return Err(SnapshotStateError::NoMachine(id, machine));
        }
        let row = machine.row();
        let part = job.part(id.index);
        let devices = self.machines.devices(row);
        let fit = match part.devices {
            None => task.devices.is_empty(),
            // If all devices of a task are optional, the task may have none.
            Some(_) if task.devices.is_empty() => job.need(task).devices.is_none(),
            Some(request) => devices.is_some_and(|devices| devices.have(request, task.devices)),
        };
        if !fit {
            return Err(SnapshotStateError::Devices(id));
        }
        let fit = match (job.need(task).cores, part.cores) {
            (None, None) => true,
            (Some(request), Some(cores)) => {
                let left = self.machines.cores(row);
                cores.meet(request) && left.is_some_and(|left| left.have(cores))
            }
            _ => false,
        };
        if !fit {
            return Err(SnapshotStateError::Cores(id));
        }
        if !self.policies.ports.can_have(row, job.need(task), job.ports.get(id.index)) {
            return Err(SnapshotStateError::Ports(id));
        }
        let need = job.need(task);
        let charged = need.charged(part.request);
        let (tenant, request) = (job.tenant, part.request);
        let ports = job.ports.get(id.index);
        let at = Placement { row, job: &job.spec, tenant, need, request, ports };
        let sum = self.machines.demand_profiles(row).map(|sum| &**sum);
        let free = self.machines.free(row).iter().zip(part.request);
        let sums = free.map(|(free, request)| free.checked_sub(*request));
        if sums.into_iter().any(|sum| sum.is_none_or(|free| free < FREE_MIN))
            || !self.policies.can_count(&at)
            || part.demand_profiles.is_some_and(|demand_profiles| !demand_profiles.can_count(sum))
        {
            return Err(SnapshotStateError::Overflow(id));
        }
        self.machines.take(row, id, part);
        self.tenants.count(job.tenant, &charged, 1);
        self.policies.count(&at, 1);
        Ok(())
    }

    fn restore_ended(
        &mut self,
        ended: Vec<(JobId, Option<u64>)>,
    ) -> Result<(), SnapshotStateError> {
        let mut listed = crate::state::map::FastMap::default();
        let mut before = Some(0);
        for (id, noticed) in &ended {
            let over = self.jobs.get(*id).is_some_and(|job| job.alive == 0);
            // The list begins with the jobs that have a recorded time, in ascending order of times.
            let in_order = match (before, *noticed) {
                (_, None) => true,
                (Some(before), Some(at)) => before <= at && at <= self.now_ms,
                (None, Some(_)) => false,
            };
            if !over || !in_order || listed.insert(*id, ()).is_some() {
                return Err(SnapshotStateError::Ended(*id));
            }
            before = *noticed;
        }
        let is_other = |id: &JobId, job: &JobRecord| job.alive == 0 && !listed.contains_key(id);
        let over = self.jobs.iter().filter(|(id, job)| is_other(id, job));
        let over: Vec<JobId> = over.map(|(id, _)| id).collect();
        for id in over {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            if !job.may_be_scaled_to_zero() {
                return Err(SnapshotStateError::Ended(id));
            }
            job.scaled_to_zero = true;
        }
        self.ended = EndedJobs::from(ended);
        Ok(())
    }

    /// Adds to every group the trackers that match its tasks, and counts the placed tasks.
    fn restore_counts(&mut self) -> Result<(), SnapshotStateError> {
        let mut steps = 0u64;
        for id in self.jobs.ids() {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let placed = u64::from(job.placed);
            for (index, group) in job.groups.iter_mut().enumerate() {
                let matched = self.machine_index.rules.matching(member(id, &job.spec, index));
                if matched.is_empty() && group.need.rules.is_none() {
                    continue;
                }
                let need = Arc::make_mut(&mut group.need);
                let rules = need.rules.get_or_insert_with(|| Box::new(GroupRules::default()));
                rules.matched = matched;
                steps = steps.saturating_add(placed.saturating_mul(rules.counted().count() as u64));
            }
            SnapshotStateError::check_count("updates of rule counters", steps, COUNTED_MAX)?;
            for task in job.tasks.iter() {
                let Some(row) = task.state.machine().map(MachineId::row) else { continue };
                if let Some(rules) = &job.groups[usize::from(task.group)].need.rules {
                    self.machine_index.rules.count_task(rules, row, 1, &self.machine_index.sets);
                }
            }
        }
        Ok(())
    }
}

/// Records exclusive cores, which are checked when the tasks are placed.
fn restore_cores(
    id: JobId,
    job: &mut JobRecord,
    cores: &[(u32, NodeCores)],
) -> Result<(), SnapshotStateError> {
    let mut before = None;
    for (index, cores) in cores {
        let placed = job.tasks.get(*index as usize).and_then(|task| task.state.machine());
        if placed.is_none() || before >= Some(*index) || cores.is_empty() {
            return Err(SnapshotStateError::Cores(TaskId { job: id, index: *index }));
        }
        before = Some(*index);
        job.cores.put(*index, *cores);
    }
    Ok(())
}

/// Records the ports that the cell chose, which are checked when the tasks are placed.
fn restore_ports(
    id: JobId,
    job: &mut JobRecord,
    ports: Vec<(u32, Vec<u16>)>,
) -> Result<(), SnapshotStateError> {
    let mut before = None;
    for (index, ports) in ports {
        let placed = job.tasks.get(index as usize).and_then(|task| task.state.machine());
        if placed.is_none() || before >= Some(index) || ports.is_empty() {
            return Err(SnapshotStateError::Ports(TaskId { job: id, index }));
        }
        before = Some(index);
        job.ports.put(index, ports);
    }
    Ok(())
}

/// Whether a job's tasks match its groups. After a resize, each group's count must be at least its number of unfinished
/// tasks and at most its number of all tasks.
fn tasks_match(spec: &Job, counts: GroupCounts, tasks: &[TaskRecord]) -> bool {
    if counts == GroupCounts::AsSubmitted {
        let groups = spec.groups.iter().enumerate();
        let wanted = groups.flat_map(|(i, group)| (0..group.count).map(move |_| i));
        return wanted.eq(tasks.iter().map(|task| usize::from(task.group)));
    }
    let mut alive = vec![0u32; spec.groups.len()];
    let mut all = alive.clone();
    for task in tasks {
        let group = usize::from(task.group);
        let Some(count) = all.get_mut(group) else { return false };
        *count += 1;
        alive[group] += u32::from(!task.state.ended());
    }
    let counts = alive.iter().zip(&all).zip(&spec.groups);
    validate::tasks_in_bounds(tasks.len())
        && counts.into_iter().all(|((alive, all), group)| (*alive..=*all).contains(&group.count))
}

/// Restores the reply cache of a scheduler; `None` if its content is impossible.
fn restore_reply_cache(
    list: Vec<reply_cache::CachedReply>,
    version: Version,
) -> Option<ReplyCache> {
    if list.len() > REPLIES_PER_SCHEDULER {
        return None;
    }
    let mut reply_cache = ReplyCache::default();
    let mut before = None;
    for answer in list {
        let place = reply_cache::index(answer.number);
        let good = answer.number < u64::MAX
            && (answer.version <= version.0 || answer.is_forgotten())
            && (!answer.is_forgotten() || answer.conflicts.is_empty())
            && before.is_none_or(|before| before < place)
            && are_conflicts(&answer.conflicts);
        if !good {
            return None;
        }
        before = Some(place);
        reply_cache.put(answer);
    }
    (reply_cache.conflicts() <= CONFLICTS_PER_SCHEDULER).then_some(reply_cache)
}

/// Whether these conflicts can be the result of a commit.
fn are_conflicts(list: &[Conflict]) -> bool {
    list.len() <= TRANSACTION_ITEMS_MAX && list.windows(2).all(|pair| pair[0].item < pair[1].item)
}

fn twice(what: &'static str, name: &Text) -> SnapshotStateError {
    SnapshotStateError::Twice { what, name: name.clone() }
}
