//! Parsing of a line into a value, with or without rejecting unknown fields.
//!
//! The types of Kubernetes' API ignore fields that do not affect placement, because real objects have many. In a
//! recorded case, an unknown field may be essential.

use omega_core::misread::in_plain_words;
use omega_workload::LoadError;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// Fields of Kubernetes' objects that do not affect placement, and that a case may have.
const WITHOUT_MEANING: [&str; 1] = ["tolerationSeconds"];

/// A line with a case.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// Path of the file.
    pub(super) file: &'a Path,
    /// Number of the line, from 1.
    pub(super) number: u64,
    /// Text of the line.
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a value of this type, and skips unknown fields.
    pub(super) fn parse<T: Deserialize<'a>>(&self) -> Result<T, LoadError> {
        self.read(|_| {})
    }

    /// Parses a value, and rejects unknown fields.
    pub(super) fn parse_all<T: Deserialize<'a>>(&self) -> Result<T, LoadError> {
        let mut unknown = None;
        let value = self.read(|path| {
            let known = WITHOUT_MEANING.iter().any(|name| path.ends_with(&format!(".{name}")));
            if !known && unknown.is_none() {
                unknown = Some(path);
            }
        })?;
        match unknown {
            Some(path) => Err(self.error(Some(path), "is not a known field")),
            None => Ok(value),
        }
    }

    /// An error in this line.
    pub(super) fn error(&self, field: Option<String>, message: impl Into<String>) -> LoadError {
        LoadError { line: Some(self.number), field, ..LoadError::new(self.file, message) }
    }

    /// Parses a value. `skipped` is called with the path of each unknown field.
    ///
    /// The two wrappers (for the path, and for skipped fields) use dynamic dispatch, so they are compiled once, and not
    /// for every type in a case.
    fn read<T: Deserialize<'a>>(&self, mut skipped: impl FnMut(String)) -> Result<T, LoadError> {
        serde_json::from_str::<IgnoredAny>(self.text)
            .map_err(|error| self.error(None, format!("is not JSON: {error}")))?;
        let mut json = serde_json::Deserializer::from_str(self.text);
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(&mut json, &mut track);
        let hear = &mut |path: serde_ignored::Path<'_>| skipped(plain(&path.to_string()));
        let hear: &mut dyn FnMut(serde_ignored::Path<'_>) = hear;
        let mut both = |path: serde_ignored::Path<'_>| hear(path);
        let wrapped = serde_ignored::Deserializer::new(tracked, &mut both);
        let result =
            erased_serde::deserialize(&mut <dyn erased_serde::Deserializer<'_>>::erase(wrapped));
        result.map_err(|error| {
            let path = plain(&track.path().to_string());
            let why = in_plain_words(&without_position(&error), "an object");
            self.error(Some(path).filter(|path| !path.is_empty()), why)
        })
    }
}

/// Formats a path for people: list indices are in brackets, and optional values have no `?`.
fn plain(path: &str) -> String {
    let mut plain = String::new();
    for step in path.split('.').filter(|step| !step.is_empty() && *step != "?") {
        if step.bytes().all(|byte| byte.is_ascii_digit()) {
            plain += &format!("[{step}]");
        } else {
            plain += if plain.is_empty() { "" } else { "." };
            plain += step;
        }
    }
    plain
}

/// Returns the error's text without its ` at line 1 column 2`, because every case is one line.
fn without_position(error: &erased_serde::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map(|(words, _)| words.to_owned()).unwrap_or(text)
}
