//! The history of a cell on disk: recorded command by command, and rebuilt exactly.
//!
//! ```text
//!   Command ──codec──▶ bytes ──record──▶ ┌─────────┐
//!                                        │ Journal │ one file: header, records
//!   Cell ◀──apply── Command ◀──replay─── └────┬────┘
//!                                           Disk        the one trait that touches files
//! ```
//!
//! The cell state is a state machine: the same commands in the same order give the same state. So
//! a cell is kept by keeping its commands.
//!
//! ```
//! use omega_cellstate::Cell;
//! use omega_core::{Amounts, Command, Kinds, Machine};
//! use omega_store::{CellId, Journal, Origin};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("cell.journal");
//! let origin = Origin { cell: CellId(42), kinds: Kinds::standard() };
//! let mut cell = Cell::new(origin.kinds.clone());
//! let command = Command::RegisterMachine(Machine::new("a", Amounts::new([4000, 8 << 30])));
//!
//! let mut journal = Journal::create(&path, &origin)?;
//! journal.append(std::slice::from_ref(&command))?;
//! assert_eq!(journal.sync()?, 1); // Command 1 is safe: now it may be applied and answered.
//! cell.apply(command)?;
//! drop(journal);
//!
//! let mut journal = Journal::open(&path, CellId(42))?;
//! let mut again = Cell::new(journal.origin().kinds.clone());
//! journal.replay(|_index, command| drop(again.apply(command)))?;
//! assert_eq!(again.state_hash(), cell.state_hash());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`codec`], `header.rs`, `record.rs`, `journal.rs`, `error.rs`, `disk.rs`;
//! [`snapshot`] has the state itself.

pub mod codec;
mod disk;
mod error;
mod header;
mod journal;
pub mod log;
pub mod membership;
pub mod node;
mod record;
pub mod replica;
pub mod snapshot;

pub use codec::{CodecError, EncodeError};
pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{AppendError, Corruption, CreateError, OpenError, ReplayError, SyncError};
pub use header::{CellId, FORMAT, Origin};
pub use journal::Journal;
pub use record::Damage;
