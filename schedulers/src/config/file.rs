//! The tables of a profile file as written; `parse.rs` interprets them.

use super::registry::Point;
use crate::framework::profile::Profile;
use crate::placing::search::Search;
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::num::NonZeroU32;
use toml::Spanned;

/// A file of profiles for Omega's schedulers.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "profiles"))]
pub(super) struct FileTable {
    /// The profiles, each for one scheduler name.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub(super) profile: Vec<ProfileTable>,
}

/// A profile: the plugins of a scheduler, and how many machines it searches.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
#[cfg_attr(feature = "schema", schemars(rename = "profile"))]
pub(super) struct ProfileTable {
    /// The scheduler name of the jobs that are placed by this profile.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1)))]
    pub(super) name: Spanned<String>,
    /// Starting point of the profile.
    pub(super) base: Base,
    /// Number of machines to search. The default is `adaptive`.
    pub(super) search: Option<SearchTable>,
    /// For single tasks: number of best machines from which one is chosen at random. The default 1 takes the best
    /// machine.
    pub(super) near_best: Option<NonZeroU32>,
    /// Names of the base's scores and post filters to disable.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub(super) disable: Vec<Spanned<String>>,
    /// Admission plugins, called in this order.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) admit: Vec<PluginTable>,
    /// The order plugin. There is at most one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>", length(max = 1)))]
    pub(super) order: Vec<PluginTable>,
    /// Filters to add. They are called in this order, after the filters of the base. A filter of the base with the same
    /// name is replaced.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) filter: Vec<PluginTable>,
    /// Scores to add. A score of the base with the same name is replaced.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) score: Vec<ScoreTable>,
    /// Post filters to add, for tasks without a feasible machine. A post filter of the base with the same name is
    /// replaced.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) post_filter: Vec<PluginTable>,
    /// Reserve plugins, called in this order.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) reserve: Vec<PluginTable>,
    /// Permit plugins, called in this order.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) permit: Vec<PluginTable>,
    /// Pre-bind plugins, called in this order.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) pre_bind: Vec<PluginTable>,
    /// Post-bind plugins, called in this order.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<serde_json::Value>"))]
    pub(super) post_bind: Vec<PluginTable>,
}

impl ProfileTable {
    /// Returns the plugins listed at an extension point, except scores, whose entries have their own type.
    pub(super) fn plugins(&self, point: Point) -> &[PluginTable] {
        match point {
            Point::Admit => &self.admit,
            Point::Order => &self.order,
            Point::Filter => &self.filter,
            Point::Score => &[],
            Point::PostFilter => &self.post_filter,
            Point::Reserve => &self.reserve,
            Point::Permit => &self.permit,
            Point::PreBind => &self.pre_bind,
            Point::PostBind => &self.post_bind,
        }
    }
}

/// Starting point of a profile. Each base has the filters that the cell itself applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "base"))]
pub enum Base {
    /// The built-in profile for services: spreads tasks over the machines, and uses all preferences.
    Service,
    /// The built-in profile for batch jobs: packs tasks on few machines, and uses all preferences.
    Batch,
    /// The default profile of kube-scheduler, with the same results.
    Kube,
    /// Only the filters that the cell itself applies. All feasible machines are equally good.
    Empty,
}

impl Base {
    /// The profile of this base, for a cell with these kinds.
    #[must_use]
    pub fn profile(self, kinds: &Kinds) -> Profile {
        match self {
            Base::Service => Profile::service(),
            Base::Batch => Profile::batch(),
            Base::Kube => Profile::kube(kinds),
            Base::Empty => Profile::first_fit(),
        }
    }

    /// Returns the names and weights of the base's scores. They do not depend on the cell.
    pub(super) fn scores(self) -> Vec<(&'static str, i32)> {
        self.profile(&Kinds::standard()).evaluator.weights().collect()
    }

    /// Returns the names of the base's post filters, the plugins that make room.
    pub(super) fn post_filters(self) -> Vec<&'static str> {
        self.profile(&Kinds::standard()).post_filters().collect()
    }

    /// Name of the base in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Base::Service => "service",
            Base::Batch => "batch",
            Base::Kube => "kube",
            Base::Empty => "empty",
        }
    }
}

/// Number of machines to search.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "search"))]
pub(super) enum SearchTable {
    /// Searches all machines of a small cell, and some of a large one.
    Adaptive,
    /// Searches all machines.
    Full,
    /// Searches from a random machine until N feasible machines are found.
    Sampled(NonZeroU32),
    /// Like `sampled`, but skips blocks of machines without room.
    Indexed(NonZeroU32),
    /// Searches until this percentage of the machines, and at least 100 machines, are feasible. With 0, the percentage
    /// depends on the size of the cell, as in kube-scheduler.
    Percentage(
        #[serde(deserialize_with = "percentage")]
        #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
        u8,
    ),
}

fn percentage<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let percent = i64::deserialize(from)?;
    let in_bounds = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
    in_bounds.ok_or_else(|| D::Error::custom(format!("is {percent}: must be 0 to 100")))
}

impl From<SearchTable> for Search {
    fn from(table: SearchTable) -> Search {
        match table {
            SearchTable::Adaptive => Search::Adaptive,
            SearchTable::Full => Search::Full,
            SearchTable::Sampled(feasible) => Search::Sampled { feasible: feasible.get() },
            SearchTable::Indexed(feasible) => Search::Indexed { feasible: feasible.get() },
            SearchTable::Percentage(percent) => Search::Percentage(percent),
        }
    }
}

/// Entry of a plugin in a list. The plugin reads its arguments from the parsed document, not from this table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct PluginTable {
    pub(super) plugin: Spanned<String>,
    #[serde(rename = "args")]
    _args: Option<IgnoredAny>,
}

/// Entry of a score in a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct ScoreTable {
    pub(super) plugin: Spanned<String>,
    pub(super) weight: Option<Spanned<i64>>,
    #[serde(rename = "args")]
    _args: Option<IgnoredAny>,
}
