//! Texts that users write: names, labels, taints and their values.
//!
//! Machines, jobs and all views contain many equal texts, so strings are shared. Copying a machine's texts increments
//! reference counters, and allocates nothing.
//!
//! Names are printed in tables, logs and errors, so one rule applies to all texts: at most [`TEXT_BYTES_MAX`] bytes, no
//! invisible character, and no character that changes how its neighbours are displayed. Otherwise two different names
//! could look alike, or a name could change the display of its line.

use crate::limits::TEXT_BYTES_MAX;
use std::sync::Arc;

/// An immutable, shared string.
pub type Text = Arc<str>;

/// Format characters outside of ASCII, as inclusive ranges: Unicode's category Cf, and the separators of lines and
/// paragraphs. The category includes the characters that change the direction of writing.
const FORMAT: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e0001}'),
    ('\u{e0020}', '\u{e007f}'),
];

/// Whether a character is invisible or changes how its neighbours are shown: a control or format
/// character.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    let of_format = |(first, last): &(char, char)| (*first..=*last).contains(&character);
    if character.is_ascii() {
        character.is_ascii_control()
    } else {
        character.is_control() || FORMAT.iter().any(of_format)
    }
}

/// The text with a mark in place of each hidden character, to print text that was not checked.
#[must_use]
pub fn shown(text: &str) -> String {
    text.replace(is_hidden, "\u{fffd}")
}

/// Reason for which a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextFlaw {
    /// The name is empty, and must have at least one byte.
    #[error("is empty: must have 1 to {TEXT_BYTES_MAX} bytes")]
    Empty,
    /// The text has this many bytes, more than [`TEXT_BYTES_MAX`]. Texts are bounded, because every copy of the cell's
    /// state contains them.
    #[error("has {0} bytes: at most {TEXT_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// The text has this hidden character (see [`is_hidden`]).
    #[error("has the invisible character U+{:04X}: leave out control and format characters", u32::from(*.0))]
    Hidden(char),
}

/// Checks a text that may be empty, such as a label's value.
///
/// # Errors
/// The text is too long or has hidden characters.
pub fn check_value(text: &str) -> Result<(), TextFlaw> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(TextFlaw::TooLong(text.len()));
    }
    text.chars()
        .find(|character| is_hidden(*character))
        .map_or(Ok(()), |c| Err(TextFlaw::Hidden(c)))
}

/// Checks a name.
///
/// # Errors
/// The name is empty, is too long, or has hidden characters.
pub fn check_name(text: &str) -> Result<(), TextFlaw> {
    if text.is_empty() { Err(TextFlaw::Empty) } else { check_value(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_format_characters_are_in_no_text() {
        let hidden = "\0\t\n\u{1b}\u{7f}\u{85}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{202e}\u{2028}\u{2066}\u{2069}\u{feff}\u{e0041}";
        for character in hidden.chars() {
            assert_eq!(check_value(&format!("a{character}b")), Err(TextFlaw::Hidden(character)));
            assert_eq!(shown(&format!("a{character}b")), "a\u{fffd}b");
        }
        for text in ["web/0", "a b", "größe", "日本語", "שלום", "x86_64-v3", "é\u{301}"] {
            assert_eq!(check_name(text), Ok(()));
        }
        let why = TextFlaw::Hidden('\u{202e}').to_string();
        assert!(why.starts_with("has the invisible character U+202E: leave out"), "{why}");
    }

    #[test]
    fn names_have_bounds() {
        let text = |bytes| "x".repeat(bytes);
        assert_eq!((check_name(""), check_value("")), (Err(TextFlaw::Empty), Ok(())));
        assert_eq!(check_name(&text(TEXT_BYTES_MAX)), Ok(()));
        let long = TEXT_BYTES_MAX + 1;
        assert_eq!(check_value(&text(long)), Err(TextFlaw::TooLong(long)));
    }
}
