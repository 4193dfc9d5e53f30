//! Plugins that use the machines' reported load.

use super::arguments::{
    ArgumentError, KindName, KindWeight, cpu_and_memory, different_kinds, find_all, once_each,
};
use super::described::{filter, score};
use super::registry::Plugin;
use crate::plugins::{HalfLife, Limit, LoadAware, LoadLimit};
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub(super) fn plugins() -> [Plugin; 2] {
    [
        filter("load_limit", |limits: &Limits, kinds| {
            Ok(LoadLimit::new(HalfLife::seconds(limits.half_life_seconds), &limits.find(kinds)?))
        })
        .about("The task would not raise the machine's measured use above the percentage set for services or for batch jobs."),
        score("load_aware", |args: &Aware, kinds| {
            let weights = find_all(&args.kinds, kinds)?;
            Ok(LoadAware::new(HalfLife::seconds(args.half_life_seconds), &weights))
        })
        .about("Prefers machines with less use: the measured use plus claims since the last report."),
    ]
}

/// Default half-life of a load report, in seconds: thirty heartbeats of an agent, so that a few lost heartbeats do not
/// matter.
fn half_life() -> u32 {
    300
}

/// The longest half-life, in seconds: a day. With a longer half-life, reports would in effect never expire.
const HALF_LIFE_MAX: u32 = 86_400;

fn some_half_life<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    bounded(from, "a half-life", HALF_LIFE_MAX)
}

/// The largest percentage of a machine's capacity, equal to the largest overcommit that a machine may have.
const PERCENT_MAX: u32 = 1000;

fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    bounded(from, "a percentage of a machine", PERCENT_MAX)
}

fn bounded<'de, D: Deserializer<'de>>(from: D, what: &str, most: u32) -> Result<u32, D::Error> {
    let given = i64::deserialize(from)?;
    let in_bounds = u32::try_from(given).ok().filter(|given| (1..=most).contains(given));
    in_bounds.ok_or_else(|| D::Error::custom(format!("is {given}: {what} must be 1 to {most}")))
}

/// The arguments of `load_aware`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Aware {
    /// Half-life of a load report, in seconds.
    #[serde(default = "half_life", deserialize_with = "some_half_life")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = HALF_LIFE_MAX)))]
    half_life_seconds: u32,
    /// Kinds that count, with their weights.
    #[serde(default = "cpu_and_memory", deserialize_with = "different_kinds")]
    kinds: Vec<KindWeight>,
}

/// The arguments of `load_limit`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Limits {
    /// Half-life of a load report, in seconds.
    #[serde(default = "half_life", deserialize_with = "some_half_life")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = HALF_LIFE_MAX)))]
    half_life_seconds: u32,
    /// Limited kinds; each must be compressible.
    #[serde(default = "cpu", deserialize_with = "limited_once")]
    kinds: Vec<KindLimit>,
}

/// Limits on a machine's measured use of a resource kind. A task is placed only if the use stays within them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct KindLimit {
    /// The kind's name.
    name: KindName,
    /// Limit for service tasks, in percent of the machine's capacity.
    #[serde(default = "service_percent", deserialize_with = "percent")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = PERCENT_MAX)))]
    service_percent: u32,
    /// Limit for tasks of batch jobs, in percent of the machine's capacity.
    #[serde(default = "batch_percent", deserialize_with = "percent")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = PERCENT_MAX)))]
    batch_percent: u32,
}

/// Default limit for services: a third of the machine stays free for the next peak. Kubernetes' load-aware scheduling
/// has the same default.
fn service_percent() -> u32 {
    65
}

/// Default limit for batch jobs: above the limit for services, but below the capacity, so that services have room when
/// their load rises again.
fn batch_percent() -> u32 {
    90
}

fn cpu() -> Vec<KindLimit> {
    let (service_percent, batch_percent) = (service_percent(), batch_percent());
    vec![KindLimit { name: KindName::unwritten("cpu"), service_percent, batch_percent }]
}

fn limited_once<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KindLimit>, D::Error> {
    let kinds: Vec<KindLimit> = Vec::deserialize(from)?;
    once_each(kinds.iter().map(|kind| kind.name.name()))?;
    Ok(kinds)
}

impl Limits {
    /// Returns the limits with the cell's resource kinds instead of names.
    fn find(&self, kinds: &Kinds) -> Result<Vec<Limit>, ArgumentError> {
        let find = |(i, limit): (usize, &KindLimit)| {
            let argument = format!("kinds[{i}].name");
            let kind = limit.name.find(argument.as_str(), kinds)?;
            if !kinds.get(kind).is_some_and(|kind| kind.compressible) {
                let name = limit.name.name();
                let why = format!(
                    "{name:?} is not compressible: a task keeps its amount of this kind until it \
                     ends, so the kind cannot be limited by its measured use"
                );
                return Err(ArgumentError::new(argument, why));
            }
            let (service_percent, batch_percent) = (limit.service_percent, limit.batch_percent);
            Ok(Limit { kind, service_percent, batch_percent })
        };
        self.kinds.iter().enumerate().map(find).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Profiles, Registry};
    use omega_core::Kinds;

    fn error(plugin: &str, args: &str) -> String {
        let file = format!(
            "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.{plugin}]]\nplugin = '{}'\n{args}",
            if plugin == "filter" { "load_limit" } else { "load_aware" }
        );
        let registry = Registry::built_in();
        match Profiles::parse(&file, &registry) {
            Err(error) => error.to_string(),
            Ok(all) => match all.get("p").expect("it is there").bind(&Kinds::standard()) {
                Err(error) => error.to_string(),
                Ok(profile) => format!("{profile:?}"),
            },
        }
    }

    #[test]
    fn bad_arguments_are_told() {
        for (plugin, args, expected) in [
            ("filter", "args.half_life_seconds = 0", "is 0: a half-life must be 1 to 86400"),
            ("score", "args.half_life_seconds = 90000", "is 90000: a half-life must be 1 to 86400"),
            ("filter", "args.kinds = []", "names no kind"),
            ("filter", "args.kinds = [{ name = 'memory' }]", "\"memory\" is not compressible"),
            ("filter", "args.kinds = [{ name = 'cores' }]", "the cell has no kind \"cores\""),
            (
                "filter",
                "args.kinds = [{ name = 'cpu', batch_percent = 1001 }]",
                "is 1001: a percentage of a machine must be 1 to 1000",
            ),
            (
                "filter",
                "args.kinds = [{ name = 'cpu' }, { name = 'cpu' }]",
                "the kind \"cpu\" is named twice",
            ),
        ] {
            let error = error(plugin, args);
            assert!(error.contains(expected), "{args}: {error}");
        }
    }
}
