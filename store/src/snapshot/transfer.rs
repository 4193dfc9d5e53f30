//! A snapshot on its way from one replica to another.
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
//! Pieces are cuts of the file, not its chunks: the receiver copies what it does not look into until
//! all is there. It asks for one piece after the other, so nothing can be too fast for it, and what
//! comes twice does no harm. The partial file is named after the offer, whose hash is of every byte:
//! after a crash the receiver goes on only with pieces of the same snapshot, and only with those
//! that pass their checksums.

use super::error::{LoadError, ReceiveError, is_full};
use super::folder::{PARTIAL, SharedFile, Snapshots, name};
use super::header::{CHUNK, FIXED, FRAME, TRAILER, chunk_checksum};
use super::read::{self, Chunks};
use crate::disk::DiskFile;
use crate::log::Position;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Beginning of the name of a snapshot that is received.
pub(super) const PARTIAL_INCOMING: &str = "incoming-";

/// Bytes of the file in a piece.
const PIECE: u64 = CHUNK as u64;

/// Description of an offered snapshot: enough to tell it from any other snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The last entry that is in it.
    pub position: Position,
    /// Bytes of the whole file.
    pub bytes: u64,
    /// The hash at the file's end.
    pub hash: u128,
}

impl Offer {
    /// Number of pieces there are.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.bytes.div_ceil(PIECE)
    }

    /// Number of bytes a piece has; none beyond the last.
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
    /// Content.
    pub bytes: Bytes,
    /// The checksum of the number and the bytes.
    pub crc: u32,
}

/// A snapshot that is sent. Its file stays readable, even after newer ones replaced it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    file: SharedFile,
    path: PathBuf,
    offer: Offer,
}

impl Snapshots {
    /// Gets a snapshot ready to be sent, after checking every byte.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
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

    /// Gets ready to receive a snapshot. What there is of the same one is kept; what there is of
    /// another is removed.
    ///
    /// # Errors
    /// Those of the disk, or if it is being received already.
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

    /// Number of whole pieces of a partial file that are surely of the offered snapshot.
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
    /// Offer of the sender.
    #[must_use]
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// One of the pieces; an empty one beyond the last.
    ///
    /// # Errors
    /// Those of the disk, or if the file became shorter.
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

/// Outcome of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was written.
    Written,
    /// It was present already.
    Known,
}

/// A snapshot that is received.
#[derive(Debug)]
pub struct Incoming {
    snapshots: Arc<Snapshots>,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    offer: Offer,
    next: u64,
}

impl Incoming {
    /// Offer of the receiver.
    #[must_use]
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Number of the next missing piece; `None` if all are present: then finish.
    #[must_use]
    pub fn wanted(&self) -> Option<u64> {
        (self.next < self.offer.pieces()).then_some(self.next)
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// If it is damaged, or its turn has not come, or the disk refuses it. The same piece is then
    /// wanted again.
    pub fn accept(&mut self, piece: &Piece) -> Result<Taken, ReceiveError> {
        if piece.number < self.next {
            return Ok(Taken::Known);
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
        Ok(Taken::Written)
    }

    /// Checks the whole and makes it one of the replica's snapshots.
    ///
    /// # Errors
    /// If pieces are missing, or the whole is not what was offered; then it is thrown away.
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
