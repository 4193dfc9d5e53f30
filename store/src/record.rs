//! One record of a journal, and how to tell a torn end from damage in the middle.
//!
//! ```text
//!     4        4       8        length
//! ┌────────┬───────┬───────┬───────────────┐
//! │ length │ crc32 │ index │    payload    │
//! └────────┴───────┴───────┴───────────────┘
//! ```
//!
//! Integers are little-endian. The checksum is of the header's checksum, the length, the index and
//! the payload. A record that is not whole is *torn* if nothing after it is a record: then it was
//! being written when the power went, and nobody was told that it is safe. If anything after it is
//! a record, it was whole once, and the file is *corrupt*: a history must not go on without it.

use crate::disk::DiskFile;
use crc32fast::Hasher;
use omega_core::limits::COMMAND_BYTES_MAX;
use std::io;

/// The first record has this index, so that 0 can mean "none".
pub(crate) const FIRST: u64 = 1;

/// Bytes before the payload.
const HEAD: usize = 16;

/// Bytes that are read at once: a thousand transactions, and far more than a disk's block.
const CHUNK: usize = 256 << 10;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends before the record does.
    #[error("it is longer than the file")]
    Incomplete,
    /// No record has such a length.
    #[error("its length is given as {0}, which no record has")]
    Length(u32),
    /// It does not match its checksum.
    #[error("it does not match its checksum")]
    Checksum,
    /// It is whole, but another one's turn has come.
    #[error("record {0} stands in its place")]
    Index(u64),
}

/// A file, read in large pieces.
#[derive(Debug)]
pub(crate) struct Window<'f> {
    file: &'f mut dyn DiskFile,
    start: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    pub(crate) fn new(file: &'f mut dyn DiskFile) -> Window<'f> {
        Window { file, start: 0, bytes: Vec::new() }
    }

    /// `count` bytes from an offset; fewer where the file ends.
    pub(crate) fn at(&mut self, offset: u64, count: usize) -> io::Result<&[u8]> {
        let have = self.start..self.start + self.bytes.len() as u64;
        if offset < have.start || offset + count as u64 > have.end {
            self.bytes.resize(count.max(CHUNK), 0);
            let filled = self.file.read_at(offset, &mut self.bytes);
            self.bytes.truncate(*filled.as_ref().unwrap_or(&0));
            self.start = offset;
            filled?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from..(from + count).min(self.bytes.len())])
    }

    /// The same, where the file is known to be long enough.
    fn all_at(&mut self, offset: u64, count: usize) -> io::Result<&[u8]> {
        let bytes = self.at(offset, count)?;
        if bytes.len() < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }
}

/// The part of a file in which records are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Where the record begins.
    pub(crate) offset: u64,
    /// Whose turn it is.
    pub(crate) index: u64,
    /// Where the records end.
    pub(crate) end: u64,
    /// What all checksums begin with.
    pub(crate) salt: u32,
}

/// What is at a place.
#[derive(Debug)]
pub(crate) enum Found<'w> {
    /// Nothing: the records end here.
    End,
    /// A record with this payload; the next one begins at this offset.
    Record(&'w [u8], u64),
    /// Something else.
    Bad(Damage),
}

/// What a record begins with.
struct Head {
    length: u32,
    crc: u32,
    index: u64,
}

impl Head {
    fn parse(bytes: &[u8]) -> Head {
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("a head has 16 bytes");
            u32::from_le_bytes(*bytes)
        };
        let index = u64::from(word(8)) | u64::from(word(12)) << 32;
        Head { length: word(0), crc: word(4), index }
    }

    /// How many bytes the payload has, if there can be a payload of so many.
    fn payload(&self) -> Option<usize> {
        let length = self.length as usize;
        (1..=COMMAND_BYTES_MAX).contains(&length).then_some(length)
    }
}

fn checksum(salt: u32, index: u64, payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(&index.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Appends a record whose payload `write` appends. If that fails, `out` is as it was.
pub(crate) fn write<E>(
    out: &mut Vec<u8>,
    salt: u32,
    index: u64,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend([0; HEAD]);
    if let Err(error) = write(out) {
        out.truncate(start);
        return Err(error);
    }
    let payload = start + HEAD;
    let length = (out.len() - payload) as u32;
    let crc = checksum(salt, index, &out[payload..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    out[start + 8..payload].copy_from_slice(&index.to_le_bytes());
    Ok(())
}

/// Reads the record at a place.
pub(crate) fn read<'w>(window: &'w mut Window<'_>, place: Place) -> io::Result<Found<'w>> {
    let left = place.end - place.offset;
    if left == 0 {
        return Ok(Found::End);
    }
    if left < HEAD as u64 {
        return Ok(Found::Bad(Damage::Incomplete));
    }
    let head = Head::parse(window.all_at(place.offset, HEAD)?);
    let Some(length) = head.payload() else {
        return Ok(Found::Bad(Damage::Length(head.length)));
    };
    if left < (HEAD + length) as u64 {
        return Ok(Found::Bad(Damage::Incomplete));
    }
    let payload = &window.all_at(place.offset, HEAD + length)?[HEAD..];
    if checksum(place.salt, head.index, payload) != head.crc {
        return Ok(Found::Bad(Damage::Checksum));
    }
    if head.index != place.index {
        return Ok(Found::Bad(Damage::Index(head.index)));
    }
    Ok(Found::Record(payload, place.offset + (HEAD + length) as u64))
}

/// Whether anything after a bad record is a record.
///
/// The damage may be in the length, so every offset is tried. Only where an index makes sense is a
/// checksum computed, so that a long torn end costs little more than to read it.
pub(crate) fn any_after(window: &mut Window<'_>, bad: Place) -> io::Result<bool> {
    let mut offset = bad.offset + 1;
    while offset + (HEAD as u64) < bad.end {
        let head = Head::parse(window.all_at(offset, HEAD)?);
        // Each record between has at least one byte, so the index cannot have risen by more.
        let sensible = head.index >= bad.index && head.index - bad.index <= offset - bad.offset;
        let place = Place { offset, index: head.index, ..bad };
        if sensible && matches!(read(window, place)?, Found::Record(..)) {
            return Ok(true);
        }
        offset += 1;
    }
    Ok(false)
}
