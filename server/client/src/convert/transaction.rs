//! Conversion of transactions and their results.

use super::{Malformed, amounts, given, values, variant};
use crate::proto;
use omega_core::{
    Claim, Commit, Conflict, ConflictCheck, DeviceSet, Granularity, Item, KindId, MachineId,
    Reason, Resize, SchedulerId, SequenceNumber, Take, TaskId, Transaction, TransactionId, Version,
};

impl From<&Transaction> for proto::CommitRequest {
    fn from(txn: &Transaction) -> Self {
        let granularity = match txn.granularity {
            Granularity::Incremental => proto::Granularity::Incremental,
            Granularity::AllOrNothing => proto::Granularity::AllOrNothing,
        };
        let check = match txn.check {
            ConflictCheck::ResourceFit => proto::ConflictCheck::ResourceFit,
            ConflictCheck::SequenceNumber => proto::ConflictCheck::SequenceNumber,
        };
        let claims = &txn.claims;
        let column = |value: fn(&Claim) -> u32| claims.iter().map(value).collect();
        proto::CommitRequest {
            scheduler: txn.id.scheduler.0,
            number: txn.id.number,
            base: txn.base.0,
            granularity: granularity.into(),
            check: check.into(),
            releases: txn.releases.iter().copied().map(Into::into).collect(),
            evictions: txn.evictions.iter().copied().map(Into::into).collect(),
            claim_jobs: claims.iter().map(|claim| claim.task.job.0).collect(),
            claim_indices: column(|claim| claim.task.index),
            claim_slots: column(|claim| claim.machine.slot),
            claim_incarnations: sparse(claims, |claim| claim.machine.incarnation),
            claim_seen: claims.iter().map(|claim| claim.seen.0).collect(),
            claim_devices: sparse(claims, |claim| claim.devices.0),
            claim_optional: if claims.iter().any(|claim| claim.take == Take::WithOptional) {
                claims.iter().map(|claim| claim.take == Take::WithOptional).collect()
            } else {
                Vec::new()
            },
            resizes: txn.resizes.iter().map(Into::into).collect(),
            retry: false,
        }
    }
}

/// Returns a column of values, which is empty if all values are 0.
fn sparse(claims: &[Claim], value: fn(&Claim) -> u32) -> Vec<u32> {
    if claims.iter().all(|claim| value(claim) == 0) {
        Vec::new()
    } else {
        claims.iter().map(value).collect()
    }
}

impl TryFrom<proto::CommitRequest> for Transaction {
    type Error = Malformed;

    fn try_from(request: proto::CommitRequest) -> Result<Self, Malformed> {
        use proto::{ConflictCheck as GivenCheck, Granularity as GivenGranularity};
        let granularity = match variant(request.granularity, "granularity")? {
            GivenGranularity::Unspecified | GivenGranularity::Incremental => {
                Granularity::Incremental
            }
            GivenGranularity::AllOrNothing => Granularity::AllOrNothing,
        };
        let check = match variant(request.check, "check")? {
            GivenCheck::Unspecified | GivenCheck::ResourceFit => ConflictCheck::ResourceFit,
            GivenCheck::SequenceNumber => ConflictCheck::SequenceNumber,
        };
        let claims = claims(&request)?;
        let scheduler = SchedulerId(request.scheduler);
        Ok(Transaction {
            id: TransactionId { scheduler, number: request.number },
            base: Version(request.base),
            granularity,
            check,
            releases: request.releases.into_iter().map(Into::into).collect(),
            evictions: request.evictions.into_iter().map(Into::into).collect(),
            claims,
            resizes: super::all(request.resizes)?,
        })
    }
}

fn claims(request: &proto::CommitRequest) -> Result<Vec<Claim>, Malformed> {
    let count = request.claim_jobs.len();
    let check = |field, given: usize| match given {
        given if given == count => Ok(()),
        given => Err(Malformed::Columns { field, given, expected: count }),
    };
    check("claim_indices", request.claim_indices.len())?;
    check("claim_slots", request.claim_slots.len())?;
    check("claim_seen", request.claim_seen.len())?;
    if !request.claim_incarnations.is_empty() {
        check("claim_incarnations", request.claim_incarnations.len())?;
    }
    if !request.claim_devices.is_empty() {
        check("claim_devices", request.claim_devices.len())?;
    }
    if !request.claim_optional.is_empty() {
        check("claim_optional", request.claim_optional.len())?;
    }
    let sparse = |column: &[u32], i: usize| column.get(i).copied().unwrap_or(0);
    let claim = |i: usize| Claim {
        task: TaskId {
            job: omega_core::JobId(request.claim_jobs[i]),
            index: request.claim_indices[i],
        },
        machine: MachineId {
            slot: request.claim_slots[i],
            incarnation: sparse(&request.claim_incarnations, i),
        },
        seen: SequenceNumber(request.claim_seen[i]),
        devices: DeviceSet(sparse(&request.claim_devices, i)),
        take: match request.claim_optional.get(i) {
            Some(true) => Take::WithOptional,
            _ => Take::Request,
        },
    };
    Ok((0..count).map(claim).collect())
}

impl From<&Resize> for proto::Resize {
    fn from(resize: &Resize) -> Self {
        proto::Resize { task: Some(resize.task.into()), to: values(&resize.to) }
    }
}

impl TryFrom<proto::Resize> for Resize {
    type Error = Malformed;

    fn try_from(resize: proto::Resize) -> Result<Self, Malformed> {
        let task = given(resize.task, "resize.task")?.into();
        Ok(Resize { task, to: amounts(resize.to) })
    }
}

impl From<&Commit> for proto::CommitResponse {
    fn from(commit: &Commit) -> Self {
        proto::CommitResponse {
            version: commit.version.0,
            conflicts: commit.conflicts.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<proto::CommitResponse> for Commit {
    type Error = Malformed;

    fn try_from(response: proto::CommitResponse) -> Result<Self, Malformed> {
        let conflicts = super::all(response.conflicts)?;
        Ok(Commit { version: Version(response.version), conflicts })
    }
}

impl From<&Conflict> for proto::Conflict {
    fn from(conflict: &Conflict) -> Self {
        use proto::conflict::Item as Given;
        let item = match conflict.item {
            Item::Release(i) => Given::Release(i),
            Item::Eviction(i) => Given::Eviction(i),
            Item::Claim(i) => Given::Claim(i),
            Item::Resize(i) => Given::Resize(i),
        };
        let (reason, kind) = reason_out(conflict.reason);
        proto::Conflict { item: Some(item), reason: reason.into(), kind: kind.0.into() }
    }
}

impl TryFrom<proto::Conflict> for Conflict {
    type Error = Malformed;

    fn try_from(conflict: proto::Conflict) -> Result<Self, Malformed> {
        use proto::conflict::Item as Given;
        let item = match given(conflict.item, "conflict.item")? {
            Given::Release(i) => Item::Release(i),
            Given::Eviction(i) => Item::Eviction(i),
            Given::Claim(i) => Item::Claim(i),
            Given::Resize(i) => Item::Resize(i),
        };
        let kind = KindId(super::narrow(conflict.kind, u8::MAX, "conflict.kind")?);
        let reason = reason_in(variant(conflict.reason, "conflict.reason")?, kind);
        Ok(Conflict { item, reason: given(reason, "conflict.reason")? })
    }
}

/// The name of a reason in the API and in metrics, such as `NO_ROOM`.
#[must_use]
pub fn reason_name(reason: Reason) -> &'static str {
    let name = reason_out(reason).0.as_str_name();
    name.strip_prefix("REASON_").unwrap_or(name)
}

/// Converts a reason to its enum value in messages, and its resource kind. The kind is 0 if the reason has none.
fn reason_out(reason: Reason) -> (proto::Reason, KindId) {
    use proto::Reason as R;
    let plain = match reason {
        Reason::NoRoom(kind) => return (R::NoRoom, kind),
        Reason::QuotaExceeded(kind) => return (R::QuotaExceeded, kind),
        Reason::CellExhausted(kind) => return (R::CellExhausted, kind),
        Reason::PeakHours(kind) => return (R::PeakHours, kind),
        Reason::NoDevices => R::NoDevices,
        Reason::MachineChanged => R::MachineChanged,
        Reason::MachineGone => R::MachineGone,
        Reason::MachineDraining => R::MachineDraining,
        Reason::OtherMachine => R::OtherMachine,
        Reason::AffinityUnmet => R::AffinityUnmet,
        Reason::Tainted => R::Tainted,
        Reason::PortTaken => R::PortTaken,
        Reason::AntiAffinity => R::AntiAffinity,
        Reason::TaskAffinityUnmet => R::TaskAffinityUnmet,
        Reason::Skew => R::Skew,
        Reason::DomainFull => R::DomainFull,
        Reason::NoDomain => R::NoDomain,
        Reason::UnknownTask => R::UnknownTask,
        Reason::TaskPlaced => R::TaskPlaced,
        Reason::TaskEnded => R::TaskEnded,
        Reason::TaskNotPlaced => R::TaskNotPlaced,
        Reason::PrecedenceTooLow => R::PrecedenceTooLow,
        Reason::EvictionUnused => R::EvictionUnused,
        Reason::GangIncomplete => R::GangIncomplete,
        Reason::OthersConflict => R::OthersConflict,
        Reason::RuntimeAffinityNeeded => R::RuntimeAffinityNeeded,
        Reason::SameBand => R::SameBand,
        Reason::EvictionsCapped => R::EvictionsCapped,
        Reason::Reserved => R::Reserved,
        Reason::NoCores => R::NoCores,
        Reason::NoPorts => R::NoPorts,
        Reason::TasksPerMachine => R::TasksPerMachine,
        other => unreachable!("every reason of this version is sent, not {other:?}"),
    };
    (plain, KindId(0))
}

/// Converts the reason in a message; `None` if it is not set.
fn reason_in(reason: proto::Reason, kind: KindId) -> Option<Reason> {
    use proto::Reason as R;
    Some(match reason {
        R::Unspecified => return None,
        R::NoRoom => Reason::NoRoom(kind),
        R::QuotaExceeded => Reason::QuotaExceeded(kind),
        R::CellExhausted => Reason::CellExhausted(kind),
        R::NoDevices => Reason::NoDevices,
        R::MachineChanged => Reason::MachineChanged,
        R::MachineGone => Reason::MachineGone,
        R::MachineDraining => Reason::MachineDraining,
        R::OtherMachine => Reason::OtherMachine,
        R::AffinityUnmet => Reason::AffinityUnmet,
        R::Tainted => Reason::Tainted,
        R::PortTaken => Reason::PortTaken,
        R::AntiAffinity => Reason::AntiAffinity,
        R::TaskAffinityUnmet => Reason::TaskAffinityUnmet,
        R::Skew => Reason::Skew,
        R::DomainFull => Reason::DomainFull,
        R::NoDomain => Reason::NoDomain,
        R::UnknownTask => Reason::UnknownTask,
        R::TaskPlaced => Reason::TaskPlaced,
        R::TaskEnded => Reason::TaskEnded,
        R::TaskNotPlaced => Reason::TaskNotPlaced,
        R::PrecedenceTooLow => Reason::PrecedenceTooLow,
        R::EvictionUnused => Reason::EvictionUnused,
        R::GangIncomplete => Reason::GangIncomplete,
        R::OthersConflict => Reason::OthersConflict,
        R::RuntimeAffinityNeeded => Reason::RuntimeAffinityNeeded,
        R::SameBand => Reason::SameBand,
        R::EvictionsCapped => Reason::EvictionsCapped,
        R::Reserved => Reason::Reserved,
        R::NoCores => Reason::NoCores,
        R::NoPorts => Reason::NoPorts,
        R::TasksPerMachine => Reason::TasksPerMachine,
        R::PeakHours => Reason::PeakHours(kind),
    })
}
