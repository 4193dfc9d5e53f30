//! Encoding of a snapshot as a sequence of parts.
//!
//! A part is a row, a job, a task or a result. Parts are small, so that neither writing nor reading needs a second copy
//! of the state in memory. The number of parts of each kind is written before them, in the header or in the enclosing
//! part.

use super::error::LoadError;
use super::header::Counts;
use super::read::Body;
use super::write::{BodyWriter, WriteError};
use omega_cellstate::{
    JobSnapshot, LoadReport, MachineSnapshot, SchedulerSnapshot, SnapshotState, SnapshotStateError,
    TenantSnapshot,
};
use omega_core::{Kinds, ResourceKind};

/// Assumed minimum bytes of a part in long lists. So the space reserved for a list is bounded by the length of the
/// file.
const PART_BYTES_MIN: u64 = 16;

/// Writes a snapshot.
pub(super) fn write(
    state: &SnapshotState,
    body: &mut BodyWriter<'_, '_>,
) -> Result<(), WriteError> {
    body.part(&state.kinds)?;
    body.part(&(state.version, state.now_ms, &state.policy, state.next_job))?;
    body.part(&state.evicted)?;
    body.part(&state.reservations)?;
    body.part(&state.cluster_capacity)?;
    body.part(&state.peaks)?;
    for MachineSnapshot { machine, sequence, incarnation, status } in &state.machines {
        body.part(&(machine, sequence, incarnation, status))?;
    }
    for (slot, LoadReport { used, claimed, at_ms }) in &state.loads {
        body.part(&(slot, used, claimed, at_ms))?;
    }
    state.vacant.iter().try_for_each(|slot| body.part(slot))?;
    for JobSnapshot {
        id,
        spec,
        versions,
        submitted_ms,
        resized,
        killed,
        gang_wait,
        overrides,
        cores,
        ports,
        tasks,
    } in &state.jobs
    {
        body.part(&(
            id,
            spec,
            submitted_ms,
            resized,
            killed,
            gang_wait,
            overrides.len() as u32,
            tasks.len() as u32,
        ))?;
        tasks.iter().try_for_each(|task| body.part(task))?;
        overrides.iter().try_for_each(|one| body.part(one))?;
        body.part(&(cores.len() as u32))?;
        cores.iter().try_for_each(|cores| body.part(cores))?;
        body.part(&(ports.len() as u32))?;
        ports.iter().try_for_each(|ports| body.part(ports))?;
        body.part(&(versions.len() as u32))?;
        versions.iter().try_for_each(|version| body.part(version))?;
    }
    state.ended.iter().try_for_each(|job| body.part(job))?;
    for TenantSnapshot { name, limit, tenant_config, admits } in &state.tenants {
        body.part(&(name, limit, tenant_config, admits))?;
    }
    for SchedulerSnapshot { name, lease, floor, reply_cache } in &state.schedulers {
        body.part(&(name, lease, floor, reply_cache.len() as u32))?;
        reply_cache.iter().try_for_each(|reply| body.part(reply))?;
    }
    Ok(())
}

/// Reads a snapshot with these numbers of parts.
pub(super) fn read(counts: Counts, body: &mut Body<'_>) -> Result<SnapshotState, LoadError> {
    let kinds: Vec<ResourceKind> = body.part()?;
    let kinds =
        Kinds::new(kinds).map_err(|error| body.damage(SnapshotStateError::from(error).into()))?;
    let (version, now_ms, policy, next_job) = body.part()?;
    let evicted = body.part()?;
    let reservations = body.part()?;
    let cluster_capacity = body.part()?;
    let peaks = body.part()?;
    let machines = list(counts.rows, body, read_machine)?;
    let loads = list(counts.loads, body, read_load)?;
    let vacant = list(counts.vacant, body, Body::part)?;
    let jobs = list(counts.jobs, body, read_job)?;
    let ended = list(counts.ended, body, Body::part)?;
    let tenants = list(counts.tenants, body, read_tenant)?;
    let schedulers = list(counts.schedulers, body, read_scheduler)?;
    Ok(SnapshotState {
        kinds,
        version,
        now_ms,
        policy,
        evicted,
        reservations,
        cluster_capacity,
        peaks,
        machines,
        loads,
        vacant,
        next_job,
        jobs,
        ended,
        tenants,
        schedulers,
    })
}

fn read_machine(body: &mut Body<'_>) -> Result<MachineSnapshot, LoadError> {
    let (machine, sequence, incarnation, status) = body.part()?;
    Ok(MachineSnapshot { machine, sequence, incarnation, status })
}

fn read_load(body: &mut Body<'_>) -> Result<(u32, LoadReport), LoadError> {
    let (slot, used, claimed, at_ms) = body.part()?;
    Ok((slot, LoadReport { used, claimed, at_ms }))
}

fn read_job(body: &mut Body<'_>) -> Result<JobSnapshot, LoadError> {
    let (id, spec, submitted_ms, resized, killed, gang_wait, overrides, tasks) = body.part()?;
    let (overrides, tasks): (u32, u32) = (overrides, tasks);
    let tasks = (0..tasks).map(|_| body.part()).collect::<Result<_, _>>()?;
    let overrides = list(u64::from(overrides), body, Body::part)?;
    let cores: u32 = body.part()?;
    let cores = list(u64::from(cores), body, Body::part)?;
    let ports: u32 = body.part()?;
    let ports = list(u64::from(ports), body, Body::part)?;
    let versions: u32 = body.part()?;
    let versions = list(u64::from(versions), body, Body::part)?;
    Ok(JobSnapshot {
        id,
        spec,
        versions,
        submitted_ms,
        resized,
        killed,
        gang_wait,
        overrides,
        cores,
        ports,
        tasks,
    })
}

fn read_tenant(body: &mut Body<'_>) -> Result<TenantSnapshot, LoadError> {
    let (name, limit, tenant_config, admits) = body.part()?;
    Ok(TenantSnapshot { name, limit, tenant_config, admits })
}

fn read_scheduler(body: &mut Body<'_>) -> Result<SchedulerSnapshot, LoadError> {
    let (name, lease, floor, reply_cache): (_, _, _, u32) = body.part()?;
    let reply_cache = list(u64::from(reply_cache), body, Body::part)?;
    Ok(SchedulerSnapshot { name, lease, floor, reply_cache })
}

fn list<'f, T>(
    count: u64,
    body: &mut Body<'f>,
    mut part: impl FnMut(&mut Body<'f>) -> Result<T, LoadError>,
) -> Result<Vec<T>, LoadError> {
    let room = count.min(body.left() / PART_BYTES_MIN);
    let mut list = Vec::with_capacity(room as usize);
    for _ in 0..count {
        list.push(part(body)?);
    }
    Ok(list)
}
