//! Commands for a served cell: machines, jobs, tasks, quotas, transactions,
//! members.
//!
//! ```text
//!   arguments ──▶ a message of the API ──▶ call.rs: tries the replicas ──▶ a shape ──▶ table, JSON, YAML
//! ```
//!
//! Every verb has the same options ([`CommandArgs`]) and prints a table, or JSON or YAML with the
//! fields in docs/cli.md. Errors in arguments are reported before anything is sent, with exit code
//! 2. If the cell rejects a request or does not answer, the exit code is 1.

pub(crate) mod backup;
mod call;
pub(crate) mod cell;
pub(crate) mod context;
mod error;
mod events;
pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod lease;
mod logs;
pub(crate) mod machine;
pub(crate) mod member;
pub(crate) mod names;
pub(crate) mod peak;
pub(crate) mod policy;
pub(crate) mod quota;
pub(crate) mod reservation;
pub(crate) mod resize;
pub(crate) mod resource;
pub(crate) mod run_end;
pub(crate) mod shape;
mod show;
pub(crate) mod task;
mod task_pages;
mod task_state;
pub(crate) mod top;
pub(crate) mod txn;

pub(crate) use error::CommandError;

use crate::connect::CellArgs;
use call::Caller;
use clap::{Arg, Args};
use show::Format;
use std::time::Duration;

/// One object of a cell, by its name. Commands change the help of `name` with [`named`].
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the object.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    common: CommandArgs,
}

/// Names the kind of the object in the help of [`NameArgs`].
fn named(kind: &'static str) -> impl FnOnce(Arg) -> Arg {
    move |name| name.help(format!("Name of the {kind}"))
}

/// Connection to a cell, and the time for its replies.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cell and output")]
pub(crate) struct CallArgs {
    #[command(flatten)]
    cell: CellArgs,
    /// Timeout of each request, 60s or less. It covers the attempts at all replicas, which are tried in turn.
    #[arg(long, env = "OMEGA_TIMEOUT", value_name = "TIME", default_value = "10s",
          value_parser = files::amount::timeout)]
    timeout: Duration,
}

impl CallArgs {
    fn caller(&self) -> Result<Caller, CommandError> {
        Ok(Caller::new(&self.cell.address()?, self.timeout)?.logging_outage())
    }
}

/// Options of every command that calls a cell, except `job get`, which has a format of its own.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cell and output")]
pub(crate) struct CommandArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Output format.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

impl CommandArgs {
    fn caller(&self) -> Result<Caller, CommandError> {
        self.call.caller()
    }
}
