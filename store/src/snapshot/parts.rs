//! A snapshot state as a sequence of parts, in the order of writing and reading.
//!
//! A part is a row, a job, a task or a result: small, so that neither side needs a second copy of
//! the state in memory. The number of parts precedes them, in the header or in the enclosing part.

use super::error::LoadError;
use super::header::Counts;
use super::read::Body;
use super::write::{BodyWriter, WriteError};
use crate::codec::v1::{JobV1, PolicyV1};
use crate::codec::v2::JobV2;
use crate::codec::v3::{JobV3, MachineV3, PolicyV3};
use crate::codec::v4::JobV4;
use omega_cellstate::{
    Answer, GangHold, Image, ImageError, JobImage, LoadReport, MachineImage, MachineStatus,
    SchedulerImage, TaskRecord, TenantImage,
};
use omega_core::limits::AMOUNT_MAX;
use omega_core::{
    Amounts, DeviceSet, Hold, Job, JobId, Kinds, Machine, Policy, ResourceKind, SequenceNumber,
    TaskState, TenantConfig, Text, Version,
};
use std::sync::Arc;

/// A row of machines.
type Row<M> = (Option<M>, SequenceNumber, u32, MachineStatus);

/// The bytes that a part has at least where many are expected: so much memory is taken at once for
/// them at most as the file is long.
const PART_BYTES_MIN: u64 = 16;

/// The first format in which tenants have a standing.
const TENANT_CONFIGS: u32 = 2;

/// The first format with jobs and policies of version 2 of the [bytes of commands](crate::codec).
const COMMANDS_2: u32 = 3;

/// The first format with jobs and policies of version 3 of them, tasks that say when they were placed, tenants that
/// say what they may ask for, and reservations.
const COMMANDS_3: u32 = 4;

/// The first format with machines, jobs and policies of version 4 of them, cores that tasks have to
/// themselves, what the cell as a whole has, and calendars of peaks.
const COMMANDS_4: u32 = 5;

/// The first format with jobs of version 5 of them.
const COMMANDS_5: u32 = 7;

/// First format in which load reports have a time and the claims at that time.
const LOADS_WITH_AGE: u32 = 3;

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
    for JobImage { id, spec, resized, hold, held, cores, tasks } in &image.jobs {
        body.part(&(id, spec, resized, hold, held.len() as u32, tasks.len() as u32))?;
        tasks.iter().try_for_each(|task| body.part(task))?;
        held.iter().try_for_each(|held| body.part(held))?;
        body.part(&(cores.len() as u32))?;
        cores.iter().try_for_each(|cores| body.part(cores))?;
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

/// Reads a state with these numbers of parts.
pub(super) fn read(format: u32, counts: Counts, body: &mut Body<'_>) -> Result<Image, LoadError> {
    let kinds: Vec<ResourceKind> = body.part()?;
    let kinds = Kinds::new(kinds).map_err(|error| body.damage(ImageError::from(error).into()))?;
    let (version, now_ms, policy, next_job) = read_head(format, body)?;
    let evicted = if format < COMMANDS_2 { Vec::new() } else { body.part()? };
    let reservations = if format < COMMANDS_3 { Vec::new() } else { body.part()? };
    let cluster_capacity = if format < COMMANDS_4 { Amounts::zero() } else { body.part()? };
    let peaks = if format < COMMANDS_4 { Vec::new() } else { body.part()? };
    let machines = list(counts.rows, body, |body| read_machine(format, body))?;
    let mut loads = list(counts.loads, body, |body| read_load((format, now_ms), body))?;
    let vacant = list(counts.vacant, body, Body::part)?;
    let jobs = list(counts.jobs, body, |body| read_job(format, body))?;
    if format < LOADS_WITH_AGE {
        note_claims(&mut loads, &jobs);
    }
    let ended = list(counts.ended, body, Body::part)?;
    let tenants = list(counts.tenants, body, |body| read_tenant(format, body))?;
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

fn read_head(format: u32, body: &mut Body<'_>) -> Result<(Version, u64, Policy, JobId), LoadError> {
    let (version, now_ms, policy, next) = match format {
        ..COMMANDS_2 => {
            let (version, now_ms, policy, next): (_, _, PolicyV1, _) = body.part()?;
            (version, now_ms, PolicyV3::from(policy).into(), next)
        }
        // Version 3 of commands has the policies of version 2.
        COMMANDS_2..COMMANDS_4 => {
            let (version, now_ms, policy, next): (_, _, PolicyV3, _) = body.part()?;
            (version, now_ms, policy.into(), next)
        }
        _ => body.part()?,
    };
    Ok((version, now_ms, policy, next))
}

fn read_machine(format: u32, body: &mut Body<'_>) -> Result<MachineImage, LoadError> {
    let (machine, sequence, incarnation, status): Row<Arc<Machine>> = match format {
        ..COMMANDS_4 => {
            let (machine, sequence, incarnation, status): Row<MachineV3> = body.part()?;
            (machine.map(|it| Arc::new(it.into())), sequence, incarnation, status)
        }
        _ => body.part()?,
    };
    Ok(MachineImage { machine, sequence, incarnation, status })
}

/// A report of load. One from before they had an age counts as having just come.
fn read_load(
    (format, now_ms): (u32, u64),
    body: &mut Body<'_>,
) -> Result<(u32, LoadReport), LoadError> {
    if format < LOADS_WITH_AGE {
        let (slot, used): (u32, Amounts) = body.part()?;
        return Ok((slot, LoadReport { used, claimed: Amounts::zero(), at_ms: now_ms }));
    }
    let (slot, used, claimed, at_ms): (u32, Amounts, Amounts, u64) = body.part()?;
    Ok((slot, LoadReport { used, claimed, at_ms }))
}

/// Completes fresh load reports with the present claims of their machines.
fn note_claims(loads: &mut [(u32, LoadReport)], jobs: &[JobImage]) {
    if loads.is_empty() {
        return;
    }
    for job in jobs {
        for task in &job.tasks {
            let Some(machine) = task.state.machine() else { continue };
            let report = loads.binary_search_by_key(&machine.slot, |(slot, _)| *slot);
            let group = job.spec.groups.get(usize::from(task.group));
            let (Ok(report), Some(group)) = (report, group) else { continue };
            let claimed = &mut loads[report].1.claimed;
            for (kind, amount) in group.request.iter() {
                let sum = claimed.get(kind).saturating_add(amount).min(AMOUNT_MAX);
                claimed.set(kind, sum);
            }
        }
    }
}

fn read_job(format: u32, body: &mut Body<'_>) -> Result<JobImage, LoadError> {
    let (id, spec, resized, hold, held, tasks) = match format {
        ..COMMANDS_2 => {
            let (id, job, resized, tasks): (JobId, JobV1, bool, u32) = body.part()?;
            (id, JobV3::from(JobV2::from(job)).into(), resized, None, 0, tasks)
        }
        COMMANDS_2..COMMANDS_3 => {
            type Parts = (JobId, JobV2, bool, Option<GangHold>, u32);
            let (id, job, resized, hold, tasks): Parts = body.part()?;
            (id, JobV3::from(job).into(), resized, hold, 0, tasks)
        }
        COMMANDS_3..COMMANDS_4 => {
            type Parts = (JobId, JobV3, bool, Option<GangHold>, u32, u32);
            let (id, job, resized, hold, held, tasks): Parts = body.part()?;
            (id, job.into(), resized, hold, held, tasks)
        }
        COMMANDS_4..COMMANDS_5 => {
            type Parts = (JobId, JobV4, bool, Option<GangHold>, u32, u32);
            let (id, job, resized, hold, held, tasks): Parts = body.part()?;
            (id, job.into(), resized, hold, held, tasks)
        }
        _ => body.part::<(JobId, Job, bool, Option<GangHold>, u32, u32)>()?,
    };
    let spec: Arc<Job> = Arc::new(spec);
    let tasks = (0..tasks).map(|_| read_task(format, body)).collect::<Result<_, _>>()?;
    let held = list(u64::from(held), body, Body::part)?;
    let cores: u32 = if format < COMMANDS_4 { 0 } else { body.part()? };
    let cores = list(u64::from(cores), body, Body::part)?;
    Ok(JobImage { id, spec, resized, hold, held, cores, tasks })
}

fn read_tenant(format: u32, body: &mut Body<'_>) -> Result<TenantImage, LoadError> {
    let (name, limit, tenant_config, admits) = match format {
        ..TENANT_CONFIGS => {
            let (name, limit): (Text, Option<Amounts>) = body.part()?;
            (name, limit, TenantConfig::default(), None)
        }
        TENANT_CONFIGS..COMMANDS_3 => {
            let (name, limit, tenant_config): (Text, Option<Amounts>, TenantConfig) =
                body.part()?;
            (name, limit, tenant_config, None)
        }
        _ => body.part::<(Text, Option<Amounts>, TenantConfig, Option<Amounts>)>()?,
    };
    Ok(TenantImage { name, limit, tenant_config, admits })
}

/// A task. Nobody knows when one from before that was noted was placed: long ago.
fn read_task(format: u32, body: &mut Body<'_>) -> Result<TaskRecord, LoadError> {
    if format < COMMANDS_3 {
        let (state, devices, group, failures): (TaskState, DeviceSet, u16, u16) = body.part()?;
        return Ok(TaskRecord { state, devices, group, failures, placed_ms: 0 });
    }
    body.part()
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

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::Cell;
    use omega_core::{Command, MachineId, TaskGroup, TaskId};

    #[test]
    fn a_report_without_claims_gets_those_of_the_tasks_that_are_there() {
        let mut cell = Cell::new(Kinds::standard());
        for name in ["a", "b"] {
            let machine = Machine::new(name, Amounts::new([4000, 1 << 30]));
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let group = TaskGroup::new(3, Amounts::new([500, 1 << 20]));
        cell.apply(Command::SubmitJob(Job::batch("j", group))).unwrap();
        for (index, slot) in [(0, 1), (1, 1), (2, 0)] {
            let (task, machine) = (TaskId { job: JobId(0), index }, MachineId::first(slot));
            cell.apply(Command::AdoptTask { task, machine }).unwrap();
        }
        let load = Amounts::new([100]);
        cell.apply(Command::ReportLoad { id: MachineId::first(1), load }).unwrap();
        let image = cell.image();
        let mut loads = image.loads.clone();
        loads[0].1.claimed = Amounts::zero();
        note_claims(&mut loads, &image.jobs);
        assert_eq!(loads, image.loads);
        assert_eq!(loads[0].1.claimed, Amounts::new([1000, 2 << 20]));
    }
}
