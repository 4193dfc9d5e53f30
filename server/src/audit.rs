//! `omega audit`: whether an audit log is what the server wrote.

use crate::output::{self, OutputError};
use clap::{Args, Subcommand};
use omega_service::audit::{VerifyError, verify, verify_files};
use std::path::PathBuf;

/// Operations on audit logs.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no line was changed, taken out or put in, and say the first that does not fit.
    #[command(
        after_help = "Examples:\n  omega audit verify audit.log\n  omega audit verify copy.2 copy.1 copy\n\n\
        Lines that were cut off the end, and a log that was written anew, cannot be noticed: compare it with \
        lines that were sent to another machine."
    )]
    Verify(VerifyArgs),
}

/// Which log.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A log, which is checked with all its older files FILE.1 to FILE.9 that are there; or several files,
    /// the oldest first, which are checked as they are named. The first line is believed.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Why a log is not as it was written. One line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    /// See the error.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// See the error.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl AuditError {
    /// The exit code: 1 where the log is not whole, 2 where it cannot be read.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            AuditError::Verify(VerifyError::Broken { .. }) => 1,
            _ => crate::BAD_INPUT,
        }
    }
}

/// Does what was asked.
pub(crate) fn run(command: &AuditCommand) -> Result<(), AuditError> {
    let AuditCommand::Verify(VerifyArgs { files }) = command;
    let lines = match files.as_slice() {
        [log] => verify(log)?,
        several => verify_files(several)?,
    };
    let lines = if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
    Ok(output::print(&format!("{lines}, and each follows from the one before it\n"))?)
}
