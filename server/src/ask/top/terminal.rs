//! The terminal of `omega top`: the alternate screen, unbuffered keys, and the restoration of the former state.

use crate::signals::Signals;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Escape sequences that switch to a second screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Event for which the display waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The time to wait has passed.
    Time,
    /// A key was pressed.
    Key(u8),
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

    /// Prints as much of a page as fits, with the keys in the last line.
    ///
    /// # Errors
    /// If the terminal is closed.
    pub(super) fn draw(&self, page: &str, is_halted: bool) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout())?;
        let (rows, width) = (usize::from(size.ws_row.max(2)), usize::from(size.ws_col.max(20)));
        write(&frame(page, (rows, width), is_halted))
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
fn frame(page: &str, (rows, width): (usize, usize), is_halted: bool) -> String {
    let cut = |line: &str| line.chars().take(width).collect::<String>();
    let mut lines: Vec<String> = page.lines().take(rows - 1).map(cut).collect();
    lines.resize(rows - 1, String::new());
    lines.push(cut(if is_halted {
        "paused - space: resume, q: quit"
    } else {
        "q: quit, space: pause"
    }));
    format!("\x1b[H{}\x1b[K", lines.join("\x1b[K\r\n"))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn keys(to: &Sender<Event>) {
    let mut key = [0];
    while let Ok(1) = io::stdin().lock().read(&mut key) {
        if to.send(Event::Key(key[0])).is_err() {
            return;
        }
    }
    // The receiver may be gone.
    let _ = to.send(Event::End);
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
        let shown = frame("one\ntwo two two two two two\nthree\n", (3, 20), false);
        assert_eq!(
            shown,
            "\x1b[Hone\x1b[K\r\ntwo two two two two \x1b[K\r\nq: quit, space: paus\x1b[K"
        );
        let shown = frame("", (2, 20), true);
        assert_eq!(shown, "\x1b[H\x1b[K\r\npaused - space: resu\x1b[K");
    }
}
