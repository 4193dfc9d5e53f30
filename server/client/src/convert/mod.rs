//! Conversions between the types of `omega-core` and the messages of the API.
//!
//! Outgoing messages are made by `From`, which cannot fail; incoming ones are read by `TryFrom`,
//! which rejects invalid values and names the field. Bounds are checked once, by the cell, when it
//! applies a command. Reading allocates memory in proportion to the message.

mod delta;
mod job;
mod machine;
mod pieces;
mod policies;
mod rules;
mod run;
mod transaction;

pub use delta::{delta, interest, interested};
pub use job::{phase, task_report, task_state};
pub use machine::{label_list, labels, node_list};
pub use pieces::{PIECE_BYTES, Pieces, join, split};
pub use run::run_end;
pub use transaction::reason_name;

use crate::proto;
use omega_core::{
    Amounts, Band, EvictionCap, KindId, Kinds, Overcommit, Policy, Precedence, ResourceKind,
    TaskId, TenantConfig, Unit,
};

/// An invalid message: correct the named field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Remedy: set this field.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Remedy: use one of the enum's values.
    #[error("{field}: {given} is not a valid value")]
    NoSuchValue {
        /// Name of the field.
        field: &'static str,
        /// The given value.
        given: i64,
    },
    /// Remedy: use a smaller number.
    #[error("{field}: {given} is above the maximum of {max}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// The given value.
        given: u64,
        /// Maximum.
        max: u64,
    },
    /// Remedy: make the columns equally long.
    #[error("{field} has {given} values where {expected} are needed")]
    Columns {
        /// Name of the column.
        field: &'static str,
        /// Actual number.
        given: usize,
        /// Number that it should have.
        expected: usize,
    },
    /// Remedy: correct the list of kinds.
    #[error(transparent)]
    Kinds(#[from] omega_core::KindsError),
}

/// A field that must be there.
fn given<T>(value: Option<T>, field: &'static str) -> Result<T, Malformed> {
    value.ok_or(Malformed::Missing(field))
}

/// A number that must fit in fewer bits than its wire type.
fn narrow<T>(value: u32, max: T, field: &'static str) -> Result<T, Malformed>
where
    T: TryFrom<u32> + Into<u64>,
{
    let too_large = || Malformed::TooLarge { field, given: value.into(), max: max.into() };
    T::try_from(value).map_err(|_| too_large())
}

/// A value of an enum.
fn variant<E: TryFrom<i32>>(value: i32, field: &'static str) -> Result<E, Malformed> {
    E::try_from(value).map_err(|_| Malformed::NoSuchValue { field, given: value.into() })
}

/// Converts each item of a list.
fn all<T, U: TryFrom<T, Error = Malformed>>(list: Vec<T>) -> Result<Vec<U>, Malformed> {
    list.into_iter().map(U::try_from).collect()
}

/// The amounts of a message: of the kinds in order.
#[must_use]
pub fn amounts(values: Vec<u64>) -> Amounts {
    Amounts::new(values)
}

/// Converts a tenant's configuration. Without fields: no parent and no guarantee.
#[must_use]
pub fn tenant_config(given: Option<proto::TenantConfig>) -> TenantConfig {
    let Some(given) = given else { return TenantConfig::default() };
    TenantConfig {
        parent: (!given.parent.is_empty()).then(|| given.parent.into()),
        guaranteed: amounts(given.guaranteed),
        weight: given.weight.max(1),
        tasks_per_machine_max: given.tasks_per_machine_max,
    }
}

impl From<&TenantConfig> for proto::TenantConfig {
    fn from(tenant_config: &TenantConfig) -> Self {
        proto::TenantConfig {
            parent: tenant_config.parent.as_ref().map(ToString::to_string).unwrap_or_default(),
            guaranteed: values(&tenant_config.guaranteed),
            weight: tenant_config.weight,
            tasks_per_machine_max: tenant_config.tasks_per_machine_max,
        }
    }
}

/// The policy of a message.
///
/// # Errors
/// If it is not one.
pub fn policy(given: proto::Policy) -> Result<Policy, Malformed> {
    let cap = |cap: proto::EvictionCap| EvictionCap { count: cap.count, per_ms: cap.per_ms };
    Ok(Policy {
        overcommit_max: overcommit(given.overcommit_max)?,
        ttl_after_finished_ms: given.ttl_after_finished_ms,
        bands: given.bands.into_iter().map(Into::into).collect(),
        eviction_cap: given.eviction_cap.map(cap),
    })
}

impl From<&Policy> for proto::Policy {
    fn from(policy: &Policy) -> Self {
        let cap = |cap: EvictionCap| proto::EvictionCap { count: cap.count, per_ms: cap.per_ms };
        proto::Policy {
            overcommit_max: overcommit_list(&policy.overcommit_max),
            ttl_after_finished_ms: policy.ttl_after_finished_ms,
            bands: policy.bands.iter().map(|band| (*band).into()).collect(),
            eviction_cap: policy.eviction_cap.map(cap),
        }
    }
}

impl From<Band> for proto::Band {
    fn from(band: Band) -> Self {
        proto::Band { from: band.from.0, to: band.to.0 }
    }
}

impl From<proto::Band> for Band {
    fn from(band: proto::Band) -> Self {
        Band { from: Precedence(band.from), to: Precedence(band.to) }
    }
}

/// Amounts as a message has them.
#[must_use]
pub fn values(amounts: &Amounts) -> Vec<u64> {
    amounts.as_slice().to_vec()
}

impl From<TaskId> for proto::TaskId {
    fn from(id: TaskId) -> Self {
        proto::TaskId { job: id.job.0, index: id.index }
    }
}

impl From<proto::TaskId> for TaskId {
    fn from(id: proto::TaskId) -> Self {
        TaskId { job: omega_core::JobId(id.job), index: id.index }
    }
}

impl From<&ResourceKind> for proto::ResourceKind {
    fn from(kind: &ResourceKind) -> Self {
        let unit = match kind.unit {
            Unit::Milli => proto::Unit::Milli,
            Unit::Bytes => proto::Unit::Bytes,
            Unit::Count => proto::Unit::Count,
        };
        proto::ResourceKind {
            name: kind.name.clone(),
            unit: unit.into(),
            compressible: kind.compressible,
        }
    }
}

impl TryFrom<proto::ResourceKind> for ResourceKind {
    type Error = Malformed;

    fn try_from(kind: proto::ResourceKind) -> Result<Self, Malformed> {
        let unit = match variant(kind.unit, "unit")? {
            proto::Unit::Milli => Unit::Milli,
            proto::Unit::Bytes => Unit::Bytes,
            proto::Unit::Count => Unit::Count,
            proto::Unit::Unspecified => return Err(Malformed::Missing("unit")),
        };
        Ok(ResourceKind { name: kind.name, unit, compressible: kind.compressible })
    }
}

/// The resource kind with a number.
///
/// # Errors
/// If the number exceeds the maximum of kinds.
pub fn kind(number: u32) -> Result<KindId, Malformed> {
    Ok(KindId(narrow(number, u8::MAX, "kind")?))
}

/// The kinds of a message.
///
/// # Errors
/// If a cell cannot have such kinds.
pub fn kinds(list: Vec<proto::ResourceKind>) -> Result<Kinds, Malformed> {
    Ok(Kinds::new(all(list)?)?)
}

/// Kinds as a message has them.
#[must_use]
pub fn kind_list(kinds: &Kinds) -> Vec<proto::ResourceKind> {
    kinds.iter().map(|(_, kind)| kind.into()).collect()
}

/// The overcommit of a message.
///
/// # Errors
/// If a kind has no number that a kind can have.
pub fn overcommit(list: Vec<proto::Overcommit>) -> Result<Overcommit, Malformed> {
    let mut overcommit = Overcommit::none();
    for one in list {
        let kind = narrow(one.kind, u8::MAX, "overcommit.kind")?;
        overcommit = overcommit.with(KindId(kind), one.percent);
    }
    Ok(overcommit)
}

/// Overcommit as a message has it.
#[must_use]
pub fn overcommit_list(overcommit: &Overcommit) -> Vec<proto::Overcommit> {
    let one = |(kind, percent): (KindId, u32)| proto::Overcommit { kind: kind.0.into(), percent };
    overcommit.iter().map(one).collect()
}
