//! Comparison of a cell with its reference model: all public state must be equal.

use crate::reference::{Reference, ReferenceJob, ReferenceTask};
use omega_cellstate::{Cell, MachineStatus};
use omega_core::limits::VERSIONS_PER_JOB;
use omega_core::{
    Amounts, DeviceSet, JobId, KindId, Machine, MachineId, NodeCores, Outcome, Policy, Rejection,
    SequenceNumber, TaskId, TaskState, Text, Version,
};
use std::sync::Arc;

/// Public state of a machine.
#[derive(Debug, PartialEq)]
struct MachinePicture {
    id: MachineId,
    spec: Arc<Machine>,
    draining: bool,
    sequence: SequenceNumber,
    free: Vec<i128>,
    claimable: Vec<i128>,
    devices_left: Vec<i16>,
    cores_left: Vec<i32>,
    load: Option<(Amounts, Amounts, u64)>,
    tasks: Vec<TaskId>,
}

/// Public state of a task.
#[derive(Debug, PartialEq)]
struct TaskPicture {
    id: TaskId,
    state: TaskState,
    devices: DeviceSet,
    cores: NodeCores,
    ports: Vec<u16>,
    group: usize,
    placed_ms: u64,
    holds: Option<Amounts>,
}

fn machines_of_cell(cell: &Cell) -> Vec<MachinePicture> {
    let wide = |amounts: &[i64]| amounts.iter().copied().map(i128::from).collect();
    let picture = |m: omega_cellstate::MachineState<'_>| {
        let mut tasks = m.tasks.to_vec();
        tasks.sort_unstable();
        MachinePicture {
            id: m.id,
            spec: m.machine.clone(),
            draining: m.status == MachineStatus::Draining,
            sequence: m.sequence,
            free: wide(m.free),
            claimable: wide(&m.claimable),
            devices_left: m.devices_left.to_vec(),
            cores_left: {
                let left = m.cores_left.into_iter().flat_map(|cores| *cores.left());
                left.take(m.machine.numa.as_slice().len()).map(i32::from).collect()
            },
            load: m.load.map(|load| (load.used.clone(), load.claimed.clone(), load.at_ms)),
            tasks,
        }
    };
    cell.machines().map(picture).collect()
}

fn machines_of_reference(reference: &Reference) -> Vec<MachinePicture> {
    let picture = |row: usize| {
        let host = reference.rows()[row].machine.as_ref()?;
        Some(MachinePicture {
            id: reference.machine_id(row),
            spec: host.spec.clone(),
            draining: host.draining,
            sequence: reference.rows()[row].sequence,
            free: reference.free(row),
            claimable: reference.claimable(row),
            devices_left: reference.devices_left(row).into_iter().map(u16::cast_signed).collect(),
            cores_left: reference.cores_left(row),
            load: host
                .load
                .as_ref()
                .map(|load| (load.used.clone(), load.claimed.clone(), load.at_ms)),
            tasks: reference.placed().filter(|(.., at)| *at == row).map(|(id, ..)| id).collect(),
        })
    };
    (0..reference.rows().len()).filter_map(picture).collect()
}

fn tasks_of_cell(cell: &Cell, job: JobId) -> Vec<TaskPicture> {
    let picture = |(id, state)| TaskPicture {
        id,
        state,
        devices: cell.task_devices(id).unwrap_or_default(),
        cores: cell.task_cores(id),
        ports: cell.task_ports(id).to_vec(),
        group: cell.task_group(id).unwrap_or(usize::MAX),
        placed_ms: cell.task_placed_ms(id).unwrap_or(u64::MAX),
        holds: cell.task_allocation(id),
    };
    cell.tasks(job).map(picture).collect()
}

fn tasks_of_reference(reference: &Reference) -> Vec<TaskPicture> {
    let picture = |(id, job, task): (TaskId, &ReferenceJob, &ReferenceTask)| TaskPicture {
        id,
        state: task.state,
        devices: task.devices,
        cores: task.cores,
        ports: task.ports.clone(),
        group: task.group,
        placed_ms: task.placed_ms,
        holds: task.state.machine().map(|_| job.allocation(task)),
    };
    reference.tasks().map(picture).collect()
}

fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    cell: &T,
    reference: &T,
) -> Result<(), String> {
    if cell == reference {
        Ok(())
    } else {
        Err(format!("{what}\n  cell: {cell:?}\n  reference: {reference:?}"))
    }
}

/// Compares the public state of a cell and of its reference model.
///
/// # Errors
/// The first difference, with both sides.
pub fn compare(cell: &Cell, reference: &Reference) -> Result<(), String> {
    equal::<Version>("version", &cell.version(), &reference.version())?;
    equal::<Policy>("policy", cell.policy(), reference.policy())?;
    let ours: Vec<_> =
        cell.schedulers().map(|s| (s.name, s.lease.map(|lease| lease.holder))).collect();
    equal("schedulers", &ours, &reference.lease_owners().collect())?;
    let (ours, theirs) = (machines_of_cell(cell), machines_of_reference(reference));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        equal("machine", ours, theirs)?;
        equal("machine by name", &cell.machine_by_name(&ours.spec.name), &Some(ours.id))?;
    }
    equal("number of machines", &ours.len(), &theirs.len())?;
    let taken: u64 = reference.placed().map(|(_, _, task, _)| u64::from(task.cores.total())).sum();
    equal("cores taken", &cell.core_counts().taken, &taken)?;
    let all: u64 = theirs.iter().map(|machine| u64::from(machine.spec.numa.total())).sum();
    equal("cores of all machines", &cell.core_counts().all, &all)?;
    let ours: Vec<_> = cell.jobs().map(|(id, job)| (id, job.clone())).collect();
    let theirs: Vec<_> = reference.jobs().iter().map(|(id, job)| (*id, job.spec.clone())).collect();
    equal("jobs", &ours, &theirs)?;
    for (id, job) in &ours {
        equal("job by name", &cell.job_by_name(&job.name), &Some(*id))?;
    }
    for (id, _) in &ours {
        let submitted_ms = reference.jobs()[id].submitted_ms;
        equal("time of a submission", &cell.job_submitted_ms(*id), &Some(submitted_ms))?;
        let kept = cell.job_versions(*id).to_vec();
        let all = &reference.jobs()[id].versions;
        let latest = all[all.len().saturating_sub(VERSIONS_PER_JOB)..].to_vec();
        equal("versions of a job", &kept, &latest)?;
    }
    let tasks: Vec<_> = ours.iter().flat_map(|(id, _)| tasks_of_cell(cell, *id)).collect();
    equal("tasks", &tasks, &tasks_of_reference(reference))?;
    for (id, _) in &ours {
        let held = cell.gang_wait(*id).map(|hold| (hold.since_ms, hold.spared));
        let references = reference.gang_wait(*id).map(|hold| (hold.noticed_ms, hold.spared));
        equal("hold of a gang", &held, &references)?;
    }
    let capped = cell.policy().eviction_cap.is_some();
    let left = capped.then(|| reference.evictions_left());
    equal("evictions left", &cell.evictions_left().map(u64::from), &left)?;
    equal("reservations", &cell.reservations().collect(), &reference.reservations())?;
    let resources = cell.resources();
    for (kind, _) in cell.kinds().iter() {
        equal(
            "capacity of the cell",
            &resources.capacity.get(kind),
            &reference.cluster_capacity(kind),
        )?;
        let claimed = u128::from(resources.claimed.get(kind));
        equal("claimed of the cell", &claimed, &reference.cluster_claimed(kind))?;
    }
    compare_peaks(cell, reference)?;
    for tenant in reference.tenants() {
        let used = cell.tenant_used(tenant).unwrap_or(&[]);
        let used: Vec<i128> = used.iter().copied().map(i128::from).collect();
        equal("use of a tenant", &used, &reference.tenant_used(tenant))?;
        let tenant_config = cell.tenant_config(tenant).cloned().unwrap_or_default();
        equal("tenant_config of a tenant", &tenant_config, &reference.tenant_config(tenant))?;
        equal("admission of a tenant", &cell.admission(tenant), &reference.admission(tenant))?;
        let asked = cell.requested(tenant).into_iter().flatten().zip(0..);
        for (asked, kind) in asked {
            let naive = reference.asked(tenant, KindId(kind)).min(u128::from(u64::MAX));
            equal("asked by a tenant", &u128::from(asked), &naive)?;
        }
    }
    Ok(())
}

/// Compares the peak calendars and the batch allocations.
fn compare_peaks(cell: &Cell, reference: &Reference) -> Result<(), String> {
    let calendars = reference.peak_calendars();
    equal("peak calendars", &cell.peak_calendars().collect(), &calendars)?;
    if calendars.is_empty() {
        return Ok(());
    }
    let mut over = 0;
    for machine in cell.machines() {
        let row = machine.id.row();
        let mut is_over = false;
        for kind in (0..reference.kinds().count() as u8).map(KindId) {
            let held = reference.batch_allocated(row, kind);
            equal("what batch holds", &i128::from(cell.batch_allocated(machine.id, kind)), &held)?;
            is_over |= reference.batch_max(row, kind).is_some_and(|most| held > most);
        }
        over += usize::from(is_over);
    }
    equal("machines where batch holds too much", &cell.machines_over_peak(), &over)
}

/// Compares two results, except for the text of a rejection, which is only an explanation for users.
///
/// # Errors
/// Both results, if they differ.
pub fn compare_answers(
    cell: Result<Outcome, Rejection>,
    reference: Result<Outcome, Rejection>,
) -> Result<(), String> {
    equal("answer", &cell.map_err(without_words), &reference.map_err(without_words))
}

fn without_words(rejection: Rejection) -> Rejection {
    let none = Text::from("");
    match rejection {
        Rejection::BadName(_) => Rejection::BadName(none),
        Rejection::BadJob(_) => Rejection::BadJob(none),
        Rejection::BadMachine(_) => Rejection::BadMachine(none),
        Rejection::BadTenant(_) => Rejection::BadTenant(none),
        Rejection::BadReservation(_) => Rejection::BadReservation(none),
        Rejection::BadPeaks(_) => Rejection::BadPeaks(none),
        Rejection::BadPolicy(_) => Rejection::BadPolicy(none),
        Rejection::TooMany { given, max, .. } => Rejection::TooMany { what: none, given, max },
        Rejection::BadAmount { kind, .. } => Rejection::BadAmount { what: none, kind },
        Rejection::NotAdmitted { tenant, kind, requested: asked, limit, .. } => {
            Rejection::NotAdmitted { tenant, kind, requested: asked, limit, detail: none }
        }
        other => other,
    }
}
