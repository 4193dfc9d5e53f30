//! Plugins that behave like those of kube-scheduler, with its plugin names and Omega's argument names.

use super::arguments::{
    ArgumentError, KindName, KindWeight, NoArguments, cpu_and_memory, different_kinds, find_all,
    once_each, one,
};
use super::described::{filter, relative, score};
use super::registry::Plugin;
use crate::plugins::{
    BalancedAllocation, FitArgs, ImageLocality, InterPodAffinity, NodeAffinity, NodePorts,
    NodeResourcesFit, NodeUnschedulable, PodTopologySpread, Preferences, ShapePoint, Strategy,
    TaintToleration,
};
use crate::volumes::Aspect;
use omega_core::{Affinity, Kinds, MachineSelector, Operator, Preferred, Requirement};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(super) fn filters() -> [Plugin; 7] {
    [
        filter("node_unschedulable", |_: &NoArguments, _| Ok(NodeUnschedulable::default()))
            .alias("NodeUnschedulable")
            .about("The machine is not cordoned, or the task tolerates that."),
        filter("taint_toleration", |_: &NoArguments, _| Ok(TaintToleration))
            .alias("TaintToleration")
            .about("The task tolerates the machine's `NoSchedule` and `NoExecute` taints."),
        filter("node_affinity", |added: &Required, _| Ok(added.plugin()))
            .alias("NodeAffinity")
            .about("The machine matches the required affinity of the task and of the profile."),
        filter("node_ports", |_: &NoArguments, _| Ok(NodePorts))
            .alias("NodePorts")
            .about("No other task on the machine has one of the task's ports, and the machine's port range has enough free ports."),
        filter("node_resources_fit", |ignored: &Ignored, kinds| {
            let Ignored { ignored, ignored_groups } = ignored.clone();
            let args = FitArgs { ignored, ignored_groups, ..FitArgs::default() };
            Ok(NodeResourcesFit::new(&args, kinds))
        })
        .alias("NodeResourcesFit")
        .about(
            "The machine has enough of every requested kind that is not ignored. The cell still checks all kinds.",
        ),
        filter("pod_topology_spread", |_: &NoArguments, _| Ok(PodTopologySpread))
            .alias("PodTopologySpread")
            .about("After the placement, the skew of each required spread is within its maximum."),
        filter("inter_pod_affinity", |_: &NoArguments, _| Ok(InterPodAffinity::default()))
            .alias("InterPodAffinity")
            .about("Required affinities and anti-affinities hold, also those of running tasks."),
    ]
}

pub(super) fn volumes() -> [Plugin; 4] {
    [
        Plugin::volumes::<NoArguments>("volume_restrictions", Aspect::Restrictions)
            .alias("VolumeRestrictions")
            .about(
                "No other task uses the task's volumes in a way that their access modes forbid.",
            ),
        Plugin::volumes::<NoArguments>("volume_limits", Aspect::Limits)
            .alias("NodeVolumeLimits")
            .about("The machine stays within each driver's limit of attached volumes."),
        Plugin::volumes::<NoArguments>("volume_binding", Aspect::Binding)
            .alias("VolumeBinding")
            .about("Each claim of the task has, or can get, a volume that the machine can reach."),
        Plugin::volumes::<NoArguments>("volume_zone", Aspect::Zone)
            .alias("VolumeZone")
            .about("The bound volumes of the task's claims are reachable from the machine."),
    ]
}

pub(super) fn scores() -> [Plugin; 7] {
    [
        relative("taint_toleration", |_: &NoArguments, _| Ok(TaintToleration))
            .alias("TaintToleration")
            .about("Prefers machines with few `PreferNoSchedule` taints that the task does not tolerate."),
        relative("node_affinity", |added: &Wishes, _| Ok(added.plugin()))
            .alias("NodeAffinity")
            .about("Prefers machines that match the preferred affinity of the task or of the profile."),
        relative("pod_topology_spread", |_: &NoArguments, _| Ok(PodTopologySpread))
            .alias("PodTopologySpread")
            .about("Prefers domains with few tasks of the kind that the new task's soft spreads select."),
        relative("inter_pod_affinity", |neighbours: &Neighbours, _| Ok(neighbours.plugin()))
            .alias("InterPodAffinity")
            .about("Prefers machines that meet preferred affinities of the new task and of running tasks. With `of_those_preferring`, preferences of running tasks count only if the new task has preferences, too."),
        score("node_resources_fit", |fit: &Fit, kinds| fit.plugin(kinds))
            .alias("NodeResourcesFit")
            .about("Scores the machine's allocation after the placement, by a strategy."),
        score("balanced_allocation", |balance: &Balance, kinds| balance.plugin(kinds))
            .alias("NodeResourcesBalancedAllocation")
            .about("Prefers machines where the task makes the allocated shares of the resource kinds more even."),
        score("image_locality", |_: &NoArguments, _| Ok(ImageLocality))
            .alias("ImageLocality")
            .about("Prefers machines that already have the task's images."),
    ]
}

/// Resource kinds that a filter ignores.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "ignored"))]
struct Ignored {
    /// Resource kinds to ignore, each with a `/` in its name. The cell need not have them.
    #[serde(default, deserialize_with = "with_slash")]
    ignored: Vec<String>,
    /// Prefixes of resource kinds to ignore: all kinds with one of them before the `/` in their names.
    #[serde(default, deserialize_with = "without_slash")]
    ignored_groups: Vec<String>,
}

/// Reads names of kinds, and rejects those without a slash, which the filter never ignores.
fn with_slash<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let names: Vec<String> = Vec::deserialize(from)?;
    match names.iter().find(|name| !name.contains('/')) {
        Some(name) => Err(D::Error::custom(format!(
            "contains {name:?}: only a kind with a / in its name, such as example.com/fpga, can \
             be ignored"
        ))),
        None => Ok(names),
    }
}

/// Reads prefixes of kind names, each the part before a `/`, and rejects prefixes that contain a slash.
fn without_slash<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let groups: Vec<String> = Vec::deserialize(from)?;
    match groups.iter().find(|group| group.contains('/')) {
        Some(group) => Err(D::Error::custom(format!(
            "contains {group:?}: must be the part of a kind's name before the /, such as \
             example.com"
        ))),
        None => Ok(groups),
    }
}

/// Arguments of the score by usage.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "fit"))]
struct Fit {
    /// Scoring strategy by usage.
    #[serde(default)]
    strategy: FitStrategy,
    /// The kinds that the score uses, each with a weight.
    #[serde(default = "cpu_and_memory", deserialize_with = "different_kinds")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    kinds: Vec<KindWeight>,
}

/// Scoring strategy by usage.
#[derive(Clone, Debug, Default, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "strategy"))]
enum FitStrategy {
    /// An emptier machine has a higher score.
    #[default]
    LeastAllocated,
    /// A fuller machine has a higher score.
    MostAllocated,
    /// The score is a function of the percentage in use, given by points. They ascend by percentage, and straight lines
    /// join them.
    #[serde(deserialize_with = "ascending")]
    RequestedToCapacityRatio(#[cfg_attr(feature = "schema", schemars(length(min = 1)))] Vec<Point>),
}

/// Point of a scoring function: a percentage of use, and its score.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table such as { percent = 100, score = 10 }")]
#[cfg_attr(feature = "schema", schemars(rename = "point"))]
struct Point {
    /// Part of a resource kind that is in use, in percent.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    percent: u8,
    /// Score at this usage.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 10)))]
    score: u8,
}

fn ascending<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Point>, D::Error> {
    let points: Vec<Point> = Vec::deserialize(from)?;
    let out_of_bounds = |point: &&Point| point.percent > 100 || point.score > 10;
    if points.is_empty() {
        return Err(D::Error::custom(
            "has no point: give at least one, which maps a percentage of \
             use to a score",
        ));
    }
    if let Some(Point { percent, score }) = points.iter().find(out_of_bounds) {
        let why = format!(
            "has the point {percent} % with score {score}: must be at most 100 % \
             and at most 10"
        );
        return Err(D::Error::custom(why));
    }
    if !points.is_sorted_by(|a, b| a.percent < b.percent) {
        return Err(D::Error::custom(
            "has points in the wrong order: their percentages must \
             ascend",
        ));
    }
    Ok(points)
}

impl Fit {
    fn plugin(&self, kinds: &Kinds) -> Result<NodeResourcesFit, ArgumentError> {
        find_all(&self.kinds, kinds)?;
        let strategy = match &self.strategy {
            FitStrategy::LeastAllocated => Strategy::LeastAllocated,
            FitStrategy::MostAllocated => Strategy::MostAllocated,
            FitStrategy::RequestedToCapacityRatio(points) => {
                let point = |Point { percent, score }: &Point| ShapePoint {
                    percent: *percent,
                    score: *score,
                };
                Strategy::RequestedToCapacityRatio(points.iter().map(point).collect())
            }
        };
        let resources = self.kinds.iter().map(KindWeight::named).collect();
        Ok(NodeResourcesFit::new(&FitArgs { strategy, resources, ..FitArgs::default() }, kinds))
    }
}

/// Kinds to allocate evenly.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "balance"))]
struct Balance {
    /// Names of the kinds to allocate evenly.
    #[serde(default = "names_of_cpu_and_memory", deserialize_with = "different_names")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    kinds: Vec<KindName>,
}

fn names_of_cpu_and_memory() -> Vec<KindName> {
    ["cpu", "memory"].map(KindName::unwritten).into()
}

/// Reads names of resource kinds, and rejects a name that is listed twice.
fn different_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KindName>, D::Error> {
    let names: Vec<KindName> = Vec::deserialize(from)?;
    once_each(names.iter().map(KindName::name))?;
    Ok(names)
}

impl Balance {
    fn plugin(&self, kinds: &Kinds) -> Result<BalancedAllocation, ArgumentError> {
        for (i, kind) in self.kinds.iter().enumerate() {
            kind.find(format!("kinds[{i}]"), kinds)?;
        }
        let names: Vec<&str> = self.kinds.iter().map(KindName::name).collect();
        Ok(BalancedAllocation::new(&names, kinds))
    }
}

/// Preferences of tasks for or against other tasks, as far as the score uses them.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "neighbours"))]
struct Neighbours {
    /// Weight of a running task's required affinity that selects the task to be placed.
    #[serde(default = "one", deserialize_with = "up_to_a_hundred")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    required_weight: u32,
    /// Choice of the preferences that count for tasks that have none themselves.
    #[serde(default)]
    preferences: Whose,
}

fn up_to_a_hundred<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let weight = i64::deserialize(from)?;
    let in_bounds = u32::try_from(weight).ok().filter(|weight| *weight <= 100);
    in_bounds.ok_or_else(|| D::Error::custom(format!("is {weight}: must be 0 to 100")))
}

/// Choice of the tasks whose preferences count.
#[derive(Clone, Copy, Debug, Default, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "whose"))]
enum Whose {
    /// The preferences of the task and those of running tasks count.
    #[default]
    Everyones,
    /// If the task has no preferences itself, those of running tasks do not count.
    OfThosePreferring,
}

impl Neighbours {
    fn plugin(&self) -> InterPodAffinity {
        let preferences = match self.preferences {
            Whose::Everyones => Preferences::Everyones,
            Whose::OfThosePreferring => Preferences::OfThosePreferring,
        };
        InterPodAffinity { required_weight: self.required_weight, preferences }
    }
}

/// A required affinity of all tasks of the profile, in addition to their own.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "required"))]
struct Required {
    /// Selectors of machines. A task's machine must match at least one of them.
    #[serde(default)]
    required: Vec<Labelled>,
}

/// Preferences of all tasks of the profile for machines, in addition to the tasks' own preferences.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "preferred"))]
struct Wishes {
    /// Selectors of preferred machines.
    #[serde(default)]
    preferred: Vec<Better>,
}

/// A machine selector. A machine matches if its labels meet every requirement.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table with a list of labels")]
#[cfg_attr(feature = "schema", schemars(rename = "labelled"))]
struct Labelled {
    /// The requirements.
    #[serde(deserialize_with = "some_labels")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    labels: Vec<Label>,
}

/// Requirement on a label.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table with key, operator and values")]
#[cfg_attr(feature = "schema", schemars(rename = "label"))]
struct Label {
    /// The label's key.
    key: String,
    /// Operator that compares the label's value.
    #[cfg_attr(feature = "schema", schemars(with = "OperatorName"))]
    operator: Operator,
    /// Values to compare with.
    #[serde(default)]
    values: Vec<String>,
}

/// Operator of a requirement on a label's value.
#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "operator")]
#[expect(dead_code, reason = "the names of omega_core::Operator, for the schema alone")]
enum OperatorName {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

/// Machines to prefer, and the weight of this preference.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table with weight and labels")]
#[cfg_attr(feature = "schema", schemars(rename = "better"))]
struct Better {
    /// Weight of a machine that matches.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    #[serde(deserialize_with = "super::arguments::small_weight")]
    weight: u32,
    /// Labels that a preferred machine has.
    #[serde(deserialize_with = "some_labels")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    labels: Vec<Label>,
}

fn some_labels<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Label>, D::Error> {
    let labels: Vec<Label> = Vec::deserialize(from)?;
    if labels.is_empty() {
        return Err(D::Error::custom(
            "is empty, so it would match no machine: give at least one \
             label",
        ));
    }
    for (i, label) in labels.iter().enumerate() {
        label
            .check()
            .map_err(|why| D::Error::custom(format!("has an invalid entry [{i}]: {why}")))?;
    }
    Ok(labels)
}

impl Label {
    /// Rejects requirements that could match no machine or would match every machine.
    fn check(&self) -> Result<(), &'static str> {
        if self.key.is_empty() {
            return Err("key: must not be empty");
        }
        let whole_number = || match &self.values[..] {
            [only] => only.parse::<i64>().is_ok(),
            _ => false,
        };
        match self.operator {
            Operator::In | Operator::NotIn if self.values.is_empty() => {
                Err("values: must have at least one for the operators `in` and `not_in`")
            }
            Operator::Gt | Operator::Lt if !whole_number() => {
                Err("values: must be one whole number for the operators `gt` and `lt`")
            }
            Operator::Exists | Operator::DoesNotExist if !self.values.is_empty() => {
                Err("values: must be empty for the operators `exists` and `does_not_exist`")
            }
            _ => Ok(()),
        }
    }
}

impl Required {
    fn plugin(&self) -> NodeAffinity {
        let required: Vec<MachineSelector> =
            self.required.iter().map(|labelled| selector(&labelled.labels)).collect();
        let required = (!required.is_empty()).then_some(required);
        NodeAffinity::with_added(&Affinity { required, ..Affinity::default() })
    }
}

impl Wishes {
    fn plugin(&self) -> NodeAffinity {
        let preferred = self
            .preferred
            .iter()
            .map(|better| Preferred { weight: better.weight, machines: selector(&better.labels) });
        NodeAffinity::with_added(&Affinity {
            preferred: preferred.collect(),
            ..Affinity::default()
        })
    }
}

fn selector(labels: &[Label]) -> MachineSelector {
    let requirement = |label: &Label| Requirement {
        key: label.key.as_str().into(),
        operator: label.operator,
        values: label.values.iter().map(|value| value.as_str().into()).collect(),
    };
    MachineSelector { labels: labels.iter().map(requirement).collect(), names: Vec::new() }
}
