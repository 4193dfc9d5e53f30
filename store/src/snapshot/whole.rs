//! A whole snapshot: its header, the parts of a snapshot, and the hash.

use super::error::LoadError;
use super::header::{Counts, Header, TRAILER};
use super::read::{Body, Chunks};
use super::write::{BodyWriter, Put, WriteError};
use super::{FORMAT, Meta, parts};
use crate::disk::DiskFile;
use omega_cellstate::SnapshotState;
use std::path::Path;

/// Writes a whole snapshot, and returns its length.
pub(super) fn write(
    meta: &Meta,
    state: &SnapshotState,
    put: &mut Put<'_>,
) -> Result<u64, WriteError> {
    let (counts, state_hash) = (Counts::of(state), state.state_hash());
    let mut header = Header { format: FORMAT, meta: meta.clone(), state_hash, length: 0, counts };
    let mut body = BodyWriter::new(&header, put);
    parts::write(state, &mut body)?;
    let (put, end, mut hash) = body.finish()?;
    header.length = end + TRAILER as u64;
    let bytes = header.write();
    hash.update(&bytes);
    put(end, &hash.digest128().to_le_bytes())?;
    put(0, &bytes)?;
    Ok(header.length)
}

/// Reads a whole snapshot, and checks every byte.
pub(super) fn read(
    file: &mut dyn DiskFile,
    path: &Path,
) -> Result<(Header, SnapshotState), LoadError> {
    let mut chunks = Chunks::open(file, path)?;
    chunks.check_length()?;
    let mut body = Body::new(chunks);
    let state = parts::read(body.header().counts, &mut body)?;
    Ok((body.finish()?, state))
}
