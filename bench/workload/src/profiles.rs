//! `--profile FILE`: the profiles of the run's schedulers.
//!
//! All errors are reported before the run. Errors of the file itself are reported before the input is read. Errors that
//! depend on the cell's kinds are reported after that.

use crate::SCHEDULERS;
use crate::objectives::{self, Overrides};
use crate::text::readable;
use omega_core::Kinds;
use omega_schedulers::config::{ConfigError, ProfileSpec, Profiles, Registry};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Maximum size of the file in bytes. Profile files have some kilobytes, so a larger file is another kind of file.
const BYTES_MAX: u64 = 1 << 20;

/// Error of a profile file.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read. Name another file.
    #[error("{}: cannot be read: {why}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The file is too large. Name another file.
    #[error("{}: is larger than {BYTES_MAX} bytes, the maximum for a file of profiles", file.display())]
    TooLarge {
        /// Path of the file.
        file: PathBuf,
    },
    /// The content is invalid. Correct the file.
    #[error("{}:{why}", file.display())]
    Content {
        /// Path of the file.
        file: PathBuf,
        /// The error, with its position in the file.
        why: ConfigError,
    },
    /// The run has no scheduler of that name. Name an existing scheduler, or remove the profile.
    #[error(
        "{}:{line}:{column}: profile[{index}].name: the run has no scheduler {name:?}; its \
         schedulers are: {}",
        file.display(), SCHEDULERS.join(", ")
    )]
    NoScheduler {
        /// Path of the file.
        file: PathBuf,
        /// Line of the profile.
        line: usize,
        /// Column of the profile.
        column: usize,
        /// The number of the profile in the file, from 0.
        index: usize,
        /// The unknown name.
        name: String,
    },
}

/// Reads a file with profiles for any schedulers. Returns its text and its profiles.
pub fn read(file: &Path) -> Result<(String, Profiles), ProfileError> {
    let owned = || file.to_path_buf();
    let mut text = String::new();
    let opened = readable::open(file);
    let read = opened.and_then(|opened| opened.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|why| ProfileError::Read { file: owned(), why })?;
    if text.len() as u64 > BYTES_MAX {
        return Err(ProfileError::TooLarge { file: owned() });
    }
    let profiles = Profiles::parse(&text, &registry(file))
        .map_err(|why| ProfileError::Content { file: owned(), why })?;
    Ok((text, profiles))
}

/// The plugins that a profile file may name. Relative paths of objectives files begin at the folder of the profile
/// file.
fn registry(file: &Path) -> Registry {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    Registry::built_in().reading_objectives(move |name, kinds| {
        let read = objectives::read(Some(&folder.join(name)), &Overrides::default(), kinds);
        read.map_err(|why| why.to_string())
    })
}

/// Reads a file with profiles for schedulers of a run.
pub fn load(file: &Path) -> Result<Profiles, ProfileError> {
    let (_, profiles) = read(file)?;
    let is_unknown = |(_, profile): &(usize, &ProfileSpec)| !SCHEDULERS.contains(&profile.name());
    if let Some((index, profile)) = profiles.iter().enumerate().find(is_unknown) {
        let ((line, column), name) = (profile.place(), profile.name().to_owned());
        let file = file.to_path_buf();
        return Err(ProfileError::NoScheduler { file, line, column, index, name });
    }
    Ok(profiles)
}

/// Checks the profiles against a cell with these kinds. A profile must not name a kind that the cell does not have.
pub fn check(file: &Path, profiles: &Profiles, kinds: &Kinds) -> Result<(), ProfileError> {
    profiles.check(kinds).map_err(|why| ProfileError::Content { file: file.to_path_buf(), why })
}
