//! Conversion of machines.

use super::{Malformed, all, amounts, given, narrow, overcommit, overcommit_list, values, variant};
use crate::proto;
use omega_core::limits::NUMA_NODES_MAX;
use omega_core::{
    Image, Labels, Machine, MachineId, NodeCores, PortRange, Taint, TaintEffect, Toleration,
    TolerationOperator,
};

impl From<MachineId> for proto::MachineId {
    fn from(id: MachineId) -> Self {
        proto::MachineId { slot: id.slot, incarnation: id.incarnation }
    }
}

impl From<proto::MachineId> for MachineId {
    fn from(id: proto::MachineId) -> Self {
        MachineId { slot: id.slot, incarnation: id.incarnation }
    }
}

/// Converts labels in a message. Of two labels with equal keys, the later one is used.
#[must_use]
pub fn labels(list: Vec<proto::Label>) -> Labels {
    Labels::new(list.into_iter().map(|label| (label.key, label.value)))
}

/// Converts labels to messages.
#[must_use]
pub fn label_list(labels: &Labels) -> Vec<proto::Label> {
    let one = |(key, value): (&omega_core::Text, &omega_core::Text)| proto::Label {
        key: key.to_string(),
        value: value.to_string(),
    };
    labels.iter().map(one).collect()
}

/// Converts cores by NUMA node to a list.
#[must_use]
pub fn node_list(cores: &NodeCores) -> Vec<u32> {
    cores.as_slice().iter().map(|count| u32::from(*count)).collect()
}

/// Converts a list to cores by NUMA node.
pub(super) fn nodes(given: &[u32], field: &'static str) -> Result<NodeCores, Malformed> {
    let max = NUMA_NODES_MAX as u64;
    let too_many = Malformed::TooLarge { field, given: given.len() as u64, max };
    let cores = given.iter().take(NUMA_NODES_MAX + 1).map(|count| narrow(*count, u16::MAX, field));
    NodeCores::new(&cores.collect::<Result<Vec<u16>, _>>()?).ok_or(too_many)
}

fn effect(effect: TaintEffect) -> proto::TaintEffect {
    match effect {
        TaintEffect::NoSchedule => proto::TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule => proto::TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute => proto::TaintEffect::NoExecute,
    }
}

/// Converts the effect in a message; `None` if it is not set.
fn some_effect(value: i32) -> Result<Option<TaintEffect>, Malformed> {
    Ok(match variant(value, "effect")? {
        proto::TaintEffect::Unspecified => None,
        proto::TaintEffect::NoSchedule => Some(TaintEffect::NoSchedule),
        proto::TaintEffect::PreferNoSchedule => Some(TaintEffect::PreferNoSchedule),
        proto::TaintEffect::NoExecute => Some(TaintEffect::NoExecute),
    })
}

impl From<&Taint> for proto::Taint {
    fn from(taint: &Taint) -> Self {
        proto::Taint {
            key: taint.key.to_string(),
            value: taint.value.to_string(),
            effect: effect(taint.effect).into(),
        }
    }
}

impl TryFrom<proto::Taint> for Taint {
    type Error = Malformed;

    fn try_from(taint: proto::Taint) -> Result<Self, Malformed> {
        let effect = given(some_effect(taint.effect)?, "taint.effect")?;
        Ok(Taint { key: taint.key.into(), value: taint.value.into(), effect })
    }
}

impl From<&Toleration> for proto::Toleration {
    fn from(toleration: &Toleration) -> Self {
        let operator = match toleration.operator {
            TolerationOperator::Equal => proto::TolerationOperator::Equal,
            TolerationOperator::Exists => proto::TolerationOperator::Exists,
        };
        let unsaid = proto::TaintEffect::Unspecified;
        proto::Toleration {
            key: toleration.key.as_ref().map(ToString::to_string),
            operator: operator.into(),
            value: toleration.value.to_string(),
            effect: toleration.effect.map_or(unsaid, effect).into(),
        }
    }
}

impl TryFrom<proto::Toleration> for Toleration {
    type Error = Malformed;

    fn try_from(toleration: proto::Toleration) -> Result<Self, Malformed> {
        use proto::TolerationOperator as Operator;
        let operator = match variant(toleration.operator, "toleration.operator")? {
            Operator::Unspecified | Operator::Equal => TolerationOperator::Equal,
            Operator::Exists => TolerationOperator::Exists,
        };
        Ok(Toleration {
            key: toleration.key.map(Into::into),
            operator,
            value: toleration.value.into(),
            effect: some_effect(toleration.effect)?,
        })
    }
}

impl From<&Machine> for proto::Machine {
    fn from(machine: &Machine) -> Self {
        let image =
            |image: &Image| proto::Image { name: image.name.to_string(), bytes: image.bytes };
        proto::Machine {
            name: machine.name.to_string(),
            capacity: values(&machine.capacity),
            overcommit: overcommit_list(&machine.overcommit),
            labels: label_list(&machine.labels),
            taints: machine.taints.iter().map(Into::into).collect(),
            images: machine.images.iter().map(image).collect(),
            devices: machine.devices.into(),
            numa: node_list(&machine.numa),
            ports: port_range(machine.ports),
        }
    }
}

impl TryFrom<proto::Machine> for Machine {
    type Error = Malformed;

    fn try_from(machine: proto::Machine) -> Result<Self, Malformed> {
        let image = |image: proto::Image| Image { name: image.name.into(), bytes: image.bytes };
        Ok(Machine {
            name: machine.name.into(),
            capacity: amounts(machine.capacity),
            overcommit: overcommit(machine.overcommit)?,
            labels: labels(machine.labels),
            taints: all::<_, Taint>(machine.taints)?.into(),
            images: machine.images.into_iter().map(image).collect(),
            devices: narrow(machine.devices, u8::MAX, "machine.devices")?,
            numa: nodes(&machine.numa, "machine.numa")?,
            ports: machine.ports.map_or(Ok(PortRange::default()), port_range_in)?,
        })
    }
}

/// Converts a range to a message; `None` for the default range.
fn port_range(range: PortRange) -> Option<proto::PortRange> {
    let PortRange { first, last } = range;
    let sent = proto::PortRange { first: first.into(), last: last.into() };
    (range != PortRange::default()).then_some(sent)
}

fn port_range_in(range: proto::PortRange) -> Result<PortRange, Malformed> {
    Ok(PortRange {
        first: narrow(range.first, u16::MAX, "machine.ports.first")?,
        last: narrow(range.last, u16::MAX, "machine.ports.last")?,
    })
}
