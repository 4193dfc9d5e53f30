//! Commands as version 4 of the bytes has them: [`Job`] and [`TaskGroup`] without programs and payloads.
//!
//! Only [`Command::SubmitJob`] differs from that of today.

use super::v3::SUBMIT_JOB;
use super::{CodecError, part};
use omega_core::{
    Amounts, Command, CoreRequest, DemandProfile, DeviceRequest, Job, JobKind, Labels,
    OptionalResources, PlacementRules, Precedence, Preemption, TaskGroup, Text,
};
use serde::Deserialize;

/// Reads the command that bytes begin with. With it comes how many bytes it has.
pub(super) fn command(bytes: &[u8]) -> Result<(Command, usize), CodecError> {
    match bytes.split_first() {
        Some((&SUBMIT_JOB, rest)) => {
            let (job, used) = part::<JobV4>(rest)?;
            Ok((Command::SubmitJob(job.into()), used + 1))
        }
        _ => part(bytes),
    }
}

/// A [`Job`] as it was.
#[derive(Deserialize)]
pub(crate) struct JobV4 {
    name: Text,
    tenant: Text,
    scheduler: Text,
    precedence: Precedence,
    preemption: Preemption,
    kind: JobKind,
    groups: Vec<TaskGroupV4>,
    gang_min: Option<u32>,
    gang_timeout_ms: Option<u32>,
    runtime_estimate_ms: Option<u64>,
    deadline_ms: Option<u64>,
}

/// A [`TaskGroup`] as it was.
#[derive(Deserialize)]
struct TaskGroupV4 {
    name: Text,
    count: u32,
    request: Amounts,
    devices: Option<DeviceRequest>,
    labels: Labels,
    restarts: u32,
    images: Vec<Text>,
    rules: PlacementRules,
    volumes: Vec<Text>,
    grace_ms: u32,
    demand_profiles: Vec<DemandProfile>,
    optional: Option<OptionalResources>,
    cores: Option<CoreRequest>,
    cluster_request: Amounts,
}

impl From<JobV4> for Job {
    fn from(job: JobV4) -> Job {
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

impl From<TaskGroupV4> for TaskGroup {
    fn from(group: TaskGroupV4) -> TaskGroup {
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
            cores: group.cores,
            cluster_request: group.cluster_request,
            ..TaskGroup::new(group.count, group.request)
        }
    }
}
