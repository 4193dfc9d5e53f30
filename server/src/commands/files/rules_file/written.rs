//! Conversion of a job's placement rules to the form in a file. It reverses the conversions in the parent module.

use super::{
    EffectFile, LevelFile, NearFile, OperatorFile, PreferredFile, RequirementFile, RuleFile,
    SelectorFile, SpreadFile, TasksFile, TenantsFile, TolerationFile, TolerationOperatorFile,
};
use omega_core::{
    MachineSelector, Near, Operator, Preferred, Requirement, Spread, TaintEffect, TaskRule,
    TaskSelector, Tenants, Text, Toleration, TolerationOperator, TopologyLevel, WhenUnsatisfiable,
};
use serde::{Serialize, Serializer};

fn strings(list: &[Text]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl Serialize for LevelFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match &self.0 {
            TopologyLevel::Machine => "machine",
            TopologyLevel::Label(key) => key,
        })
    }
}

impl From<&Requirement> for RequirementFile {
    fn from(given: &Requirement) -> RequirementFile {
        let operator = match given.operator {
            Operator::In => OperatorFile::In,
            Operator::NotIn => OperatorFile::NotIn,
            Operator::Exists => OperatorFile::Exists,
            Operator::DoesNotExist => OperatorFile::DoesNotExist,
            Operator::Gt => OperatorFile::Gt,
            Operator::Lt => OperatorFile::Lt,
        };
        RequirementFile { key: given.key.to_string(), operator, values: strings(&given.values) }
    }
}

impl From<&MachineSelector> for SelectorFile {
    fn from(given: &MachineSelector) -> SelectorFile {
        SelectorFile {
            labels: given.labels.iter().map(Into::into).collect(),
            names: given.names.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Preferred> for PreferredFile {
    fn from(given: &Preferred) -> PreferredFile {
        PreferredFile { weight: given.weight, machines: (&given.machines).into() }
    }
}

impl From<&Toleration> for TolerationFile {
    fn from(given: &Toleration) -> TolerationFile {
        TolerationFile {
            key: given.key.as_ref().map(ToString::to_string),
            operator: match given.operator {
                TolerationOperator::Equal => TolerationOperatorFile::Equal,
                TolerationOperator::Exists => TolerationOperatorFile::Exists,
            },
            value: given.value.to_string(),
            effect: given.effect.map(|effect| match effect {
                TaintEffect::NoSchedule => EffectFile::NoSchedule,
                TaintEffect::PreferNoSchedule => EffectFile::PreferNoSchedule,
                TaintEffect::NoExecute => EffectFile::NoExecute,
            }),
        }
    }
}

impl From<&TaskSelector> for TasksFile {
    fn from(given: &TaskSelector) -> TasksFile {
        match given {
            TaskSelector::SameGroup => TasksFile::SameGroup,
            TaskSelector::SameJob => TasksFile::SameJob,
            TaskSelector::Labels { tenants, labels } => TasksFile::Labelled {
                tenants: match tenants {
                    Tenants::Own => TenantsFile::Own,
                    Tenants::Any => TenantsFile::Any,
                    Tenants::Named(names) => TenantsFile::Named(strings(names)),
                },
                labels: labels.requirements.iter().map(Into::into).collect(),
            },
        }
    }
}

fn near(tasks: &TaskSelector, level: &TopologyLevel) -> NearFile {
    NearFile { tasks: tasks.into(), level: LevelFile(level.clone()) }
}

impl From<&Near> for NearFile {
    fn from(given: &Near) -> NearFile {
        near(&given.tasks, &given.level)
    }
}

impl From<&TaskRule> for RuleFile {
    fn from(given: &TaskRule) -> RuleFile {
        match given {
            TaskRule::AntiAffinity { from, level } => RuleFile::AntiAffinity(near(from, level)),
            TaskRule::Affinity(all) => RuleFile::Affinity(all.iter().map(Into::into).collect()),
            TaskRule::Prefer { near, weight } => {
                RuleFile::Prefer { near: near.into(), weight: *weight }
            }
            TaskRule::MaxPerDomain { of, level, count } => {
                RuleFile::MaxPerDomain { of: near(of, level), count: *count }
            }
            TaskRule::MaxShare { level, percent } => {
                RuleFile::MaxShare { level: LevelFile(level.clone()), percent: *percent }
            }
            TaskRule::Spread(spread) => RuleFile::Spread(spread.into()),
            TaskRule::MaxColocated { of, level, count } => {
                RuleFile::MaxColocated { of: near(of, level), count: *count }
            }
            TaskRule::RuntimeAffinity(near) => RuleFile::RuntimeAffinity(near.into()),
            other => unreachable!("every rule of this version is handled above, not {other:?}"),
        }
    }
}

impl From<&Spread> for SpreadFile {
    fn from(given: &Spread) -> SpreadFile {
        SpreadFile {
            tasks: (&given.of).into(),
            level: LevelFile(given.level.clone()),
            skew_max: given.skew_max,
            domains_min: given.domains_min,
            schedule_anyway: given.when == WhenUnsatisfiable::ScheduleAnyway,
            counts_itself: given.counts_itself,
            honors_affinity: given.honors_affinity,
            honors_taints: given.honors_taints,
        }
    }
}
