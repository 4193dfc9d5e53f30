//! Forms in which log output is printed.

use omega_core::text::is_hidden;
use std::io::{self, IsTerminal, Write};

/// Stream of this program to which output is printed.
#[derive(Clone, Copy)]
pub(super) enum Printed {
    Stdout,
    Stderr,
}

impl Printed {
    fn is_terminal(self) -> bool {
        match self {
            Printed::Stdout => io::stdout().is_terminal(),
            Printed::Stderr => io::stderr().is_terminal(),
        }
    }

    /// Prints bytes.
    ///
    /// # Errors
    /// The stream was closed, for example by `head`.
    pub(super) fn print(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Printed::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Printed::Stderr => io::stderr().write_all(bytes),
        }
    }
}

/// Form in which log output is printed: unchanged for a file or a pipe; for a terminal, with control characters
/// replaced. `Safe` keeps the received bytes of an incomplete UTF-8 character.
pub(super) enum Shown {
    Raw,
    Safe(Vec<u8>),
}

impl Shown {
    /// The form for a stream of this program.
    pub(super) fn on(printed: Printed) -> Shown {
        if printed.is_terminal() { Shown::Safe(Vec::new()) } else { Shown::Raw }
    }

    pub(super) fn text(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Shown::Safe(begun) = self else { return bytes };
        begun.extend(bytes);
        // An incomplete character at the end waits for its other bytes.
        let last = begun.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
        let is_incomplete = std::str::from_utf8(last).is_err_and(|why| why.error_len().is_none());
        let kept = if is_incomplete { last.len() } else { 0 };
        let rest = begun.split_off(begun.len() - kept);
        let text = String::from_utf8_lossy(&std::mem::replace(begun, rest)).into_owned();
        let is_harmful = |c: char| is_hidden(c) && c != '\n' && c != '\t';
        text.replace("\r\n", "\n").replace(is_harmful, "\u{fffd}").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe(parts: &[&[u8]]) -> String {
        let mut shown = Shown::Safe(Vec::new());
        let text: Vec<u8> = parts.iter().flat_map(|part| shown.text(part.to_vec())).collect();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(safe(&[b"a\x1b[2Jb\tc\r\n\x07d\n"]), "a\u{fffd}[2Jb\tc\n\u{fffd}d\n");
        assert_eq!(safe(&["\u{202e}abc\n".as_bytes()]), "\u{fffd}abc\n");
    }

    #[test]
    fn characters_in_two_parts_are_whole() {
        assert_eq!(safe(&[b"gr\xc3", b"\xb6\xc3", b"\x9f", b"e\n"]), "größe\n");
        assert_eq!(safe(&[b"\xff\xfea", b"\xc3", b"x"]), "\u{fffd}\u{fffd}a\u{fffd}x");
    }

    #[test]
    fn bytes_that_are_no_text_take_little_time() {
        let shown = safe(&[&[0xff; 4 << 20], b"\xc3", b"\xb6"]);
        assert_eq!(shown.chars().filter(|c| *c == '\u{fffd}').count(), 4 << 20);
        assert!(shown.ends_with("\u{fffd}ö"));
    }

    #[test]
    fn a_file_gets_every_byte() {
        assert_eq!(Shown::Raw.text(b"\x1b\xff".to_vec()), b"\x1b\xff");
    }
}
