//! The output of a program, from its pipe to the files of its log.

use crate::inbox::never_block;
use crate::logs::Writer;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of the output that are read at once.
const READ_BYTES: usize = 16 << 10;

/// Maximum number of bytes that are stored after the end of a run: the largest pipe that the kernel allows by default.
const REST_BYTES: usize = 1 << 20;

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

    /// Stores the rest of the output after the end of the program. A process outside of the task may have got the pipe,
    /// and may write to it without end, so that the rest has a bound.
    pub(crate) fn store_rest(&mut self) {
        for _ in 0..REST_BYTES / READ_BYTES {
            if !self.store() {
                return;
            }
        }
    }

    /// Stores some output. Returns whether there may be more at once.
    pub(crate) fn store(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        // The bytes are not set to zero first, because most reads find none.
        let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
        match rustix::io::read(pipe, &mut bytes) {
            Ok((read, _)) if !read.is_empty() => {
                self.log.write(read);
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            Ok(_) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::{self, LogStream};

    #[test]
    fn output_that_others_write_without_end_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let log = Writer::new(folder.path().into(), LogStream::Stdout, 1 << 20);
        let endless = File::open("/dev/zero").unwrap();
        Output::new(endless.into(), log).unwrap().store_rest();
        let part = logs::read(folder.path(), LogStream::Stdout, 0, 0).unwrap();
        assert_eq!(part.end, REST_BYTES as u64);
    }
}
