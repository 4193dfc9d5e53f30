//! Files of machines, jobs and objectives, in TOML, or in JSON if they begin with a brace.
//!
//! Unknown fields are errors, which are reported with their place.

use crate::foreign;
use crate::text::json_path::json_path;
use crate::text::readable;
use omega_core::misread::in_plain_words;
use omega_schedulers::config::field_path;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Maximum bytes of a file, enough for a hundred thousand machines with labels.
const BYTES_MAX: u64 = 64 << 20;

/// Error in a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read. Name another one.
    #[error("{}: cannot be read: {why}", shown(file))]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The file is too large. Split it.
    #[error("{}: is larger than {BYTES_MAX} bytes", shown(file))]
    TooLarge {
        /// Path of the file.
        file: PathBuf,
    },
    /// The file has a syntax error, or a wrong field. Correct it.
    #[error("{}:{line}:{column}: {field}{why}", shown(file))]
    Content {
        /// Path of the file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The field, followed by a colon and a space; empty for the whole file.
        field: String,
        /// The rule that the content breaks.
        why: String,
    },
    /// The given name is the path of an existing file, so `-f` was forgotten. Add `-f`, or choose another name.
    #[error("NAME {0:?} is an existing file: give -f {0:?} to read it, or choose another name")]
    IsFile(String),
    /// A value in the file is invalid. Correct it.
    #[error("{}: {field}: {why}", shown(file))]
    Value {
        /// Path of the file.
        file: PathBuf,
        /// The field.
        field: String,
        /// The rule that the value breaks.
        why: String,
    },
}

/// The path of a file for messages.
pub fn shown(file: &Path) -> String {
    match file.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => file.display().to_string(),
    }
}

/// Contents of a file; `-` is standard input.
pub fn read<T: DeserializeOwned>(file: &Path) -> Result<T, FileError> {
    parse(file, &text(file)?)
}

/// Rejects an object's name that is the path of an existing file, because the user probably forgot `-f`.
pub fn reject_file_name(name: Option<&str>) -> Result<(), FileError> {
    let is_file = |name: &&str| {
        let kind = Path::new(name).extension().and_then(|kind| kind.to_str());
        matches!(kind, Some("toml" | "json" | "yaml" | "yml")) && Path::new(name).is_file()
    };
    name.filter(is_file).map_or(Ok(()), |name| Err(FileError::IsFile(name.to_owned())))
}

/// Parses the text of a file that has been read.
pub fn parse<T: DeserializeOwned>(file: &Path, text: &str) -> Result<T, FileError> {
    let text = text.trim_start_matches('\u{feff}');
    let parsed = if text.trim_start().starts_with('{') { json(text) } else { toml(text) };
    parsed.map_err(|Fault { line, column, field, why }| {
        let why = match foreign::remedy(text) {
            Some(remedy) => format!("{why}; {remedy}"),
            None if is_json_list(text) => NO_LIST.to_owned(),
            None => why,
        };
        let field = if field.is_empty() { field } else { field + ": " };
        FileError::Content { file: file.to_owned(), line, column, field, why }
    })
}

/// Remedy for files with a JSON list.
const NO_LIST: &str = "a list is not an object: write the objects of a kind into one object, such as \
     {\"job\": [...]} for several jobs";

/// Whether a text looks like a list of objects in JSON.
fn is_json_list(text: &str) -> bool {
    let items = text.trim_start().strip_prefix('[');
    items.is_some_and(|items| items.trim_start().starts_with(['{', ']']))
}

/// The text of a file; `-` is standard input.
pub fn text(file: &Path) -> Result<String, FileError> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => io::stdin().lock().take(BYTES_MAX + 1).read_to_string(&mut text),
        _ => readable::open(file)
            .and_then(|opened| opened.take(BYTES_MAX + 1).read_to_string(&mut text)),
    };
    read.map_err(|why| FileError::Read { file: file.to_owned(), why })?;
    if text.len() as u64 > BYTES_MAX {
        Err(FileError::TooLarge { file: file.to_owned() })
    } else {
        Ok(text)
    }
}

/// Description of an error, and its place in the text.
pub struct Fault {
    line: usize,
    column: usize,
    /// The field with its value; empty for the whole text.
    field: String,
    why: String,
}

impl Fault {
    fn new(line: usize, column: usize, field: String, why: String) -> Fault {
        Fault { line, column, field, why }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        // The message about an unknown field contains the name of the field.
        if !self.field.is_empty() && !self.why.starts_with("unknown field") {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.why)
    }
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let why = error.to_string();
        // The message ends with the place, which is reported separately.
        let why = why.split(" at line ").next().unwrap_or_default();
        let why = in_plain_words(why, "an object");
        Fault::new(error.line(), error.column(), json_path(text, &error), why)
    })
}

/// Parses TOML.
pub fn toml<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let of_toml = |error: &toml::de::Error| {
        let span = error.span().unwrap_or(0..0);
        let document = DeTable::parse(text).ok();
        let field = document.map_or(String::new(), |all| field_path(all.get_ref(), &span));
        let mut why = in_plain_words(&error.message().replace('\n', ", "), "a table");
        if why == "must be a list, not a table" {
            why += &format!(": write [[{field}]]");
        }
        let (line, column) = place(text, span.start);
        Fault::new(line, column, field, why)
    };
    toml::from_str(text).map_err(|error| of_toml(&error))
}

/// Returns the line of a field in a text in TOML, or of the innermost table of the path that the text has. The path is
/// such as `group[0].request.gpu`.
#[must_use]
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let text = text.trim_start_matches('\u{feff}');
    let document = DeTable::parse(text).ok()?;
    let (mut table, mut path) = (document.get_ref(), path);
    let mut found = None;
    while !path.is_empty() {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let (key, index) = match first.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((key, index)) => (key, Some(index.parse::<usize>().ok()?)),
            None => (first, None),
        };
        let named = move |key: &str| table.iter().find(|(name, _)| name.get_ref() == key);
        // The rest of a path may be one key with dots.
        let Some((_, mut value)) = named(key).or_else(|| named(path)) else { break };
        if let (Some(index), DeValue::Array(list)) = (index, value.get_ref()) {
            value = list.get(index)?;
        }
        found = Some(value.span().start);
        let DeValue::Table(inner) = value.get_ref() else { break };
        (table, path) = (inner, rest);
    }
    Some(place(text, found?).0)
}

/// The line and the column of a byte, from 1.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_field_has_the_line_of_its_value() {
        let text =
            "name = \"a\"\n[[group]]\ncount = 1\n[[group]]\nrequest = { cpu = 1,\n gold = 1 }\n";
        assert_eq!(line_of(text, "group[1].request.gold"), Some(6));
        assert_eq!(line_of(text, "group[1].run.command"), Some(4), "the table without the field");
        assert_eq!(line_of(text, "job[0].name"), None);
        assert_eq!(line_of("name = ", "name"), None);
        let text = "\u{feff}[weight]\nmoves = 2\n\"load.cpu\" = 3\n";
        assert_eq!(line_of(text, "weight.load.cpu"), Some(3));
        assert_eq!(line_of(text, "weight.load"), Some(1));
    }

    #[test]
    fn standard_input_is_named_in_errors() {
        let parsed = parse::<BTreeMap<String, u32>>(Path::new("-"), "a = 1\nb = \"c\"\n");
        let why = parsed.unwrap_err().to_string();
        assert!(why.starts_with("standard input:2:"), "{why}");
    }
}
