//! `omega audit`: verifies that an audit log is unchanged.

use crate::output::{self, OutputError};
use clap::{Args, Subcommand};
use omega_service::audit::{VerifyError, verify, verify_files};
use omega_workload::readable;
use std::path::PathBuf;

/// Operations on audit logs.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line was changed, removed or inserted. If the check fails, the exit code is 1.
    #[command(
        after_help = "Examples:\n  omega audit verify audit.log\n  omega audit verify copy.2 copy.1 copy\n\n\
        The removal of lines at the end, or of the whole log, cannot be detected: compare the log with a copy of its lines on another machine."
    )]
    Verify(VerifyArgs),
}

/// The log.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Audit log, which is checked together with its rotated files FILE.1 to FILE.9. If several files are given, oldest
    /// first, only these are checked. The removal of lines before the first line cannot be detected.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Error of a verification, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    /// The underlying error.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The underlying error.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl AuditError {
    /// The exit code: 1 if the log was changed, 2 if it cannot be read.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            AuditError::Verify(VerifyError::Broken { .. }) => 1,
            _ => crate::BAD_INPUT,
        }
    }
}

/// Runs the command.
pub(crate) fn run(command: &AuditCommand) -> Result<(), AuditError> {
    let AuditCommand::Verify(VerifyArgs { files }) = command;
    for file in files {
        let read = |why| VerifyError::Read { file: file.clone(), why };
        readable::check(file).map_err(read)?;
    }
    let lines = match files.as_slice() {
        [log] => verify(log)?,
        several => verify_files(several)?,
    };
    let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
    Ok(output::print(&format!("{lines}: no line was changed, removed or inserted\n"))?)
}
