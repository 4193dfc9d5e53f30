//! `omega lease`: the schedulers of a cell, and the processes that own their names.

use crate::commands::call::Caller;
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError};
use clap::Subcommand;
use omega_client::proto;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use serde::Serialize;
use std::time::Duration;

/// Operations on leases.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// List the scheduler names of a cell, with the owner of each name and the time until its lease expires.
    #[command(after_help = "Example:\n  omega lease list")]
    List(CommandArgs),
    /// Immediately revoke all leases of the process that owns NAME, including its leases on other names.
    ///
    /// Use this if the process hangs but still renews its lease. Later transactions of the process are rejected, and it
    /// exits when it receives a rejection. A standby takes over each name; a name without a standby becomes free.
    #[command(after_help = "Example:\n  omega lease revoke web")]
    Revoke {
        /// Name of a scheduler.
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        common: CommandArgs,
    },
}

/// A scheduler, and the owner of its name.
#[derive(Debug, Serialize)]
struct SchedulerShape {
    name: String,
    scheduler: u32,
    next_transaction: u64,
    /// `null` if no process owns the name.
    holder: Option<HolderShape>,
}

/// The process that owns a name.
#[derive(Debug, Serialize)]
struct HolderShape {
    /// Description of the process; empty if the leader is new and has not yet received a message from the process.
    process: String,
    lease_ms: u32,
    /// Time left, in milliseconds. 0 means that the lease has expired, and another process may take the name.
    left_ms: u32,
}

/// Names revoked from a process.
#[derive(Debug, Serialize)]
struct EndedShape {
    /// Description of the process; empty if no process owned the name, or if the leader is new and has not yet received
    /// a message from it.
    process: String,
    /// The names that the process owned.
    names: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(command: &LeaseCommand) -> Result<(), CommandError> {
    match command {
        LeaseCommand::List(common) => {
            let response = list(&common.caller()?)?;
            let all: Vec<SchedulerShape> = response.into_iter().map(shape).collect();
            show::print(common.output, &all, || table(&all))
        }
        LeaseCommand::Revoke { name, common } => end(name, common),
    }
}

/// Requests the schedulers of the cell.
///
/// # Errors
/// As [`Caller::call`].
pub(super) fn list(caller: &Caller) -> Result<Vec<proto::SchedulerStatus>, CommandError> {
    let request = proto::ListSchedulersRequest {};
    let response = caller.call(&request, |channel, request| async move {
        SchedulingServiceClient::new(channel).list_schedulers(request).await
    })?;
    Ok(response.schedulers)
}

/// Revokes the leases of the process that owns the name now, but not those of a later owner.
fn end(name: &str, common: &CommandArgs) -> Result<(), CommandError> {
    let caller = common.caller()?;
    let all = list(&caller)?;
    let named = all.iter().find(|scheduler| scheduler.name == name);
    let holder = named.and_then(|scheduler| scheduler.holder.clone());
    // If there is no such scheduler, the cell reports the error.
    let mark = holder.as_ref().map_or(0, |holder| holder.mark);
    let request = proto::EndLeasesRequest { name: name.to_owned(), mark, holder: 0 };
    caller.call(&request, |channel, request| async move {
        SchedulingServiceClient::new(channel).end_leases(request).await
    })?;
    let is_of = |other: &proto::Holder| holder.as_ref().is_some_and(|own| own.mark == other.mark);
    let held = all.iter().filter(|scheduler| scheduler.holder.as_ref().is_some_and(is_of));
    let names: Vec<String> = held.map(|scheduler| scheduler.name.clone()).collect();
    let ended = EndedShape { process: holder.map(|h| h.process).unwrap_or_default(), names };
    show::print(common.output, &ended, || {
        if ended.names.is_empty() {
            format!("no process owns {name}\n")
        } else {
            let process = if ended.process.is_empty() { "a process" } else { &ended.process };
            format!("{process} no longer owns {}\n", ended.names.join(", "))
        }
    })
}

fn shape(status: proto::SchedulerStatus) -> SchedulerShape {
    let holder = |holder: proto::Holder| HolderShape {
        process: holder.process,
        lease_ms: holder.lease_ms,
        left_ms: holder.left_ms,
    };
    SchedulerShape {
        name: status.name,
        scheduler: status.scheduler,
        next_transaction: status.next_transaction,
        holder: status.holder.map(holder),
    }
}

fn table(all: &[SchedulerShape]) -> String {
    let heading = [
        ("scheduler", Align::Left),
        ("owner", Align::Left),
        ("lease", Align::Right),
        ("time left", Align::Right),
    ];
    let row = |scheduler: &SchedulerShape| {
        let name = scheduler.name.clone();
        let Some(holder) = &scheduler.holder else {
            return vec![name, "nobody".to_owned(), String::new(), String::new()];
        };
        let process = if holder.process.is_empty() { "no renewal yet" } else { &holder.process };
        let left = if holder.left_ms == 0 { "over".to_owned() } else { seconds(holder.left_ms) };
        vec![name, process.to_owned(), seconds(holder.lease_ms), left]
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

fn seconds(ms: u32) -> String {
    format!("{:.1} s", Duration::from_millis(ms.into()).as_secs_f64())
}
