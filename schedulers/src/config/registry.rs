//! The registry: the plugins that a profile file may name, with their names and constructors.

use super::arguments::ArgumentError;
use super::describe::{Described, Description};
use crate::framework::plugin::{Filter, Score};
use crate::framework::points::PostFilter;
use crate::framework::profile::Profile;
use crate::framework::relative::RelativeScore;
use crate::volumes::Aspect;
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use toml::de::ValueDeserializer;

/// Extension point of a plugin; see [`crate::framework::points`]. At each extension point, no two plugins have the same
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Point {
    /// Admits jobs to the queue.
    Admit,
    /// Orders jobs.
    Order,
    /// Accepts or rejects machines.
    Filter,
    /// Scores machines.
    Score,
    /// Makes room for tasks that no machine can accept now.
    PostFilter,
    /// Reserves resources that belong to a claim.
    Reserve,
    /// Allows, rejects or delays claims.
    Permit,
    /// Prepares machines.
    PreBind,
    /// Is called with committed claims.
    PostBind,
}

impl Point {
    /// All points, in the order of a scheduling cycle.
    pub const ALL: [Point; 9] = [
        Point::Admit,
        Point::Order,
        Point::Filter,
        Point::Score,
        Point::PostFilter,
        Point::Reserve,
        Point::Permit,
        Point::PreBind,
        Point::PostBind,
    ];

    /// Name of the point in files, which is the name of the list of its plugins.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Point::Admit => "admit",
            Point::Order => "order",
            Point::Filter => "filter",
            Point::Score => "score",
            Point::PostFilter => "post_filter",
            Point::Reserve => "reserve",
            Point::Permit => "permit",
            Point::PreBind => "pre_bind",
            Point::PostBind => "post_bind",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Presence of a plugin in profiles: optional, or part of every profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Included only if the file or its base names it.
    Optional,
    /// Part of every profile, because the cell applies the same filter at commit.
    Always,
}

/// Adds a plugin, whose arguments are already parsed, to a profile for a cell with these resource kinds. The number is
/// the plugin's weight, if it is a score.
pub(super) type Add = dyn Fn(Profile, &Kinds, i32) -> Result<Profile, ArgumentError> + Send + Sync;

/// Reads a plugin's arguments.
type Read = dyn Fn(ValueDeserializer<'_>) -> Result<Box<Add>, toml::de::Error> + Send + Sync;

/// A plugin that files may name.
#[derive(Clone)]
pub struct Plugin {
    point: Point,
    name: String,
    aliases: Vec<String>,
    about: String,
    description: Description,
    /// Reader of the arguments; `None` for the cell's own filters.
    read: Option<Arc<Read>>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("point", &self.point).field("name", &self.name).finish()
    }
}

impl Plugin {
    /// Returns an entry for a filter of this name.
    ///
    /// `make` creates the filter for a cell with these resource kinds. The arguments in the file are deserialised as an
    /// `A`. Each call of `make` may be for another cell. Let serde reject unknown fields of `A`, so that typing errors
    /// are found.
    ///
    /// The name should be that of [`Filter::name`], in snake case.
    pub fn filter<A, F>(
        name: impl Into<String>,
        make: impl Fn(&A, &Kinds) -> Result<F, ArgumentError> + Send + Sync + 'static,
    ) -> Plugin
    where
        A: DeserializeOwned + Send + Sync + 'static,
        F: Filter + 'static,
    {
        let add = |profile: Profile, filter: F, _: i32| profile.with_filter_replaced(filter);
        Plugin::new(Point::Filter, name.into(), make, add)
    }

    /// Returns an entry for a score; the parameters are those of [`Plugin::filter`].
    pub fn score<A, S>(
        name: impl Into<String>,
        make: impl Fn(&A, &Kinds) -> Result<S, ArgumentError> + Send + Sync + 'static,
    ) -> Plugin
    where
        A: DeserializeOwned + Send + Sync + 'static,
        S: Score + 'static,
    {
        Plugin::new(Point::Score, name.into(), make, Profile::with_score)
    }

    /// Returns an entry for a score that compares machines; the parameters are those of [`Plugin::filter`].
    pub fn relative<A, S>(
        name: impl Into<String>,
        make: impl Fn(&A, &Kinds) -> Result<S, ArgumentError> + Send + Sync + 'static,
    ) -> Plugin
    where
        A: DeserializeOwned + Send + Sync + 'static,
        S: RelativeScore + 'static,
    {
        Plugin::new(Point::Score, name.into(), make, Profile::with_relative)
    }

    /// Returns an entry for a filter of one aspect of volumes. If a file names such a filter, the filters of all
    /// aspects are added to the profile.
    pub(super) fn volumes<A>(name: &str, aspect: Aspect) -> Plugin
    where
        A: DeserializeOwned + Described + Send + Sync + 'static,
    {
        let add = |profile: Profile, _: Aspect, _: i32| {
            let volumes = profile.volumes.clone();
            profile.with_volumes(&volumes)
        };
        let make = move |_: &A, _: &Kinds| Ok(aspect);
        Plugin::new(Point::Filter, name.to_owned(), make, add).describe::<A>()
    }

    /// Returns an entry for a plugin that makes room; the parameters are those of [`Plugin::filter`].
    pub fn post_filter<A, F>(
        name: impl Into<String>,
        make: impl Fn(&A, &Kinds) -> Result<F, ArgumentError> + Send + Sync + 'static,
    ) -> Plugin
    where
        A: DeserializeOwned + Send + Sync + 'static,
        F: PostFilter + 'static,
    {
        let add = |profile: Profile, plugin: F, _: i32| profile.with_post_filter_replaced(plugin);
        Plugin::new(Point::PostFilter, name.into(), make, add)
    }

    /// Returns an entry for a plugin of another extension point. `name` and `make` are as for [`Plugin::filter`].
    ///
    /// `add` adds the plugin to a profile, for example by [`Profile::with_permit`]. To use a plugin at several
    /// extension points, let `add` add a clone at each of them; the clones share their state. Files list such a plugin
    /// at `point` only.
    pub fn around<A, P>(
        point: Point,
        name: impl Into<String>,
        make: impl Fn(&A, &Kinds) -> Result<P, ArgumentError> + Send + Sync + 'static,
        add: fn(Profile, P) -> Profile,
    ) -> Plugin
    where
        A: DeserializeOwned + Send + Sync + 'static,
        P: 'static,
    {
        Plugin::new(point, name.into(), make, move |profile, plugin, _| add(profile, plugin))
    }

    /// Returns an entry for a plugin of any extension point. `add` adds the plugin to a profile.
    fn new<A, P>(
        point: Point,
        name: String,
        make: impl Fn(&A, &Kinds) -> Result<P, ArgumentError> + Send + Sync + 'static,
        add: impl Fn(Profile, P, i32) -> Profile + Send + Sync + 'static,
    ) -> Plugin
    where
        A: DeserializeOwned + Send + Sync + 'static,
        P: 'static,
    {
        let (make, add) = (Arc::new(make), Arc::new(add));
        let read = move |arguments: ValueDeserializer<'_>| {
            let arguments = A::deserialize(arguments)?;
            let (make, add) = (make.clone(), add.clone());
            let bind = move |profile: Profile, kinds: &Kinds, weight: i32| {
                Ok(add(profile, make(&arguments, kinds)?, weight))
            };
            Ok(Box::new(bind) as Box<Add>)
        };
        let (aliases, about) = (Vec::new(), String::new());
        Plugin {
            point,
            name,
            aliases,
            about,
            description: Description::default(),
            read: Some(Arc::new(read)),
        }
    }

    /// Returns an entry for one of the cell's own filters. Every profile has it, so files can neither add nor disable
    /// it.
    pub(super) fn always(name: &str) -> Plugin {
        let (name, aliases, about) = (name.to_owned(), Vec::new(), String::new());
        Plugin {
            point: Point::Filter,
            name,
            aliases,
            about,
            description: Description::default(),
            read: None,
        }
    }

    /// Returns `self` with an alias: another name at the same extension point.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Plugin {
        self.aliases.push(name.into());
        self
    }

    /// Returns `self` with a description in one sentence.
    #[must_use]
    pub fn about(mut self, sentence: impl Into<String>) -> Plugin {
        self.about = sentence.into();
        self
    }

    /// Returns `self` with a description of its arguments for the schema of the file format.
    ///
    /// The arguments are deserialised as an `A`. Without a description, the schema allows any arguments.
    #[must_use]
    pub fn describe<A: Described>(mut self) -> Plugin {
        self.description = Description::of::<A>();
        self
    }

    /// Extension point of the plugin.
    #[must_use]
    pub fn point(&self) -> Point {
        self.point
    }

    /// Name of the plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Other names of the plugin.
    pub fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.iter().map(String::as_str)
    }

    /// Description of the plugin in one sentence.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.about
    }

    /// Whether the plugin is optional or part of every profile.
    #[must_use]
    pub fn presence(&self) -> Presence {
        if self.read.is_some() { Presence::Optional } else { Presence::Always }
    }

    /// Returns the schema of the arguments. Without a description, the schema allows any arguments.
    #[cfg(feature = "schema")]
    pub(super) fn arguments(&self, generator: &mut SchemaGenerator) -> Schema {
        self.description.schema(generator)
    }

    /// Parses the plugin's arguments, and returns the function that adds the plugin to a profile.
    ///
    /// Returns `None` for the cell's own filters, which have no arguments.
    pub(super) fn read(
        &self,
        arguments: ValueDeserializer<'_>,
    ) -> Option<Result<Box<Add>, toml::de::Error>> {
        self.read.as_ref().map(|read| read(arguments))
    }

    /// The plugin's name and its aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases())
    }
}

/// Error of [`Registry::with`]: two plugins would have the same name. Rename the second plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {point} {name:?} is already registered: give this plugin another name")]
pub struct NameTaken {
    /// Extension point.
    pub point: Point,
    /// The name.
    pub name: String,
}

/// The plugins that files may name.
///
/// Invariant: at each point, no two plugins have a name or alias in common.
#[derive(Clone, Debug)]
pub struct Registry(Vec<Plugin>);

impl Registry {
    /// A registry of these plugins, whose names are different.
    pub(super) fn of(plugins: Vec<Plugin>) -> Registry {
        Registry(plugins)
    }

    /// Returns `self` with one more plugin.
    ///
    /// # Errors
    /// If the name or an alias of the plugin belongs to another plugin of the same extension point.
    pub fn with(mut self, plugin: Plugin) -> Result<Registry, NameTaken> {
        if let Some(name) = plugin.names().find(|name| self.find(plugin.point, name).is_some()) {
            return Err(NameTaken { point: plugin.point, name: name.to_owned() });
        }
        self.0.push(plugin);
        Ok(self)
    }

    /// Returns `self` with a plugin in place of that of its name.
    #[cfg(feature = "rebalance")]
    pub(super) fn replaced(mut self, plugin: Plugin) -> Registry {
        let old =
            self.0.iter_mut().find(|old| old.point == plugin.point && old.name == plugin.name);
        *old.expect("there is a plugin of this name") = plugin;
        self
    }

    /// All plugins.
    pub fn plugins(&self) -> impl Iterator<Item = &Plugin> {
        self.0.iter()
    }

    /// Returns the plugin with this name or alias at the extension point; `None` if there is none.
    #[must_use]
    pub fn find(&self, point: Point, name: &str) -> Option<&Plugin> {
        self.at(point).find(|plugin| plugin.names().any(|known| known == name))
    }

    /// Returns the plugins of an extension point.
    pub(super) fn at(&self, point: Point) -> impl Iterator<Item = &Plugin> {
        self.plugins().filter(move |plugin| plugin.point == point)
    }
}
