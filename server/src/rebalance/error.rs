//! Errors of rebalancing.

#[cfg(feature = "serve")]
use crate::context::ContextError;
#[cfg(feature = "serve")]
use omega_cellstate::HandleError;
#[cfg(feature = "serve")]
use omega_client::ApiError;
use omega_reassign::ProblemError;
use omega_reassign::contest::ReadError;
use omega_run::RunError;
#[cfg(feature = "serve")]
use omega_store::backup::ReadCellError;
use omega_workload::objectives::ObjectivesError;
use std::path::PathBuf;

/// Error of rebalancing, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RebalanceError {
    /// The objectives are invalid. Correct them.
    #[error(transparent)]
    Objectives(#[from] ObjectivesError),
    /// The underlying error.
    #[error(transparent)]
    Roadef(#[from] RoadefError),
    /// The underlying error.
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Served(#[from] ServedError),
    /// The cell stopped answering before the plan was complete. Run the command again when the cell answers; it plans
    /// the moves that are left.
    #[error(
        "only a part of the plan was applied: {why}: run the command again when the cell answers"
    )]
    CutOff {
        /// Error of the last attempt.
        why: String,
    },
    /// The underlying error.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl RebalanceError {
    /// The exit code: 1 if the cell does not answer, 2 for bad input.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            RebalanceError::Run(RunError::Scheduler { .. }) | RebalanceError::CutOff { .. } => 1,
            #[cfg(feature = "serve")]
            RebalanceError::Served(error) => error.exit_code(),
            _ => crate::BAD_INPUT,
        }
    }
}

/// Error in the files of an instance, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RoadefError {
    /// A file cannot be read or written. Name another one.
    #[error("{}: cannot be read: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Cause.
        why: std::io::Error,
    },
    /// A file is not in the contest's format. Correct it.
    #[error("{}: {why}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// Cause.
        why: ReadError,
    },
    /// The model is invalid, or the assignment breaks its rules. Correct them.
    #[error("{}: {}", file.display(), in_contest_words(why))]
    Problem {
        /// The file of the assignment.
        file: PathBuf,
        /// Cause.
        why: ProblemError,
    },
}

/// Describes an error in the contest's terms, in which tasks are processes, and jobs are services.
fn in_contest_words(why: &ProblemError) -> String {
    let why = why.to_string();
    why.replace("tasks", "processes").replace("task", "process").replace("job", "service")
}

/// Error of reading a served or stored cell, as one line for the user.
#[cfg(feature = "serve")]
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServedError {
    /// The cell does not answer. Correct the address, or check whether the cell runs.
    #[error("the cell does not answer: {0}")]
    Cell(#[from] HandleError),
    /// The address is invalid. Correct it.
    #[error("--cell: {0}")]
    Address(#[from] ApiError),
    /// The underlying error.
    #[error(transparent)]
    Kept(Box<ReadCellError>),
    /// A variable of the environment is invalid. Correct it.
    #[error("{0}")]
    Environment(String),
    /// The context is wrong. Correct it.
    #[error(transparent)]
    Context(ContextError),
}

#[cfg(feature = "serve")]
impl ServedError {
    /// The exit code: 1 if the cell does not answer, 2 for bad input.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            ServedError::Cell(_) => 1,
            _ => crate::BAD_INPUT,
        }
    }
}
