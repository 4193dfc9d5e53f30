//! `--profile FILE`: the profiles that schedulers run with.
//!
//! Everything that is wrong with the file is told before the run: what concerns the file alone
//! before the input is read, what concerns the cell's kinds after it.

use crate::SCHEDULERS;
use omega_core::Kinds;
use omega_schedulers::config::{ConfigError, ProfileSpec, Profiles, Registry};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest accepted file. Sensible ones have some kilobytes; a larger one is another file by
/// mistake.
const BYTES_MAX: u64 = 1 << 20;

/// Error of a profile file: one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Name another file.
    #[error("{}: cannot be read: {why}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// Name another file.
    #[error("{}: is larger than {BYTES_MAX} bytes: it is no profile file", file.display())]
    TooLarge {
        /// Path of the file.
        file: PathBuf,
    },
    /// Change the file.
    #[error("{}:{why}", file.display())]
    Content {
        /// Path of the file.
        file: PathBuf,
        /// The fault, with its place.
        why: ConfigError,
    },
    /// Name an existing scheduler, or remove the profile.
    #[error(
        "{}:{line}:{column}: profile[{index}].name: the run has no scheduler {name:?}; it has: {}",
        file.display(), SCHEDULERS.join(", ")
    )]
    NoScheduler {
        /// Path of the file.
        file: PathBuf,
        /// The line of the profile.
        line: usize,
        /// The column of the profile.
        column: usize,
        /// The number of the profile in the file, from 0.
        index: usize,
        /// The name that no scheduler has.
        name: String,
    },
}

/// Reads a file, whose profiles may be for any scheduler.
pub fn read(file: &Path) -> Result<Profiles, ProfileError> {
    let owned = || file.to_path_buf();
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|opened| opened.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|why| ProfileError::Read { file: owned(), why })?;
    if text.len() as u64 > BYTES_MAX {
        return Err(ProfileError::TooLarge { file: owned() });
    }
    Profiles::parse(&text, &Registry::built_in())
        .map_err(|why| ProfileError::Content { file: owned(), why })
}

/// Reads a file, whose profiles must be for schedulers of a run.
pub fn load(file: &Path) -> Result<Profiles, ProfileError> {
    let profiles = read(file)?;
    let is_unknown = |(_, profile): &(usize, &ProfileSpec)| !SCHEDULERS.contains(&profile.name());
    if let Some((index, profile)) = profiles.iter().enumerate().find(is_unknown) {
        let ((line, column), name) = (profile.place(), profile.name().to_owned());
        let file = file.to_path_buf();
        return Err(ProfileError::NoScheduler { file, line, column, index, name });
    }
    Ok(profiles)
}

/// Checks that the profiles suit a cell with these kinds.
pub fn check(file: &Path, profiles: &Profiles, kinds: &Kinds) -> Result<(), ProfileError> {
    profiles.check(kinds).map_err(|why| ProfileError::Content { file: file.to_path_buf(), why })
}
