//! Header of a segment: the owner of its log, and its part of the log.
//!
//! ```text
//!    8       4       16        8          8         8       4
//! ┌───────┬────────┬──────┬─────────┬──────────┬────────┬───────┬─ zeros ─┐
//! │ magic │ format │ cell │ replica │ sequence │ length │ crc32 │         │
//! └───────┴────────┴──────┴─────────┴──────────┴────────┴───────┴─────────┘
//! ```
//!
//! Integers are little-endian. The header fills a block of the disk, so that no later write touches it. Its checksum is
//! the *salt* of every record's checksum. So records of another log are never accepted. Neither are old records in a
//! file that was reused for a new segment.

use super::record::HIGHEST;
use crate::log::ReplicaId;
use crate::origin::CellId;
use crc32fast::Hasher;

/// First bytes of a segment.
const MAGIC: [u8; 8] = *b"OMEGALOG";

/// The version of the layout of segments and records.
pub const FORMAT: u32 = 1;

/// Bytes of a header. It fills a disk block, because a disk fault destroys at least a block.
pub(super) const BYTES: usize = 4096;

/// Bytes of a header that are used.
const USED: usize = 56;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) cell: CellId,
    pub(super) replica: ReplicaId,
    /// Sequence number of the segment, which no other segment of the log ever has.
    pub(super) sequence: u64,
    /// Length of the file in bytes.
    pub(super) length: u64,
}

/// Error of decoding a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    Damaged,
    Format(u32),
}

impl Header {
    /// The bytes of the header, and its salt.
    pub(super) fn encode(&self) -> (Vec<u8>, u32) {
        let mut out = Vec::with_capacity(BYTES);
        out.extend(MAGIC);
        out.extend(FORMAT.to_le_bytes());
        out.extend(self.cell.0.to_le_bytes());
        out.extend(self.replica.0.to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.length.to_le_bytes());
        let salt = checksum(&out);
        out.extend(salt.to_le_bytes());
        out.resize(BYTES, 0);
        (out, salt)
    }

    /// Reads a header and its salt.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Header, u32), HeaderError> {
        let bytes = bytes.get(..USED).ok_or(HeaderError::Damaged)?;
        if bytes[..8] != MAGIC {
            return Err(HeaderError::Damaged);
        }
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("the offsets are below 48");
            u64::from_le_bytes(*bytes)
        };
        let (format, salt) = (word(8) as u32, (word(48) >> 32) as u32);
        if format != FORMAT {
            return Err(HeaderError::Format(format));
        }
        if checksum(&bytes[..USED - 4]) != salt {
            return Err(HeaderError::Damaged);
        }
        let header = Header {
            cell: CellId(u128::from(word(12)) | u128::from(word(20)) << 64),
            replica: ReplicaId(word(28)),
            sequence: word(36),
            length: word(44),
        };
        if header.sequence > HIGHEST {
            return Err(HeaderError::Damaged);
        }
        Ok((header, salt))
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    hasher.finalize()
}
