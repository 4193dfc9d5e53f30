//! Errors of a run.

use crate::backend::BackendError;
use crate::options::PlacedFile;
use omega_cellstate::{AuditError, HandleError};
use omega_core::{Rejection, Text};
use omega_schedulers::config::ConfigError;
use std::io;
use std::sync::Arc;

/// Error of a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The cell rejected a machine. Correct the machine in the input.
    #[error("machine {name:?}: {why}")]
    Machine {
        /// Name of the machine.
        name: Text,
        /// The reason.
        why: Rejection,
    },
    /// The machine to drain does not exist. Name an existing machine.
    #[error("there is no machine {name:?}")]
    NoMachine {
        /// Name of the machine.
        name: Text,
    },
    /// The cell rejected a job. Correct the job in the input.
    #[error("job {name:?}: {why}")]
    Job {
        /// Name of the job.
        name: Text,
        /// The reason.
        why: Rejection,
    },
    /// The cell rejected a command of `setup`. Correct the command.
    #[error("cannot set up the cell: {0}")]
    Setup(Rejection),
    /// A profile names something that the cell does not have. Correct the profile.
    #[error("profile {name:?}: {why}")]
    Profile {
        /// Name of the profile.
        name: String,
        /// The reason.
        why: Box<ConfigError>,
    },
    /// The cell did not answer a scheduler. The error in `why` has the remedy.
    #[error("scheduler {name:?}: {why}")]
    Scheduler {
        /// Name of the scheduler.
        name: Text,
        /// The reason.
        why: HandleError,
    },
    /// Lock step was requested for a cell on disks, or for a pace by the wall clock. Their timing would change the
    /// order of commits. Use a cell in memory and another pace, or no lock step.
    #[error(
        "--deterministic is only possible with a cell in memory and without --speed: leave out \
         --deterministic, or leave out all of --dir, --replicas and --speed"
    )]
    NoLockStep,
    /// The placements cannot be written. Name another file, or make room on the disk.
    #[error("{file}: cannot be written: {why}")]
    Placed {
        /// The output of the placements.
        file: PlacedFile,
        /// The reason.
        why: Arc<io::Error>,
    },
    /// The storage of the cell could not be created, does not answer, or is damaged.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The audit at the end found an error, which is a defect of Omega. Report it.
    #[error(
        "the state of the cell is inconsistent after the run, which is a bug in Omega, please \
         report it: {0}"
    )]
    Audit(#[from] AuditError),
}
