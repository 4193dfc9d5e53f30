//! Errors of snapshots, with one enum per operation.

use super::header::{FIXED, TRAILER};
use super::{FORMAT, PART_BYTES_MAX, REPLICA_META_BYTES_MAX};
use crate::CellId;
use crate::codec::CodecError;
use crate::log::Position;
use omega_cellstate::SnapshotStateError;
use std::io;
use std::path::PathBuf;

/// Error of writing a snapshot. No file gets the final name, and the older snapshots are intact.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The disk is full. Make space on it, and try again. The log is not compacted until a snapshot is durable.
    #[error("{}: the disk is full: make room; the replica then tries the snapshot again", .0.display())]
    Full(PathBuf),
    /// The membership is too large. Give the replicas shorter addresses.
    #[error(
        "the list of replicas has {0} bytes: at most {REPLICA_META_BYTES_MAX} are allowed, so give \
         the replicas shorter addresses"
    )]
    Membership(usize),
    /// An object of the cell, such as a machine or job, is too large for a snapshot. Remove the largest one.
    #[error(
        "an object of the cell, such as a machine or job, has {bytes} bytes, but at most \
         {PART_BYTES_MAX} are allowed: remove the largest machine or job"
    )]
    TooLarge {
        /// Size of the object in bytes.
        bytes: usize,
    },
    /// The state belongs to another cell than the folder, which is a defect of the program.
    #[error(
        "the snapshot is of cell {found}, but the folder is for cell {wanted}: this is a bug in \
         Omega, please report it"
    )]
    OtherCell {
        /// Cell of the state.
        found: CellId,
        /// Cell of the folder.
        wanted: CellId,
    },
    /// The disk failed. Repair it; the snapshot is tried again.
    #[error("{}: {source}: repair the disk; the replica then tries the snapshot again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}

/// Damage of a snapshot file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotDamage {
    /// The length of the file differs from that in its header, or is too short for a header.
    #[error("the file has {found} bytes: must have {wanted}")]
    Length {
        /// Actual number of bytes.
        found: u64,
        /// Expected number of bytes, or the minimum.
        wanted: u64,
    },
    /// The header does not match its checksum, or has an impossible size.
    #[error("the header of the file does not match its checksum, or gives an impossible size")]
    Header,
    /// A chunk's length does not match the file's length.
    #[error("chunk {number} has the length {found}: must be {wanted}")]
    ChunkLength {
        /// Number of the chunk.
        number: u64,
        /// Actual length.
        found: u32,
        /// Expected length.
        wanted: u32,
    },
    /// A chunk does not match its checksum.
    #[error("chunk {0} does not match its checksum")]
    Chunk(u64),
    /// All chunks match their checksums, but the file does not match its hash.
    #[error("the file does not match its hash")]
    Hash,
    /// A block has an impossible length.
    #[error("a block of the snapshot has an impossible length, {0}")]
    Block(u32),
    /// A part of the snapshot cannot be decoded.
    #[error("a part of the snapshot cannot be read: {0}")]
    Part(#[source] CodecError),
    /// The number of parts differs from the counts.
    #[error("the number of parts in the file differs from the counts in its header")]
    Counts,
    /// The content is not a valid cell.
    #[error(transparent)]
    Invalid(#[from] SnapshotStateError),
    /// The state hash differs from that in the header.
    #[error(
        "the restored state has the hash {found:016x}, but the header of the file has {wanted:016x}"
    )]
    State {
        /// Hash of the restored state.
        found: u64,
        /// Hash in the header.
        wanted: u64,
    },
}

/// Error of reading a snapshot. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no snapshot at this position. Choose one from the list of snapshots.
    #[error("there is no snapshot {}: request the newest one", .0.display())]
    Missing(PathBuf),
    /// The file is no snapshot. Move it away, or restore the right one.
    #[error("{} is not a snapshot: remove it, or restore the right file", .0.display())]
    NotASnapshot(PathBuf),
    /// The format of the snapshot is unknown. Use a version of this program that supports it.
    #[error(
        "{} has format {found}, but this program reads {FORMAT}: use a program that reads format \
         {found}",
        path.display()
    )]
    UnknownFormat {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
    },
    /// The snapshot belongs to another cell. Name the right folder, or remove the file.
    #[error("{} is a snapshot of cell {found}, not of cell {wanted}: remove it", path.display())]
    OtherCell {
        /// Path of the file.
        path: PathBuf,
        /// Cell of the snapshot.
        found: CellId,
        /// Requested cell.
        wanted: CellId,
    },
    /// The file's name and its header contain different positions.
    #[error(
        "{} contains the snapshot at entry {} of term {}, but the name of the file says otherwise: \
         give the file its original name",
        path.display(), found.index, found.term
    )]
    OtherPosition {
        /// Path of the file.
        path: PathBuf,
        /// Position in the header.
        found: Position,
    },
    /// The file is damaged. Restore it from a copy, or replace the replica. An older snapshot suffices only if the log
    /// still has the entries after it.
    #[error(
        "{} is corrupt at byte {offset}: {damage}: restore it from a copy, or remove this \
         replica and add a new one with another id",
        path.display()
    )]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the damage.
        offset: u64,
        /// Description of the damage.
        damage: Box<SnapshotDamage>,
    },
    /// Another process has the file open. Stop that process.
    #[error("{} is in use by another process: stop that process first", .0.display())]
    Locked(PathBuf),
    /// The disk failed. Repair it, and try again.
    #[error("{}: {source}: repair the disk, and try again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}

/// Error of receiving a peer's snapshot, or a piece of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The disk is full. Make space on it, and send the piece again.
    #[error("{}: the disk is full: make room; the peer then sends the piece again", .0.display())]
    Full(PathBuf),
    /// No snapshot has this length, so the offer is invalid.
    #[error("the offered snapshot has {} bytes: must have at least {}", .0, FIXED + TRAILER)]
    Offer(u64),
    /// The piece is out of order. Send the expected one.
    #[error("piece {given} of the snapshot arrived instead of piece {wanted}: send piece {wanted}")]
    Order {
        /// Number of the received piece.
        given: u64,
        /// Number of the expected piece.
        wanted: u64,
    },
    /// The piece was damaged in transit. Send it again.
    #[error("piece {0} of the snapshot does not match its checksum: send it again")]
    Piece(u64),
    /// Pieces are missing. Send them first.
    #[error("piece {wanted} of the {pieces} pieces of the snapshot has not arrived: send it first")]
    Incomplete {
        /// Number of the next expected piece.
        wanted: u64,
        /// Number of pieces in the snapshot.
        pieces: u64,
    },
    /// All pieces arrived, but they differ from the offered snapshot, and were deleted. Begin again, with another peer
    /// if the error recurs.
    #[error("the received file is not the offered snapshot: receive the snapshot again")]
    OtherSnapshot,
    /// All pieces arrived, but they are no valid snapshot, because the peer's file is damaged. They were deleted. Begin
    /// again with another peer.
    #[error("the received snapshot is invalid: {0}: receive it from another peer")]
    Bad(#[source] LoadError),
    /// This snapshot is being received already.
    #[error("the snapshot {} is already being received: wait until it has arrived", .0.display())]
    Busy(PathBuf),
    /// The disk failed. Repair it, and start again. Durable pieces are not requested again.
    #[error("{}: {source}: repair the disk, and receive the snapshot again", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
}
