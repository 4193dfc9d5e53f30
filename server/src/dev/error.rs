//! Errors of `omega dev`, as lines for the user.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Error of starting the cell, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    /// The folder cannot be written. Name another one, or make room on the disk.
    #[error("{}: {why}", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// Another process uses an address of the cell. End that process, or choose other ports.
    #[error(
        "{address}: {why}: end the process that uses this address, or choose other ports with --port"
    )]
    Address {
        /// Address of a replica.
        address: SocketAddr,
        /// Underlying error.
        why: io::Error,
    },
    /// A part of the cell did not start. The message has the reason, which is the last line of the part's output.
    #[error("{name} does not start: {why}")]
    Start {
        /// Name of the part that did not start.
        name: String,
        /// Last line of the part's output.
        why: String,
    },
    /// The operating system cannot start another process.
    #[error("cannot start a process: {0}")]
    Process(io::Error),
}
