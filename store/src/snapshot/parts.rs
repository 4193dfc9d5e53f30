//! Encoding of an image as a sequence of parts.
//!
//! A part is a row, a job, a task or a result. Parts are small, so that neither writing nor reading needs a second copy
//! of the state in memory. The number of parts of each kind is written before them, in the header or in the enclosing
//! part.

use super::error::LoadError;
use super::header::Counts;
use super::read::Body;
use super::write::{BodyWriter, WriteError};
use omega_cellstate::{
    Image, ImageError, JobImage, LoadReport, MachineImage, SchedulerImage, TenantImage,
};
use omega_core::{Kinds, ResourceKind};

/// Assumed minimum bytes of a part in long lists. So the space reserved for a list is bounded by the length of the
/// file.
const PART_BYTES_MIN: u64 = 16;

/// Writes an image.
pub(super) fn write(image: &Image, body: &mut BodyWriter<'_, '_>) -> Result<(), WriteError> {
    body.part(&image.kinds)?;
    body.part(&(image.version, image.now_ms, &image.policy, image.next_job))?;
    body.part(&image.evicted)?;
    body.part(&image.reservations)?;
    body.part(&image.cluster_capacity)?;
    body.part(&image.peaks)?;
    for MachineImage { machine, sequence, incarnation, status } in &image.machines {
        body.part(&(machine, sequence, incarnation, status))?;
    }
    for (slot, LoadReport { used, claimed, at_ms }) in &image.loads {
        body.part(&(slot, used, claimed, at_ms))?;
    }
    image.vacant.iter().try_for_each(|slot| body.part(slot))?;
    for JobImage { id, spec, versions, submitted_ms, resized, hold, held, cores, ports, tasks } in
        &image.jobs
    {
        body.part(&(id, spec, submitted_ms, resized, hold, held.len() as u32, tasks.len() as u32))?;
        tasks.iter().try_for_each(|task| body.part(task))?;
        held.iter().try_for_each(|held| body.part(held))?;
        body.part(&(cores.len() as u32))?;
        cores.iter().try_for_each(|cores| body.part(cores))?;
        body.part(&(ports.len() as u32))?;
        ports.iter().try_for_each(|ports| body.part(ports))?;
        body.part(&(versions.len() as u32))?;
        versions.iter().try_for_each(|version| body.part(version))?;
    }
    image.ended.iter().try_for_each(|job| body.part(job))?;
    for TenantImage { name, limit, tenant_config, admits } in &image.tenants {
        body.part(&(name, limit, tenant_config, admits))?;
    }
    for SchedulerImage { name, hold, floor, answers } in &image.schedulers {
        body.part(&(name, hold, floor, answers.len() as u32))?;
        answers.iter().try_for_each(|answer| body.part(answer))?;
    }
    Ok(())
}

/// Reads an image with these numbers of parts.
pub(super) fn read(counts: Counts, body: &mut Body<'_>) -> Result<Image, LoadError> {
    let kinds: Vec<ResourceKind> = body.part()?;
    let kinds = Kinds::new(kinds).map_err(|error| body.damage(ImageError::from(error).into()))?;
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
    Ok(Image {
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

fn read_machine(body: &mut Body<'_>) -> Result<MachineImage, LoadError> {
    let (machine, sequence, incarnation, status) = body.part()?;
    Ok(MachineImage { machine, sequence, incarnation, status })
}

fn read_load(body: &mut Body<'_>) -> Result<(u32, LoadReport), LoadError> {
    let (slot, used, claimed, at_ms) = body.part()?;
    Ok((slot, LoadReport { used, claimed, at_ms }))
}

fn read_job(body: &mut Body<'_>) -> Result<JobImage, LoadError> {
    let (id, spec, submitted_ms, resized, hold, held, tasks): (_, _, _, _, _, u32, u32) =
        body.part()?;
    let tasks = (0..tasks).map(|_| body.part()).collect::<Result<_, _>>()?;
    let held = list(u64::from(held), body, Body::part)?;
    let cores: u32 = body.part()?;
    let cores = list(u64::from(cores), body, Body::part)?;
    let ports: u32 = body.part()?;
    let ports = list(u64::from(ports), body, Body::part)?;
    let versions: u32 = body.part()?;
    let versions = list(u64::from(versions), body, Body::part)?;
    Ok(JobImage { id, spec, versions, submitted_ms, resized, hold, held, cores, ports, tasks })
}

fn read_tenant(body: &mut Body<'_>) -> Result<TenantImage, LoadError> {
    let (name, limit, tenant_config, admits) = body.part()?;
    Ok(TenantImage { name, limit, tenant_config, admits })
}

fn read_scheduler(body: &mut Body<'_>) -> Result<SchedulerImage, LoadError> {
    let (name, hold, floor, answers): (_, _, _, u32) = body.part()?;
    let answers = list(u64::from(answers), body, Body::part)?;
    Ok(SchedulerImage { name, hold, floor, answers })
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
