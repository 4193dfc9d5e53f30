//! Parser of profile files: syntax first, then the tables, then the plugins with their arguments.
//!
//! The parser keeps the document next to the typed tables, because each plugin reads its own arguments from the
//! document. So the arguments keep their positions in the file, and need no common type.

use super::error::{ConfigError, Fault, Source};
use super::field_path::field_path;
use super::file::{Base, FileTable, PluginTable, ProfileTable, ScoreTable};
use super::registry::{Plugin, Point, Presence, Registry};
use super::spec::{Entry, ProfileSpec};
use crate::framework::plugin::WEIGHT_SUM_MAX;
use serde::Deserialize;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

type Value<'a> = Spanned<DeValue<'a>>;

/// Reads the profiles of a file.
pub(super) fn parse(text: &str, registry: &Registry) -> Result<Vec<ProfileSpec>, ConfigError> {
    let source = Source(text);
    let document = DeTable::parse(text).map_err(|error| source.malformed(&error, String::new()))?;
    let document = Spanned::new(document.span(), DeValue::Table(document.into_inner()));
    let tables = FileTable::deserialize(ValueDeserializer::from(document.clone()))
        .map_err(|error| misread(source, &document, &error))?;
    if tables.profile.is_empty() {
        return Err(source.error(&(0..0), "", Fault::NoProfile));
    }
    let text: Arc<str> = text.into();
    let mut profiles: Vec<ProfileSpec> = Vec::with_capacity(tables.profile.len());
    for (index, table) in tables.profile.iter().enumerate() {
        let name = table.name.get_ref();
        let at = format!("profile[{index}].name");
        if name.is_empty() {
            return Err(source.error(&table.name.span(), at, Fault::NoName));
        }
        if let Some(first) = profiles.iter().find(|profile| profile.name == *name) {
            let fault = Fault::SecondProfile { name: name.clone(), line: first.place.0 };
            return Err(source.error(&table.name.span(), at, fault));
        }
        let reader =
            Reader { source, registry, document: &document, profile: index, named: vec![] };
        profiles.push(reader.profile(table, text.clone())?);
    }
    Ok(profiles)
}

/// Position of an error: the bytes in the file, and the path of the field.
struct At {
    place: Range<usize>,
    field: String,
}

/// Reads one profile.
struct Reader<'a> {
    source: Source<'a>,
    registry: &'a Registry,
    document: &'a Value<'a>,
    profile: usize,
    /// Plugins that the profile has listed so far, each with its extension point, name and line.
    named: Vec<(Point, &'a str, usize)>,
}

impl<'a> Reader<'a> {
    fn profile(mut self, table: &ProfileTable, text: Arc<str>) -> Result<ProfileSpec, ConfigError> {
        let mut without = self.disabled(table)?;
        let mut plugins = Vec::new();
        for point in Point::ALL {
            for (index, PluginTable { plugin, .. }) in table.plugins(point).iter().enumerate() {
                plugins.push(self.entry(point, index, plugin, 0)?.1);
            }
        }
        self.one_order(table)?;
        let base = table.base.scores();
        // The sum includes even the disabled scores of the base: their weights are too small to matter.
        let mut sum = base.iter().map(|(_, weight)| weight).sum();
        let mut added = Vec::with_capacity(table.score.len());
        for (index, ScoreTable { plugin, weight, .. }) in table.score.iter().enumerate() {
            let weight = self.weight(index, weight.as_ref(), &mut sum)?;
            let (name, entry) = self.entry(Point::Score, index, plugin, weight)?;
            added.push(name.to_owned());
            plugins.push(entry);
        }
        without.extend(added.into_iter().filter(|name| base.iter().any(|(has, _)| has == name)));
        Ok(ProfileSpec {
            name: table.name.get_ref().clone(),
            place: self.source.place(table.name.span().start),
            base: table.base,
            without,
            plugins,
            search: table.search.map(Into::into),
            near_best: table.near_best.map(Into::into),
            text,
        })
    }

    /// Checks that the profile has at most one order plugin.
    fn one_order(&self, table: &ProfileTable) -> Result<(), ConfigError> {
        let [first, second, ..] = table.order.as_slice() else { return Ok(()) };
        let (line, _) = self.source.place(first.plugin.span().start);
        let fault = Fault::SecondOrder { name: first.plugin.get_ref().clone(), line };
        let field = format!("profile[{}].order[1].plugin", self.profile);
        let at = At { place: second.plugin.span(), field };
        Err(self.error(at, fault))
    }

    /// Returns the names of the base's plugins that the profile disables.
    fn disabled(&mut self, table: &ProfileTable) -> Result<Vec<String>, ConfigError> {
        let base = names_of(table.base);
        let mut without = Vec::with_capacity(table.disable.len());
        for (index, spanned) in table.disable.iter().enumerate() {
            let field = format!("profile[{}].disable[{index}]", self.profile);
            let at = At { place: spanned.span(), field };
            let name = spanned.get_ref();
            let points = [Point::Score, Point::PostFilter];
            let plugin = match points.into_iter().find_map(|at| self.registry.find(at, name)) {
                Some(plugin) => plugin,
                None if self.registry.find(Point::Filter, name).is_some() => {
                    return Err(self.error(at, Fault::CannotBeDisabled { name: name.clone() }));
                }
                None => return Err(self.error(at, self.unknown(Point::Score, name))),
            };
            if !base.iter().any(|has| *has == plugin.name()) {
                let has = base;
                let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
                let fault = Fault::NotInBase { name: name.clone(), base: table.base, has };
                return Err(self.error(at, fault));
            }
            self.name_once(plugin, at)?;
            without.push(plugin.name().to_owned());
        }
        Ok(without)
    }

    /// Returns the plugin at position `index` of the list of an extension point: its name and its entry.
    fn entry(
        &mut self,
        point: Point,
        index: usize,
        written: &Spanned<String>,
        weight: i32,
    ) -> Result<(&'a str, Entry), ConfigError> {
        let path = format!("profile[{}].{point}[{index}]", self.profile);
        let at = At { place: written.span(), field: format!("{path}.plugin") };
        let name = written.get_ref();
        let Some(plugin) = self.registry.find(point, name) else {
            return Err(self.error(at, self.unknown(point, name)));
        };
        if is_always(plugin) {
            return Err(self.error(at, Fault::AlwaysThere { name: name.clone() }));
        }
        self.name_once(plugin, at)?;
        let field = format!("{path}.args");
        let arguments = arguments(self.document, self.profile, point, index).cloned();
        let nothing = || Spanned::new(written.span(), DeValue::Table(DeTable::new()));
        let arguments = arguments.unwrap_or_else(nothing);
        let place = arguments.span();
        let read = plugin.read(ValueDeserializer::from(arguments));
        let add = read.expect("what is not always there has arguments");
        let add = add.map_err(|error| misread(self.source, self.document, &error))?;
        Ok((plugin.name(), Entry { weight, add, field, place }))
    }

    /// The weight of a score, 1 if none is given. `sum` is the sum of the weights so far.
    fn weight(
        &self,
        index: usize,
        weight: Option<&Spanned<i64>>,
        sum: &mut i32,
    ) -> Result<i32, ConfigError> {
        let given = weight.map_or(1, |weight| *weight.get_ref());
        let fault = match i32::try_from(given) {
            Ok(weight) if weight >= 1 && weight <= WEIGHT_SUM_MAX - *sum => {
                *sum += weight;
                return Ok(weight);
            }
            _ if given < 1 => Fault::WeightTooSmall { weight: given },
            _ => Fault::WeightTooLarge { weight: given },
        };
        let place = weight.map_or(0..0, Spanned::span);
        let field = format!("profile[{}].score[{index}].weight", self.profile);
        Err(self.error(At { place, field }, fault))
    }

    /// Records a plugin as listed, and rejects it if the profile has already listed it at the same extension point.
    fn name_once(&mut self, plugin: &'a Plugin, at: At) -> Result<(), ConfigError> {
        let (line, _) = self.source.place(at.place.start);
        let same = |(point, name, _): &&(Point, &str, usize)| {
            *point == plugin.point() && *name == plugin.name()
        };
        if let Some((_, name, line)) = self.named.iter().find(same) {
            let fault = Fault::Twice { plugin: (*name).to_owned(), line: *line };
            return Err(self.error(at, fault));
        }
        self.named.push((plugin.point(), plugin.name(), line));
        Ok(())
    }

    /// Returns the error for a name that no plugin of the extension point has.
    fn unknown(&self, point: Point, name: &str) -> Fault {
        let name = name.to_owned();
        match Point::ALL.into_iter().find_map(|at| self.registry.find(at, &name)) {
            Some(plugin) if is_always(plugin) => return Fault::AlwaysThere { name },
            Some(plugin) => return Fault::OtherPoint { name, point, other: plugin.point() },
            None => {}
        }
        let optional = self.registry.at(point).filter(|plugin| !is_always(plugin));
        let known: Vec<&str> = optional.map(Plugin::name).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Fault::UnknownPlugin { point, name, known }
    }

    fn error(&self, at: At, fault: Fault) -> ConfigError {
        self.source.error(&at.place, at.field, fault)
    }
}

/// Returns the names of the base's plugins that a profile may disable.
fn names_of(base: Base) -> Vec<&'static str> {
    base.scores().into_iter().map(|(name, _)| name).chain(base.post_filters()).collect()
}

fn is_always(plugin: &Plugin) -> bool {
    plugin.presence() == Presence::Always
}

/// Returns the arguments of the plugin at position `index` of an extension point, in the profile at position `profile`
/// of the document.
fn arguments<'a, 'd>(
    document: &'a Value<'d>,
    profile: usize,
    point: Point,
    index: usize,
) -> Option<&'a Value<'d>> {
    let profile = document.get_ref().get("profile")?.get_ref().get(profile)?;
    let plugin = profile.get_ref().get(point.name())?.get_ref().get(index)?;
    plugin.get_ref().get("args")
}

/// Converts an error about tables or arguments.
fn misread(source: Source<'_>, document: &Value<'_>, error: &toml::de::Error) -> ConfigError {
    let field = match (document.get_ref(), error.span()) {
        (DeValue::Table(table), Some(span)) => field_path(table, &span),
        _ => String::new(),
    };
    source.malformed(error, field)
}
