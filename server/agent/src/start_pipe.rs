//! The pipe from the stage that becomes the program. It closes once the stage has become the program, or has ended.

use crate::inbox::never_block;
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of bytes of the reason why a program was not started.
const REASON_BYTES: usize = 1 << 10;

/// The supervisor's end of the pipe.
#[derive(Debug)]
pub(crate) struct StartPipe {
    /// `None` after the pipe was closed.
    pipe: Option<File>,
    /// The reason why the stage could not become the program.
    reason: Vec<u8>,
}

impl StartPipe {
    pub(crate) fn new(pipe: PipeReader) -> io::Result<StartPipe> {
        never_block(&pipe)?;
        Ok(StartPipe { pipe: Some(File::from(OwnedFd::from(pipe))), reason: Vec::new() })
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
                    let room = REASON_BYTES - self.reason.len();
                    self.reason.extend(&bytes[..count.min(room)]);
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => return false,
                Ok(0) | Err(_) => break,
            }
        }
        self.pipe = None;
        true
    }

    /// The reason why the stage could not become the program; `None` if it has written none.
    pub(crate) fn reason(&self) -> Option<String> {
        let is_there = !self.reason.is_empty();
        is_there.then(|| String::from_utf8_lossy(&self.reason).into_owned())
    }
}
