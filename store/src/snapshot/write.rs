//! Writing a snapshot: parts into blocks, blocks into chunks, chunks into a file.

use super::PART_BYTES_MAX;
use super::header::{CHUNK, FRAME, Header, chunk_checksum, salt};
use crate::codec;
use crate::disk::is_full;
use std::io;
use xxhash_rust::xxh3::Xxh3;

/// Size at which a block ends. It is so large that the size of its frame does not matter.
const BLOCK: usize = 64 << 10;

/// Maximum bytes of a block, including the part that ends it.
pub(super) const BLOCK_BYTES_MAX: usize = BLOCK + PART_BYTES_MAX;

/// Error of writing a file.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The disk is full.
    Full,
    /// A part has this many bytes, which is more than a reader accepts.
    TooLarge(usize),
    /// The disk failed.
    Io(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        if is_full(&error) { WriteError::Full } else { WriteError::Io(error) }
    }
}

/// Destination of a snapshot's bytes: a function that gets bytes and their offset in the file. The header is written
/// last.
pub(super) type Put<'p> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 'p;

/// A writer of the parts of a snapshot.
pub(super) struct BodyWriter<'p, 'q> {
    put: &'p mut Put<'q>,
    /// Offset of the next chunk.
    offset: u64,
    salt: u32,
    number: u64,
    hash: Xxh3,
    /// The next chunk, with space for its frame.
    chunk: Vec<u8>,
    /// The next block.
    block: Vec<u8>,
}

impl<'p, 'q> BodyWriter<'p, 'q> {
    /// A writer of the parts after this header.
    pub(super) fn new(header: &Header, put: &'p mut Put<'q>) -> BodyWriter<'p, 'q> {
        let mut chunk = Vec::with_capacity(FRAME + CHUNK);
        chunk.resize(FRAME, 0);
        BodyWriter {
            put,
            offset: header.bytes(),
            salt: salt(header.meta.cell, header.meta.position),
            number: 0,
            hash: Xxh3::new(),
            chunk,
            block: Vec::with_capacity(2 * BLOCK),
        }
    }

    /// Adds a part.
    pub(super) fn part(&mut self, part: &impl serde::Serialize) -> Result<(), WriteError> {
        let start = self.block.len();
        codec::append(part, &mut self.block);
        let bytes = self.block.len() - start;
        if bytes > PART_BYTES_MAX {
            return Err(WriteError::TooLarge(bytes));
        }
        if self.block.len() >= BLOCK { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), WriteError> {
        let mut block = std::mem::take(&mut self.block);
        self.push(&(block.len() as u32).to_le_bytes())?;
        self.push(&block)?;
        block.clear();
        self.block = block;
        Ok(())
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let room = FRAME + CHUNK - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            if self.chunk.len() == FRAME + CHUNK {
                self.end_chunk()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<(), WriteError> {
        let (frame, body) = self.chunk.split_at_mut(FRAME);
        frame[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        let crc = chunk_checksum(self.salt, self.number, body);
        frame[4..].copy_from_slice(&crc.to_le_bytes());
        self.hash.update(&self.chunk);
        (self.put)(self.offset, &self.chunk)?;
        self.offset += self.chunk.len() as u64;
        self.number += 1;
        self.chunk.truncate(FRAME);
        Ok(())
    }

    /// Writes the remainder. Returns the destination, the end of the chunks, and their hash.
    pub(super) fn finish(mut self) -> Result<(&'p mut Put<'q>, u64, Xxh3), WriteError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        if self.chunk.len() > FRAME {
            self.end_chunk()?;
        }
        Ok((self.put, self.offset, self.hash))
    }
}
