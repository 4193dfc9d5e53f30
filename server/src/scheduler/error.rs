//! Errors of a scheduler process, as lines for the user.

use crate::context::ContextError;
use crate::output::OutputError;
use omega_cellstate::HandleError;
use omega_client::ApiError;
use omega_workload::profiles::ProfileError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Error of starting or running a scheduler, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchedulerError {
    /// The context is wrong. Correct it.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The address is invalid. Correct it.
    #[error(transparent)]
    Address(#[from] ApiError),
    /// The profile file is invalid. Correct it, or name another one.
    #[error(transparent)]
    Profiles(#[from] ProfileError),
    /// The profile file has no profile for the scheduler. Add a profile with the scheduler's name.
    #[error("{}: has no profile for the scheduler {name:?}: add a [[profile]] with this name", file.display())]
    NoProfile {
        /// Path of the file.
        file: PathBuf,
        /// Name of the scheduler.
        name: String,
    },
    /// The cell does not answer. Check whether it runs, and at which address.
    #[error("the cell does not answer: {0}")]
    Cell(#[from] HandleError),
    /// Another process owns the name. Wait until it has ended, or start with `--standby`, which waits.
    #[error("{} [{}]; give --standby to wait until the name is free", .0.message, .0.code)]
    Held(ApiError),
    /// Another process owns the name now. If needed, start this process again as its standby.
    #[error("{} [{}]; this process has stopped", .0.message, .0.code)]
    Lost(ApiError),
    /// The address of the metrics is open to other machines. Use a local address, or confirm that it may be open.
    #[error(
        "--metrics-listen {0} is open to other machines: add --insecure if everyone who reaches it may see the metrics"
    )]
    Exposed(SocketAddr),
    /// The address cannot be listened on. Choose another one, or end the process that uses it.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Address of the listener.
        address: SocketAddr,
        /// Underlying error.
        why: io::Error,
    },
    /// The underlying error.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The operating system refused a thread, a signal handler or another resource.
    #[error("the operating system refused a thread or another resource: {0}")]
    System(io::Error),
}

impl SchedulerError {
    /// Whether the process ended because its metrics would have been open to everyone.
    pub(crate) fn is_exposed(&self) -> bool {
        matches!(self, SchedulerError::Exposed(_))
    }

    /// Whether the process may start later without a correction, because an address is in use or not there yet.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, SchedulerError::Listen { .. })
    }

    /// Whether the process ended because another process owns its name.
    pub(crate) fn is_replaced(&self) -> bool {
        matches!(self, SchedulerError::Held(_) | SchedulerError::Lost(_))
    }
}
