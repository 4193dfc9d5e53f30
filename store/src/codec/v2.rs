//! Commands as version 2 of the bytes has them: what [`Job`](omega_core::Job), its groups and [`Transaction`] were
//! then. Those of [version 3](super::v3) are made of them.

use super::v3::{self, JobV3, SUBMIT_JOB, TaskGroupV3};
use super::{CodecError, part};
use omega_core::{
    Amounts, Claim, Command, ConflictCheck, DeviceRequest, DeviceSet, Granularity, JobKind, Labels,
    MachineId, PlacementRules, Precedence, Preemption, SequenceNumber, TaskId, Text, Transaction,
    TransactionId, Version,
};
use serde::Deserialize;

/// The byte that [`Command::Commit`] begins with.
const COMMIT: u8 = 13;

/// Reads the command that bytes begin with. With it comes how many bytes it has.
pub(super) fn command(bytes: &[u8]) -> Result<(Command, usize), CodecError> {
    match bytes.split_first() {
        Some((&SUBMIT_JOB, rest)) => {
            let (job, used) = part::<JobV2>(rest)?;
            Ok((Command::SubmitJob(JobV3::from(job).into()), used + 1))
        }
        Some((&COMMIT, rest)) => {
            let (transaction, used) = part::<TransactionV2>(rest)?;
            Ok((Command::Commit(transaction.into()), used + 1))
        }
        _ => v3::command(bytes),
    }
}

/// A [`Job`](omega_core::Job) as it was.
#[derive(Deserialize)]
pub(crate) struct JobV2 {
    pub(super) name: Text,
    pub(super) tenant: Text,
    pub(super) scheduler: Text,
    pub(super) precedence: Precedence,
    pub(super) preemption: Preemption,
    pub(super) kind: JobKind,
    pub(super) groups: Vec<TaskGroupV2>,
    pub(super) gang_min: Option<u32>,
    pub(super) gang_timeout_ms: Option<u32>,
    pub(super) runtime_estimate_ms: Option<u64>,
}

/// A [`TaskGroup`](omega_core::TaskGroup) as it was.
#[derive(Deserialize)]
pub(super) struct TaskGroupV2 {
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
}

/// A [`Transaction`] as it was.
#[derive(Deserialize)]
struct TransactionV2 {
    id: TransactionId,
    base: Version,
    granularity: Granularity,
    check: ConflictCheck,
    releases: Vec<TaskId>,
    evictions: Vec<TaskId>,
    claims: Vec<ClaimV2>,
}

/// A [`Claim`] as it was.
#[derive(Deserialize)]
struct ClaimV2 {
    task: TaskId,
    machine: MachineId,
    seen: SequenceNumber,
    devices: DeviceSet,
}

impl From<JobV2> for JobV3 {
    fn from(job: JobV2) -> JobV3 {
        JobV3 {
            name: job.name,
            tenant: job.tenant,
            scheduler: job.scheduler,
            precedence: job.precedence,
            preemption: job.preemption,
            kind: job.kind,
            groups: job.groups.into_iter().map(TaskGroupV3::from).collect(),
            gang_min: job.gang_min,
            gang_timeout_ms: job.gang_timeout_ms,
            runtime_estimate_ms: job.runtime_estimate_ms,
            deadline_ms: None,
        }
    }
}

impl From<TaskGroupV2> for TaskGroupV3 {
    fn from(group: TaskGroupV2) -> TaskGroupV3 {
        TaskGroupV3 {
            name: group.name,
            count: group.count,
            request: group.request,
            devices: group.devices,
            labels: group.labels,
            restarts: group.restarts,
            images: group.images,
            rules: group.rules,
            volumes: group.volumes,
            grace_ms: group.grace_ms,
            demand_profiles: Vec::new(),
            optional: None,
        }
    }
}

impl From<ClaimV2> for Claim {
    fn from(claim: ClaimV2) -> Claim {
        Claim { devices: claim.devices, ..Claim::new(claim.task, claim.machine, claim.seen) }
    }
}

impl From<TransactionV2> for Transaction {
    fn from(transaction: TransactionV2) -> Transaction {
        let claims = transaction.claims.into_iter().map(Claim::from).collect();
        Transaction {
            granularity: transaction.granularity,
            check: transaction.check,
            releases: transaction.releases,
            evictions: transaction.evictions,
            ..Transaction::new(transaction.id, transaction.base, claims)
        }
    }
}
