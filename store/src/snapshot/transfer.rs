//! Transfer of a snapshot from one replica to another.
//!
//! ```text
//!   sender                                receiver
//!   outgoing ──offer──────────────────▶   receive: a partial file, perhaps with pieces in it
//!            ◀──────────── wanted: n ──
//!            ──piece n, with its crc ──▶  accept: written, n + 1 is wanted
//!                    ...
//!                                         finish: every byte checked, renamed
//! ```
//!
//! Pieces are parts of the file and do not depend on its chunks, because the receiver copies bytes without interpreting
//! them until all have arrived. The receiver requests one piece after the other, so it never gets more than it can
//! process, and duplicates do no harm. The name of the partial file contains the hash of the offer, which covers every
//! byte. So after a crash, the receiver continues only with pieces of the offered snapshot that pass their checksums.

use super::error::{LoadError, ReceiveError};
use super::folder::{PARTIAL, PARTIAL_INCOMING, SharedFile, Snapshots, name};
use super::header::{CHUNK, FIXED, FRAME, TRAILER, chunk_checksum};
use super::read::{self, Chunks};
use crate::disk::{DiskFile, is_full};
use crate::log::Position;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a piece.
const PIECE: u64 = CHUNK as u64;

/// Description of an offered snapshot, which identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Position of the last included entry.
    pub position: Position,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// The hash at the end of the file.
    pub hash: u128,
}

impl Offer {
    /// Number of pieces.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.bytes.div_ceil(PIECE)
    }

    /// Length of a piece in bytes; 0 for pieces after the last one.
    fn length_of(&self, piece: u64) -> u64 {
        self.bytes.saturating_sub(piece.saturating_mul(PIECE)).min(PIECE)
    }

    fn checksum(&self, piece: u64, bytes: &[u8]) -> u32 {
        chunk_checksum(self.hash as u32, piece, bytes)
    }
}

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Number of the piece, from 0.
    pub number: u64,
    /// Content of the piece.
    pub bytes: Bytes,
    /// The checksum of the number and the bytes.
    pub crc: u32,
}

/// A snapshot that is being sent. Its file stays readable even after newer snapshots have replaced it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    file: SharedFile,
    path: PathBuf,
    offer: Offer,
}

impl Snapshots {
    /// Prepares a snapshot for sending, and checks every byte.
    ///
    /// # Errors
    /// There is no snapshot at this position, or it is damaged.
    pub fn outgoing(&self, position: Position) -> Result<Outgoing, LoadError> {
        let (file, path) = (self.file(position)?, self.path(position));
        let offer = {
            let mut file = file.lock();
            let (header, hash) = read::verify(&mut **file, &path)?;
            self.check_meta(&header.meta, position, &path)?;
            Offer { position, bytes: header.length, hash }
        };
        Ok(Outgoing { file, path, offer })
    }

    /// Prepares to receive a snapshot. Pieces that an earlier attempt has received are kept. Pieces of other snapshots
    /// are removed.
    ///
    /// # Errors
    /// The disk fails, or the snapshot is being received already.
    pub fn receive(self: &Arc<Self>, offer: Offer) -> Result<Incoming, ReceiveError> {
        if offer.bytes < (FIXED + TRAILER) as u64 {
            return Err(ReceiveError::Offer(offer.bytes));
        }
        let own =
            format!("{PARTIAL_INCOMING}{}-{:032x}{PARTIAL}", name(offer.position), offer.hash);
        let path = self.folder.join(&own);
        let io = |source: io::Error| receive_error(&path, source);
        let mut known = false;
        for name in self.disk.list(&self.folder).map_err(io)? {
            if name == own {
                known = true;
            } else if name.starts_with(PARTIAL_INCOMING) && name.ends_with(PARTIAL) {
                self.disk.remove(&self.folder.join(name)).map_err(io)?;
            }
        }
        let file = if known { self.disk.open(&path) } else { self.disk.create(&path) };
        let mut file = file.map_err(io)?;
        let next = if known { self.good_pieces(&mut *file, &path, offer).map_err(io)? } else { 0 };
        file.cut(next * PIECE).map_err(io)?;
        Ok(Incoming { snapshots: self.clone(), file, path, offer, next })
    }

    /// Number of pieces of a partial file that certainly belong to the offered snapshot.
    fn good_pieces(&self, file: &mut dyn DiskFile, path: &Path, offer: Offer) -> io::Result<u64> {
        let good = match Chunks::open(file, path) {
            Ok(mut chunks) => {
                let header = &chunks.header;
                let same = header.meta.cell == self.cell
                    && header.meta.position == offer.position
                    && header.length == offer.bytes;
                let mut body = Vec::with_capacity(FRAME + CHUNK);
                while same && matches!(chunks.next(&mut body), Ok(true)) {
                    body.clear();
                }
                if same { chunks.offset } else { 0 }
            }
            Err(LoadError::Io { source, .. }) => return Err(source),
            Err(_) => 0,
        };
        Ok(good / PIECE)
    }
}

impl Outgoing {
    /// The offer.
    #[must_use]
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Reads a piece. It is empty if the number is beyond the last piece.
    ///
    /// # Errors
    /// The disk fails, or the file has become shorter.
    pub fn piece(&self, number: u64) -> Result<Piece, LoadError> {
        let mut bytes = vec![0; self.offer.length_of(number) as usize];
        let mut file = self.file.lock();
        let filled =
            if bytes.is_empty() { Ok(0) } else { file.read_at(number * PIECE, &mut bytes) };
        let error = match filled {
            Ok(filled) if filled == bytes.len() => {
                let crc = self.offer.checksum(number, &bytes);
                return Ok(Piece { number, bytes: bytes.into(), crc });
            }
            Ok(_) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => error,
        };
        Err(LoadError::Io { path: self.path.clone(), source: error })
    }
}

/// Result of passing a piece to [`Incoming::accept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The piece was written.
    Written,
    /// The piece was there already.
    Known,
}

/// A snapshot that is being received.
#[derive(Debug)]
pub struct Incoming {
    snapshots: Arc<Snapshots>,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    offer: Offer,
    next: u64,
}

impl Incoming {
    /// The offer.
    #[must_use]
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Number of the next missing piece; `None` if no piece is missing, so that `finish` can be called.
    #[must_use]
    pub fn wanted(&self) -> Option<u64> {
        (self.next < self.offer.pieces()).then_some(self.next)
    }

    /// Writes a piece.
    ///
    /// # Errors
    /// The piece is damaged or out of order, or the disk fails. The piece that was missing before is still missing
    /// then.
    pub fn accept(&mut self, piece: &Piece) -> Result<Accepted, ReceiveError> {
        if piece.number < self.next {
            return Ok(Accepted::Known);
        }
        if piece.number > self.next || self.wanted().is_none() {
            return Err(ReceiveError::Order { given: piece.number, wanted: self.next });
        }
        let right = piece.bytes.len() as u64 == self.offer.length_of(piece.number)
            && piece.crc == self.offer.checksum(piece.number, &piece.bytes);
        if !right {
            return Err(ReceiveError::Piece(piece.number));
        }
        let written = self.file.write_at(piece.number * PIECE, &piece.bytes);
        written.map_err(|source| receive_error(&self.path, source))?;
        self.next += 1;
        Ok(Accepted::Written)
    }

    /// Checks the whole file, and makes it one of the replica's snapshots.
    ///
    /// # Errors
    /// Pieces are missing, or the file differs from the offer and was deleted.
    pub fn finish(mut self) -> Result<(), ReceiveError> {
        if let Some(wanted) = self.wanted() {
            return Err(ReceiveError::Incomplete { wanted, pieces: self.offer.pieces() });
        }
        let checked = self.check();
        let Incoming { snapshots, file, path, offer, .. } = self;
        drop(file);
        let io = |source| receive_error(&path, source);
        if let Err(error) = checked {
            if !matches!(error, ReceiveError::Io { .. } | ReceiveError::Full(_)) {
                snapshots.disk.remove(&path).map_err(io)?;
            }
            return Err(error);
        }
        snapshots.publish(&path, offer.position).map_err(io)
    }

    fn check(&mut self) -> Result<(), ReceiveError> {
        let position = self.offer.position;
        self.file.sync().map_err(|source| receive_error(&self.path, source))?;
        let (header, hash) = match read::verify(&mut *self.file, &self.path) {
            Err(LoadError::Io { path, source }) => return Err(ReceiveError::Io { path, source }),
            Err(error) => return Err(ReceiveError::Bad(error)),
            Ok(verified) => verified,
        };
        let meta = self.snapshots.check_meta(&header.meta, position, &self.path);
        meta.map_err(ReceiveError::Bad)?;
        if hash == self.offer.hash { Ok(()) } else { Err(ReceiveError::OtherSnapshot) }
    }
}

fn receive_error(path: &Path, source: io::Error) -> ReceiveError {
    let path = path.to_owned();
    match source.kind() {
        _ if is_full(&source) => ReceiveError::Full(path),
        io::ErrorKind::WouldBlock => ReceiveError::Busy(path),
        _ => ReceiveError::Io { path, source },
    }
}
