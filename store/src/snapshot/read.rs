//! Reading a snapshot, whose content is not trusted.

use super::error::{LoadError, SnapshotDamage};
use super::header::{CHUNK, FIXED, FRAME, Header, HeaderError, TRAILER, chunk_checksum, salt};
use super::write::BLOCK_BYTES_MAX;
use crate::codec;
use crate::disk::DiskFile;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The chunks of a file, each checked as it is read.
pub(super) struct Chunks<'f> {
    file: &'f mut dyn DiskFile,
    path: &'f Path,
    pub(super) header: Header,
    header_bytes: Vec<u8>,
    salt: u32,
    /// Number and offset of the next chunk.
    number: u64,
    pub(super) offset: u64,
    hash: Xxh3,
}

impl<'f> Chunks<'f> {
    /// Reads the header.
    pub(super) fn open(file: &'f mut dyn DiskFile, path: &'f Path) -> Result<Self, LoadError> {
        let io = |source| LoadError::Io { path: path.to_owned(), source };
        let found = file.length().map_err(io)?;
        let wrong = |error| match error {
            HeaderError::Magic => LoadError::NotASnapshot(path.to_owned()),
            HeaderError::Format(found) => LoadError::UnknownFormat { path: path.to_owned(), found },
            HeaderError::Short(wanted) => {
                corrupt(path, found, SnapshotDamage::Length { found, wanted })
            }
            HeaderError::Corrupt => corrupt(path, 0, SnapshotDamage::Header),
        };
        let mut bytes = read(file, 0, FIXED).map_err(io)?;
        let count = Header::bytes_of(&bytes).map_err(wrong)?;
        if count > FIXED {
            bytes = read(file, 0, count).map_err(io)?;
        }
        let header = Header::read(&bytes).map_err(wrong)?;
        let salt = salt(header.meta.cell, header.meta.position);
        let (number, offset, hash) = (0, header.bytes(), Xxh3::new());
        Ok(Chunks { file, path, header, header_bytes: bytes, salt, number, offset, hash })
    }

    /// Whether the file's length matches its header.
    pub(super) fn check_length(&mut self) -> Result<(), LoadError> {
        let (found, wanted) = (self.length()?, self.header.length);
        if found == wanted {
            return Ok(());
        }
        Err(corrupt(self.path, found.min(wanted), SnapshotDamage::Length { found, wanted }))
    }

    fn length(&mut self) -> Result<u64, LoadError> {
        self.file.length().map_err(|source| self.io(source))
    }

    /// Appends the body of the next chunk to `body`. Returns `false` if there are no more chunks.
    pub(super) fn next(&mut self, body: &mut Vec<u8>) -> Result<bool, LoadError> {
        if self.number == self.header.chunks() {
            return Ok(false);
        }
        let (number, offset) = (self.number, self.offset);
        let wanted = self.header.chunk_length(number);
        let start = body.len();
        // The frame is read in front of the body, and removed afterwards.
        body.resize(start + FRAME + wanted as usize, 0);
        let filled = self.file.read_at(offset, &mut body[start..]);
        let filled = filled.map_err(|source| self.io(source))?;
        if filled < body.len() - start {
            let (found, wanted) = (offset + filled as u64, self.header.length);
            body.truncate(start);
            return Err(corrupt(self.path, found, SnapshotDamage::Length { found, wanted }));
        }
        let (frame, chunk) = body[start..].split_at(FRAME);
        let found = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
        if found != wanted {
            let damage = SnapshotDamage::ChunkLength { number, found, wanted };
            return Err(corrupt(self.path, offset, damage));
        }
        if chunk_checksum(self.salt, number, chunk).to_le_bytes() != frame[4..] {
            return Err(corrupt(self.path, offset, SnapshotDamage::Chunk(number)));
        }
        self.hash.update(&body[start..]);
        body.copy_within(start + FRAME.., start);
        body.truncate(body.len() - FRAME);
        self.number += 1;
        self.offset += (FRAME + wanted as usize) as u64;
        Ok(true)
    }

    /// Checks the hash of the file after all chunks were read, and returns it.
    fn finish(&mut self) -> Result<u128, LoadError> {
        self.hash.update(&self.header_bytes);
        let found = self.hash.digest128();
        let bytes = read(self.file, self.offset, TRAILER).map_err(|source| self.io(source))?;
        if bytes == found.to_le_bytes() {
            Ok(found)
        } else {
            Err(corrupt(self.path, self.offset, SnapshotDamage::Hash))
        }
    }

    fn io(&self, source: io::Error) -> LoadError {
        LoadError::Io { path: self.path.to_owned(), source }
    }
}

/// Checks every byte of a file without restoring a snapshot. Returns its header and its hash.
pub(super) fn verify(file: &mut dyn DiskFile, path: &Path) -> Result<(Header, u128), LoadError> {
    let mut chunks = Chunks::open(file, path)?;
    chunks.check_length()?;
    let mut body = Vec::with_capacity(FRAME + CHUNK);
    while chunks.next(&mut body)? {
        body.clear();
    }
    let hash = chunks.finish()?;
    Ok((chunks.header, hash))
}

/// A reader of the parts of a snapshot.
pub(super) struct Body<'f> {
    chunks: Chunks<'f>,
    /// Bytes that were read and not yet fully consumed.
    bytes: Vec<u8>,
    /// Offset in `bytes` of the next part, and of the end of its block.
    at: usize,
    block_end: usize,
    /// Number of body bytes removed from `bytes`.
    taken: u64,
}

impl<'f> Body<'f> {
    /// A reader of the parts in these chunks, from the first on.
    pub(super) fn new(chunks: Chunks<'f>) -> Body<'f> {
        Body { chunks, bytes: Vec::new(), at: 0, block_end: 0, taken: 0 }
    }

    /// The header of the file.
    pub(super) fn header(&self) -> &Header {
        &self.chunks.header
    }

    /// Number of bytes of the body from which no part was read yet.
    pub(super) fn left(&self) -> u64 {
        self.chunks.header.body() - self.taken - self.at as u64
    }

    /// An error at the offset of the next part.
    pub(super) fn damage(&self, damage: SnapshotDamage) -> LoadError {
        corrupt(self.chunks.path, self.chunks.offset, damage)
    }

    /// The next part.
    pub(super) fn part<T: DeserializeOwned>(&mut self) -> Result<T, LoadError> {
        if self.at == self.block_end {
            self.next_block()?;
        }
        match codec::part(&self.bytes[self.at..self.block_end]) {
            Ok((part, used)) => {
                self.at += used;
                Ok(part)
            }
            Err(error) => Err(self.damage(SnapshotDamage::Part(error))),
        }
    }

    fn next_block(&mut self) -> Result<(), LoadError> {
        if self.left() < 4 {
            return Err(self.damage(SnapshotDamage::Counts));
        }
        self.need(4)?;
        let length = self.bytes[self.at..].first_chunk().expect("so many were needed");
        let length = u32::from_le_bytes(*length);
        self.at += 4;
        if length == 0 || length as usize > BLOCK_BYTES_MAX || u64::from(length) > self.left() {
            return Err(self.damage(SnapshotDamage::Block(length)));
        }
        self.need(length as usize)?;
        self.block_end = self.at + length as usize;
        Ok(())
    }

    /// Reads chunks until this many bytes are available.
    fn need(&mut self, count: usize) -> Result<(), LoadError> {
        if self.bytes.len() - self.at < count {
            self.taken += self.at as u64;
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        while self.bytes.len() - self.at < count {
            if !self.chunks.next(&mut self.bytes)? {
                return Err(self.damage(SnapshotDamage::Counts));
            }
        }
        Ok(())
    }

    /// Checks that no bytes are left, and checks the hash of the file. Returns the header.
    pub(super) fn finish(mut self) -> Result<Header, LoadError> {
        if self.left() > 0 || self.at < self.block_end {
            return Err(self.damage(SnapshotDamage::Counts));
        }
        self.chunks.finish()?;
        Ok(self.chunks.header)
    }
}

pub(super) fn corrupt(path: &Path, offset: u64, damage: SnapshotDamage) -> LoadError {
    LoadError::Corrupt { path: path.to_owned(), offset, damage: Box::new(damage) }
}

fn read(file: &mut dyn DiskFile, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let filled = file.read_at(offset, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}
