//! Error that ends an agent, or keeps it from starting.

use crate::context::ContextError;
use omega_agent::DriverError;
use omega_agent::cgroup::CgroupError;
use omega_client::{ApiError, ErrorCode};
use omega_runner::RunnerError;
use std::io;
use std::path::PathBuf;

impl AgentError {
    /// Whether the agent may start later without a correction: the cell did not answer, or another agent has the
    /// machine or the folder.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            AgentError::Cell(error) | AgentError::Runner(RunnerError::Cell(error)) => {
                error.is_temporary() || error.code == ErrorCode::NameTaken
            }
            AgentError::FolderInUse(_) => true,
            _ => false,
        }
    }
}

/// Error that ends an agent, or keeps it from starting. One line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// The context is wrong. Correct it.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The cell does not answer, or rejects the agent. Correct the address or the machines, or start the cell.
    #[error(transparent)]
    Cell(#[from] ApiError),
    /// The operating system refused a resource, such as a thread or a file.
    #[error("the operating system refused a thread, a file or another resource: {0}")]
    System(#[from] io::Error),
    /// The folder cannot be used. Choose another one, or correct its permissions.
    #[error("{}: cannot be used as the agent's folder: {why}: choose another with --dir", folder.display())]
    Folder {
        /// The given folder.
        folder: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// A task's folder is damaged. Correct it as the message says.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is no usable control group. Give the agent a group of its own, or run tasks without limits.
    #[error("{0}, or give --no-limits to run tasks without limits")]
    Cgroup(#[from] CgroupError),
    /// Another agent uses the folder. Choose another one.
    #[error("{0}: another agent uses this folder: give each agent its own with --dir")]
    FolderInUse(PathBuf),
    /// The agent cannot attach to the cell, or no longer manages its machine.
    #[error(transparent)]
    Runner(#[from] RunnerError),
}
