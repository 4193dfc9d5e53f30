//! The identity of a directory: the file `IDENTITY`, which names its replica.
//!
//! ```text
//!    8       4       16       8        1        4         n          4
//! ┌───────┬────────┬──────┬─────────┬────────┬────────┬─────────┬───────┐
//! │ magic │ format │ cell │ replica │ engine │   n    │  kinds  │ crc32 │
//! └───────┴────────┴──────┴─────────┴────────┴────────┴─────────┴───────┘
//! ```
//!
//! Integers are little-endian. The checksum covers everything before it. Magic and format will keep their offsets in
//! every later version, so that any version of this program can report which format a directory has.

use crate::codec::{self, CodecError, EncodeError};
use crate::log::ReplicaId;
use crate::origin::{CellId, Origin};
use std::fmt;

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"OMEGADIR";

/// The version of the layout of a directory.
pub const FORMAT: u32 = 1;

/// Bytes before the kinds.
const FIXED: usize = 41;

/// Maximum bytes of the kinds: sixteen kinds with names of 4 kB.
const KINDS_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of an identity.
pub(super) const BYTES_MAX: usize = FIXED + KINDS_BYTES_MAX + 4;

/// Log engine of a replica, chosen when the directory is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Omega's own segment files.
    Segment,
    /// RocksDB, which needs the feature `rocksdb`.
    RocksDb,
}

impl EngineKind {
    /// Default log engine of a server's replicas. It is RocksDB if the program is built with the feature `rocksdb`, and
    /// [`EngineKind::Segment`] otherwise.
    #[must_use]
    pub const fn of_servers() -> EngineKind {
        if EngineKind::RocksDb.is_built_in() { EngineKind::RocksDb } else { EngineKind::Segment }
    }

    /// Whether this program has the engine built in.
    #[must_use]
    pub const fn is_built_in(self) -> bool {
        match self {
            EngineKind::Segment => true,
            EngineKind::RocksDb => cfg!(feature = "rocksdb"),
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EngineKind::Segment => "segment",
            EngineKind::RocksDb => "rocksdb",
        })
    }
}

/// Identity of a directory. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cell, with its resource kinds.
    pub origin: Origin,
    /// Id of the replica.
    pub replica: ReplicaId,
    /// The log engine.
    pub engine: EngineKind,
}

/// Error of decoding an identity.
#[derive(Debug)]
pub(super) enum IdentityError {
    Damaged,
    Format(u32),
    Engine(u8),
    Kinds(CodecError),
}

/// The bytes of an identity.
pub(super) fn encode(identity: &Identity) -> Result<Vec<u8>, EncodeError> {
    let mut kinds = Vec::new();
    codec::encode_kinds(&identity.origin.kinds, &mut kinds)?;
    if kinds.len() > KINDS_BYTES_MAX {
        return Err(EncodeError::TooLarge { bytes: kinds.len(), max: KINDS_BYTES_MAX });
    }
    let mut out = Vec::with_capacity(FIXED + kinds.len() + 4);
    out.extend(MAGIC);
    out.extend(FORMAT.to_le_bytes());
    out.extend(identity.origin.cell.0.to_le_bytes());
    out.extend(identity.replica.0.to_le_bytes());
    out.push(match identity.engine {
        EngineKind::Segment => 1,
        EngineKind::RocksDb => 2,
    });
    out.extend((kinds.len() as u32).to_le_bytes());
    out.extend(kinds);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    Ok(out)
}

/// Reads an identity.
pub(super) fn decode(bytes: &[u8]) -> Result<Identity, IdentityError> {
    if bytes.get(..8).is_none_or(|magic| magic != MAGIC) {
        return Err(IdentityError::Damaged);
    }
    let format = u32::from_le_bytes(part(bytes, 8)?);
    if format != FORMAT {
        return Err(IdentityError::Format(format));
    }
    let (body, crc) = bytes.split_last_chunk().ok_or(IdentityError::Damaged)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return Err(IdentityError::Damaged);
    }
    let count = u32::from_le_bytes(part(bytes, 37)?) as usize;
    let kinds = body.get(FIXED..).filter(|kinds| kinds.len() == count);
    let kinds = codec::decode_kinds(kinds.ok_or(IdentityError::Damaged)?);
    let engine = match bytes[36] {
        1 => EngineKind::Segment,
        2 => EngineKind::RocksDb,
        other => return Err(IdentityError::Engine(other)),
    };
    Ok(Identity {
        origin: Origin {
            cell: CellId(u128::from_le_bytes(part(bytes, 12)?)),
            kinds: kinds.map_err(IdentityError::Kinds)?,
        },
        replica: ReplicaId(u64::from_le_bytes(part(bytes, 28)?)),
        engine,
    })
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], IdentityError> {
    let slice = bytes.get(at..).and_then(|rest| rest.first_chunk());
    slice.copied().ok_or(IdentityError::Damaged)
}
