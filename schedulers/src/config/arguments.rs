//! Arguments of the built-in plugins, and types for arguments of any plugin.

use crate::plugins::SCORED_KINDS_MAX;
use omega_core::{KindId, Kinds};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;
use toml::Spanned;

/// Error in a plugin's arguments that do not match the cell, such as an unknown resource kind.
///
/// To fix the error, the operator changes the profile file or the cell's resource kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ArgumentError {
    /// Path of the argument, such as `kinds[1].name`.
    pub argument: String,
    /// Description of the error.
    pub why: String,
    /// Byte range of the argument in the file, if known.
    place: Option<Range<usize>>,
}

impl ArgumentError {
    /// Returns an error in an argument; `why` describes it. The error has no position in the file.
    pub fn new(argument: impl Into<String>, why: impl Into<String>) -> ArgumentError {
        ArgumentError { argument: argument.into(), why: why.into(), place: None }
    }

    pub(super) fn place(&self) -> Option<Range<usize>> {
        self.place.clone()
    }
}

/// Name of a resource kind in a profile file. The cell may not have such a kind.
///
/// A `KindName` also stores its position in the file, so it can be deserialised only from a profile file.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "schema", schemars(description = "The name of a resource kind of the cell."))]
pub struct KindName(#[cfg_attr(feature = "schema", schemars(with = "String"))] Spanned<String>);

impl KindName {
    /// A default name, which is not in the file and has no position.
    #[must_use]
    pub fn unwritten(name: &str) -> KindName {
        KindName(Spanned::new(0..0, name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.get_ref()
    }

    /// Returns the cell's resource kind of this name. `argument` is the path of the argument, for the error.
    ///
    /// # Errors
    /// If the cell has no such kind; the error lists the kinds that the cell has.
    pub fn find(
        &self,
        argument: impl Into<String>,
        kinds: &Kinds,
    ) -> Result<KindId, ArgumentError> {
        kinds.by_name(self.name()).ok_or_else(|| {
            let known: Vec<&str> = kinds.iter().map(|(_, kind)| kind.name.as_str()).collect();
            let known = known.join(", ");
            let why = format!("the cell has no kind {:?}; its kinds are: {known}", self.name());
            let place = self.0.span();
            let place = (!place.is_empty()).then_some(place);
            ArgumentError { argument: argument.into(), why, place }
        })
    }
}

impl Serialize for KindName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// Arguments of a plugin that takes no arguments.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct NoArguments {}

/// Kinds that a score uses, with their weights.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Resources {
    /// The kinds that the score uses, each with a weight; the score is their weighted mean.
    #[serde(default = "cpu_and_memory", deserialize_with = "few_kinds")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = SCORED_KINDS_MAX)))]
    kinds: Vec<KindWeight>,
}

/// A kind and its weight.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table such as { name = \"cpu\", weight = 1 }")]
pub(super) struct KindWeight {
    /// The kind's name in the cell.
    name: KindName,
    /// Relative weight.
    #[serde(default = "one", deserialize_with = "small_weight")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = SMALL_WEIGHT_MAX)))]
    weight: u32,
}

/// The largest weight of a resource kind within a score, as in kube-scheduler. Larger weights would allow finer ratios,
/// which change no decision.
const SMALL_WEIGHT_MAX: u32 = 100;

pub(super) fn one() -> u32 {
    1
}

pub(super) fn cpu_and_memory() -> Vec<KindWeight> {
    ["cpu", "memory"].map(|name| KindWeight { name: KindName::unwritten(name), weight: 1 }).into()
}

/// Reads a weight inside a score.
pub(super) fn small_weight<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let weight = i64::deserialize(from)?;
    let in_bounds = u32::try_from(weight).ok().filter(|w| (1..=SMALL_WEIGHT_MAX).contains(w));
    in_bounds.ok_or_else(|| {
        D::Error::custom(format!("is {weight}: this weight must be 1 to {SMALL_WEIGHT_MAX}"))
    })
}

/// Reads a text that is not empty.
pub(super) fn some_text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        Err(D::Error::custom("is empty: must be the key of a label"))
    } else {
        Ok(text)
    }
}

/// Rejects an empty list of kinds, and kinds that are named more than once.
pub(super) fn once_each<'a, E: Error>(names: impl Iterator<Item = &'a str>) -> Result<(), E> {
    let mut earlier: Vec<&str> = Vec::new();
    for name in names {
        if earlier.contains(&name) {
            return Err(E::custom(format!("the kind {name:?} is named twice")));
        }
        earlier.push(name);
    }
    if earlier.is_empty() {
        Err(E::custom("names no kind: must name at least one"))
    } else {
        Ok(())
    }
}

/// Reads a list of kinds, each named once.
pub(super) fn different_kinds<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<KindWeight>, D::Error> {
    let kinds: Vec<KindWeight> = Vec::deserialize(from)?;
    once_each(kinds.iter().map(|kind| kind.name.name()))?;
    Ok(kinds)
}

/// Reads kinds, at most as many as a score supports.
fn few_kinds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KindWeight>, D::Error> {
    let kinds = different_kinds(from)?;
    if kinds.len() > SCORED_KINDS_MAX {
        let count = kinds.len();
        let why = format!("names {count} kinds: must name at most {SCORED_KINDS_MAX}");
        return Err(D::Error::custom(why));
    }
    Ok(kinds)
}

impl KindWeight {
    /// Returns the kind's name and its weight.
    pub(super) fn named(&self) -> (String, u32) {
        (self.name.name().to_owned(), self.weight)
    }
}

/// Returns the cell's resource kinds with the names in `kinds`, and their weights.
pub(super) fn find_all(
    named: &[KindWeight],
    kinds: &Kinds,
) -> Result<Vec<(KindId, u32)>, ArgumentError> {
    let find = |(i, kind): (usize, &KindWeight)| {
        Ok((kind.name.find(format!("kinds[{i}].name"), kinds)?, kind.weight))
    };
    named.iter().enumerate().map(find).collect()
}

impl Resources {
    /// Returns the cell's resource kinds with these names, and their weights.
    pub(super) fn find(&self, kinds: &Kinds) -> Result<Vec<(KindId, u32)>, ArgumentError> {
        find_all(&self.kinds, kinds)
    }
}
