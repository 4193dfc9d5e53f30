//! Commands as version 1 of the bytes has them: what [`Job`], [`TaskGroup`] and [`Policy`] were then. What
//! came later was not asked for.
//!
//! Only commands with one of these differ from those of today, so the rest is read as it is.

use super::{CodecError, part, v2};
use omega_core::{
    Amounts, CardRequest, Command, Job, JobKind, Labels, Overcommit, PlacementRules, Policy,
    Precedence, Preemption, TaskGroup, Text,
};
use serde::Deserialize;

/// The byte that [`Command::SubmitJob`] begins with.
pub(super) const SUBMIT_JOB: u8 = 6;
/// The byte that [`Command::SetPolicy`] begins with.
pub(super) const SET_POLICY: u8 = 12;
/// The byte that [`Command::Commit`] begins with.
pub(super) const COMMIT: u8 = 13;

/// Reads the command that bytes begin with. With it comes how many bytes it has.
pub(super) fn command(bytes: &[u8]) -> Result<(Command, usize), CodecError> {
    match bytes.split_first() {
        Some((&SUBMIT_JOB, rest)) => {
            let (job, used) = part::<JobV1>(rest)?;
            Ok((Command::SubmitJob(job.into()), used + 1))
        }
        Some((&SET_POLICY, rest)) => {
            let (policy, used) = part::<PolicyV1>(rest)?;
            Ok((Command::SetPolicy(policy.into()), used + 1))
        }
        // The rest was the same in version 2.
        _ => v2::command(bytes),
    }
}

/// A [`Job`] as it was.
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
    run_ms_expected: Option<u64>,
}

/// A [`TaskGroup`] as it was.
#[derive(Deserialize)]
struct TaskGroupV1 {
    name: Text,
    count: u32,
    request: Amounts,
    cards: Option<CardRequest>,
    labels: Labels,
    restarts: u32,
    images: Vec<Text>,
    rules: PlacementRules,
    volumes: Vec<Text>,
}

/// A [`Policy`] as it was.
#[derive(Deserialize)]
pub(crate) struct PolicyV1 {
    overcommit_max: Overcommit,
    keep_ended_ms: u64,
}

impl From<JobV1> for Job {
    fn from(job: JobV1) -> Job {
        Job {
            name: job.name,
            tenant: job.tenant,
            scheduler: job.scheduler,
            precedence: job.precedence,
            preemption: job.preemption,
            kind: job.kind,
            groups: job.groups.into_iter().map(TaskGroup::from).collect(),
            gang_min: job.gang_min,
            run_ms_expected: job.run_ms_expected,
            ..Job::batch("", TaskGroup::new(0, Amounts::zero()))
        }
    }
}

impl From<TaskGroupV1> for TaskGroup {
    fn from(group: TaskGroupV1) -> TaskGroup {
        TaskGroup {
            name: group.name,
            cards: group.cards,
            labels: group.labels,
            restarts: group.restarts,
            images: group.images,
            rules: group.rules,
            volumes: group.volumes,
            ..TaskGroup::new(group.count, group.request)
        }
    }
}

impl From<PolicyV1> for Policy {
    fn from(policy: PolicyV1) -> Policy {
        Policy {
            overcommit_max: policy.overcommit_max,
            keep_ended_ms: policy.keep_ended_ms,
            ..Policy::default()
        }
    }
}
