//! An input that is read several times.

use crate::Workload;
use crate::input::{InputArgs, InputError};
use crate::stream::{Held, Stream, whole};
use std::fs;
use std::path::Path;

/// An input that can be opened any number of times. If it can be read only once, such as standard input or a pipe, it
/// is kept in memory.
pub struct Reopened<'a> {
    input: &'a InputArgs,
    seed: u64,
    held: Option<Workload>,
}

impl<'a> Reopened<'a> {
    /// Prepares an input, and reads it if it can be read only once.
    ///
    /// # Errors
    /// As [`InputArgs::open`], or if the rest of an input that can be read only once is invalid.
    pub fn new(input: &'a InputArgs, seed: u64) -> Result<Reopened<'a>, InputError> {
        let held = if input.files().into_iter().any(ends_when_read) {
            Some(whole(&mut *input.open(seed)?)?)
        } else {
            None
        };
        Ok(Reopened { input, seed, held })
    }

    /// Opens the workload as a stream, from its beginning.
    ///
    /// # Errors
    /// As [`InputArgs::open`].
    pub fn open(&self) -> Result<Box<dyn Stream>, InputError> {
        match &self.held {
            Some(workload) => Ok(Box::new(Held::new(workload.clone(), Path::new("-")))),
            None => self.input.open(self.seed),
        }
    }
}

/// Whether a file is standard input, a pipe or a device, so that its content can be read only once.
fn ends_when_read(file: &Path) -> bool {
    let is_stored = |about: fs::Metadata| about.is_file() || about.is_dir();
    file == Path::new("-") || fs::metadata(file).is_ok_and(|about| !is_stored(about))
}
