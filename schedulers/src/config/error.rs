//! Errors in a profile file, each with its position, the field, and the remedy.

use super::file::Base;
use super::registry::Point;
use crate::framework::plugin::WEIGHT_SUM_MAX;
use omega_core::misread::in_plain_words;
use std::fmt;
use std::ops::Range;

/// Error in a profile file, displayed as one line: `LINE:COLUMN: FIELD: what is wrong`. Print the file's name and a
/// colon before the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The path of the field; empty if the error does not concern a single field.
    pub field: String,
    /// The error.
    pub fault: Fault,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.fault)
    }
}

/// Error in a profile file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The TOML is invalid, or a value is missing, unknown or of the wrong type. The text is the parser's message.
    #[error("{0}")]
    Malformed(String),
    /// The file has no profile. Write at least one.
    #[error("the file has no [[profile]]: give at least one")]
    NoProfile,
    /// A profile has an empty name. Use the scheduler name of the jobs that it is for.
    #[error("is empty: give the name of the scheduler whose jobs the profile places")]
    NoName,
    /// Two profiles have the same name. Give the second one another scheduler name, or merge the profiles.
    #[error("the profile {name:?} is already in line {line}: give each profile once")]
    SecondProfile {
        /// Name of the profile.
        name: String,
        /// Line of the first profile.
        line: usize,
    },
    /// The extension point has no plugin of this name. Use the name of a plugin that exists, or register the plugin.
    #[error("there is no {point} {name:?}; the known ones are: {known}")]
    UnknownPlugin {
        /// Extension point of the entry.
        point: Point,
        /// The name in the file.
        name: String,
        /// The names at that point.
        known: String,
    },
    /// The plugin belongs to another extension point. Move it to the list of that point.
    #[error("{name:?} is not a {point} but {}: list it under [[profile.{other}]]", one_of(*other))]
    OtherPoint {
        /// The name in the file.
        name: String,
        /// Extension point where the plugin is listed.
        point: Point,
        /// Extension point where the plugin belongs.
        other: Point,
    },
    /// The filter is applied by the cell itself, so every profile has it. Remove the entry.
    #[error("{name:?} is one of the cell's own filters, which are in every profile: leave it out")]
    AlwaysThere {
        /// The name in the file.
        name: String,
    },
    /// `disable` names a filter. Remove the name: without the filter, the profile would propose machines that the cell
    /// rejects.
    #[error(
        "{name:?} is a filter and cannot be disabled: without it, the scheduler would propose \
         claims that the cell rejects"
    )]
    CannotBeDisabled {
        /// The name in the file.
        name: String,
    },
    /// `disable` names a plugin that the base does not have. Remove the name.
    #[error("the base {:?} has no {name:?} that could be disabled; its plugins are: {has}", base.name())]
    NotInBase {
        /// The name in the file.
        name: String,
        /// The profile's base.
        base: Base,
        /// Names of the plugins that can be disabled.
        has: String,
    },
    /// A plugin is listed twice at an extension point, possibly once by an alias. List the plugin once.
    #[error("{plugin:?} is already named in line {line}: name it once")]
    Twice {
        /// The plugin's own name.
        plugin: String,
        /// Line where the plugin is first named.
        line: usize,
    },
    /// The profile has two order plugins. Keep one of them.
    #[error(
        "a profile can have only one order, and line {line} already gives {name:?}: leave out one \
         of them"
    )]
    SecondOrder {
        /// Name of the first order.
        name: String,
        /// Line of the first order.
        line: usize,
    },
    /// A weight is below 1. Choose a larger weight; to turn the score off, remove its entry or disable the score.
    #[error(
        "is {weight}: a weight must be at least 1; to turn the score off, leave it out or \
         disable it"
    )]
    WeightTooSmall {
        /// The weight in the file.
        weight: i64,
    },
    /// The sum of the weights is too large. Choose smaller weights: only their ratios matter.
    #[error(
        "is {weight}, so the sum of the profile's weights exceeds {WEIGHT_SUM_MAX}, the maximum: \
         use smaller weights, because only their ratios matter"
    )]
    WeightTooLarge {
        /// The weight in the file.
        weight: i64,
    },
    /// The arguments do not match the cell. The text names the argument and the remedy.
    #[error("{0}")]
    Argument(String),
}

/// Returns a phrase for a plugin of an extension point, with its article, such as "a filter".
fn one_of(point: Point) -> String {
    match point {
        Point::Filter | Point::Score => format!("a {point}"),
        Point::Order => format!("an {point}"),
        point => format!("a plugin of {point}"),
    }
}

/// Replacements of programmers' terms in serde's messages: pairs of a term and the plain words for it.
const PLAIN_WORDS: [(&str, &str); 5] = [
    (
        "invalid type: unit variant, expected newtype variant",
        "must have a number of machines, such as { sampled = 64 }",
    ),
    ("unknown variant", "unknown value"),
    ("a nonzero u32", "a whole number from 1"),
    ("expected i64", "expected a whole number"),
    (": no fields are allowed here", ": there are none"),
];

/// The text of a profile file, used to find the line and column of a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a>(pub(super) &'a str);

impl Source<'_> {
    /// The line and column of a byte, both from 1.
    pub(super) fn place(self, byte: usize) -> (usize, usize) {
        let before = &self.0.as_bytes()[..byte.min(self.0.len())];
        let before = String::from_utf8_lossy(before);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    pub(super) fn error(
        self,
        at: &Range<usize>,
        field: impl Into<String>,
        fault: Fault,
    ) -> ConfigError {
        let (line, column) = self.place(at.start);
        ConfigError { line, column, field: field.into(), fault }
    }

    /// Returns the error for a message of the TOML parser, joined to one line.
    pub(super) fn malformed(self, error: &toml::de::Error, field: String) -> ConfigError {
        let lines: Vec<&str> = error.message().lines().map(str::trim).collect();
        let said = lines.join(", ");
        let said = PLAIN_WORDS.iter().fold(said, |said, (from, to)| said.replace(from, to));
        let said = in_plain_words(&said, "a table");
        let at = error.span().unwrap_or(0..0);
        self.error(&at, field, Fault::Malformed(said))
    }
}
