//! Header of a snapshot: its cell and position, its length, and its counts.

use super::{FORMAT, Meta, REPLICA_META_BYTES_MAX};
use crate::CellId;
use crate::log::{LogIndex, Position, Term};
use bytes::Bytes;
use crc32fast::Hasher;
use omega_cellstate::SnapshotState;

/// First bytes of a snapshot.
const MAGIC: [u8; 8] = *b"OMEGASNP";

/// Bytes before the metadata of the replica.
pub(super) const FIXED: usize = 124;

/// Offset of the checksum in the fixed part.
const CRC: usize = FIXED - 4;

/// Bytes of the body in a chunk: enough to keep a disk busy, and few enough to send as one piece.
pub(super) const CHUNK: usize = 1 << 20;

/// Bytes before the body in a chunk.
pub(super) const FRAME: usize = 8;

/// Bytes of the hash at the end.
pub(super) const TRAILER: usize = 16;

/// Number of parts of each kind in a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) rows: u64,
    pub(super) loads: u64,
    pub(super) vacant: u64,
    pub(super) jobs: u64,
    pub(super) ended: u64,
    pub(super) tenants: u64,
    pub(super) schedulers: u64,
}

impl Counts {
    pub(super) fn of(state: &SnapshotState) -> Counts {
        Counts {
            rows: state.machines.len() as u64,
            loads: state.loads.len() as u64,
            vacant: state.vacant.len() as u64,
            jobs: state.jobs.len() as u64,
            ended: state.ended.len() as u64,
            tenants: state.tenants.len() as u64,
            schedulers: state.schedulers.len() as u64,
        }
    }

    fn words(self) -> [u64; 7] {
        let Counts { rows, loads, vacant, jobs, ended, tenants, schedulers } = self;
        [rows, loads, vacant, jobs, ended, tenants, schedulers]
    }

    fn from_words(words: [u64; 7]) -> Counts {
        let [rows, loads, vacant, jobs, ended, tenants, schedulers] = words;
        Counts { rows, loads, vacant, jobs, ended, tenants, schedulers }
    }
}

/// The header, and values derived from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The format of the file.
    pub(super) format: u32,
    pub(super) meta: Meta,
    pub(super) state_hash: u64,
    /// Bytes of the whole file.
    pub(super) length: u64,
    pub(super) counts: Counts,
}

/// Error of decoding a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// The magic number is missing.
    Magic,
    /// The format is unknown.
    Format(u32),
    /// There are too few bytes for a header, which needs this many.
    Short(u64),
    /// The bytes are damaged.
    Corrupt,
}

impl Header {
    /// Length of the header in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (FIXED + self.meta.replica_meta.len()) as u64
    }

    /// Number of bytes of all chunks together, including their frames.
    fn chunk_bytes(&self) -> u64 {
        self.length - self.bytes() - TRAILER as u64
    }

    /// Number of chunks.
    pub(super) fn chunks(&self) -> u64 {
        self.chunk_bytes().div_ceil((CHUNK + FRAME) as u64)
    }

    /// Number of bytes of the body.
    pub(super) fn body(&self) -> u64 {
        self.chunk_bytes() - self.chunks() * FRAME as u64
    }

    /// Number of body bytes in a chunk.
    pub(super) fn chunk_length(&self, number: u64) -> u32 {
        (self.body() - number * CHUNK as u64).min(CHUNK as u64) as u32
    }

    /// Encodes the header.
    pub(super) fn write(&self) -> Vec<u8> {
        let Meta { cell, position, replica_meta } = &self.meta;
        let mut out = Vec::with_capacity(FIXED + replica_meta.len());
        out.extend(MAGIC);
        out.extend(self.format.to_le_bytes());
        out.extend((replica_meta.len() as u32).to_le_bytes());
        out.extend(cell.0.to_le_bytes());
        let words = [position.index.0, position.term.0, self.state_hash, self.length];
        for word in words.into_iter().chain(self.counts.words()) {
            out.extend(word.to_le_bytes());
        }
        let crc = checksum(&out, replica_meta);
        out.extend(crc.to_le_bytes());
        out.extend(&**replica_meta);
        out
    }

    /// Length in bytes of the header that begins with these bytes.
    pub(super) fn bytes_of(fixed: &[u8]) -> Result<usize, HeaderError> {
        if fixed.get(..8).ok_or(HeaderError::Short(FIXED as u64))? != MAGIC {
            return Err(HeaderError::Magic);
        }
        let format = u32::from_le_bytes(part(fixed, 8)?);
        if format != FORMAT {
            return Err(HeaderError::Format(format));
        }
        let replica_meta = u32::from_le_bytes(part(fixed, 12)?) as usize;
        if replica_meta > REPLICA_META_BYTES_MAX {
            return Err(HeaderError::Corrupt);
        }
        Ok(FIXED + replica_meta)
    }

    /// Decodes a header, which must have exactly these bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        let count = Header::bytes_of(bytes)?;
        let fixed = bytes.get(..CRC).ok_or(HeaderError::Short(count as u64))?;
        let replica_meta = bytes.get(FIXED..count).ok_or(HeaderError::Short(count as u64))?;
        if checksum(fixed, replica_meta).to_le_bytes() != part(bytes, CRC)? {
            return Err(HeaderError::Corrupt);
        }
        let word = |i: usize| part(bytes, 32 + 8 * i).map(u64::from_le_bytes);
        let mut counts = [0; 7];
        for (i, count) in counts.iter_mut().enumerate() {
            *count = word(4 + i)?;
        }
        let header = Header {
            format: u32::from_le_bytes(part(bytes, 8)?),
            meta: Meta {
                cell: CellId(u128::from_le_bytes(part(bytes, 16)?)),
                position: Position { index: LogIndex(word(0)?), term: Term(word(1)?) },
                replica_meta: Bytes::copy_from_slice(replica_meta),
            },
            state_hash: word(2)?,
            length: word(3)?,
            counts: Counts::from_words(counts),
        };
        // The length must suffice for the header and the trailer, because the length of the chunks is the rest.
        let least = header.bytes() + TRAILER as u64;
        let good = header.length >= least && {
            let last = header.chunk_bytes() % (CHUNK + FRAME) as u64;
            last == 0 || last > FRAME as u64
        };
        if good { Ok(header) } else { Err(HeaderError::Corrupt) }
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], HeaderError> {
    let slice = bytes.get(at..).and_then(|rest| rest.first_chunk());
    slice.copied().ok_or(HeaderError::Short(FIXED as u64))
}

fn checksum(fixed: &[u8], replica_meta: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(fixed);
    hasher.update(replica_meta);
    hasher.finalize()
}

/// Salt of the checksums of chunks, which makes sure that chunks of different snapshots are never confused.
pub(super) fn salt(cell: CellId, position: Position) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&cell.0.to_le_bytes());
    hasher.update(&position.index.0.to_le_bytes());
    hasher.update(&position.term.0.to_le_bytes());
    hasher.finalize()
}

/// The checksum of a chunk, or of a piece in transit to a peer.
pub(super) fn chunk_checksum(salt: u32, number: u64, body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(&(body.len() as u32).to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}
