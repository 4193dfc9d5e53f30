//! The program of a task group, for callers who may see programs. Its environment is never shown, because it may have
//! secrets.

use omega_core::{TaskGroup, Text};
use serde::Serialize;

/// Maximum number of bytes of a program's arguments in a reply. A script can be much longer, and the page is updated
/// every two seconds.
const ARGS_BYTES: usize = 4096;

#[derive(Serialize)]
pub(super) struct ProgramShape {
    /// Path of the program; empty for the entry point of the image.
    command: String,
    args: Vec<String>,
    /// Whether the arguments are longer than shown.
    cut: bool,
    /// Container image; `null` if the program runs on the machine itself.
    image: Option<String>,
    restart: RestartShape,
}

/// Restarts of a failed program on its machine.
#[derive(Serialize)]
struct RestartShape {
    attempts: u32,
    delay_ms: u32,
}

/// The program of a group, if it has one.
pub(super) fn program(group: &TaskGroup) -> Option<ProgramShape> {
    let run = group.run.as_deref()?;
    let (args, cut) = first(&run.args, ARGS_BYTES);
    Some(ProgramShape {
        command: run.command.to_string(),
        args,
        cut,
        image: run.image.as_ref().map(ToString::to_string),
        restart: RestartShape { attempts: run.restart.attempts, delay_ms: run.restart.delay_ms },
    })
}

/// The first bytes of a list of texts, and whether there are more. An empty text counts as one byte.
fn first(all: &[Text], mut bytes: usize) -> (Vec<String>, bool) {
    let mut kept = Vec::new();
    for text in all {
        if bytes == 0 {
            return (kept, true);
        }
        let end = text.floor_char_boundary(bytes.min(text.len()));
        kept.push(text[..end].to_owned());
        if end < text.len() {
            return (kept, true);
        }
        bytes -= end.max(1);
    }
    (kept, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_are_cut_between_characters() {
        let texts = |all: &[&str]| all.iter().map(|text| Text::from(*text)).collect::<Vec<_>>();
        let first = |all: &[&str], bytes| {
            let (kept, cut) = first(&texts(all), bytes);
            (kept.join("|"), cut)
        };
        assert_eq!(first(&["ab", "cd"], 4), ("ab|cd".to_owned(), false));
        assert_eq!(first(&["ab", "cd"], 3), ("ab|c".to_owned(), true));
        assert_eq!(first(&["ab", "cd"], 2), ("ab".to_owned(), true));
        assert_eq!(first(&["a\u{e9}"], 2), ("a".to_owned(), true));
        assert_eq!(first(&["", "", ""], 2), ("|".to_owned(), true));
        assert_eq!(first(&[], 0), (String::new(), false));
    }
}
