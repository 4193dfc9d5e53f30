//! Detection of damaged RocksDB files that RocksDB would read forever.
//!
//! ```text
//!      4       2       1
//! ┌───────┬────────┬──────┬─────────┐
//! │ crc32 │ length │ kind │ content │ ...    the WAL and the list of files (the MANIFEST), in
//! └───────┴────────┴──────┴─────────┘        blocks of 32 KiB
//! ```
//!
//! Some kinds of records occur only in recycled files. RocksDB 11.8 considers such a record in any other file bad, does
//! not advance past it, and reads it again forever. This log recycles no files (see the options in `open.rs`). So a
//! record of such a kind must be damaged. One flipped bit is enough to cause this.

use std::io;
use std::path::Path;

const BLOCK: usize = 32 << 10;

/// Checks the kinds of all records. Returns the name of a damaged file, if any.
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

/// Whether RocksDB would read these bytes forever. This function follows the lengths of records, and leaves checksums
/// to RocksDB. Like RocksDB, it continues with the next block after any other damage.
fn is_endless(bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK).any(|block| {
        let mut rest = block;
        while let Some(([_, _, _, _, low, high, kind], content)) = rest.split_first_chunk() {
            // Kinds of records that occur only in recycled files: whole or partial records, sizes of timestamps, and
            // data about the previous file.
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
