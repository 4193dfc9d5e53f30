//! Output of replies: a table for people, names for scripts, and JSON or YAML for programs.

use crate::commands::CommandError;
use crate::commands::shape::{DoneForShape, DoneShape};
use crate::output;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ValueEnum};
use omega_run::report::text::clean;
use omega_workload::words::plural;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Ordering;
use std::io;

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text in columns, with units such as GiB.
    Table,
    /// Table with more columns.
    // Only the help of lists that have further columns names this format: see `with_wide`. Elsewhere it equals `table`.
    #[value(hide = true)]
    Wide,
    /// Only the names, one per line.
    Name,
    /// JSON; docs/cli.md describes the fields.
    Json,
    /// YAML, with the same fields as JSON.
    Yaml,
}

/// Shows the format `wide` in the help of a command whose table has further columns.
pub(super) fn with_wide(output: Arg) -> Arg {
    let shown = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names = PossibleValuesParser::new(shown.map(|value| value.hide(false)));
    output.value_parser(names.try_map(|name| Format::from_str(&name, false)))
}

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// On the left, for words.
    Left,
    /// On the right, for numbers.
    Right,
}

/// Prints a value in the requested format.
///
/// # Errors
/// If standard output cannot be written.
pub(super) fn print(
    format: Format,
    value: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    let text = match format {
        Format::Table | Format::Wide => table(),
        Format::Name => names(value),
        Format::Json => {
            let text = serde_json::to_string_pretty(value);
            text.expect("the keys are text, and memory takes all that is written") + "\n"
        }
        Format::Yaml => yaml(value),
    };
    Ok(output::print(&text)?)
}

/// One of a stream of values, as a line of JSON or a YAML document.
pub(super) fn one_of_many(format: Format, value: &impl Serialize) -> Option<String> {
    match format {
        Format::Table | Format::Wide | Format::Name => None,
        Format::Json => {
            let text = serde_json::to_string(value);
            Some(text.expect("the keys are text, and memory takes all that is written") + "\n")
        }
        Format::Yaml => Some(format!("---\n{}", yaml(value))),
    }
}

/// Names of the items of a list, or of a single item, each on a line. A value without a name, such as a policy, has
/// none.
fn names(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("the keys are text");
    let list = ["items", "calendars"].iter().find_map(|list| value.get(list));
    let items = match list.unwrap_or(&value) {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    };
    let name = |item: &Value| {
        let field = ["name", "task", "transaction", "replica", "cell"];
        match field.iter().find_map(|field| item.get(field))? {
            Value::Number(replica) => Some(format!("r{replica}\n")),
            name => Some(format!("{}\n", clean(name.as_str()?))),
        }
    };
    items.iter().filter_map(name).collect()
}

/// Order of names in lists. Digits are compared as numbers, so that `m-2` comes before `m-10`.
pub(super) fn by_name(one: &str, other: &str) -> Ordering {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (mut left, mut right) = (one, other);
    while let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) {
        let (of_left, of_right) = (digits(left), digits(right));
        let (left_end, right_end) = if of_left > 0 && of_right > 0 {
            (of_left, of_right)
        } else {
            (first.len_utf8(), second.len_utf8())
        };
        let (part, counterpart) = (&left[..left_end], &right[..right_end]);
        let order = if of_left > 0 && of_right > 0 {
            let [part, counterpart] = [part, counterpart].map(|part| part.trim_start_matches('0'));
            part.len().cmp(&counterpart.len()).then_with(|| part.cmp(counterpart))
        } else {
            part.cmp(counterpart)
        };
        if order.is_ne() {
            return order;
        }
        (left, right) = (&left[left_end..], &right[right_end..]);
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// Converts a value to YAML by way of JSON, so that both formats have the same fields.
fn yaml(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("the keys are text");
    let text = serde_saphyr::to_string(&value);
    let text = text.expect("memory takes all that is written");
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// Rows under a heading, in columns that are two spaces apart. Nothing is cut, because scripts read tables. Control
/// characters in names are replaced.
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

/// The rows of a list, as [`columns`]. If a terminal is too narrow for them, the columns of `least` are left out, in this
/// order, until the rows fit, and a last line names them. Other outputs have all columns, because scripts read them.
pub(super) fn fitted(heading: &[(&str, Align)], rows: &[Vec<String>], least: &[&str]) -> String {
    let width = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    fitted_to(width.filter(|width| *width > 0), heading, rows, least)
}

/// The rows of a list, for a terminal of a width.
fn fitted_to(
    width: Option<usize>,
    heading: &[(&str, Align)],
    rows: &[Vec<String>],
    least: &[&str],
) -> String {
    let mut left_out: Vec<&str> = Vec::new();
    let mut least = least.iter().filter(|name| heading.iter().any(|(column, _)| column == *name));
    loop {
        let keeps: Vec<bool> = heading.iter().map(|(name, _)| !left_out.contains(name)).collect();
        let heading: Vec<_> = kept(heading, &keeps);
        let rows: Vec<_> = rows.iter().map(|row| kept(row, &keeps)).collect();
        let text = columns(&heading, &rows);
        let fits = width.is_none_or(|width| text.lines().all(|line| line.chars().count() <= width));
        match least.next() {
            Some(name) if !fits => left_out.push(name),
            _ if left_out.is_empty() => return text,
            _ => return format!("{text}columns not shown: {}; see -o wide\n", left_out.join(", ")),
        }
    }
}

fn kept<T: Clone>(all: &[T], keeps: &[bool]) -> Vec<T> {
    all.iter().zip(keeps).filter(|(_, keeps)| **keeps).map(|(one, _)| one.clone()).collect()
}

/// Names and values, one pair on each line. Empty values are omitted.
pub(super) fn facts(lines: &[(&str, String)]) -> String {
    let lines: Vec<_> = lines.iter().filter(|(_, what)| !what.is_empty()).collect();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, what): &&(&str, String)| format!("{name:<width$}  {}\n", clean(what));
    lines.iter().map(line).collect()
}

/// A name without characters that move a terminal's cursor.
pub(super) fn clean_name(name: &str) -> String {
    clean(name)
}

/// An action and its object, as a line of text.
pub(super) fn done(what: &str, shape: &DoneShape) -> String {
    format!("{}\n", sentence(what, shape))
}

fn sentence(what: &str, shape: &DoneShape) -> String {
    format!("{what} {} {}", clean(&shape.name), shape.done)
}

/// The line printed after a change, with the number of machines that it concerns.
pub(super) fn done_for(what: &str, shape: &DoneForShape) -> String {
    let done = sentence(what, &shape.done);
    match shape.machines {
        None => format!("{done}\n"),
        Some(0) => format!("{done}; no machine matches now\n"),
        Some(count) => format!("{done} for {}\n", plural(count.into(), "machine")),
    }
}

/// The last line of a list that is not complete.
pub(super) fn and_more(more: bool) -> &'static str {
    if more { "more are not shown: raise --limit to see them\n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words that YAML readers would not read as text.
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

    /// Any value of an answer.
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
        /// YAML and JSON are read back as the same value, for any content.
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
    fn a_narrow_terminal_gets_fewer_columns() {
        let heading = ["name", "kind", "tenant"].map(|name| (name, Align::Left));
        let rows = [vec!["web".to_owned(), "service".into(), "default".into()]];
        let shown = |width| fitted_to(width, &heading, &rows, &["other", "kind", "tenant"]);
        let all = "NAME  KIND     TENANT\nweb   service  default\n";
        assert_eq!((shown(None).as_str(), shown(Some(22)).as_str()), (all, all));
        let two = "NAME  TENANT\nweb   default\ncolumns not shown: kind; see -o wide\n";
        assert_eq!((shown(Some(21)).as_str(), shown(Some(13)).as_str()), (two, two));
        let one = "NAME\nweb\ncolumns not shown: kind, tenant; see -o wide\n";
        assert_eq!((shown(Some(12)).as_str(), shown(Some(1)).as_str()), (one, one));
    }

    proptest! {
        /// The order of lists must be a total order.
        #[test]
        fn names_are_in_a_total_order(names in proptest::collection::vec("[ab0-2\u{e9}]{0,5}", 3)) {
            let order = |one: usize, other: usize| by_name(&names[one], &names[other]);
            prop_assert_eq!(order(0, 1), order(1, 0).reverse());
            prop_assert_eq!(order(0, 1).is_eq(), names[0] == names[1]);
            if order(0, 1).is_le() && order(1, 2).is_le() {
                prop_assert!(order(0, 2).is_le());
            }
        }
    }

    #[test]
    fn digits_in_names_are_numbers() {
        let mut names = ["m-10", "m-2", "m-02", "a", "m-2b", "m", ""];
        names.sort_by(|one, other| by_name(one, other));
        assert_eq!(names, ["", "a", "m", "m-02", "m-2", "m-2b", "m-10"]);
    }

    #[test]
    fn names_are_those_of_items_or_of_the_one_value() {
        let list =
            serde_json::json!({"version": 3, "items": [{"name": "a\u{1b}"}, {"task": "web/0"}]});
        assert_eq!(names(&list), "a\u{fffd}\nweb/0\n");
        assert_eq!(names(&serde_json::json!([{"name": "b"}])), "b\n");
        assert_eq!(names(&serde_json::json!({"name": "c", "id": "j1"})), "c\n");
        assert_eq!(names(&serde_json::json!({"version": 1})), "");
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        let text = facts(&[("name", "a".into()), ("labels", String::new()), ("id", "m1".into())]);
        assert_eq!(text, "name  a\nid    m1\n");
    }
}
