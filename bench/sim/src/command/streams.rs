//! Standard output and standard error of the commands.
//!
//! A reader may close them early, as `head` does. The command then goes on without a message, because it may write
//! files, and its exit code reports the result.

use std::fmt::Display;
use std::io::{self, ErrorKind, StdoutLock, Write};

/// Standard output. Once the reader has closed it, all further output is dropped.
pub(super) type Stdout = Closable<StdoutLock<'static>>;

/// Locks standard output.
pub(super) fn stdout() -> Stdout {
    Closable(Some(io::stdout().lock()))
}

/// Prints a line for the user on standard error.
pub(super) fn note(line: impl Display) {
    // A line that nobody can read does not end the command.
    drop(writeln!(io::stderr(), "{line}"));
}

/// An output that drops all further bytes once its reader has closed it.
pub(super) struct Closable<W>(Option<W>);

impl<W: Write> Closable<W> {
    /// Calls `write` if the output is open. If it is closed, returns `dropped`.
    fn unless_closed<T>(
        &mut self,
        dropped: T,
        write: impl FnOnce(&mut W) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.0.as_mut().map(write) {
            None => Ok(dropped),
            Some(Err(why)) if why.kind() == ErrorKind::BrokenPipe => {
                self.0 = None;
                Ok(dropped)
            }
            Some(written) => written,
        }
    }
}

impl<W: Write> Write for Closable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), W::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output with room for one byte, after which each call fails.
    struct Failing(ErrorKind, usize);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let room = std::mem::take(&mut self.1);
            if room == 0 { Err(self.0.into()) } else { Ok(room) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_reader_is_no_error_but_a_full_disk_is() {
        let mut closed = Closable(Some(Failing(ErrorKind::BrokenPipe, 1)));
        assert!(closed.write_all(b"some\nlines\n").is_ok() && closed.flush().is_ok());
        let mut full = Closable(Some(Failing(ErrorKind::StorageFull, 1)));
        assert_eq!(full.write_all(b"12").unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(full.flush().unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
