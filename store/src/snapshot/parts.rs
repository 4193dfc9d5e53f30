//! An image as a sequence of parts: the order in which they are written, and are read again.
//!
//! A part is a row, a job, a task, an answer: small, so that neither side needs a second copy of the
//! image in memory. How many there are is said before them, in the header or in the part they
//! belong to.

use super::error::LoadError;
use super::header::Counts;
use super::read::Body;
use super::write::{BodyWriter, WriteError};
use crate::codec::v1::{JobV1, PolicyV1};
use omega_cellstate::{
    Answer, GangHold, Image, ImageError, JobImage, MachineImage, MachineStatus, SchedulerImage,
    TaskRecord, TenantImage,
};
use omega_core::{
    Amounts, Hold, Job, JobId, Kinds, Machine, Policy, ResourceKind, SequenceNumber, Standing,
    Text, Version,
};
use std::sync::Arc;

/// A row of machines.
type Row = (Option<Arc<Machine>>, SequenceNumber, u32, MachineStatus);

/// The bytes that a part has at least where many are expected: so much memory is taken at once for
/// them at most as the file is long.
const PART_BYTES_MIN: u64 = 16;

/// The first format in which tenants have a standing.
const STANDINGS: u32 = 2;

/// The first format with jobs and policies of version 2 of the [bytes of commands](crate::codec).
const COMMANDS_2: u32 = 3;

/// Writes an image.
pub(super) fn write(image: &Image, body: &mut BodyWriter<'_, '_>) -> Result<(), WriteError> {
    body.part(&image.kinds)?;
    body.part(&(image.version, image.now_ms, &image.policy, image.next_job))?;
    body.part(&image.evicted)?;
    for MachineImage { machine, sequence, incarnation, status } in &image.machines {
        body.part(&(machine, sequence, incarnation, status))?;
    }
    image.loads.iter().try_for_each(|load| body.part(load))?;
    image.vacant.iter().try_for_each(|slot| body.part(slot))?;
    for JobImage { id, spec, resized, hold, tasks } in &image.jobs {
        body.part(&(id, spec, resized, hold, tasks.len() as u32))?;
        tasks.iter().try_for_each(|task| body.part(task))?;
    }
    image.ended.iter().try_for_each(|job| body.part(job))?;
    for TenantImage { name, limit, standing } in &image.tenants {
        body.part(&(name, limit, standing))?;
    }
    for SchedulerImage { name, hold, floor, answers } in &image.schedulers {
        body.part(&(name, hold, floor, answers.len() as u32))?;
        answers.iter().try_for_each(|answer| body.part(answer))?;
    }
    Ok(())
}

/// Reads an image of so many parts.
pub(super) fn read(format: u32, counts: Counts, body: &mut Body<'_>) -> Result<Image, LoadError> {
    let kinds: Vec<ResourceKind> = body.part()?;
    let kinds = Kinds::new(kinds).map_err(|error| body.damage(ImageError::from(error).into()))?;
    let (version, now_ms, policy, next_job) = match format {
        ..COMMANDS_2 => {
            let (version, now_ms, policy, next): (Version, u64, PolicyV1, JobId) = body.part()?;
            (version, now_ms, policy.into(), next)
        }
        _ => body.part::<(Version, u64, Policy, JobId)>()?,
    };
    let evicted = if format < COMMANDS_2 { Vec::new() } else { body.part()? };
    let machines = list(counts.rows, body, |body| {
        let (machine, sequence, incarnation, status): Row = body.part()?;
        Ok(MachineImage { machine, sequence, incarnation, status })
    })?;
    let loads: Vec<(u32, Amounts)> = list(counts.loads, body, Body::part)?;
    let vacant = list(counts.vacant, body, Body::part)?;
    let jobs = list(counts.jobs, body, |body| read_job(format, body))?;
    let ended = list(counts.ended, body, Body::part)?;
    let tenants = list(counts.tenants, body, |body| {
        if format < STANDINGS {
            let (name, limit): (Text, Option<Amounts>) = body.part()?;
            return Ok(TenantImage { name, limit, standing: Standing::default() });
        }
        let (name, limit, standing): (Text, Option<Amounts>, Standing) = body.part()?;
        Ok(TenantImage { name, limit, standing })
    })?;
    let schedulers = list(counts.schedulers, body, |body| {
        let (name, hold, floor, answers): (Text, Option<Hold>, u64, u32) = body.part()?;
        let answers: Vec<Answer> = list(u64::from(answers), body, Body::part)?;
        Ok(SchedulerImage { name, hold, floor, answers })
    })?;
    Ok(Image {
        kinds,
        version,
        now_ms,
        policy,
        evicted,
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

fn read_job(format: u32, body: &mut Body<'_>) -> Result<JobImage, LoadError> {
    let (id, spec, resized, hold, tasks) = match format {
        ..COMMANDS_2 => {
            let (id, job, resized, tasks): (JobId, JobV1, bool, u32) = body.part()?;
            (id, Arc::new(job.into()), resized, None, tasks)
        }
        _ => body.part::<(JobId, Arc<Job>, bool, Option<GangHold>, u32)>()?,
    };
    let tasks = (0..tasks).map(|_| body.part::<TaskRecord>()).collect::<Result<_, _>>()?;
    Ok(JobImage { id, spec, resized, hold, tasks })
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
