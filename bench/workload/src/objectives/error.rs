//! Error in objectives.

use crate::LoadError;
use crate::file::{FileError, line_of};
use omega_schedulers::rebalance::objective::WEIGHT_MAX;

/// Maximum `percent` of a pair: the desired free share of one resource kind is ten times that of the other kind.
pub(super) const PAIR_PERCENT_MAX: u32 = 1000;

/// Error in objectives, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum ObjectivesError {
    /// The cell has no such resource kind. Name one that it has.
    #[error("{place}: the cell has no resource kind {kind:?}; its kinds are: {has}")]
    NoKind {
        /// Flag, or field of a file.
        place: String,
        /// The kind that was given.
        kind: String,
        /// Valid values.
        has: String,
    },
    /// There is no such term. Name an existing one.
    #[error(
        "{place}: there is no term {term:?}; the terms are: misplaced, load, load.KIND, balance, \
         fragments, in-use, crowding, moves, job-moves, machine-moves"
    )]
    NoTerm {
        /// Flag, or field of a file.
        place: String,
        /// The term that was given.
        term: String,
    },
    /// The weight is too large. Choose a smaller one, and make the other weights smaller in proportion.
    #[error("{place}: {given} is too large: a weight must be at most {WEIGHT_MAX}")]
    Weight {
        /// Flag, or field of a file.
        place: String,
        /// The given value.
        given: u32,
    },
    /// A flag names a term or kind more than once. Give it once.
    #[error("{flag}: {name} is given twice: give it once")]
    Twice {
        /// The flag.
        flag: &'static str,
        /// The term or kind.
        name: String,
    },
    /// The percentage is out of bounds. Choose one within them.
    #[error("{place}: {given} must be from 1 to {} percent", PAIR_PERCENT_MAX)]
    Percent {
        /// Field of a file.
        place: String,
        /// The given value.
        given: u32,
    },
    /// A field of the file is invalid. Correct it.
    #[error("{place}: {why}")]
    Aim {
        /// Field of a file.
        place: String,
        /// Its value, the rule and the remedy.
        why: String,
    },
    /// A table that the file names is invalid. Correct it.
    #[error(transparent)]
    Table(#[from] LoadError),
    /// The file of objectives is invalid. Correct it.
    #[error(transparent)]
    File(#[from] FileError),
}

impl ObjectivesError {
    /// Adds the line of the wrong field to an error that names only its path in a file. `text` is the text of the file.
    pub(super) fn with_line(mut self, file_name: &str, text: &str) -> ObjectivesError {
        if let ObjectivesError::NoKind { place, .. }
        | ObjectivesError::NoTerm { place, .. }
        | ObjectivesError::Weight { place, .. }
        | ObjectivesError::Percent { place, .. }
        | ObjectivesError::Aim { place, .. } = &mut self
        {
            let field = place.strip_prefix(file_name).and_then(|rest| rest.strip_prefix(": "));
            if let Some((field, line)) =
                field.and_then(|field| Some((field, line_of(text, field)?)))
            {
                *place = format!("{file_name}:{line}: {field}");
            }
        }
        self
    }
}
