//! A replica of a cell and its durable state: the log, the snapshots, Raft, and the replica's threads.
//!
//! ```text
//!   Command ──codec──▶ bytes ──▶ Entry ──append, sync──▶ ┌───────────┐
//!                                                        │ LogEngine │  segments, memory, RocksDB
//!   Cell ◀──apply── Command ◀── bytes ◀── Entry ◀─read── └─────┬─────┘
//!                                                            Disk      the one trait that touches files
//! ```
//!
//! The cell state is a state machine: the same commands in the same order give the same state. So a cell is stored as
//! its commands, in the entries of a log.
//!
//! ```
//! use omega_cellstate::Cell;
//! use omega_core::{Amounts, Command, Kinds, Machine};
//! use omega_store::log::segment::{LogOwner, SegmentLog, SegmentOptions};
//! use omega_store::log::{Batch, Entry, EntryKind, LogEngine, LogIndex, Position, ReplicaId, Term};
//! use omega_store::{CellId, RealDisk, codec};
//! use std::sync::Arc;
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let owner = LogOwner { cell: CellId(42), replica: ReplicaId(1) };
//! let mut cell = Cell::new(Kinds::standard());
//! let command = Command::RegisterMachine(Machine::new("a", Amounts::new([4000, 8 << 30])));
//!
//! let options = SegmentOptions::default();
//! let mut log = SegmentLog::create(Arc::new(RealDisk), folder, owner, options)?;
//! let mut data = Vec::new();
//! codec::encode(&command, &mut data)?;
//! let position = Position { index: LogIndex(1), term: Term(1) };
//! let entry = Entry { position, kind: EntryKind::Commands, data: data.into() };
//! log.append(&Batch { entries: vec![entry], hard_state: None })?;
//! log.sync()?; // Entry 1 is safe: now it may be applied and answered.
//! cell.apply(command)?;
//! drop(log);
//!
//! let mut log = SegmentLog::open(Arc::new(RealDisk), folder, owner, options)?;
//! let mut again = Cell::new(Kinds::standard());
//! let mut entries = Vec::new();
//! log.read(LogIndex(1), 1 << 20, &mut entries)?;
//! for entry in entries {
//!     again.apply(codec::decode(&entry.data)?)?;
//! }
//! assert_eq!(again.state_hash(), cell.state_hash());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`codec`], `origin.rs`, `disk.rs`, [`log`], [`log::segment`], [`snapshot`], [`directory`],
//! [`membership`], [`node`], [`replica`], [`wire`], `read_only.rs`, [`history`].

pub mod backup;
pub mod codec;
pub mod directory;
mod disk;
mod failpoint;
pub mod history;
pub mod log;
pub mod membership;
pub mod node;
mod origin;
mod read_only;
pub mod replica;
pub mod snapshot;
pub mod wire;

pub use codec::{CodecError, EncodeError};
pub use disk::{Disk, DiskFile, RealDisk};
#[cfg(feature = "failpoints")]
pub use failpoint::{FAILPOINTS, FAILPOINTS_WITHOUT_ANSWER, set_failpoints};
pub use origin::{CellId, Origin};
pub use read_only::ReadOnlyDisk;
