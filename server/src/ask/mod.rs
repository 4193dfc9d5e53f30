//! Commands for a served cell: machines, jobs, tasks, quotas, transactions,
//! members.
//!
//! ```text
//!   arguments ──▶ a message of the API ──▶ call.rs: round the replicas ──▶ a shape ──▶ table, JSON, YAML
//! ```
//!
//! Every verb has the same options ([`AskArgs`]) and prints a table, or JSON or YAML with the
//! fields in docs/cli.md. Errors in arguments are reported before anything is sent, with exit code
//! 2. If the cell rejects a request or does not answer, the exit code is 1.

pub(crate) mod amount;
mod apply;
pub(crate) mod backup;
mod call;
pub(crate) mod cell;
pub(crate) mod context;
mod events;
pub(crate) mod explain;
pub(crate) mod job;
mod job_file;
mod job_flags;
pub(crate) mod lease;
mod logs;
pub(crate) mod machine;
mod machine_file;
pub(crate) mod member;
mod moment;
#[cfg(test)]
mod mutated_files;
pub(crate) mod pairs;
pub(crate) mod peak;
pub(crate) mod policy;
mod ports_file;
pub(crate) mod quota;
pub(crate) mod reservation;
pub(crate) mod resize;
pub(crate) mod resource;
mod rules_file;
mod run_file;
mod shape;
mod show;
pub(crate) mod task;
pub(crate) mod top;
pub(crate) mod txn;
mod txn_file;
mod versions;
mod wait;
mod watch;

use crate::connect::CellArgs;
use crate::context::ContextError;
use crate::output::OutputError;
use amount::AmountError;
use call::Caller;
use clap::Args;
use omega_client::convert::Malformed;
use omega_client::{Address, ApiError};
use omega_core::Kinds;
use omega_store::backup::BackupError;
use show::Format;
use std::io;
use std::time::Duration;

/// The replica to change.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// Options of every command that calls a cell.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cell and output")]
pub(crate) struct AskArgs {
    #[command(flatten)]
    cell: CellArgs,
    /// Maximum time for each request; the replicas are tried in turn until then.
    #[arg(long, env = "OMEGA_TIMEOUT", value_name = "TIME", default_value = "10s",
          value_parser = amount::timeout)]
    timeout: Duration,
    /// Output format.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl AskArgs {
    fn caller(&self) -> Result<Caller, AskError> {
        Ok(Caller::new(&self.cell.address()?, self.timeout)?.telling())
    }
}

/// Requests the resource kinds of a cell, with a timeout of many elections.
///
/// # Errors
/// If the address is not valid, or no replica answers.
pub(crate) fn kinds_of(address: &Address) -> Result<Kinds, AskError> {
    Caller::new(address, KINDS_PATIENCE)?.kinds()
}

/// Timeout of the request for a cell's kinds: many times an election.
const KINDS_PATIENCE: Duration = Duration::from_secs(30);

/// Error of a command, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The address is invalid. Correct it.
    #[error("--cell: {0}")]
    Address(ApiError),
    /// An amount is invalid. Correct it.
    #[error("{place}: {why}")]
    Amount {
        /// Flag or field.
        place: String,
        /// The error.
        why: AmountError,
    },
    /// A field of a file is invalid. Correct it.
    #[error("{place}: {why}")]
    Field {
        /// Path of the field.
        place: String,
        /// Rule that the field breaks, and the remedy.
        why: String,
    },
    /// The cell has no such resource kind. Name one that it has.
    #[error("{place}: the cell has no resource kind {kind:?}; its kinds are: {has}")]
    NoKind {
        /// Flag or field.
        place: String,
        /// The kind that was given.
        kind: String,
        /// Valid values.
        has: String,
    },
    /// The command cannot print TOML. Use another format.
    #[error("-o toml: only `omega job get` prints TOML: use -o json or -o yaml")]
    NoToml,
    /// A variable of the environment is invalid. Correct it.
    #[error("{0}")]
    Environment(String),
    /// No amount is given. Give at least one.
    #[error(
        "no amount is given: give the new amount of at least one kind, such as --cpu 4; the \
         other kinds keep their amounts"
    )]
    NoAmount,
    /// No amount is given to be limited. Give the amount of at least one kind.
    #[error(
        "no limit is given: give the limit of at least one kind, such as --cpu 100, or run \
         `omega quota clear` to remove all limits"
    )]
    NoLimit,
    /// The number is too far ahead. Choose one near the next number, so that earlier results are kept.
    #[error("--id {number}: must be from {next}, the next number, to {most}")]
    NumberAhead {
        /// The given value.
        number: u64,
        /// The next number.
        next: u64,
        /// The highest number with which the earlier results are kept.
        most: u64,
    },
    /// Some items conflicted. A conflict is a result, which is printed, but the request was not fulfilled.
    #[error("the cell rejected {refused} of {items} items of the transaction")]
    Conflicts {
        /// Number of rejected items.
        refused: usize,
        /// Number of items.
        items: usize,
    },
    /// The machine still has tasks. Drain it and wait, or give `--force`.
    #[error(
        "machine {name} has {tasks}: run `omega machine drain {name}` and wait until the \
         machine has no tasks, or give --force"
    )]
    HasTasks {
        /// Name of the machine.
        name: String,
        /// Number of its tasks, in words.
        tasks: String,
    },
    /// The job has ended. Delete it first.
    #[error("job {name} has ended: run `omega job delete {name}` first, or choose another name")]
    JobEnded {
        /// Name of the machine.
        name: String,
    },
    /// The update is more than a change of the numbers of tasks, which batch jobs do not allow. Delete the job first.
    #[error(
        "job {name} is a batch job, and only the numbers of its tasks can be changed: run `omega \
         job delete {name}`, then apply the file again"
    )]
    BatchChange {
        /// Name of the machine.
        name: String,
    },
    /// The job has failed, or cannot be completed. Look at its history.
    #[error("job {name}: {why}")]
    NotDone {
        /// Name of the machine.
        name: String,
        /// The failure.
        why: String,
    },
    /// The error of one job of several.
    #[error("job {name}: {why}")]
    OfJob {
        /// Its name.
        name: String,
        /// The error.
        why: Box<AskError>,
    },
    /// The context is wrong. Correct it.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The underlying error.
    #[error(transparent)]
    File(#[from] crate::file::FileError),
    /// The underlying error.
    #[error(transparent)]
    Backup(Box<BackupError>),
    /// The underlying error.
    #[error(transparent)]
    Profile(#[from] omega_workload::profiles::ProfileError),
    /// The underlying error.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The operating system has no threads left.
    #[error("the operating system refused a thread or another resource: {0}")]
    System(io::Error),
    /// The cell rejects the request. The message has the remedy, and the code is for programs.
    #[error("{} [{}]", .0.message, .0.code)]
    Refused(ApiError),
    /// The cell did not answer in time. Check whether it runs, and at which address, or give it more time.
    #[error("the cell at {cell} did not answer within {timeout:?}: {} [{}]", .why.message, .why.code)]
    NoAnswer {
        /// Addresses of the cell.
        cell: String,
        /// Time spent trying.
        timeout: Duration,
        /// Error of the last attempt.
        why: Box<ApiError>,
    },
    /// No replica can be reached, so nothing was sent. Start the cell, or give another address.
    #[error(
        "{}: start the cell (`omega serve`, or `omega dev` to try one out), or give its address \
         with --cell [{}]", .0.message, .0.code
    )]
    NoCell(ApiError),
    /// The cell's answer cannot be decoded. Use a version of this program that is as new as the cell's.
    #[error(
        "the cell's answer cannot be read: {0}: use an omega of the same version as the \
         cell's"
    )]
    Answer(#[from] Malformed),
}

impl From<BackupError> for AskError {
    fn from(error: BackupError) -> AskError {
        AskError::Backup(Box::new(error))
    }
}

impl AskError {
    /// The error with the name of its job, if that is one of several and the error has no name yet.
    fn of_job(self, name: &str, jobs: usize) -> AskError {
        let is_named = matches!(
            self,
            AskError::JobEnded { .. } | AskError::BatchChange { .. } | AskError::NotDone { .. }
        );
        if jobs > 1 && !is_named {
            AskError::OfJob { name: show::clean_name(name), why: Box::new(self) }
        } else {
            self
        }
    }

    /// The exit code: 1 if the cell rejects the request or does not answer, 2 for bad input.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            AskError::OfJob { why, .. } => why.exit_code(),
            AskError::Refused(_)
            | AskError::NoAnswer { .. }
            | AskError::NoCell(_)
            | AskError::Answer(_)
            | AskError::Conflicts { .. }
            | AskError::HasTasks { .. }
            | AskError::JobEnded { .. }
            | AskError::BatchChange { .. }
            | AskError::NotDone { .. } => 1,
            _ => crate::BAD_INPUT,
        }
    }
}
