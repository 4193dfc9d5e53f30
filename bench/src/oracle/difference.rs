//! Report on a replay: the number of equal cases, and the first differences of the others.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};

/// A difference between Omega's result and the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The id of the case, or the number of its line if it has no id.
    pub case: String,
    /// The recorded field.
    pub field: String,
    /// Recorded value.
    pub expected: String,
    /// Omega's value.
    pub got: String,
}

impl Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { case, field, expected, got } = self;
        write!(f, "{case}: {field}: expected {expected}, got {got}")
    }
}

/// Outcome of the cases of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Number of cases in the file.
    pub cases: u64,
    /// Number of cases without a difference.
    pub equal: u64,
    /// The first differences, in the order of the file.
    pub first: Vec<Difference>,
}

impl FileReport {
    /// Counts a case, and keeps its differences while there are fewer than `first`.
    pub(super) fn add(&mut self, case: &str, found: Found, first: usize) {
        self.cases += 1;
        if found.0.is_empty() {
            self.equal += 1;
        }
        let room = first.saturating_sub(self.first.len());
        let named = found.0.into_iter().take(room);
        self.first.extend(named.map(|difference| Difference { case: case.into(), ..difference }));
    }
}

/// The differences of one case.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<Difference>);

impl Found {
    /// Records a field if its two values differ.
    pub(super) fn compare<T: PartialEq + Debug>(&mut self, field: &str, expected: &T, got: &T) {
        if expected != got {
            self.note(field, format!("{expected:?}"), format!("{got:?}"));
        }
    }

    /// Returns the differences, with the name of this part of the case in front of each field.
    pub(super) fn within(mut self, part: &str) -> Found {
        for difference in &mut self.0 {
            difference.field = format!("{part}.{}", difference.field);
        }
        self
    }

    /// Adds the differences of another part of the case.
    pub(super) fn append(&mut self, mut other: Found) {
        self.0.append(&mut other.0);
    }

    /// Adds a difference.
    pub(super) fn note(&mut self, field: &str, expected: String, got: String) {
        self.0.push(Difference { case: String::new(), field: field.to_owned(), expected, got });
    }

    /// Compares two maps key by key, so that a difference of one machine can be seen among hundreds.
    pub(super) fn compare_each<T: PartialEq + Debug>(
        &mut self,
        field: &str,
        expected: &BTreeMap<String, T>,
        got: &BTreeMap<String, T>,
    ) {
        let shown = |value: Option<&T>| value.map_or("nothing".to_owned(), |v| format!("{v:?}"));
        let missing = got.keys().filter(|key| !expected.contains_key(*key));
        for key in expected.keys().chain(missing) {
            let (expected, got) = (expected.get(key), got.get(key));
            if expected != got {
                self.note(&format!("{field}.{key}"), shown(expected), shown(got));
            }
        }
    }
}
