//! Lines of fields in TOML files, for errors that depend on the cell and are found after parsing.

use crate::commands::CommandError;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Adds the line of the wrong field to an error that names only its path. If the input is not a regular file in TOML, the
/// error stays as it is.
pub(in crate::commands) fn with_line(mut error: CommandError, file: &Path) -> CommandError {
    if let CommandError::Amount { place, .. }
    | CommandError::Field { place, .. }
    | CommandError::NoKind { place, .. } = &mut error
    {
        let file_name = file.display().to_string();
        let field = place.strip_prefix(&file_name).and_then(|rest| rest.strip_prefix(": "));
        let text = field.filter(|_| file.is_file());
        let text = text.and_then(|_| std::fs::read_to_string(file).ok());
        if let (Some(field), Some(text)) = (field, text)
            && let Some(line) = line_of(&text, field)
        {
            *place = format!("{file_name}:{line}: {field}");
        }
    }
    error
}

/// The line of a field by its path, such as `group[0].request.gpu`, or of the innermost table of the path that exists.
fn line_of(text: &str, path: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    for part in path.split('.') {
        let (key, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((key, index)) => (key, Some(index.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let Some((_, mut value)) = table.iter().find(|(name, _)| name.get_ref() == key) else {
            break;
        };
        if let (Some(index), DeValue::Array(list)) = (index, value.get_ref()) {
            value = list.get(index)?;
        }
        found = Some(value.span().start);
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    Some(text.get(..found?)?.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn a_field_has_the_line_of_its_value() {
        let text =
            "name = \"a\"\n[[group]]\ncount = 1\n[[group]]\nrequest = { cpu = 1,\n gold = 1 }\n";
        assert_eq!(line_of(text, "group[1].request.gold"), Some(6));
        assert_eq!(line_of(text, "group[1].run.command"), Some(4), "the table without the field");
        assert_eq!(line_of(text, "job[0].name"), None);
        assert_eq!(line_of("name = ", "name"), None);
    }
}
