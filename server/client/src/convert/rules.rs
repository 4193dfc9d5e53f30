//! Conversion of placement rules: requirements and preferences.

use super::job::{strings, texts};
use super::{Malformed, all, given, narrow, variant};
use crate::proto;
use omega_core::{
    Affinity, KindId, KindShare, LabelSelector, MachineSelector, Near, Operator, Peak,
    PeakCalendar, PlacementRules, Port, Preferred, Protocol, Requirement, Reservation, Spread,
    TaskRule, TaskSelector, Tenants, TopologyLevel, WhenUnsatisfiable,
};

impl From<&PlacementRules> for proto::PlacementRules {
    fn from(rules: &PlacementRules) -> Self {
        proto::PlacementRules {
            machine: rules.machine.as_deref().unwrap_or_default().to_owned(),
            affinity: Some((&rules.affinity).into()),
            tolerations: rules.tolerations.iter().map(Into::into).collect(),
            tasks: rules.tasks.iter().map(Into::into).collect(),
            ports: rules.ports.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<proto::PlacementRules> for PlacementRules {
    type Error = Malformed;

    fn try_from(rules: proto::PlacementRules) -> Result<Self, Malformed> {
        Ok(PlacementRules {
            machine: (!rules.machine.is_empty()).then(|| rules.machine.into()),
            affinity: rules.affinity.map(TryFrom::try_from).transpose()?.unwrap_or_default(),
            tolerations: all(rules.tolerations)?,
            tasks: all(rules.tasks)?,
            ports: all(rules.ports)?,
        })
    }
}

impl From<&Affinity> for proto::Affinity {
    fn from(affinity: &Affinity) -> Self {
        let preferred = |one: &Preferred| proto::Preferred {
            weight: one.weight,
            machines: Some((&one.machines).into()),
        };
        proto::Affinity {
            required: affinity.required.as_deref().map(selector_list),
            preferred: affinity.preferred.iter().map(preferred).collect(),
        }
    }
}

impl TryFrom<proto::Affinity> for Affinity {
    type Error = Malformed;

    fn try_from(affinity: proto::Affinity) -> Result<Self, Malformed> {
        let preferred = |one: proto::Preferred| -> Result<_, Malformed> {
            let machines = given(one.machines, "preferred.machines")?.try_into()?;
            Ok(Preferred { weight: one.weight, machines })
        };
        Ok(Affinity {
            required: affinity.required.map(|required| all(required.any)).transpose()?,
            preferred: affinity.preferred.into_iter().map(preferred).collect::<Result<_, _>>()?,
        })
    }
}

pub(super) fn selector_list(selectors: &[MachineSelector]) -> proto::MachineSelectors {
    proto::MachineSelectors { any: selectors.iter().map(Into::into).collect() }
}

impl From<&MachineSelector> for proto::MachineSelector {
    fn from(selector: &MachineSelector) -> Self {
        proto::MachineSelector {
            labels: selector.labels.iter().map(Into::into).collect(),
            names: selector.names.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Reservation> for proto::Reservation {
    fn from(reservation: &Reservation) -> Self {
        proto::Reservation {
            name: reservation.name.to_string(),
            machines: Some((&reservation.machines).into()),
            tenants: strings(&reservation.tenants),
            from_ms: reservation.from_ms,
            until_ms: reservation.until_ms,
        }
    }
}

impl TryFrom<proto::Reservation> for Reservation {
    type Error = Malformed;

    fn try_from(reservation: proto::Reservation) -> Result<Self, Malformed> {
        Ok(Reservation {
            name: reservation.name.into(),
            machines: given(reservation.machines, "reservation.machines")?.try_into()?,
            tenants: texts(reservation.tenants),
            from_ms: reservation.from_ms,
            until_ms: reservation.until_ms,
        })
    }
}

impl From<&PeakCalendar> for proto::PeakCalendar {
    fn from(calendar: &PeakCalendar) -> Self {
        let share = |share: &KindShare| proto::KindShare {
            kind: share.kind.0.into(),
            percent: share.percent.into(),
        };
        let peak = |peak: &Peak| proto::Peak {
            from_ms: peak.from_ms,
            until_ms: peak.until_ms,
            batch_max: peak.batch_max.iter().map(share).collect(),
        };
        proto::PeakCalendar {
            name: calendar.name.to_string(),
            machines: Some((&calendar.machines).into()),
            peaks: calendar.peaks.iter().map(peak).collect(),
        }
    }
}

impl TryFrom<proto::PeakCalendar> for PeakCalendar {
    type Error = Malformed;

    fn try_from(calendar: proto::PeakCalendar) -> Result<Self, Malformed> {
        let peaks = calendar.peaks.into_iter().map(|peak| {
            let shares = peak.batch_max.into_iter().map(|share| {
                Ok(KindShare {
                    kind: KindId(narrow(share.kind, u8::MAX, "batch_max.kind")?),
                    percent: narrow(share.percent, u8::MAX, "batch_max.percent")?,
                })
            });
            let batch_max = shares.collect::<Result<_, Malformed>>()?;
            Ok(Peak { from_ms: peak.from_ms, until_ms: peak.until_ms, batch_max })
        });
        Ok(PeakCalendar {
            name: calendar.name.into(),
            machines: given(calendar.machines, "calendar.machines")?.try_into()?,
            peaks: peaks.collect::<Result<_, Malformed>>()?,
        })
    }
}

impl TryFrom<proto::MachineSelector> for MachineSelector {
    type Error = Malformed;

    fn try_from(selector: proto::MachineSelector) -> Result<Self, Malformed> {
        Ok(MachineSelector { labels: all(selector.labels)?, names: all(selector.names)? })
    }
}

impl From<&Requirement> for proto::Requirement {
    fn from(requirement: &Requirement) -> Self {
        let operator = match requirement.operator {
            Operator::In => proto::Operator::In,
            Operator::NotIn => proto::Operator::NotIn,
            Operator::Exists => proto::Operator::Exists,
            Operator::DoesNotExist => proto::Operator::DoesNotExist,
            Operator::Gt => proto::Operator::Gt,
            Operator::Lt => proto::Operator::Lt,
        };
        proto::Requirement {
            key: requirement.key.to_string(),
            operator: operator.into(),
            values: strings(&requirement.values),
        }
    }
}

impl TryFrom<proto::Requirement> for Requirement {
    type Error = Malformed;

    fn try_from(requirement: proto::Requirement) -> Result<Self, Malformed> {
        let operator = match variant(requirement.operator, "requirement.operator")? {
            proto::Operator::Unspecified | proto::Operator::In => Operator::In,
            proto::Operator::NotIn => Operator::NotIn,
            proto::Operator::Exists => Operator::Exists,
            proto::Operator::DoesNotExist => Operator::DoesNotExist,
            proto::Operator::Gt => Operator::Gt,
            proto::Operator::Lt => Operator::Lt,
        };
        let values = texts(requirement.values);
        Ok(Requirement { key: requirement.key.into(), operator, values })
    }
}

impl From<&TopologyLevel> for proto::TopologyLevel {
    fn from(level: &TopologyLevel) -> Self {
        match level {
            TopologyLevel::Machine => proto::TopologyLevel { label: String::new() },
            TopologyLevel::Label(label) => proto::TopologyLevel { label: label.to_string() },
        }
    }
}

/// Converts the level in a message. If it is not set, each machine is a domain.
pub(super) fn level(level: Option<proto::TopologyLevel>) -> TopologyLevel {
    match level {
        Some(level) if !level.label.is_empty() => TopologyLevel::Label(level.label.into()),
        _ => TopologyLevel::Machine,
    }
}

impl From<&TaskSelector> for proto::TaskSelector {
    fn from(selector: &TaskSelector) -> Self {
        use proto::task_selector::{SameGroup, SameJob, Tasks};
        let tasks = match selector {
            TaskSelector::SameGroup => Tasks::SameGroup(SameGroup {}),
            TaskSelector::SameJob => Tasks::SameJob(SameJob {}),
            TaskSelector::Labels { tenants, labels } => Tasks::Labels(proto::LabelledTasks {
                tenants: Some(tenants.into()),
                labels: labels.requirements.iter().map(Into::into).collect(),
            }),
        };
        proto::TaskSelector { tasks: Some(tasks) }
    }
}

impl TryFrom<proto::TaskSelector> for TaskSelector {
    type Error = Malformed;

    fn try_from(selector: proto::TaskSelector) -> Result<Self, Malformed> {
        use proto::task_selector::Tasks;
        Ok(match given(selector.tasks, "task_selector.tasks")? {
            Tasks::SameGroup(_) => TaskSelector::SameGroup,
            Tasks::SameJob(_) => TaskSelector::SameJob,
            Tasks::Labels(labelled) => TaskSelector::Labels {
                tenants: labelled.tenants.map_or(Tenants::Own, Into::into),
                labels: LabelSelector { requirements: all(labelled.labels)? },
            },
        })
    }
}

impl From<&Tenants> for proto::labelled_tasks::Tenants {
    fn from(tenants: &Tenants) -> Self {
        use proto::labelled_tasks::{Any, Named, Own, Tenants as Given};
        match tenants {
            Tenants::Own => Given::Own(Own {}),
            Tenants::Any => Given::Any(Any {}),
            Tenants::Named(names) => Given::Named(Named { tenants: strings(names) }),
        }
    }
}

impl From<proto::labelled_tasks::Tenants> for Tenants {
    fn from(tenants: proto::labelled_tasks::Tenants) -> Self {
        use proto::labelled_tasks::Tenants as Given;
        match tenants {
            Given::Own(_) => Tenants::Own,
            Given::Any(_) => Tenants::Any,
            Given::Named(named) => Tenants::Named(texts(named.tenants)),
        }
    }
}

fn near(tasks: &TaskSelector, level: &TopologyLevel) -> proto::Near {
    proto::Near { tasks: Some(tasks.into()), level: Some(level.into()) }
}

impl From<&Near> for proto::Near {
    fn from(from: &Near) -> Self {
        near(&from.tasks, &from.level)
    }
}

impl TryFrom<proto::Near> for Near {
    type Error = Malformed;

    fn try_from(near: proto::Near) -> Result<Self, Malformed> {
        let tasks = given(near.tasks, "near.tasks")?.try_into()?;
        Ok(Near { tasks, level: level(near.level) })
    }
}

impl From<&TaskRule> for proto::TaskRule {
    fn from(rule: &TaskRule) -> Self {
        use proto::task_rule as message;
        use proto::task_rule::Rule;
        let rule = match rule {
            TaskRule::AntiAffinity { from, level } => {
                Rule::AntiAffinity(message::AntiAffinity { from: Some(near(from, level)) })
            }
            TaskRule::Affinity(all) => {
                Rule::Affinity(message::Affinity { near: all.iter().map(Into::into).collect() })
            }
            TaskRule::Prefer { near, weight } => {
                Rule::Prefer(message::Prefer { near: Some(near.into()), weight: *weight })
            }
            TaskRule::MaxPerDomain { of, level, count } => {
                Rule::MaxPerDomain(message::MaxPerDomain {
                    of: Some(near(of, level)),
                    count: *count,
                })
            }
            TaskRule::MaxShare { level, percent } => Rule::MaxShare(message::MaxShare {
                level: Some(level.into()),
                percent: (*percent).into(),
            }),
            TaskRule::Spread(spread) => Rule::Spread(spread.into()),
            TaskRule::MaxColocated { of, level, count } => {
                Rule::MaxColocated(message::MaxColocated {
                    of: Some(near(of, level)),
                    count: *count,
                })
            }
            TaskRule::RuntimeAffinity(near) => {
                Rule::RuntimeAffinity(message::RuntimeAffinity { near: Some(near.into()) })
            }
            other => unreachable!("every rule of this version is sent, not {other:?}"),
        };
        proto::TaskRule { rule: Some(rule) }
    }
}

impl TryFrom<proto::TaskRule> for TaskRule {
    type Error = Malformed;

    fn try_from(rule: proto::TaskRule) -> Result<Self, Malformed> {
        use proto::task_rule::Rule;
        Ok(match given(rule.rule, "task_rule.rule")? {
            Rule::AntiAffinity(rule) => {
                let Near { tasks: from, level } =
                    given(rule.from, "anti_affinity.from")?.try_into()?;
                TaskRule::AntiAffinity { from, level }
            }
            Rule::Affinity(rule) => TaskRule::Affinity(all(rule.near)?),
            Rule::Prefer(rule) => {
                let near = given(rule.near, "prefer.near")?.try_into()?;
                TaskRule::Prefer { near, weight: rule.weight }
            }
            Rule::MaxPerDomain(rule) => {
                let Near { tasks: of, level } = given(rule.of, "max_per_domain.of")?.try_into()?;
                TaskRule::MaxPerDomain { of, level, count: rule.count }
            }
            Rule::MaxShare(rule) => TaskRule::MaxShare {
                level: level(rule.level),
                percent: narrow(rule.percent, u8::MAX, "max_share.percent")?,
            },
            Rule::Spread(spread) => TaskRule::Spread(spread.try_into()?),
            Rule::MaxColocated(rule) => {
                let Near { tasks: of, level } = given(rule.of, "max_colocated.of")?.try_into()?;
                TaskRule::MaxColocated { of, level, count: rule.count }
            }
            Rule::RuntimeAffinity(rule) => {
                TaskRule::RuntimeAffinity(given(rule.near, "runtime_affinity.near")?.try_into()?)
            }
        })
    }
}

impl From<&Spread> for proto::Spread {
    fn from(spread: &Spread) -> Self {
        proto::Spread {
            of: Some(near(&spread.of, &spread.level)),
            skew_max: spread.skew_max,
            domains_min: spread.domains_min,
            schedule_anyway: spread.when == WhenUnsatisfiable::ScheduleAnyway,
            counts_not_itself: !spread.counts_itself,
            ignores_affinity: !spread.honors_affinity,
            honors_taints: spread.honors_taints,
        }
    }
}

impl TryFrom<proto::Spread> for Spread {
    type Error = Malformed;

    fn try_from(spread: proto::Spread) -> Result<Self, Malformed> {
        let Near { tasks: of, level } = given(spread.of, "spread.of")?.try_into()?;
        let when = if spread.schedule_anyway {
            WhenUnsatisfiable::ScheduleAnyway
        } else {
            WhenUnsatisfiable::DoNotSchedule
        };
        Ok(Spread {
            of,
            level,
            skew_max: spread.skew_max,
            domains_min: spread.domains_min,
            when,
            counts_itself: !spread.counts_not_itself,
            honors_affinity: !spread.ignores_affinity,
            honors_taints: spread.honors_taints,
        })
    }
}

impl From<&Port> for proto::Port {
    fn from(port: &Port) -> Self {
        let protocol = match port.protocol {
            Protocol::Tcp => proto::Protocol::Tcp,
            Protocol::Udp => proto::Protocol::Udp,
            Protocol::Sctp => proto::Protocol::Sctp,
        };
        proto::Port {
            address: port.address.as_deref().unwrap_or_default().to_owned(),
            protocol: protocol.into(),
            number: port.number.into(),
        }
    }
}

impl TryFrom<proto::Port> for Port {
    type Error = Malformed;

    fn try_from(port: proto::Port) -> Result<Self, Malformed> {
        let protocol = match variant(port.protocol, "port.protocol")? {
            proto::Protocol::Unspecified | proto::Protocol::Tcp => Protocol::Tcp,
            proto::Protocol::Udp => Protocol::Udp,
            proto::Protocol::Sctp => Protocol::Sctp,
        };
        Ok(Port {
            address: (!port.address.is_empty()).then(|| port.address.into()),
            protocol,
            number: narrow(port.number, u16::MAX, "port.number")?,
        })
    }
}
