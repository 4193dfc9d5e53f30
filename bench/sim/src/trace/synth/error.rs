//! Error of generating a trace.

use omega_core::limits::MACHINES_MAX;
use omega_workload::LoadError;
use omega_workload::input::InputError;
use std::io;
use std::path::PathBuf;

/// Error of generating a trace.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The trace cannot be read. Correct the file.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The trace, or a written table, is invalid. Correct the trace.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file cannot be written. Name another folder, or make room on the disk.
    #[error("{}: cannot be written: {why}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The file exists and is not overwritten. Name another folder.
    #[error("{}: already exists: name another folder with --out", .0.display())]
    Exists(PathBuf),
    /// The trace has no machines. Name machines for it.
    #[error("{0}: has no machines: give them with --on, such as --on 2000,cpu=64,memory=256Gi")]
    NoMachines(String),
    /// The jobs of the trace have no real times. Keep its length, or use another trace.
    #[error(
        "{name}: all jobs arrive within {span_ms} ms, only to fill the machines, so there is no rate of arrivals for a \
         longer trace: leave out --out-hours"
    )]
    NoTimes {
        /// The trace.
        name: String,
        /// Its length in milliseconds.
        span_ms: u64,
    },
    /// The trace has no jobs. Use another trace.
    #[error("{0}: has no jobs, so no similar trace can be generated from it")]
    NoJobs(String),
    /// The size is too large. Request fewer machines.
    #[error("{0} machines are too many: a cell has at most {MACHINES_MAX}")]
    TooLarge(u64),
}
