//! Commands as version 1 of the bytes has them: what [`Job`](omega_core::Job), its groups and
//! [`Policy`](omega_core::Policy) were then. Those of [version 2](super::v2) are made of them.

use super::v2::{self, JobV2, TaskGroupV2};
use super::v3::{JobV3, PolicyV3, SET_POLICY, SUBMIT_JOB};
use super::{CodecError, part};
use omega_core::{
    Amounts, Command, DeviceRequest, JobKind, Labels, Overcommit, PlacementRules, Precedence,
    Preemption, Text,
};
use serde::Deserialize;

/// Reads the command that bytes begin with. With it comes how many bytes it has.
pub(super) fn command(bytes: &[u8]) -> Result<(Command, usize), CodecError> {
    match bytes.split_first() {
        Some((&SUBMIT_JOB, rest)) => {
            let (job, used) = part::<JobV1>(rest)?;
            Ok((Command::SubmitJob(JobV3::from(JobV2::from(job)).into()), used + 1))
        }
        Some((&SET_POLICY, rest)) => {
            let (policy, used) = part::<PolicyV1>(rest)?;
            Ok((Command::SetPolicy(PolicyV3::from(policy).into()), used + 1))
        }
        _ => v2::command(bytes),
    }
}

/// A [`Job`](omega_core::Job) as it was.
#[derive(Deserialize)]
pub(crate) struct JobV1 {
    name: Text,
    tenant: Text,
    scheduler: Text,
    precedence: Precedence,
    preemption: Preemption,
    kind: JobKind,
    groups: Vec<TaskGroupV1>,
    gang_min: Option<u32>,
    runtime_estimate_ms: Option<u64>,
}

/// A [`TaskGroup`](omega_core::TaskGroup) as it was.
#[derive(Deserialize)]
struct TaskGroupV1 {
    name: Text,
    count: u32,
    request: Amounts,
    devices: Option<DeviceRequest>,
    labels: Labels,
    restarts: u32,
    images: Vec<Text>,
    rules: PlacementRules,
    volumes: Vec<Text>,
}

/// A [`Policy`](omega_core::Policy) as it was.
#[derive(Deserialize)]
pub(crate) struct PolicyV1 {
    overcommit_max: Overcommit,
    ttl_after_finished_ms: u64,
}

impl From<JobV1> for JobV2 {
    fn from(job: JobV1) -> JobV2 {
        JobV2 {
            name: job.name,
            tenant: job.tenant,
            scheduler: job.scheduler,
            precedence: job.precedence,
            preemption: job.preemption,
            kind: job.kind,
            groups: job.groups.into_iter().map(TaskGroupV2::from).collect(),
            gang_min: job.gang_min,
            gang_timeout_ms: None,
            runtime_estimate_ms: job.runtime_estimate_ms,
        }
    }
}

impl From<TaskGroupV1> for TaskGroupV2 {
    fn from(group: TaskGroupV1) -> TaskGroupV2 {
        TaskGroupV2 {
            name: group.name,
            count: group.count,
            request: group.request,
            devices: group.devices,
            labels: group.labels,
            restarts: group.restarts,
            images: group.images,
            rules: group.rules,
            volumes: group.volumes,
            grace_ms: 0,
        }
    }
}

impl From<PolicyV1> for PolicyV3 {
    fn from(policy: PolicyV1) -> PolicyV3 {
        let PolicyV1 { overcommit_max, ttl_after_finished_ms } = policy;
        PolicyV3 { overcommit_max, ttl_after_finished_ms, ..PolicyV3::default() }
    }
}
