//! The pipe from the stage that becomes the program. It closes once the stage has become the program, or has ended.
//!
//! Just before the stage becomes the program, it writes [`READY`]. If that fails, it writes the reason. So a stage that
//! was killed before is not taken for a program that has started.

use crate::inbox::never_block;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The byte that the stage writes before it becomes the program.
pub(crate) const READY: u8 = 0;

/// Maximum number of bytes of the reason why a program was not started.
const REASON_BYTES: usize = 1 << 10;

/// The supervisor's end of the pipe.
#[derive(Debug)]
pub(crate) struct StartPipe {
    /// `None` after the pipe was closed.
    pipe: Option<File>,
    /// The bytes that the stage has written.
    written: Vec<u8>,
}

impl StartPipe {
    pub(crate) fn new(pipe: PipeReader) -> io::Result<StartPipe> {
        never_block(&pipe)?;
        Ok(StartPipe { pipe: Some(File::from(OwnedFd::from(pipe))), written: Vec::new() })
    }

    /// The pipe, while it is open.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what the stage has written. Returns whether the pipe was closed since the last call.
    pub(crate) fn has_just_closed(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = [0; REASON_BYTES];
        loop {
            match pipe.read(&mut bytes) {
                Ok(count @ 1..) => {
                    let room = REASON_BYTES - self.written.len();
                    self.written.extend(&bytes[..count.min(room)]);
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => return false,
                Ok(0) | Err(_) => break,
            }
        }
        self.pipe = None;
        true
    }

    /// Whether the stage has become the program.
    pub(crate) fn has_started(&self) -> bool {
        self.pipe.is_none() && self.written == [READY]
    }

    /// The reason why the stage could not become the program; `None` if it has written none.
    pub(crate) fn reason(&self) -> Option<String> {
        let reason = self.written.strip_prefix(&[READY]).unwrap_or(&self.written);
        (!reason.is_empty()).then(|| String::from_utf8_lossy(reason).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_stage_that_ends_before_the_program_is_not_taken_for_its_start() {
        let ended = |written: &[u8]| {
            let (pipe, mut stage) = io::pipe().unwrap();
            let mut start = StartPipe::new(pipe).unwrap();
            stage.write_all(written).unwrap();
            assert!(!start.has_just_closed() && !start.has_started(), "the stage runs");
            drop(stage);
            assert!(start.has_just_closed() && !start.has_just_closed());
            (start.has_started(), start.reason())
        };
        assert_eq!(ended(b""), (false, None));
        assert_eq!(ended(&[READY]), (true, None));
        assert_eq!(ended(b"no user"), (false, Some("no user".to_owned())));
        assert_eq!(ended(b"\0no program"), (false, Some("no program".to_owned())));
        let long = ended(&[b'a'; 3 * REASON_BYTES]);
        assert_eq!(long.1.map(|reason| reason.len()), Some(REASON_BYTES));
    }
}
