//! Logs, snapshots and directories of replicas on disks that fail.
//!
//! - `codec.rs`: encoding of commands.
//! - `upgrades.rs`: compatibility with files of earlier versions, and of the API.
//! - `fuzz.rs`: random bytes in every decoder.
//! - `log.rs`, `log_rot.rs`, `log_bound.rs`: logs after power failures, on failing and full disks, with
//!   damaged files, and without snapshots.
//! - `torn_ends.rs`: starts on a log that may have lost its end, with one voter or several.
//! - `rocks.rs`: the log in RocksDB, damaged in every file (with the feature `rocksdb`).
//! - `directory.rs`: the directory of a replica, and its lock.
//! - `nth_failure.rs`, `moody_disk.rs`: replicas on disks that fail, fill up, are damaged, or are slow.
//! - `kills.rs`: a replica's process that is killed repeatedly.
//! - `simulated_disk.rs`: the simulated disk itself.
//! - `snapshot_files.rs`, `snapshot_fixtures.rs`, `snapshot_transfer.rs`: snapshots in a folder, damaged in every way,
//!   and in transfer to a peer.

pub(crate) mod codec;
pub(crate) mod directory;
pub(crate) mod fuzz;
pub(crate) mod kills;
pub(crate) mod log;
pub(crate) mod log_bound;
pub(crate) mod log_rot;
pub(crate) mod moody_disk;
pub(crate) mod nth_failure;
#[cfg(feature = "rocksdb")]
pub(crate) mod rocks;
pub(crate) mod simulated_disk;
pub(crate) mod snapshot_files;
pub(crate) mod snapshot_fixtures;
pub(crate) mod snapshot_transfer;
pub(crate) mod torn_ends;
pub(crate) mod upgrades;
