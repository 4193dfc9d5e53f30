//! Plugins of earlier versions of kube-scheduler, with its plugin names and Omega's argument names.

use super::arguments::{ArgumentError, some_text};
use super::described::{filter, relative, score};
use super::registry::Plugin;
use crate::plugins::{
    NodeLabel, NodePreferAvoid, PREFER_AVOID, SelectorSpread, ServiceAffinity, ZONE,
};
use omega_core::Text;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(super) fn filters() -> [Plugin; 2] {
    [
        filter("node_label", |wanted: &Wanted, _| {
            let Wanted { present, absent } = wanted;
            let present_keys = Field { name: "present", keys: present };
            not_both(present_keys, Field { name: "absent", keys: absent })?;
            Ok(NodeLabel::requiring(&present.0, &absent.0))
        })
        .alias("NodeLabel")
        .about("The machine has the labels `present` and lacks the labels `absent`."),
        filter("service_affinity", |same: &Same, _| {
            Ok(ServiceAffinity::same(same.labels.0.clone()))
        })
        .alias("ServiceAffinity")
        .about("The machine has the same values of `labels` as the machines of the job's running tasks."),
    ]
}

pub(super) fn scores() -> [Plugin; 4] {
    [
        score("node_label", |wished: &Wished, _| {
            let Wished { prefer_present: present, prefer_absent: absent } = wished;
            let present_keys = Field { name: "prefer_present", keys: present };
            not_both(present_keys, Field { name: "prefer_absent", keys: absent })?;
            Ok(NodeLabel::preferring(&present.0, &absent.0))
        })
        .alias("NodeLabel")
        .about("Prefers machines with the labels `prefer_present` and without the labels `prefer_absent`."),
        score("node_prefer_avoid", |avoided: &Avoided, _| {
            Ok(NodePreferAvoid::new(avoided.label.as_str()))
        })
        .alias("NodePreferAvoidPods")
        .about("Avoids machines whose label `prefer-avoid` lists the job or its tenant."),
        relative("selector_spread", |zones: &Zones, _| {
            Ok(SelectorSpread::new(zones.zone.as_str()))
        })
        .alias("SelectorSpread")
        .about("Prefers machines and zones with few tasks of the job."),
        relative("service_affinity", |apart: &Apart, _| {
            Ok(ServiceAffinity::spreading(apart.spread_by.0.clone()))
        })
        .alias("ServiceAffinity")
        .about("For each label of `spread_by`, prefers domains with few tasks of the job."),
    ]
}

/// Keys of labels, each once.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "schema", schemars(rename = "keys", description = "Keys of labels."))]
pub(super) struct Keys(
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>", inner(length(min = 1))))]
    pub(super) Vec<Text>,
);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Keys, D::Error> {
        let keys: Vec<Text> = Vec::deserialize(from)?;
        let twice = keys.iter().enumerate().find(|(i, key)| keys[..*i].contains(key));
        match twice {
            Some((_, key)) => Err(D::Error::custom(format!(
                "names the label {key:?} twice: name \
                 it once"
            ))),
            None if keys.iter().any(|key| key.is_empty()) => {
                Err(D::Error::custom("contains an empty key: give the key of a label"))
            }
            None => Ok(Keys(keys)),
        }
    }
}

/// A field of the arguments that has keys of labels.
#[derive(Clone, Copy)]
struct Field<'a> {
    name: &'a str,
    keys: &'a Keys,
}

/// Rejects a key that is in both of two lists that contradict each other, such as `present` and `absent`.
fn not_both(one: Field<'_>, other: Field<'_>) -> Result<(), ArgumentError> {
    let keys = &other.keys.0;
    match keys.iter().position(|key| one.keys.0.contains(key)) {
        Some(i) => {
            let (key, also_in) = (&keys[i], one.name);
            let why =
                format!("the label {key:?} is also in {also_in}: name it in one of them only");
            Err(ArgumentError::new(format!("{}[{i}]", other.name), why))
        }
        None => Ok(()),
    }
}

/// Labels that a machine must have, and labels that it must not have.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "wanted"))]
struct Wanted {
    /// Keys of labels that the machine must have.
    #[serde(default)]
    present: Keys,
    /// Keys of labels that the machine must not have.
    #[serde(default)]
    absent: Keys,
}

/// Labels that a machine should have, and labels that it should not have.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "wished"))]
struct Wished {
    /// Keys of labels that the machine should have.
    #[serde(default)]
    prefer_present: Keys,
    /// Keys of labels that the machine should not have.
    #[serde(default)]
    prefer_absent: Keys,
}

/// Label with the jobs and tenants to avoid.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "avoided"))]
struct Avoided {
    /// Key of the label whose value lists the jobs and tenants to avoid: `job/NAME, tenant/NAME`.
    #[serde(default = "prefer_avoid", deserialize_with = "some_text")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    label: String,
}

fn prefer_avoid() -> String {
    PREFER_AVOID.to_owned()
}

/// Definition of a machine's zone.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "zones"))]
struct Zones {
    /// Key of the label whose value is a machine's zone. A machine without the label is a zone of its own.
    #[serde(default = "zone", deserialize_with = "some_text")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    zone: String,
}

fn zone() -> String {
    ZONE.to_owned()
}

/// Labels that the tasks of a job have in common.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "same"))]
struct Same {
    /// Keys of labels whose values must be equal for all tasks of a job.
    #[serde(default)]
    labels: Keys,
}

/// Label over whose values the tasks of a job are spread.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "apart"))]
struct Apart {
    /// Keys of labels over whose values the tasks of a job are spread.
    #[serde(default)]
    spread_by: Keys,
}
