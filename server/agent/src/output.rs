//! The output of a program, from its pipe to the files of its log.

use crate::inbox::never_block;
use crate::logs::Writer;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of the output that are read at once.
const READ_BYTES: usize = 16 << 10;

/// A stream of a program's output.
#[derive(Debug)]
pub(crate) struct Output {
    /// `None` after the end of the output, or an error.
    pipe: Option<File>,
    log: Writer,
}

impl Output {
    /// Stores the output from a pipe in a log.
    pub(crate) fn new(pipe: OwnedFd, log: Writer) -> io::Result<Output> {
        never_block(&pipe)?;
        Ok(Output { pipe: Some(File::from(pipe)), log })
    }

    /// The pipe, while it has writers.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Stores some output. Returns whether there may be more at once.
    pub(crate) fn store(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut bytes = [0; READ_BYTES];
        match pipe.read(&mut bytes) {
            Ok(count @ 1..) => {
                self.log.write(&bytes[..count]);
                true
            }
            Err(why) if why.kind() == ErrorKind::Interrupted => true,
            Err(why) if why.kind() == ErrorKind::WouldBlock => false,
            Ok(0) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}
