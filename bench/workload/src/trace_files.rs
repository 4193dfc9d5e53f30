//! Files of a trace, which are found by their published names in a folder, or named one by one.
//!
//! Published traces are copied, cut and renamed. So every part that a reader needs has a short name, by which the user
//! can give its path (`--file jobs=PATH`). A part without a given path is looked for in the folder.

use crate::LoadError;
use crate::text::compressed::stored;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A part of a trace with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Name of the part, such as `jobs`.
    pub part: String,
    /// Path of the file.
    pub path: PathBuf,
}

impl FromStr for NamedFile {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedFile, String> {
        match text.split_once('=') {
            Some((part, path)) if !part.is_empty() && !path.is_empty() => {
                Ok(NamedFile { part: part.to_owned(), path: path.into() })
            }
            _ => Err("must be NAME=PATH, such as jobs=/data/jobs.csv.gz".to_owned()),
        }
    }
}

/// The files of a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceFiles {
    folder: Option<PathBuf>,
    named: BTreeMap<String, PathBuf>,
}

impl TraceFiles {
    /// The files of a folder. Paths in `named` take precedence.
    #[must_use]
    pub fn new(folder: Option<&Path>, named: &[NamedFile]) -> TraceFiles {
        let named = named.iter().map(|file| (file.part.clone(), file.path.clone()));
        TraceFiles { folder: folder.map(Path::to_path_buf), named: named.collect() }
    }

    /// The path of a part, if the user gave one.
    #[must_use]
    pub fn named(&self, part: &str) -> Option<&Path> {
        self.named.get(part).map(PathBuf::as_path)
    }

    /// The folder.
    ///
    /// # Errors
    /// If there is no folder. The message then asks for a folder, or for a path of this part.
    pub fn folder(&self, part: &str) -> Result<&Path, LoadError> {
        let missing = || {
            let message = format!(
                "is missing: give the folder of the trace with --data, or this \
                 file with --file {part}=PATH"
            );
            LoadError::new(Path::new(part), message)
        };
        self.folder.as_deref().ok_or_else(missing)
    }

    /// Returns the path of a part: the given path, or that of the published file in the folder, plain or
    /// compressed.
    ///
    /// # Errors
    /// If no path is given for the part, and there is no folder.
    pub fn path(&self, part: &str, published: &str) -> Result<PathBuf, LoadError> {
        match self.named(part) {
            Some(path) => Ok(path.to_path_buf()),
            None => Ok(stored(&self.folder(part)?.join(published))),
        }
    }
}

impl From<&Path> for TraceFiles {
    fn from(folder: &Path) -> TraceFiles {
        TraceFiles::new(Some(folder), &[])
    }
}

impl From<&PathBuf> for TraceFiles {
    fn from(folder: &PathBuf) -> TraceFiles {
        TraceFiles::from(folder.as_path())
    }
}

impl From<&TraceFiles> for TraceFiles {
    fn from(files: &TraceFiles) -> TraceFiles {
        files.clone()
    }
}
