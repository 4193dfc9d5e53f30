//! The plugin that evicts tasks to make room, with kube-scheduler's arguments. Disruption budgets, which are objects in
//! Kubernetes, are arguments too.

use super::registry::Plugin;
use crate::framework::disruption::{DisruptionBudget, Keep, Share};
use crate::plugins::{CandidateMachines, DefaultPreemption};
use omega_cellstate::TaskSet;
use omega_core::{Kinds, LabelSelector, Requirement};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

pub(super) fn post_filters() -> [Plugin; 1] {
    let make = |arguments: &Arguments, _: &Kinds| Ok(arguments.plugin());
    [Plugin::post_filter("default_preemption", make)
        .describe::<Arguments>()
        .alias("DefaultPreemption")
        .about("Evicts tasks of lower precedence, as few and as unimportant as possible.")]
}

/// Arguments of preemption: how many machines it examines, and disruption budgets.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "preemption"))]
struct Arguments {
    /// Percentage of candidate machines to examine. Candidates are the machines where evictions could help.
    #[serde(default = "percentage", deserialize_with = "up_to_a_hundred")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    min_candidate_nodes_percentage: u32,
    /// Minimum number of candidate machines to examine.
    #[serde(default = "absolute", deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    min_candidate_nodes_absolute: u32,
    /// Disruption budgets.
    #[serde(default, deserialize_with = "with_one_bound")]
    budgets: Vec<BudgetTable>,
}

fn percentage() -> u32 {
    CandidateMachines::default().percentage
}

fn absolute() -> u32 {
    CandidateMachines::default().absolute
}

fn up_to_a_hundred<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let percent = i64::deserialize(from)?;
    let in_bounds = u32::try_from(percent).ok().filter(|percent| *percent <= 100);
    in_bounds.ok_or_else(|| D::Error::custom(format!("is {percent}: must be 0 to 100")))
}

fn at_least_one<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let count = i64::deserialize(from)?;
    let in_bounds = u32::try_from(count).ok().filter(|count| *count > 0);
    in_bounds.ok_or_else(|| D::Error::custom(format!("is {count}: must be at least 1 machine")))
}

/// A disruption budget: limits how many tasks of a set may be evicted at the same time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table with tenant, labels and one bound")]
#[cfg_attr(feature = "schema", schemars(rename = "budget"))]
struct BudgetTable {
    /// Tenant of the tasks.
    tenant: String,
    /// Labels that select the protected tasks; at least one.
    labels: BTreeMap<String, String>,
    /// Minimum number of tasks with a machine: a number, or a share such as "30%". Give either this or
    /// `max_unavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_available: Option<ShareText>,
    /// Maximum number of tasks without a machine: a number, or a share such as "30%". Give either this or
    /// `min_available`.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_unavailable: Option<ShareText>,
}

/// Reads budgets, and rejects a budget without labels or without exactly one bound.
fn with_one_bound<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BudgetTable>, D::Error> {
    let budgets: Vec<BudgetTable> = Vec::deserialize(from)?;
    for (i, budget) in budgets.iter().enumerate() {
        if budget.labels.is_empty() {
            let why = format!(
                "has no labels in [{i}]: give at least one, or the budget would \
                 protect no task"
            );
            return Err(D::Error::custom(why));
        }
        if budget.min_available.is_some() == budget.max_unavailable.is_some() {
            let why = format!(
                "must have exactly one of min_available and max_unavailable in \
                 [{i}]"
            );
            return Err(D::Error::custom(why));
        }
    }
    Ok(budgets)
}

/// A number of tasks or a percentage of them, written as a number or as a text such as "30%".
#[derive(Clone, Copy, Debug)]
struct ShareText(Share);

/// Forms of a share.
#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "share")]
#[expect(dead_code, reason = "the forms of ShareText, for the schema alone")]
enum ShareForms {
    /// A number of tasks.
    Tasks(u32),
    /// A percentage of the tasks, up to 100%, rounded up.
    Percent(String),
}

#[cfg(feature = "schema")]
impl JsonSchema for ShareText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        ShareForms::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        ShareForms::json_schema(generator)
    }
}

impl Serialize for ShareText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Share::Tasks(count) => to.serialize_u32(count),
            Share::Percent(percent) => to.collect_str(&format_args!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for ShareText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ShareText, D::Error> {
        from.deserialize_any(ShareVisitor).map(ShareText)
    }
}

struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tasks, or a share such as \"30%\"")
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Share, E> {
        let tasks = u32::try_from(count).map(Share::Tasks);
        tasks.map_err(|_| E::custom(format!("is {count}: a number of tasks must be at least 0")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Share, E> {
        let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
        match percent {
            Some(percent @ 0..=100) => Ok(Share::Percent(percent)),
            Some(_) => Err(E::custom(format!("is {text:?}: a percentage must be 0% to 100%"))),
            None => {
                let why = format!("is {text:?}: a share must be a percentage such as \"30%\"");
                Err(E::custom(why))
            }
        }
    }
}

impl Arguments {
    fn plugin(&self) -> DefaultPreemption {
        let candidates = CandidateMachines {
            percentage: self.min_candidate_nodes_percentage,
            absolute: self.min_candidate_nodes_absolute,
        };
        let budgets = self.budgets.iter().filter_map(BudgetTable::budget).collect();
        DefaultPreemption::new(candidates, budgets)
    }
}

impl BudgetTable {
    /// Returns the disruption budget. `None` if the table has no bound, which `with_one_bound` rejects.
    fn budget(&self) -> Option<DisruptionBudget> {
        let min = self.min_available.map(|ShareText(share)| Keep::MinAvailable(share));
        let max = self.max_unavailable.map(|ShareText(share)| Keep::MaxUnavailable(share));
        let labels = self.labels.iter();
        let requirements = labels.map(|(key, value)| Requirement::equals(&**key, &**value));
        let tasks = LabelSelector { requirements: requirements.collect() };
        let set = TaskSet { tenant: self.tenant.as_str().into(), tasks };
        min.or(max).map(|keep| DisruptionBudget { set, keep })
    }
}
