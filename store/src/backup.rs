//! Reading of a cell from a backup or from a replica's directory.

use crate::history::{self, HistoryError, ReplayOptions};
use crate::snapshot::{BackupContent, LoadError, read_backup};
use crate::{CellId, ReadOnlyDisk};
use omega_cellstate::Cell;
use std::io;
use std::path::{Path, PathBuf};

/// Error of a backup, printed as one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file cannot be written. Name another file, or make space on the disk.
    #[error("{}: cannot be written: {why}", file.display())]
    Write {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// The file cannot be read. Name another file.
    #[error("{}: cannot be read: {why}", file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// The file is no backup. Name the right file.
    #[error("{}: is not a backup of a cell", .0.display())]
    Foreign(PathBuf),
    /// The format of the backup is unknown. Use the version of this program that wrote it, or a newer one.
    #[error("{}: has format {found}, which this version of omega cannot read: use the version \
         that wrote the file, or a newer one", file.display())]
    Format {
        /// Path of the file.
        file: PathBuf,
        /// Format of the file.
        found: u32,
    },
    /// The file is damaged. Use another copy.
    #[error("{}: is damaged at byte {offset}: {damage}: use another backup, or another copy of \
         this one", file.display())]
    Damaged {
        /// Path of the file.
        file: PathBuf,
        /// Offset of the damage.
        offset: u64,
        /// Description of the damage.
        damage: String,
    },
    /// The file cannot be loaded for another reason.
    #[error("{}: {why}", file.display())]
    Other {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: Box<LoadError>,
    },
    /// Pieces of the backup are missing. Take the backup again.
    #[error("{}: a piece was damaged during the transfer: make the backup again", .0.display())]
    Pieces(PathBuf),
    /// The generation is not higher than that of the old cell, so the restored cell would get the id of the old cell or
    /// of an earlier cell. Choose a higher generation.
    #[error(
        "the restored cell needs a new id, because replicas of the old cell, {0}, could start \
         again: give --cell-generation {1} or more, which results in a new id"
    )]
    SameCell(CellId, u32),
}

/// The folder that contains a file.
#[must_use]
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reads a backup and checks every byte of it. The file is not changed.
///
/// # Errors
/// The file cannot be read, or is not a complete backup.
pub fn check(file: &Path) -> Result<BackupContent, BackupError> {
    read_backup(&ReadOnlyDisk::default(), file).map_err(|error| {
        let file = file.to_owned();
        match error {
            LoadError::Missing(_) => {
                let why = std::fs::metadata(&file).err();
                BackupError::Read { file, why: why.unwrap_or(io::ErrorKind::NotFound.into()) }
            }
            LoadError::Io { source, .. } => BackupError::Read { file, why: source },
            LoadError::NotASnapshot(_) => BackupError::Foreign(file),
            LoadError::UnknownFormat { found, .. } => BackupError::Format { file, found },
            LoadError::Corrupt { offset, damage, .. } => {
                BackupError::Damaged { file, offset, damage: damage.to_string() }
            }
            why => BackupError::Other { file, why: Box::new(why) },
        }
    })
}

/// Error of reading a cell from a directory or a backup.
#[derive(Debug, thiserror::Error)]
pub enum ReadCellError {
    /// Error of the backup.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Error of the directory.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// Reads the cell from a backup, or from the directory of a stopped replica. `options` select the version up to which
/// the directory's entries are replayed.
///
/// # Errors
/// The backup or directory cannot be read, or is damaged.
pub fn read_cell(from: &Path, options: &ReplayOptions) -> Result<Cell, ReadCellError> {
    if from.is_dir() {
        return Ok(history::open(from)?.replay(options)?.into_cell());
    }
    Ok(check(from)?.cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_backup_is_told_as_other_missing_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = check(&folder.path().join("none.backup")).expect_err("there is no file");
        let text = error.to_string();
        assert!(
            text.ends_with("none.backup: cannot be read: No such file or directory (os error 2)"),
            "{text}"
        );
    }
}
