//! Files of RocksDB that it would read for ever, found before it does.
//!
//! ```text
//!      4       2       1
//! ┌───────┬────────┬──────┬─────────┐
//! │ crc32 │ length │ kind │ content │ ...    the WAL and the list of files (the MANIFEST), in
//! └───────┴────────┴──────┴─────────┘        blocks of 32 KiB
//! ```
//!
//! RocksDB 11.8 takes a record of a kind that only a file that is used twice can have, in one that is
//! not, for a bad one, does not step over it, and reads it again, without end. No file of ours is used
//! twice (see the options in `open.rs`), so such a kind is damage: one bit is enough.

use std::io;
use std::path::Path;

const BLOCK: usize = 32 << 10;

/// Checks the kinds of all records. Returns the name of such a file, if any.
pub(super) fn find(folder: &Path) -> io::Result<Option<String>> {
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let has_records = name.ends_with(".log") || name.starts_with("MANIFEST-");
        if has_records && is_endless(&std::fs::read(file.path())?) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// It follows the lengths and leaves the checksums to RocksDB: from a record that is damaged
/// otherwise, RocksDB goes on with the next block, and so do we, at the latest.
fn is_endless(bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK).any(|block| {
        let mut rest = block;
        while let Some(([_, _, _, _, low, high, kind], content)) = rest.split_first_chunk() {
            // Parts of a record, timestamps, and the file before, in a file that is used twice.
            if matches!(kind, 5..=8 | 11 | 131) {
                return true;
            }
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let Some(after) = content.get(length..) else { break };
            rest = after;
        }
        false
    })
}
