//! The terminal of `omega top`: the alternate screen, unbuffered keys, and the restoration of the former state.

use crate::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Escape sequences that switch to a second screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    /// Ctrl-C.
    Interrupt,
}

/// Event for which the display waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The time to wait has passed.
    Time,
    /// A key was pressed.
    Key(Key),
    /// A signal, or the end of input.
    End,
}

/// A terminal in raw mode.
#[derive(Debug)]
pub(super) struct Terminal {
    before: Termios,
    events: Receiver<Event>,
}

impl Terminal {
    /// Switches the terminal to raw mode. The former mode is restored when the result is dropped.
    ///
    /// # Errors
    /// If standard input is not a terminal, or the system has no threads left.
    pub(super) fn take() -> io::Result<Terminal> {
        let before = tcgetattr(io::stdin())?;
        let mut ours = before.clone();
        // Ctrl-C is read as a key, so that the terminal is restored before the process ends.
        ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        let (to, events) = mpsc::channel();
        let signals = to.clone();
        std::thread::Builder::new().spawn(move || signal(&signals))?;
        std::thread::Builder::new().spawn(move || keys(&to))?;
        tcsetattr(io::stdin(), OptionalActions::Now, &ours)?;
        let terminal = Terminal { before, events };
        write(ENTER)?;
        Ok(terminal)
    }

    /// Number of lines of a page that fit above the last line.
    ///
    /// # Errors
    /// If the terminal is closed.
    pub(super) fn height(&self) -> io::Result<usize> {
        Ok(usize::from(tcgetwinsize(io::stdout())?.ws_row.max(2)) - 1)
    }

    /// Prints as much of a page as fits, with the keys in the last line.
    ///
    /// # Errors
    /// If the terminal is closed.
    pub(super) fn draw(&self, page: &str, help: &str) -> io::Result<()> {
        let width = usize::from(tcgetwinsize(io::stdout())?.ws_col.max(20));
        write(&frame(page, self.height()? + 1, width, help))
    }

    /// Waits for a key, a signal, or the end of a time.
    pub(super) fn wait(&self, time: Duration) -> Event {
        match self.events.recv_timeout(time) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => Event::Time,
            Err(RecvTimeoutError::Disconnected) => Event::End,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone, it need not be restored.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Bytes to write for a page. Every line is cut at the terminal's width, and earlier contents are cleared.
fn frame(page: &str, rows: usize, width: usize, help: &str) -> String {
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    let mut lines: Vec<String> = page.lines().take(rows - 1).map(cut).collect();
    lines.resize(rows - 1, String::new());
    lines.push(cut(help));
    format!("\x1b[H{}\x1b[K", lines.join("\x1b[K\r\n"))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn keys(to: &Sender<Event>) {
    let (mut bytes, mut read) = (Vec::new(), [0; 32]);
    while let Ok(count @ 1..) = io::stdin().lock().read(&mut read) {
        bytes.extend_from_slice(&read[..count]);
        if is_begun(&bytes) && more_follows() {
            continue;
        }
        for key in keys_of(&std::mem::take(&mut bytes)) {
            if to.send(Event::Key(key)).is_err() {
                return;
            }
        }
    }
    // The receiver may be gone.
    let _ = to.send(Event::End);
}

/// Whether the bytes end in the middle of a key that a terminal sends as several bytes.
fn is_begun(bytes: &[u8]) -> bool {
    let escape = bytes.iter().rposition(|byte| *byte == 0x1b);
    let is_whole =
        |rest: &[u8]| rest.iter().skip(1).any(|byte| byte.is_ascii_alphabetic() || *byte == b'~');
    let in_sequence = escape.is_some_and(|at| match &bytes[at + 1..] {
        [] => true,
        rest @ [b'[' | b'O', ..] => !is_whole(rest),
        _ => false,
    });
    in_sequence || std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Whether standard input has more bytes within the time that the rest of a key takes.
fn more_follows() -> bool {
    let stdin = io::stdin();
    let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// The keys in some bytes of a terminal. Other escape sequences are left out.
fn keys_of(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    let mut keys = Vec::new();
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        keys.push(match first {
            '\x1b' if rest.starts_with(['[', 'O']) => {
                // The last character of a sequence is a letter or `~`.
                let is_last =
                    |(_, letter): &(usize, char)| letter.is_alphabetic() || *letter == '~';
                let (end, last) = rest.char_indices().skip(1).find(is_last).unwrap_or((0, ' '));
                rest = &rest[end + last.len_utf8()..];
                match last {
                    'A' => Key::Up,
                    'B' => Key::Down,
                    _ => continue,
                }
            }
            '\x1b' => Key::Escape,
            '\r' | '\n' => Key::Enter,
            '\x7f' | '\x08' => Key::Backspace,
            '\x03' => Key::Interrupt,
            letter if letter.is_control() => continue,
            letter => Key::Char(letter),
        });
    }
    keys
}

fn signal(to: &Sender<Event>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        if let Ok(mut signals) = Signals::listen() {
            signals.end().await;
            // The receiver may be gone.
            let _ = to.send(Event::End);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_to_what_there_is_room_for() {
        let shown = frame("one\ntwo two two two two two\nthree\n", 3, 20, "q: quit, space: pause");
        assert_eq!(
            shown,
            "\x1b[Hone\x1b[K\r\ntwo two two two two \x1b[K\r\nq: quit, space: paus\x1b[K"
        );
        assert_eq!(frame("", 2, 20, "q"), "\x1b[H\x1b[K\r\nq\x1b[K");
    }

    #[test]
    fn keys_of_several_bytes_are_one_key() {
        let keys = keys_of("a\x1b[A\x1bOB\x1b[5~\x1b[1;5C\u{e9}\r\x7f\x03\x01".as_bytes());
        let [a, e] = ['a', '\u{e9}'].map(Key::Char);
        assert_eq!(keys, [a, Key::Up, Key::Down, e, Key::Enter, Key::Backspace, Key::Interrupt]);
        assert_eq!(keys_of(b"\x1b"), [Key::Escape]);
        assert_eq!(keys_of(b"\x1b["), [], "a sequence without an end");
        let begun = ["\x1b", "a\x1b[", "\x1b[1;"].map(|text| is_begun(text.as_bytes()));
        assert_eq!((begun, is_begun(&[0xc3])), ([true; 3], true));
        let whole = ["", "a", "\x1b[A", "\x1bOBa", "\x1ba", "\u{e9}"];
        assert_eq!(whole.map(|text| is_begun(text.as_bytes())), [false; 6]);
    }
}
