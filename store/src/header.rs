//! The head of a journal: whose history it is, and what the cell was made with.
//!
//! ```text
//!    8      4        16        4       4       n
//! ┌───────┬────────┬─────────┬───────┬───────┬────────────────┐
//! │ magic │ format │ cell id │   n   │ crc32 │ resource kinds │
//! └───────┴────────┴─────────┴───────┴───────┴────────────────┘
//! ```
//!
//! Integers are little-endian. The checksum is of all the rest. The kinds are here because no
//! command holds them: with other kinds the same commands make another cell.

use crate::codec::{self, CodecError, EncodeError};
use crate::record::{FIRST, Place};
use crc32fast::Hasher;
use omega_core::Kinds;
use std::fmt;

/// What a journal begins with.
const MAGIC: [u8; 8] = *b"OMEGAJNL";

/// The version of the file's layout; that of the commands in it is [`codec::VERSION`].
pub const FORMAT: u32 = 1;

/// Bytes before the kinds.
const FIXED: usize = 36;

/// The most bytes of kinds that are looked for: sixteen kinds with names of 4 kB.
const KINDS_BYTES_MAX: usize = 64 << 10;

/// The most bytes that a header can have.
pub(crate) const BYTES_MAX: usize = FIXED + KINDS_BYTES_MAX;

/// Names a cell, so that no journal is taken for another's. Whoever founds the cell throws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CellId(pub u128);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What a cell is before its first command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which cell.
    pub cell: CellId,
    /// Its resource kinds.
    pub kinds: Kinds,
}

/// An origin as it was found in a file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) origin: Origin,
    /// How many bytes it has.
    pub(crate) length: u64,
    /// Its checksum. Every record's checksum begins with it, so that a record of one journal is
    /// no record of another.
    pub(crate) salt: u32,
}

impl Header {
    /// Where the first record begins, in a file that ends there.
    pub(crate) fn first(&self, end: u64) -> Place {
        Place { offset: self.length, index: FIRST, end, salt: self.salt }
    }
}

/// Why bytes are no header.
#[derive(Debug)]
pub(crate) enum HeaderError {
    /// They end too soon.
    Incomplete,
    /// They begin with something else.
    Magic,
    /// They have another layout.
    Format(u32),
    /// They were damaged.
    Checksum,
    /// The kinds make no sense.
    Kinds(CodecError),
}

/// Appends the bytes of a header.
pub(crate) fn write(origin: &Origin, out: &mut Vec<u8>) -> Result<Header, EncodeError> {
    let mut kinds = Vec::new();
    codec::encode_kinds(&origin.kinds, &mut kinds)?;
    if kinds.len() > KINDS_BYTES_MAX {
        return Err(EncodeError::TooLarge { bytes: kinds.len() });
    }
    let start = out.len();
    out.extend(MAGIC);
    out.extend(FORMAT.to_le_bytes());
    out.extend(origin.cell.0.to_le_bytes());
    out.extend((kinds.len() as u32).to_le_bytes());
    let salt = checksum(&out[start..], &kinds);
    out.extend(salt.to_le_bytes());
    out.extend(kinds);
    Ok(Header { origin: origin.clone(), length: (out.len() - start) as u64, salt })
}

/// Reads the header that a file begins with.
pub(crate) fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
    let magic = bytes.get(..8).ok_or(HeaderError::Incomplete)?;
    if magic != MAGIC {
        return Err(HeaderError::Magic);
    }
    let format = u32::from_le_bytes(part(bytes, 8)?);
    if format != FORMAT {
        return Err(HeaderError::Format(format));
    }
    let cell = CellId(u128::from_le_bytes(part(bytes, 12)?));
    let count = u32::from_le_bytes(part(bytes, 28)?) as usize;
    let salt = u32::from_le_bytes(part(bytes, 32)?);
    if count > KINDS_BYTES_MAX {
        return Err(HeaderError::Checksum);
    }
    let kinds = bytes.get(FIXED..FIXED + count).ok_or(HeaderError::Incomplete)?;
    if checksum(&bytes[..32], kinds) != salt {
        return Err(HeaderError::Checksum);
    }
    let kinds = codec::decode_kinds(kinds).map_err(HeaderError::Kinds)?;
    Ok(Header { origin: Origin { cell, kinds }, length: (FIXED + count) as u64, salt })
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], HeaderError> {
    let slice = bytes.get(at..).and_then(|rest| rest.first_chunk());
    slice.copied().ok_or(HeaderError::Incomplete)
}

fn checksum(fixed: &[u8], kinds: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(fixed);
    hasher.update(kinds);
    hasher.finalize()
}
