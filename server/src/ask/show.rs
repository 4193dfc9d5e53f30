//! Output of replies: a table for people, JSON or YAML for programs.

use super::AskError;
use super::shape::{DoneForShape, DoneShape};
use crate::output;
use clap::ValueEnum;
use omega_run::report::text::clean;
use omega_workload::words::plural;
use serde::Serialize;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns, and amounts as people read them.
    Table,
    /// One value; docs/cli.md has its fields.
    Json,
    /// Prints a value as YAML.
    Yaml,
}

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// At its left: words.
    Left,
    /// At its right: numbers.
    Right,
}

/// Prints a value in the requested format.
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
        Format::Yaml => yaml(value),
    };
    Ok(output::print(&text)?)
}

/// One of many values, as programs read them one after the other: a line of JSON, or a YAML document.
pub(super) fn one_of_many(format: Format, value: &impl Serialize) -> Option<String> {
    match format {
        Format::Table => None,
        Format::Json => {
            let text = serde_json::to_string(value);
            Some(text.expect("the keys are text, and memory takes all that is written") + "\n")
        }
        Format::Yaml => Some(format!("---\n{}", yaml(value))),
    }
}

/// By way of JSON's value, so that both have the same fields in the same words.
fn yaml(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("the keys are text");
    let text = serde_saphyr::to_string(&value);
    let text = text.expect("memory takes all that is written");
    if text.ends_with('\n') { text } else { text + "\n" }
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

/// Action and its object.
pub(super) fn done(what: &str, shape: &DoneShape) -> String {
    format!("{}\n", sentence(what, shape))
}

fn sentence(what: &str, shape: &DoneShape) -> String {
    format!("{what} {} {}", clean(&shape.name), shape.done)
}

/// Setting for some machines.
pub(super) fn done_for(what: &str, shape: &DoneForShape) -> String {
    let done = sentence(what, &shape.done);
    match shape.machines {
        None => format!("{done}\n"),
        Some(0) => format!("{done}; no machine is like that now\n"),
        Some(count) => format!("{done} for {}\n", plural(count.into(), "machine")),
    }
}

/// The last line of a list that was cut short.
pub(super) fn and_more(more: bool) -> &'static str {
    if more { "... and more: see --limit\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Words that YAML readers do not read as text.
    const TRICKY: &[&str] = &[
        "",
        "~",
        "null",
        "yes",
        "no",
        "on",
        "true",
        "False",
        "1",
        "0x1f",
        "0o7",
        "1e3",
        ".inf",
        "1_000",
        "12:30:45",
        "2024-01-01",
        "- a",
        "a: b",
        "# a",
        "a #b",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "{a",
        "[a",
        "'a",
        "\"a",
        "a\nb",
        "a\n",
        "\n",
        " a",
        "a ",
        "\t",
        "---",
        "...",
        "=",
        "<<",
        "?",
        ":",
        "a:",
        "\u{85}",
        "\u{2028}",
        "\u{feff}a",
        "\u{7f}",
        "\u{1b}[31m",
        "\r\n",
        "\0",
    ];

    /// A value as answers have them.
    fn any_value() -> impl Strategy<Value = Value> {
        let word = prop_oneof![
            proptest::sample::select(TRICKY).prop_map(str::to_owned),
            any::<String>(),
            "[ -~]{0,60}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            word.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            let map = proptest::collection::btree_map(word.clone(), inner.clone(), 0..5);
            prop_oneof![
                proptest::collection::vec(inner, 0..5).prop_map(Value::from),
                map.prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        /// Whatever is in an answer, YAML's readers find what JSON's do.
        #[test]
        fn yaml_says_what_json_says(value in any_value()) {
            let text = yaml(&value);
            let read: Value = serde_saphyr::from_str(&text)
                .map_err(|why| TestCaseError::fail(format!("{why}: {text:?}")))?;
            prop_assert_eq!(read, value, "{:?}", text);
        }
    }

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
