//! Errors of the client commands, as lines for the user.

use crate::context::ContextError;
use crate::output::OutputError;
use omega_client::convert::Malformed;
use omega_client::{ApiError, ErrorCode};
use omega_run::report::text::clean;
use omega_store::backup::BackupError;
use omega_workload::amount::AmountError;
use omega_workload::file::FileError;
use omega_workload::profiles::ProfileError;
use std::io;
use std::time::Duration;

/// Error of a command, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
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
    /// The cell has no such tenant. Name one that it has.
    #[error("the cell has no tenant {tenant:?}; its tenants are: {}", clean(has))]
    NoTenant {
        /// The tenant that was given.
        tenant: String,
        /// Tenants of the cell.
        has: String,
    },
    /// A variable of the environment is invalid. Correct it.
    #[error("{0}")]
    Environment(String),
    /// No amount is given. Give at least one.
    #[error(
        "no amount is given: give the new amount of at least one kind, such as --cpu 4; the \
         other kinds keep their amounts"
    )]
    NoAmount,
    /// No limit is given. Give the limit of at least one kind.
    #[error(
        "no limit is given: give the limit of at least one kind, such as --cpu 100, or run \
         `omega quota clear` to remove all limits"
    )]
    NoLimit,
    /// The transaction number is so far ahead that unused numbers from `next` on would expire. Choose a number from
    /// `next` to `most`.
    #[error("--id {number}: must be at most {most}, because the next transaction number is {next}")]
    NumberAhead {
        /// The given value.
        number: u64,
        /// The next number.
        next: u64,
        /// The highest number after which `next` is still usable.
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
    /// The cell rejected the new allocation of a task. Correct what the reason names.
    #[error("{task} was not resized: {why}")]
    NotResized {
        /// Name of the task.
        task: String,
        /// The conflict.
        why: String,
    },
    /// The machine still has tasks. Drain it and wait, or give `--force`.
    #[error(
        "machine {name} has {tasks}: run `omega machine drain {name} --deadline 10m` and wait \
         until the tasks have left, or give --force"
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
        /// Name of the job.
        name: String,
    },
    /// The output of some tasks of a job cannot be read. Standard error names them.
    #[error("the output of {0} cannot be read")]
    NoOutput(String),
    /// The update of a batch job changes more than the numbers of tasks of its groups. Delete the job first.
    #[error(
        "job {name} is a batch job, so only the number of tasks in each group can be changed: run \
         `omega job delete {name}`, then apply the file again"
    )]
    BatchChange {
        /// Name of the job.
        name: String,
    },
    /// The job has failed, or cannot be completed. Look at its history.
    #[error("job {name}: {why}")]
    NotDone {
        /// Name of the job.
        name: String,
        /// The failure.
        why: String,
    },
    /// The error of one job of several.
    #[error("job {name}: {why}")]
    OfJob {
        /// Name of the job.
        name: String,
        /// The error.
        why: Box<CommandError>,
    },
    /// The context is wrong. Correct it.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The underlying error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The underlying error.
    #[error(transparent)]
    Backup(Box<BackupError>),
    /// The underlying error.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The underlying error.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The operating system refused a thread or another resource.
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
    /// The cell has no leader. Start replicas until a majority runs.
    #[error(
        "the cell at {cell} has no leader, so it did not answer within {timeout:?}: start enough \
         replicas for a majority; `omega cell` lists them [{code}]"
    )]
    NoLeader {
        /// Addresses of the cell.
        cell: String,
        /// Time spent trying.
        timeout: Duration,
        /// Code of the last attempt's error.
        code: ErrorCode,
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
    Reply(#[from] Malformed),
}

impl From<BackupError> for CommandError {
    fn from(error: BackupError) -> CommandError {
        CommandError::Backup(Box::new(error))
    }
}

impl CommandError {
    /// Adds the job's name to the error, if there are several jobs and the error has no job name yet.
    pub(super) fn of_job(self, name: &str, jobs: usize) -> CommandError {
        let is_named = match &self {
            CommandError::JobEnded { .. }
            | CommandError::BatchChange { .. }
            | CommandError::NotDone { .. } => true,
            CommandError::Refused(why) => why.message.starts_with(&format!("job {name:?} ")),
            _ => false,
        };
        if jobs > 1 && !is_named {
            CommandError::OfJob { name: clean(name), why: Box::new(self) }
        } else {
            self
        }
    }

    /// The error of a command that has found a job before: the job was deleted if the cell no longer has it.
    pub(super) fn if_deleted(self, name: &str) -> CommandError {
        match self {
            CommandError::Refused(error) if error.code == ErrorCode::UnknownJob => {
                CommandError::NotDone { name: clean(name), why: "it was deleted".to_owned() }
            }
            other => other,
        }
    }

    /// The exit code: 1 if the cell rejects the request or does not answer, 2 for bad input.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            CommandError::OfJob { why, .. } => why.exit_code(),
            CommandError::Refused(_)
            | CommandError::NoAnswer { .. }
            | CommandError::NoLeader { .. }
            | CommandError::NoCell(_)
            | CommandError::Reply(_)
            | CommandError::Conflicts { .. }
            | CommandError::NotResized { .. }
            | CommandError::HasTasks { .. }
            | CommandError::JobEnded { .. }
            | CommandError::NoOutput(_)
            | CommandError::BatchChange { .. }
            | CommandError::NotDone { .. } => 1,
            _ => crate::BAD_INPUT,
        }
    }
}
