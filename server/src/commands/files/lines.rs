//! Lines of fields in TOML files, for errors that depend on the cell and are found after parsing.

use crate::commands::CommandError;
use omega_workload::file::{FileError, line_of, shown};
use serde::Deserialize;
use std::borrow::Cow;
use std::path::Path;

/// Adds the line of the wrong field to an error that names only its path. If the input is not a regular file in TOML, the
/// error stays as it is.
pub(in crate::commands) fn with_line(error: CommandError, file: &Path) -> CommandError {
    let mut error = match error {
        CommandError::File(FileError::Value { file: wrong, field, why }) if wrong == file => {
            CommandError::Field { place: format!("{}: {field}", shown(file)), why }
        }
        error => error,
    };
    if let CommandError::Amount { place, .. }
    | CommandError::Field { place, .. }
    | CommandError::NoKind { place, .. } = &mut error
    {
        let file_name = shown(file);
        let field = place.strip_prefix(&file_name).and_then(|rest| rest.strip_prefix(": "));
        let text = field.filter(|_| file.is_file());
        let text = text.and_then(|_| std::fs::read_to_string(file).ok());
        let line = field.zip(text.as_deref());
        let line = line.and_then(|(field, text)| line_of(text, &path(text, field)));
        if let (Some(field), Some(line)) = (field, line) {
            *place = format!("{file_name}:{line}: {field}");
        }
    }
    error
}

/// Jobs of a file, of which only the names are read.
#[derive(Deserialize)]
struct JobNames {
    job: Vec<JobName>,
}

#[derive(Deserialize)]
struct JobName {
    name: String,
}

/// The path of a field. Errors in a file of several jobs name the job instead of its position.
fn path<'a>(text: &str, field: &'a str) -> Cow<'a, str> {
    let named = field.strip_prefix("job ").and_then(|field| field.split_once(": "));
    let named = named.and_then(|(name, rest)| {
        let names: JobNames = toml::from_str(text.trim_start_matches('\u{feff}')).ok()?;
        let at = names.job.iter().position(|job| format!("{:?}", job.name) == name)?;
        Some(format!("job[{at}].{rest}"))
    });
    named.map_or(Cow::Borrowed(field), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_an_error_names_has_a_position() {
        let text = "[[job]]\nname = \"a\"\n[[job]]\nname = \"b: c\"\n";
        assert_eq!(path(text, "job \"a\": group[0].count"), "job[0].group[0].count");
        assert_eq!(path(text, "job \"none\": group"), "job \"none\": group");
        assert_eq!(path(text, "job[1].name"), "job[1].name");
    }
}
