//! Commands as version 2 of the bytes has them: what [`Job`], [`TaskGroup`], [`Policy`] and [`Transaction`] were
//! then. What came later was not asked for.
//!
//! Only commands with one of these differ from those of today, so the rest is read as it is.

use super::v1::{COMMIT, SET_POLICY, SUBMIT_JOB};
use super::{CodecError, part};
use omega_core::{
    Amounts, Band, CardRequest, CardSet, Claim, Command, ConflictCheck, EvictionCap, Granularity,
    Job, JobKind, Labels, MachineId, Overcommit, PlacementRules, Policy, Precedence, Preemption,
    SequenceNumber, TaskGroup, TaskId, Text, Transaction, TransactionId, Version,
};
use serde::Deserialize;

/// Reads the command that bytes begin with. With it comes how many bytes it has.
pub(super) fn command(bytes: &[u8]) -> Result<(Command, usize), CodecError> {
    match bytes.split_first() {
        Some((&SUBMIT_JOB, rest)) => {
            let (job, used) = part::<JobV2>(rest)?;
            Ok((Command::SubmitJob(job.into()), used + 1))
        }
        Some((&SET_POLICY, rest)) => {
            let (policy, used) = part::<PolicyV2>(rest)?;
            Ok((Command::SetPolicy(policy.into()), used + 1))
        }
        Some((&COMMIT, rest)) => {
            let (transaction, used) = part::<TransactionV2>(rest)?;
            Ok((Command::Commit(transaction.into()), used + 1))
        }
        _ => part(bytes),
    }
}

/// A [`Job`] as it was.
#[derive(Deserialize)]
pub(crate) struct JobV2 {
    name: Text,
    tenant: Text,
    scheduler: Text,
    precedence: Precedence,
    preemption: Preemption,
    kind: JobKind,
    groups: Vec<TaskGroupV2>,
    gang_min: Option<u32>,
    gang_hold_ms: Option<u32>,
    run_ms_expected: Option<u64>,
}

/// A [`TaskGroup`] as it was.
#[derive(Deserialize)]
struct TaskGroupV2 {
    name: Text,
    count: u32,
    request: Amounts,
    cards: Option<CardRequest>,
    labels: Labels,
    restarts: u32,
    images: Vec<Text>,
    rules: PlacementRules,
    volumes: Vec<Text>,
    grace_ms: u32,
}

/// A [`Policy`] as it was.
#[derive(Deserialize)]
pub(crate) struct PolicyV2 {
    overcommit_max: Overcommit,
    keep_ended_ms: u64,
    bands: Vec<Band>,
    eviction_cap: Option<EvictionCap>,
}

/// A [`Transaction`] as it was.
#[derive(Deserialize)]
pub(crate) struct TransactionV2 {
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
    cards: CardSet,
}

impl From<JobV2> for Job {
    fn from(job: JobV2) -> Job {
        Job {
            name: job.name,
            tenant: job.tenant,
            scheduler: job.scheduler,
            precedence: job.precedence,
            preemption: job.preemption,
            kind: job.kind,
            groups: job.groups.into_iter().map(TaskGroup::from).collect(),
            gang_min: job.gang_min,
            gang_hold_ms: job.gang_hold_ms,
            run_ms_expected: job.run_ms_expected,
            ..Job::batch("", TaskGroup::new(0, Amounts::zero()))
        }
    }
}

impl From<TaskGroupV2> for TaskGroup {
    fn from(group: TaskGroupV2) -> TaskGroup {
        TaskGroup {
            name: group.name,
            cards: group.cards,
            labels: group.labels,
            restarts: group.restarts,
            images: group.images,
            rules: group.rules,
            volumes: group.volumes,
            grace_ms: group.grace_ms,
            ..TaskGroup::new(group.count, group.request)
        }
    }
}

impl From<PolicyV2> for Policy {
    fn from(policy: PolicyV2) -> Policy {
        Policy {
            overcommit_max: policy.overcommit_max,
            keep_ended_ms: policy.keep_ended_ms,
            bands: policy.bands,
            eviction_cap: policy.eviction_cap,
        }
    }
}

impl From<ClaimV2> for Claim {
    fn from(claim: ClaimV2) -> Claim {
        Claim { cards: claim.cards, ..Claim::new(claim.task, claim.machine, claim.seen) }
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
