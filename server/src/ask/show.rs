//! How an answer is printed: a table for people, or JSON for programs.

use super::AskError;
use super::shape::DoneShape;
use crate::output;
use clap::ValueEnum;
use omega_bench::report::text::clean;
use serde::Serialize;

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns, and amounts as people read them.
    Table,
    /// One value; docs/cli.md has its fields. (JSON is YAML, too.)
    Json,
}

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// At its left: words.
    Left,
    /// At its right: numbers.
    Right,
}

/// Prints a value in the format that was asked for.
///
/// # Errors
/// If standard output takes no more.
pub(super) fn print(
    format: Format,
    value: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<(), AskError> {
    let text = match format {
        Format::Table => table(),
        Format::Json => {
            let text = serde_json::to_string_pretty(value);
            text.expect("the keys are text, and memory takes all that is written") + "\n"
        }
    };
    Ok(output::print(&text)?)
}

/// Rows under a heading, in columns with two spaces between them. Nothing is cut: scripts read tables,
/// too. No name in it can move the reader's cursor.
pub(super) fn columns(heading: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = heading.iter().map(|(name, _)| name.to_uppercase()).collect();
    let all: Vec<Vec<String>> = std::iter::once(&head)
        .chain(rows)
        .map(|row| row.iter().map(|cell| clean(cell)).collect())
        .collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row: &Vec<String>| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(heading);
        let cells = cells.map(|((cell, width), (_, align))| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    all.iter().map(line).collect()
}

/// Names with what they have, a line for each; those that have nothing are left out.
pub(super) fn facts(lines: &[(&str, String)]) -> String {
    let lines: Vec<_> = lines.iter().filter(|(_, what)| !what.is_empty()).collect();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, what): &&(&str, String)| format!("{name:<width$}  {}\n", clean(what));
    lines.iter().map(line).collect()
}

/// A name that cannot move the reader's cursor.
pub(super) fn clean_name(name: &str) -> String {
    clean(name)
}

/// What was done to what.
pub(super) fn done(what: &str, shape: &DoneShape) -> String {
    format!("{what} {} {}\n", clean(&shape.name), shape.done)
}

/// The last line of a list that was cut short.
pub(super) fn and_more(more: bool) -> &'static str {
    if more { "... and more: see --limit\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them_and_tell_the_terminal_nothing() {
        let rows =
            [vec!["caf\u{e9}".to_owned(), "1".into()], vec!["a\u{1b}[31m".into(), "1,000".into()]];
        let text = columns(&[("name", Align::Left), ("tasks", Align::Right)], &rows);
        assert_eq!(text, "NAME    TASKS\ncaf\u{e9}        1\na\u{fffd}[31m  1,000\n");
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        let text = facts(&[("name", "a".into()), ("labels", String::new()), ("id", "m1".into())]);
        assert_eq!(text, "name  a\nid    m1\n");
    }
}
