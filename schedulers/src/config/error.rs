//! Error in a profile file: the place, the field, and the remedy.

use super::file::Base;
use super::registry::Point;
use std::fmt;
use std::ops::Range;

/// The largest sum of the weights of a profile's scores: the weighted sum of scores, each at most
/// [`crate::SCORE_MAX`], then still fits into 32 bits.
pub(super) const WEIGHT_SUM_MAX: i32 = i32::MAX / crate::SCORE_MAX;

/// Error of a profile file in one line, `LINE:COLUMN: FIELD: what is wrong`, to be printed after
/// the file's name and a colon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The path of the field; empty if the fault is not in one field.
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
    /// Invalid TOML, or a missing, unknown or mistyped value: the parser's message.
    #[error("{0}")]
    Malformed(String),
    /// Remedy: write at least one profile.
    #[error("the file has no [[profile]]")]
    NoProfile,
    /// A profile's name is the scheduler name of jobs, which is never empty.
    #[error("is empty: give the name of the scheduler whose jobs the profile places")]
    NoName,
    /// Two profiles would be for the same jobs: name another scheduler, or merge them.
    #[error("there is a profile {name:?} in line {line} already")]
    SecondProfile {
        /// Its name.
        name: String,
        /// Line of the first one.
        line: usize,
    },
    /// Remedy: use an existing name, or register the plugin.
    #[error("there is no {point} {name:?}; there are: {known}")]
    UnknownPlugin {
        /// Extension point of the entry.
        point: Point,
        /// The name in the file.
        name: String,
        /// The names at that point.
        known: String,
    },
    /// Remedy: list the plugin under its own point.
    #[error("{name:?} is no {point} but {}: list it under [[profile.{other}]]", one_of(*other))]
    OtherPoint {
        /// The name in the file.
        name: String,
        /// Extension point where it is listed.
        point: Point,
        /// Extension point where it belongs.
        other: Point,
    },
    /// Remedy: leave the filter out.
    #[error("{name:?} is one of the cell's own filters, which every profile has: leave it out")]
    AlwaysThere {
        /// The name in the file.
        name: String,
    },
    /// Remedy: do not disable the filter, because every profile needs it.
    #[error(
        "{name:?} is a filter and cannot be disabled: \
         without it the scheduler would propose what the cell refuses"
    )]
    CannotBeDisabled {
        /// The name in the file.
        name: String,
    },
    /// Remedy: leave it out of `disable`.
    #[error("the base {:?} has no {name:?} to disable; it has: {has}", base.name())]
    NotInBase {
        /// The name in the file.
        name: String,
        /// The profile's base.
        base: Base,
        /// Names of the plugins that can be disabled.
        has: String,
    },
    /// Remedy: name each plugin once at a point, whatever alias is used.
    #[error("{plugin:?} is named in line {line} already")]
    Twice {
        /// The plugin's own name.
        plugin: String,
        /// Line of the first occurrence.
        line: usize,
    },
    /// Keep one of the two.
    #[error("the queue has an order already, {name:?} in line {line}")]
    SecondOrder {
        /// The name of the first.
        name: String,
        /// Line of the occurrence.
        line: usize,
    },
    /// Remedy: choose a weight from 1; to have no such score, leave it out or disable it.
    #[error("is {weight}: a weight is at least 1; to turn a score off, leave it out or disable it")]
    WeightTooSmall {
        /// The weight in the file.
        weight: i64,
    },
    /// Remedy: choose smaller weights: only their ratios count.
    #[error("is {weight}: the weights of a profile sum to at most {WEIGHT_SUM_MAX}")]
    WeightTooLarge {
        /// The weight in the file.
        weight: i64,
    },
    /// The arguments do not suit the cell.
    #[error("{0}")]
    Argument(String),
}

/// Name of a plugin at its point.
fn one_of(point: Point) -> String {
    match point {
        Point::Filter | Point::Score => format!("a {point}"),
        Point::Order => format!("an {point}"),
        point => format!("a plugin of {point}"),
    }
}

/// Replacements of serde's programmer terms by an operator's.
const PLAIN_WORDS: [(&str, &str); 5] = [
    (
        "invalid type: unit variant, expected newtype variant",
        "needs a number of machines, such as { sampled = 64 }",
    ),
    ("unknown variant", "unknown value"),
    ("a nonzero u32", "a whole number from 1"),
    ("expected i64", "expected a whole number"),
    (", there are no fields", ": there are none"),
];

/// The text of a file, for finding lines.
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

    /// Error of the TOML parser, in one line.
    pub(super) fn malformed(self, error: &toml::de::Error, field: String) -> ConfigError {
        let lines: Vec<&str> = error.message().lines().map(str::trim).collect();
        let said = lines.join(", ");
        let said = PLAIN_WORDS.iter().fold(said, |said, (from, to)| said.replace(from, to));
        let at = error.span().unwrap_or(0..0);
        self.error(&at, field, Fault::Malformed(said))
    }
}
