//! Lines of plain text: clipped, wrapped, and set in columns.
//!
//! Names come from untrusted files. A control character could move the cursor or change the title of the reader's
//! terminal, so all control characters are replaced.

use std::iter::repeat_n;

/// Number of characters in a line of the table. Every common terminal is at least this wide.
pub(super) const WIDTH: usize = 100;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Align {
    /// At the left, for words.
    Left,
    /// At the right, for numbers.
    Right,
}

/// Replaces control characters, and characters that change the direction of text.
#[must_use]
pub fn clean(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => ' ',
            c if c.is_control() || turns(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Cuts the text to at most `width` characters; the last one is `…` if characters are missing.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Wraps the words into lines of at most `width` characters. A longer word is cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let word = clip(word, width);
        let length = line.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// Formats rows in columns with two spaces between them. If a row is longer than [`WIDTH`], the column `elastic` is
/// clipped, but not to fewer than eight characters.
pub(super) fn columns(rows: &[Vec<String>], aligns: &[Align], elastic: usize) -> String {
    let mut widths: Vec<usize> = (0..aligns.len())
        .map(|column| rows.iter().filter_map(move |row| row.get(column)))
        .map(|cells| cells.map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let total = widths.iter().sum::<usize>() + 2 * aligns.len().saturating_sub(1);
    let natural = widths[elastic];
    widths[elastic] = natural.saturating_sub(total.saturating_sub(WIDTH)).max(natural.min(8));
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .zip(aligns)
            .map(|((cell, &width), &align)| pad(&clip(cell, width), width, align))
            .collect();
        cells.join("  ").trim_end().to_string() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Pads the text with spaces.
fn pad(text: &str, width: usize, align: Align) -> String {
    let spaces: String = repeat_n(' ', width.saturating_sub(text.chars().count())).collect();
    match align {
        Align::Left => format!("{text}{spaces}"),
        Align::Right => format!("{spaces}{text}"),
    }
}

/// Notes on parts of the input that were not converted, under a heading; empty without notes.
pub(super) fn notes(notes: &[String]) -> String {
    let indent = "  ";
    let lines = notes.iter().flat_map(|note| {
        let lines = wrap(&clean(note), WIDTH - indent.len() - 2);
        lines.into_iter().enumerate().map(move |(index, line)| {
            let bullet = if index == 0 { "- " } else { "  " };
            format!("{indent}{bullet}{line}\n")
        })
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("notes\n{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\nc\u{202e}d"), "a\u{fffd}[31mb c\u{fffd}d");
    }

    #[test]
    fn text_is_clipped_and_wrapped_by_characters() {
        assert_eq!(clip("ééé", 3), "ééé");
        assert_eq!(clip("éééé", 3), "éé…");
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensibilities", 5), ["inco…"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn columns_are_aligned_and_the_elastic_one_gives_way() {
        let rows = [vec!["name".into(), "7".into()], vec!["n".repeat(200), "1,000".into()]];
        let text = columns(&rows, &[Align::Left, Align::Right], 0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() == WIDTH));
        assert!(lines[0].starts_with("name   ") && lines[0].ends_with("      7"));
        assert!(lines[1].ends_with("n…  1,000"));
    }
}
