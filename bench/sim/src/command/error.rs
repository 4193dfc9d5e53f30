//! Errors of the commands, as lines for the user.

use crate::shipped::ShippedError;
use crate::what_if::ChangeError;
use omega_store::backup::ReadCellError;
use omega_workload::LoadError;
use omega_workload::input::InputError;
use omega_workload::profiles::ProfileError;
use std::io;
use std::path::PathBuf;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// An input cannot be read. Correct the file.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A required argument is missing. Give the argument that the message names.
    #[error("{0}")]
    Lacks(String),
    /// An input cannot be loaded. Correct the file.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The cell rejects a part of the input. Correct that part.
    #[error(transparent)]
    Refused(#[from] ShippedError),
    /// Two futures could not be compared.
    #[error(transparent)]
    WhatIf(Box<WhatIfError>),
    /// The output cannot be written, for example because its reader has closed it.
    #[error("cannot write to standard output: {0}")]
    Print(#[from] io::Error),
    /// A file of results could not be written.
    #[error("{}: cannot be written: {why}", file.display())]
    Write {
        /// Path of the file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
}

/// Error of a comparison.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// No change was given. Give one.
    #[error(
        "no change is given: give at least one of --profile, --add-machines, --machines, --drain, \
         --remove, --load and the --new- flags"
    )]
    Nothing,
    /// Options that apply only to a directory were given for a backup. Leave them out.
    #[error(
        "--at and --all are only for the directory of a replica: a backup has a single \
         version"
    )]
    OneVersion,
    /// There is no such file. Give another one.
    #[error(
        "--from {}: does not exist: give the backup of a cell, or the directory of a stopped \
         replica",
        .0.display()
    )]
    NoCell(PathBuf),
    /// The cell cannot be read.
    #[error(transparent)]
    Cell(#[from] ReadCellError),
    /// A profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The change is invalid.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// An input is invalid, or the simulation failed.
    #[error(transparent)]
    Sim(#[from] SimError),
}
