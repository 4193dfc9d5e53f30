//! Placement rules in files, in a stable format. Each rule has the meaning of its counterpart in `omega-core`.

pub(in crate::commands::files) mod implied;
mod written;

use crate::commands::files::pairs;
use omega_core::{
    Affinity, LabelSelector, MachineSelector, Near, Operator, Preferred, Requirement, Spread,
    TaintEffect, TaskRule, TaskSelector, Tenants, Text, Toleration, TolerationOperator,
    TopologyLevel, WhenUnsatisfiable,
};
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::num::NonZeroU32;

/// Machines that meet every requirement. Without requirements, no machine is selected.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct SelectorFile {
    /// Requirements on the machine's labels.
    #[serde(default, deserialize_with = "requirements", skip_serializing_if = "Vec::is_empty")]
    labels: Vec<RequirementFile>,
    /// Requirements on the machine's name; their keys are ignored.
    #[serde(default, deserialize_with = "requirements", skip_serializing_if = "Vec::is_empty")]
    names: Vec<RequirementFile>,
}

/// A preference for machines.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct PreferredFile {
    /// Weight of a match, 1 to 100.
    weight: u32,
    /// Selector of the machines.
    machines: SelectorFile,
}

/// A requirement on one label.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RequirementFile {
    /// The label's key.
    #[serde(default)]
    key: String,
    /// Operator that is applied to the label's value.
    #[serde(default)]
    operator: OperatorFile,
    /// Values to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<String>,
}

/// Reads requirements. A comparison with anything but one integer can never be met, so it is an error.
fn requirements<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RequirementFile>, D::Error> {
    let given = Vec::<RequirementFile>::deserialize(from)?;
    for RequirementFile { key, operator, values } in &given {
        let word = match operator {
            OperatorFile::Gt => "gt",
            OperatorFile::Lt => "lt",
            _ => continue,
        };
        if !matches!(&values[..], [bound] if bound.parse::<i64>().is_ok()) {
            return Err(D::Error::custom(format!(
                "values of {key:?} are {values:?}, but {word} compares with one integer: write one, as in \
                 values = [\"5\"]"
            )));
        }
    }
    Ok(given)
}

/// Operator of a requirement on a label's value.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OperatorFile {
    /// The label has one of the values.
    #[default]
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
}

/// A tolerated taint.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct TolerationFile {
    /// Key of the taint. If it is absent and the operator is `exists`, every key is tolerated.
    key: Option<String>,
    /// Comparison of the values.
    #[serde(default)]
    operator: TolerationOperatorFile,
    /// The value for `equal`.
    #[serde(default)]
    value: String,
    /// Effect of the taint; every effect if absent.
    effect: Option<EffectFile>,
}

/// Operator of a toleration.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TolerationOperatorFile {
    /// The taint's value equals the toleration's.
    #[default]
    Equal,
    /// Any value.
    Exists,
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
enum EffectFile {
    /// New tasks are rejected.
    NoSchedule,
    /// New tasks prefer other machines.
    PreferNoSchedule,
    /// New tasks are rejected, and running tasks must leave the machine.
    NoExecute,
}

/// Rule that relates a task to other tasks.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::commands) enum RuleFile {
    /// No selected task runs in the same domain.
    AntiAffinity(NearFile),
    /// The domain already has a task that all entries of the list select. Or no such task runs anywhere, and all
    /// entries select this task itself.
    Affinity(Vec<NearFile>),
    /// Prefers domains with selected tasks; with a negative weight, domains without selected tasks.
    Prefer {
        /// The selected tasks, and the level of the domains.
        near: NearFile,
        /// Weight of each selected task, -100 to 100.
        weight: i32,
    },
    /// A domain has at most `count` selected tasks, including this task.
    MaxPerDomain {
        /// The counted tasks, and the level of the domains.
        of: NearFile,
        /// Maximum number of tasks.
        count: u32,
    },
    /// A domain has at most this share of the group's tasks, but may always have one task.
    MaxShare {
        /// Definition of a domain: `machine`, or the key of a label.
        #[schemars(with = "String")]
        level: LevelFile,
        /// The share in percent.
        percent: u8,
    },
    /// The selected tasks are spread evenly over the domains.
    Spread(SpreadFile),
    /// In a domain with a task of this group, at most `count` selected tasks run, including this task if it is
    /// selected.
    MaxColocated {
        /// The counted tasks, and the level of the domains.
        of: NearFile,
        /// Maximum number of tasks, at least 1.
        count: u32,
    },
    /// As long as this task runs, another selected task runs in the same domain.
    RuntimeAffinity(NearFile),
}

/// Selected tasks, and the level of the domains.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct NearFile {
    /// The selected tasks.
    #[serde(default)]
    tasks: TasksFile,
    /// Definition of a domain: `machine`, or the key of a label.
    #[schemars(with = "String")]
    level: LevelFile,
}

/// An even spread over domains.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct SpreadFile {
    /// The counted tasks.
    #[serde(default)]
    tasks: TasksFile,
    /// Definition of a domain: `machine`, or the key of a label.
    #[schemars(with = "String")]
    level: LevelFile,
    /// Maximum difference in tasks between a domain and the domain with the fewest tasks.
    #[serde(deserialize_with = "from_one")]
    skew_max: u32,
    /// Minimum number of domains. If there are fewer domains, the lowest number of tasks in a domain counts as 0.
    #[serde(default)]
    domains_min: u32,
    /// Whether the spread is only a preference.
    #[serde(default)]
    schedule_anyway: bool,
    /// Whether the task that is being placed is itself counted.
    #[serde(default = "yes")]
    counts_itself: bool,
    /// Whether to count only machines that meet the group's required affinity.
    #[serde(default = "yes")]
    honors_affinity: bool,
    /// Whether to count only machines whose taints the group tolerates.
    #[serde(default)]
    honors_taints: bool,
}

fn from_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    NonZeroU32::deserialize(deserializer).map(NonZeroU32::get)
}

fn yes() -> bool {
    true
}

/// Selector of the tasks that a rule counts.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum TasksFile {
    /// Tasks of the group that has the rule.
    #[default]
    SameGroup,
    /// Tasks of the job that has the rule.
    SameJob,
    /// Tasks with labels, of any job.
    Labelled {
        /// Tenants whose tasks count.
        #[serde(default)]
        tenants: TenantsFile,
        /// Requirements on the tasks' labels.
        #[serde(deserialize_with = "requirements")]
        labels: Vec<RequirementFile>,
    },
}

/// Tenants whose tasks a rule considers.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TenantsFile {
    /// Tasks of the tenant of the job that has the rule.
    #[default]
    Own,
    /// Tasks of all tenants.
    Any,
    /// Tasks of these tenants.
    Named(Vec<String>),
}

/// A level of the topology, in the syntax of the flags.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(in crate::commands) struct LevelFile(TopologyLevel);

impl TryFrom<String> for LevelFile {
    type Error = String;

    fn try_from(text: String) -> Result<LevelFile, String> {
        pairs::level(&text).map(LevelFile)
    }
}

fn texts(list: &[String]) -> Vec<Text> {
    list.iter().map(|text| text.as_str().into()).collect()
}

impl From<&RequirementFile> for Requirement {
    fn from(given: &RequirementFile) -> Requirement {
        let operator = match given.operator {
            OperatorFile::In => Operator::In,
            OperatorFile::NotIn => Operator::NotIn,
            OperatorFile::Exists => Operator::Exists,
            OperatorFile::DoesNotExist => Operator::DoesNotExist,
            OperatorFile::Gt => Operator::Gt,
            OperatorFile::Lt => Operator::Lt,
        };
        Requirement { key: given.key.as_str().into(), operator, values: texts(&given.values) }
    }
}

impl From<&SelectorFile> for MachineSelector {
    fn from(given: &SelectorFile) -> MachineSelector {
        MachineSelector {
            labels: given.labels.iter().map(Into::into).collect(),
            names: given.names.iter().map(Into::into).collect(),
        }
    }
}

/// Required and preferred machines.
pub(in crate::commands) fn affinity(
    required: Option<&[SelectorFile]>,
    preferred: &[PreferredFile],
) -> Affinity {
    let prefer = |given: &PreferredFile| Preferred {
        weight: given.weight,
        machines: (&given.machines).into(),
    };
    Affinity {
        required: required.map(|any| any.iter().map(Into::into).collect()),
        preferred: preferred.iter().map(prefer).collect(),
    }
}

impl From<&TolerationFile> for Toleration {
    fn from(given: &TolerationFile) -> Toleration {
        Toleration {
            key: given.key.as_deref().map(Into::into),
            operator: match given.operator {
                TolerationOperatorFile::Equal => TolerationOperator::Equal,
                TolerationOperatorFile::Exists => TolerationOperator::Exists,
            },
            value: given.value.as_str().into(),
            effect: given.effect.map(|effect| match effect {
                EffectFile::NoSchedule => TaintEffect::NoSchedule,
                EffectFile::PreferNoSchedule => TaintEffect::PreferNoSchedule,
                EffectFile::NoExecute => TaintEffect::NoExecute,
            }),
        }
    }
}

impl From<&TasksFile> for TaskSelector {
    fn from(given: &TasksFile) -> TaskSelector {
        match given {
            TasksFile::SameGroup => TaskSelector::SameGroup,
            TasksFile::SameJob => TaskSelector::SameJob,
            TasksFile::Labelled { tenants, labels } => TaskSelector::Labels {
                tenants: match tenants {
                    TenantsFile::Own => Tenants::Own,
                    TenantsFile::Any => Tenants::Any,
                    TenantsFile::Named(names) => Tenants::Named(texts(names)),
                },
                labels: LabelSelector { requirements: labels.iter().map(Into::into).collect() },
            },
        }
    }
}

impl From<&NearFile> for Near {
    fn from(given: &NearFile) -> Near {
        Near { tasks: (&given.tasks).into(), level: given.level.0.clone() }
    }
}

impl From<&RuleFile> for TaskRule {
    fn from(given: &RuleFile) -> TaskRule {
        match given {
            RuleFile::AntiAffinity(near) => {
                let Near { tasks: from, level } = near.into();
                TaskRule::AntiAffinity { from, level }
            }
            RuleFile::Affinity(all) => TaskRule::Affinity(all.iter().map(Into::into).collect()),
            RuleFile::Prefer { near, weight } => {
                TaskRule::Prefer { near: near.into(), weight: *weight }
            }
            RuleFile::MaxPerDomain { of, count } => {
                let Near { tasks: of, level } = of.into();
                TaskRule::MaxPerDomain { of, level, count: *count }
            }
            RuleFile::MaxShare { level, percent } => {
                TaskRule::MaxShare { level: level.0.clone(), percent: *percent }
            }
            RuleFile::Spread(spread) => TaskRule::Spread(spread.into()),
            RuleFile::MaxColocated { of, count } => {
                let Near { tasks: of, level } = of.into();
                TaskRule::MaxColocated { of, level, count: *count }
            }
            RuleFile::RuntimeAffinity(near) => TaskRule::RuntimeAffinity(near.into()),
        }
    }
}

impl From<&SpreadFile> for Spread {
    fn from(given: &SpreadFile) -> Spread {
        Spread {
            of: (&given.tasks).into(),
            level: given.level.0.clone(),
            skew_max: given.skew_max,
            domains_min: given.domains_min,
            when: if given.schedule_anyway {
                WhenUnsatisfiable::ScheduleAnyway
            } else {
                WhenUnsatisfiable::DoNotSchedule
            },
            counts_itself: given.counts_itself,
            honors_affinity: given.honors_affinity,
            honors_taints: given.honors_taints,
        }
    }
}
