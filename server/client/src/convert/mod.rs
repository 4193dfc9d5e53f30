//! Conversions between the types of `omega-core` and the messages of the API.
//!
//! Outgoing messages are made by `From`, which cannot fail. Incoming messages are read by `TryFrom`, which rejects
//! invalid values and names the field. Bounds are checked only once, by the cell, when it applies a command. Reading
//! allocates memory in proportion to the size of the message.

mod delta;
mod job;
mod machine;
mod pieces;
mod policies;
mod rows;
mod rules;
mod run;
mod transaction;

pub use delta::{delta, interest, interested};
pub use job::{phase, task_report, task_state};
pub use machine::{label_list, labels, node_list};
pub use pieces::{PIECE_BYTES, Pieces, join, split};
pub use run::{chosen_ports, named_port, named_port_in, run_end};
pub use transaction::reason_name;

use crate::proto;
use omega_core::{
    Amounts, Band, EvictionCap, KindId, Kinds, Overcommit, Policy, Precedence, ResourceKind,
    TaskId, TenantConfig, Unit,
};

/// Error of an invalid message. It names the field that must be corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// This field is not set. Set it.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The enum has no such value. Use one of its values.
    #[error(
        "{field}: {given} is not an allowed value: use one that the API's .proto files describe"
    )]
    NoSuchValue {
        /// Name of the field.
        field: &'static str,
        /// The given value.
        given: i64,
    },
    /// The number is too large. Use a smaller one.
    #[error("{field}: {given} is too large: must be at most {max}")]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// The given value.
        given: u64,
        /// Maximum value.
        max: u64,
    },
    /// The columns have different lengths. Make them equally long.
    #[error("{field} has {given} values: must have {expected}")]
    Columns {
        /// Name of the column.
        field: &'static str,
        /// Actual number of values.
        given: usize,
        /// Expected number of values.
        expected: usize,
    },
    /// The list of resource kinds is invalid, as the underlying error explains.
    #[error(transparent)]
    Kinds(#[from] omega_core::KindsError),
}

/// The value of a field that must be set.
fn given<T>(value: Option<T>, field: &'static str) -> Result<T, Malformed> {
    value.ok_or(Malformed::Missing(field))
}

/// Converts a number that must fit in fewer bits than its wire type has.
fn narrow<T>(value: u32, max: T, field: &'static str) -> Result<T, Malformed>
where
    T: TryFrom<u32> + Into<u64>,
{
    let too_large = || Malformed::TooLarge { field, given: value.into(), max: max.into() };
    T::try_from(value).map_err(|_| too_large())
}

/// Converts a number to a value of an enum.
fn variant<E: TryFrom<i32>>(value: i32, field: &'static str) -> Result<E, Malformed> {
    E::try_from(value).map_err(|_| Malformed::NoSuchValue { field, given: value.into() })
}

/// Converts each item of a list.
fn all<T, U: TryFrom<T, Error = Malformed>>(list: Vec<T>) -> Result<Vec<U>, Malformed> {
    list.into_iter().map(U::try_from).collect()
}

/// Converts the amounts in a message. They belong to the first resource kinds, in order.
#[must_use]
pub fn amounts(values: Vec<u64>) -> Amounts {
    Amounts::new(values)
}

/// Converts a tenant's configuration. A missing field means no parent, or no guarantee.
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

/// Converts the policy in a message.
///
/// # Errors
/// The policy is not valid.
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

/// Converts amounts to a list.
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

/// Converts the number of a resource kind.
///
/// # Errors
/// The number is above the maximum.
pub fn kind(number: u32) -> Result<KindId, Malformed> {
    Ok(KindId(narrow(number, u8::MAX, "kind")?))
}

/// Converts the resource kinds in a message.
///
/// # Errors
/// No cell can have these resource kinds.
pub fn kinds(list: Vec<proto::ResourceKind>) -> Result<Kinds, Malformed> {
    Ok(Kinds::new(all(list)?)?)
}

/// Converts resource kinds to messages.
#[must_use]
pub fn kind_list(kinds: &Kinds) -> Vec<proto::ResourceKind> {
    kinds.iter().map(|(_, kind)| kind.into()).collect()
}

/// Converts the overcommit in a message.
///
/// # Errors
/// The number of a kind is above the maximum.
pub fn overcommit(list: Vec<proto::Overcommit>) -> Result<Overcommit, Malformed> {
    let mut overcommit = Overcommit::none();
    for one in list {
        let kind = narrow(one.kind, u8::MAX, "overcommit.kind")?;
        overcommit = overcommit.with(KindId(kind), one.percent);
    }
    Ok(overcommit)
}

/// Converts overcommit to messages.
#[must_use]
pub fn overcommit_list(overcommit: &Overcommit) -> Vec<proto::Overcommit> {
    let one = |(kind, percent): (KindId, u32)| proto::Overcommit { kind: kind.0.into(), percent };
    overcommit.iter().map(one).collect()
}
