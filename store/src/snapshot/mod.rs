//! The state of a cell in a file, so that a replica that starts, or has fallen behind, does not need the whole log.
//!
//! ```text
//!  ┌────────┬──────────────────────┬─────┬──────────────────────┬─────────┐
//!  │ header │        chunk 0       │ ... │        chunk n       │ trailer │
//!  └────────┴──────────────────────┴─────┴──────────────────────┴─────────┘
//!
//!  header     8       4       4       16       8       8        8           8
//!         ┌───────┬────────┬──────┬─────────┬───────┬──────┬────────────┬────────┐
//!         │ magic │ format │  m   │ cell id │ index │ term │ state hash │ length │
//!         └───────┴────────┴──────┴─────────┴───────┴──────┴────────────┴────────┘
//!            7 × 8        4      m
//!         ┌────────┬───────┬──────────────┐   length: of the whole file
//!         │ counts │ crc32 │ replica meta │   counts: rows, loads, vacant rows, jobs, ended jobs,
//!         └────────┴───────┴──────────────┘           tenants, schedulers
//!
//!  chunk      4        4      1 MiB; the last one less
//!         ┌────────┬───────┬─────────┐      crc32: of the cell id, the position and the chunk's
//!         │ length │ crc32 │  body   │      number too, so that no chunk stands in for another
//!         └────────┴───────┴─────────┘
//!
//!  body, through all chunks            4
//!         ┌────────┬───────┬─────┬────────┬───────┐   block: parts of the snapshot in bincode, some
//!         │ length │ block │ ... │ length │ block │   64 KiB; a part is in one block
//!         └────────┴───────┴─────┴────────┴───────┘
//!
//!  trailer   16: xxh3-128 of all chunks, then of the header (which is written last)
//! ```
//!
//! Integers are little-endian. A file is written under another name, synced and renamed, so a file with its final name
//! is complete. Reading trusts no content: each byte is covered by two checksums, each length is compared with the
//! number of bytes in the file before memory is reserved,
//! [`Cell::from_snapshot_state`](omega_cellstate::Cell::from_snapshot_state) checks the snapshot, and the state hash of
//! the restored cell must equal that in the header.
//!
//! In reading order: `header`, `parts`, `write`, `read`, `whole`, `folder`, `transfer`, `backup`, `error`.

mod backup;
mod error;
mod folder;
mod header;
mod parts;
mod read;
mod replica_meta;
mod transfer;
mod whole;
mod write;

pub use backup::{BackupContent, piece_checksum, read_backup, write_backup};
pub use error::{LoadError, ReceiveError, SaveError, SnapshotDamage};
pub use folder::{SnapshotInfo, Snapshots};
pub use replica_meta::{REPLICA_META_BYTES_MAX, ReplicaMeta};
pub use transfer::{Accepted, Incoming, Offer, Outgoing, Piece};

use crate::CellId;
use crate::log::Position;
use bytes::Bytes;
use omega_core::limits::COMMAND_BYTES_MAX;

/// The format that this program writes.
pub const FORMAT: u32 = 1;

/// Maximum bytes of a part of the file. A command has far less, even with the data that the cell adds.
const PART_BYTES_MAX: usize = 2 * COMMAND_BYTES_MAX;

/// Number of snapshots that are kept: the newest one, and another in case the newest is damaged.
pub const KEPT: usize = 2;

/// Description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Id of the cell.
    pub cell: CellId,
    /// Position of the last included entry.
    pub position: Position,
    /// Metadata of the replica at that position, encoded by the caller.
    pub replica_meta: Bytes,
}
