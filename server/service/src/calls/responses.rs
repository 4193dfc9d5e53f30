//! Messages that describe a job, a machine or a task, for all calls.

use crate::leases::{self, Listed, NameOwner};
use omega_cellstate::{Cell, JobVersion, MachineState, MachineStatus};
use omega_client::{convert, proto};
use omega_core::{Amounts, Job, JobId, MachineId, TaskGroup, TaskId, TaskState, UpdateResult};
use omega_store::membership::Membership;

/// Message with a job, its programs and its progress, for callers who may see programs.
pub(crate) fn job_with_programs(cell: &Cell, id: JobId) -> proto::JobStatus {
    let target = target(cell, id).map(Into::into);
    proto::JobStatus { job: cell.job(id).map(|job| (&**job).into()), target, ..job(cell, id) }
}

/// The description to which a job is being updated, if it differs from the job's present description.
fn target(cell: &Cell, id: JobId) -> Option<&Job> {
    let target = cell.job_target(id)?;
    (cell.job(id)? != target).then_some(&**target)
}

/// The latest versions of a job.
pub(crate) fn versions(cell: &Cell, id: JobId, with_programs: bool) -> Vec<proto::JobVersion> {
    let shown = |job: &Job| {
        if with_programs { proto::Job::from(job) } else { proto::Job::from(job).without_programs() }
    };
    let kept = cell.job_versions(id);
    let first = cell.job(id).filter(|_| kept.is_empty());
    let first = first.map(|job| proto::JobVersion { job: Some(shown(job)), ..Default::default() });
    let kept = kept.iter().map(|version| proto::JobVersion {
        number: version.number,
        at_ms: version.at_ms,
        job: Some(shown(&version.spec)),
        result: result(version).into(),
    });
    first.into_iter().chain(kept).collect()
}

/// The result of the update to a version; none for the submitted description.
fn result(version: &JobVersion) -> proto::UpdateResult {
    match version.result {
        Some(UpdateResult::Complete) if version.number > 0 => proto::UpdateResult::Complete,
        Some(UpdateResult::Failed) => proto::UpdateResult::Failed,
        _ => proto::UpdateResult::Unspecified,
    }
}

/// Adds to a message the progress of a job's update to its latest version.
fn add_progress(cell: &Cell, id: JobId, status: &mut proto::JobStatus) {
    let Some((job, target)) = cell.job(id).zip(cell.job_target(id)) else { return };
    status.version = cell.job_version(id).unwrap_or_default();
    if status.version == 0 {
        return;
    }
    status.update = cell.job_versions(id).last().map_or(0, |version| result(version).into());
    let current: Vec<Option<usize>> =
        target.groups.iter().map(|group| cell.target_group(id, &group.name)).collect();
    for (position, group) in job.groups.iter().enumerate() {
        let tally = cell.group_tally(id, position);
        if !current.contains(&Some(position)) {
            status.outdated += tally.alive;
        }
        if group.version == status.version {
            status.new_failures = status.new_failures.saturating_add(capped(tally.failures));
        }
    }
}

fn capped(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Message with a job and its progress. The cost does not depend on the number of tasks.
pub(crate) fn job(cell: &Cell, id: JobId) -> proto::JobStatus {
    let counts = cell.task_counts(id).unwrap_or_default();
    let mut reported = proto::JobStatus {
        id: id.0,
        pending: counts.pending,
        placed: counts.placed,
        running: counts.running,
        finished: counts.finished,
        failed: counts.failed,
        killed: counts.killed,
        failures: capped(counts.failures),
        scaled_to_zero: cell.is_scaled_to_zero(id),
        job: cell.job(id).map(|job| proto::Job::from(&**job).without_programs()),
        target: target(cell, id).map(|job| proto::Job::from(job).without_programs()),
        ..Default::default()
    };
    add_progress(cell, id, &mut reported);
    reported.gang_wait = cell.gang_wait(id).zip(cell.job(id)).map(|(_, job)| proto::GangWait {
        have: counts.placed + counts.running,
        needs: job.gang_min.unwrap_or(0).min(counts.alive()),
        until_ms: cell.gang_expires_ms(id),
    });
    reported
}

/// Message with a task and its machine.
pub(crate) fn task(cell: &Cell, id: TaskId, state: TaskState) -> proto::TaskStatus {
    let (phase, machine) = convert::phase(state);
    let name = |id: MachineId| cell.machine(id).map(|found| found.machine.name.to_string());
    let group = cell.task_group(id).zip(cell.job(id.job));
    let group = group.and_then(|(group, job)| job.groups.get(group));
    let devices = cell.task_devices(id).unwrap_or_default();
    let ports = |group: &TaskGroup| named_ports(group, cell.task_ports(id));
    proto::TaskStatus {
        task: Some(id.into()),
        phase: phase.into(),
        machine: machine.map(Into::into),
        machine_name: machine.and_then(name).unwrap_or_default(),
        group: group.map(|group| group.name.to_string()).unwrap_or_default(),
        devices: devices.iter().map(|device| device as u32).collect(),
        cores: convert::node_list(&cell.task_cores(id)),
        ports: group.filter(|_| machine.is_some()).map_or(Vec::new(), |group| ports(group)),
        allocated: cell
            .task_allocation_override(id)
            .map(|owner| every_kind(cell, &owner))
            .unwrap_or_default(),
        ..proto::TaskStatus::default()
    }
}

/// The ports of a placed task that have a name: those that the cell chose, then those that its group requests.
fn named_ports(group: &TaskGroup, chosen: &[u16]) -> Vec<proto::NamedPort> {
    let mut ports = convert::chosen_ports(group, chosen);
    let fixed = group.run.iter().flat_map(|run| &run.ports);
    ports.extend(fixed.map(convert::named_port));
    ports
}

/// Amounts of all kinds of the cell, including zero.
fn every_kind(cell: &Cell, amounts: &Amounts) -> Vec<u64> {
    cell.kinds().iter().map(|(kind, _)| amounts.get(kind)).collect()
}

/// Message with a machine and its free resources.
pub(crate) fn machine(state: &MachineState<'_>) -> proto::MachineStatus {
    proto::MachineStatus {
        id: Some(state.id.into()),
        machine: Some((&**state.machine).into()),
        draining: state.status == MachineStatus::Draining,
        sequence: state.sequence.0,
        free: state.free.to_vec(),
        load: state.load.map(|report| convert::values(&report.used)).unwrap_or_default(),
        load_at_ms: state.load.map_or(0, |report| report.at_ms),
        tasks: state.tasks.len() as u32,
        cores_left: cores_left(state),
        claimable: state.claimable.iter().map(|all| (*all).max(0) as u64).collect(),
    }
}

/// Free exclusive cores of a machine, by NUMA node.
fn cores_left(state: &MachineState<'_>) -> Vec<u32> {
    let nodes = state.machine.numa.as_slice().len();
    let left = state.cores_left.into_iter().flat_map(|cores| *cores.left());
    left.take(nodes).map(|left| u32::from(left.max(0).unsigned_abs())).collect()
}

/// Message with a scheduler and the owner of its name.
pub(crate) fn scheduler(listed: Listed) -> proto::SchedulerStatus {
    let holder = |owner: NameOwner| proto::Holder {
        process: owner.process.to_string(),
        lease_ms: owner.lease.lease_ms,
        left_ms: u32::try_from(owner.remaining_ms).unwrap_or(u32::MAX),
        mark: leases::mark(owner.lease.holder),
    };
    proto::SchedulerStatus {
        scheduler: listed.id.0,
        name: listed.name.to_string(),
        next_transaction: listed.next_transaction,
        holder: listed.owner.map(holder),
    }
}

/// The members of the cell.
pub(crate) fn members(membership: &Membership) -> Vec<proto::Member> {
    let roles = [
        (&membership.voters, proto::MemberRole::Voter),
        (&membership.learners, proto::MemberRole::Learner),
        (&membership.voters_outgoing, proto::MemberRole::Outgoing),
    ];
    let mut all: Vec<proto::Member> = Vec::new();
    for (ids, role) in roles {
        for id in ids {
            if all.iter().all(|known| known.replica != id.0) {
                all.push(proto::Member {
                    replica: id.0,
                    role: role.into(),
                    peer_address: membership.addresses.get(id).cloned().unwrap_or_default(),
                    ..proto::Member::default()
                });
            }
        }
    }
    all.sort_by_key(|member| member.replica);
    all
}
