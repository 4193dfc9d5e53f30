//! Commands in version 3 of the encoding: [`Machine`], [`Job`], [`TaskGroup`] and [`Policy`]
//! without later fields.
//!
//! Other commands are encoded as today.

use super::{CodecError, part};
use omega_core::{
    Amounts, Band, Command, DemandProfile, DeviceRequest, EvictionCap, Image, Job, JobKind, Labels,
    Machine, MachineId, OptionalResources, Overcommit, PlacementRules, Policy, Precedence,
    Preemption, Taint, TaskGroup, Text,
};
use serde::Deserialize;

/// The byte that [`Command::RegisterMachine`] begins with.
const REGISTER_MACHINE: u8 = 1;
/// The byte that [`Command::UpdateMachine`] begins with.
const UPDATE_MACHINE: u8 = 2;
/// The byte that [`Command::SubmitJob`] begins with.
pub(super) const SUBMIT_JOB: u8 = 6;
/// The byte that [`Command::SetPolicy`] begins with.
pub(super) const SET_POLICY: u8 = 12;

/// Reads the command that bytes begin with. With it comes how many bytes it has.
pub(super) fn command(bytes: &[u8]) -> Result<(Command, usize), CodecError> {
    let Some((first, rest)) = bytes.split_first() else { return part(bytes) };
    let (command, used) = match *first {
        REGISTER_MACHINE => {
            let (machine, used) = part::<MachineV3>(rest)?;
            (Command::RegisterMachine(machine.into()), used)
        }
        UPDATE_MACHINE => {
            let ((id, machine), used) = part::<(MachineId, MachineV3)>(rest)?;
            (Command::UpdateMachine { id, machine: machine.into() }, used)
        }
        SUBMIT_JOB => {
            let (job, used) = part::<JobV3>(rest)?;
            (Command::SubmitJob(job.into()), used)
        }
        SET_POLICY => {
            let (policy, used) = part::<PolicyV3>(rest)?;
            (Command::SetPolicy(policy.into()), used)
        }
        _ => return part(bytes),
    };
    Ok((command, used + 1))
}

/// A [`Machine`] as it was.
#[derive(Deserialize)]
pub(crate) struct MachineV3 {
    name: Text,
    capacity: Amounts,
    overcommit: Overcommit,
    labels: Labels,
    taints: Box<[Taint]>,
    images: Box<[Image]>,
    devices: u8,
}

/// A [`Job`] as it was.
#[derive(Deserialize)]
pub(crate) struct JobV3 {
    pub(super) name: Text,
    pub(super) tenant: Text,
    pub(super) scheduler: Text,
    pub(super) precedence: Precedence,
    pub(super) preemption: Preemption,
    pub(super) kind: JobKind,
    pub(super) groups: Vec<TaskGroupV3>,
    pub(super) gang_min: Option<u32>,
    pub(super) gang_timeout_ms: Option<u32>,
    pub(super) runtime_estimate_ms: Option<u64>,
    pub(super) deadline_ms: Option<u64>,
}

/// A [`TaskGroup`] as it was.
#[derive(Deserialize)]
pub(super) struct TaskGroupV3 {
    pub(super) name: Text,
    pub(super) count: u32,
    pub(super) request: Amounts,
    pub(super) devices: Option<DeviceRequest>,
    pub(super) labels: Labels,
    pub(super) restarts: u32,
    pub(super) images: Vec<Text>,
    pub(super) rules: PlacementRules,
    pub(super) volumes: Vec<Text>,
    pub(super) grace_ms: u32,
    pub(super) demand_profiles: Vec<DemandProfile>,
    pub(super) optional: Option<OptionalResources>,
}

/// A [`Policy`] as it was.
#[derive(Default, Deserialize)]
pub(crate) struct PolicyV3 {
    pub(super) overcommit_max: Overcommit,
    pub(super) ttl_after_finished_ms: u64,
    pub(super) bands: Vec<Band>,
    pub(super) eviction_cap: Option<EvictionCap>,
}

impl From<MachineV3> for Machine {
    fn from(machine: MachineV3) -> Machine {
        let MachineV3 { name, capacity, overcommit, labels, taints, images, devices } = machine;
        Machine { overcommit, labels, taints, images, devices, ..Machine::new(name, capacity) }
    }
}

impl From<JobV3> for Job {
    fn from(job: JobV3) -> Job {
        Job {
            name: job.name,
            tenant: job.tenant,
            scheduler: job.scheduler,
            precedence: job.precedence,
            preemption: job.preemption,
            kind: job.kind,
            groups: job.groups.into_iter().map(TaskGroup::from).collect(),
            gang_min: job.gang_min,
            gang_timeout_ms: job.gang_timeout_ms,
            runtime_estimate_ms: job.runtime_estimate_ms,
            deadline_ms: job.deadline_ms,
        }
    }
}

impl From<TaskGroupV3> for TaskGroup {
    fn from(group: TaskGroupV3) -> TaskGroup {
        TaskGroup {
            name: group.name,
            devices: group.devices,
            labels: group.labels,
            restarts: group.restarts,
            images: group.images,
            rules: group.rules,
            volumes: group.volumes,
            grace_ms: group.grace_ms,
            demand_profiles: group.demand_profiles,
            optional: group.optional,
            ..TaskGroup::new(group.count, group.request)
        }
    }
}

impl From<PolicyV3> for Policy {
    fn from(policy: PolicyV3) -> Policy {
        let PolicyV3 { overcommit_max, ttl_after_finished_ms, bands, eviction_cap } = policy;
        Policy { overcommit_max, ttl_after_finished_ms, bands, eviction_cap }
    }
}
