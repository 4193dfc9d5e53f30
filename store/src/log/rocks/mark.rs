//! The file `SYNCED`: the number of synced batches of a log in RocksDB. The documentation of `mod.rs` explains its
//! purpose.
//!
//! ```text
//!      8        4
//! ┌────────┬───────┐
//! │ number │ crc32 │    written in place, because so few bytes are written completely or not at all
//! └────────┴───────┘
//! ```
//!
//! The number is never too high. A missing or damaged file proves nothing, because the log itself may be intact.

use crate::disk::{Disk, DiskFile, RealDisk};
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "SYNCED";
const BYTES: usize = 12;

/// The file with the number of synced batches.
#[derive(Debug)]
pub(super) struct Mark {
    file: Box<dyn DiskFile>,
}

impl Mark {
    /// Opens the file for writing. If there is none, it is created.
    pub(super) fn open(folder: &Path) -> io::Result<Mark> {
        let path = path(folder);
        let file = match RealDisk.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => RealDisk.create(&path)?,
            other => other?,
        };
        Ok(Mark { file })
    }

    /// Records that a number of batches is synced.
    pub(super) fn write(&mut self, number: u64) -> io::Result<()> {
        let number = number.to_le_bytes();
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&number);
        bytes[8..].copy_from_slice(&crc32fast::hash(&number).to_le_bytes());
        self.file.write_at(0, &bytes)
    }
}

/// Reads the recorded number of synced batches, without changing the file.
pub(super) fn read(folder: &Path) -> io::Result<u64> {
    match std::fs::read(path(folder)) {
        Ok(bytes) => Ok(number(&bytes).unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let (number, crc) = bytes.split_first_chunk()?;
    let crc = u32::from_le_bytes(crc.try_into().ok()?);
    (crc32fast::hash(number) == crc).then(|| u64::from_le_bytes(*number))
}

fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}
