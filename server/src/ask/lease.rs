//! `omega lease`: the schedulers of a cell, and the processes that hold their names.

use super::show::{self, Align, columns};
use super::{AskArgs, AskError};
use clap::Subcommand;
use omega_client::proto;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use serde::Serialize;
use std::time::Duration;

/// What to ask of leases.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// List the schedulers, which process holds each name, and for how long.
    #[command(after_help = "Example:\n  omega lease list")]
    List(AskArgs),
}

/// A scheduler, and who holds its name.
#[derive(Debug, Serialize)]
struct SchedulerShape {
    name: String,
    scheduler: u32,
    next_transaction: u64,
    /// `null`: nobody does.
    holder: Option<HolderShape>,
}

/// A process that holds a name.
#[derive(Debug, Serialize)]
struct HolderShape {
    /// Empty: the leader is new, and has not heard of it.
    process: String,
    lease_ms: u32,
    /// 0: it is over, and whoever asks for the name gets it.
    left_ms: u32,
}

/// Does what was asked.
pub(crate) fn run(command: &LeaseCommand) -> Result<(), AskError> {
    let LeaseCommand::List(ask) = command;
    let request = proto::ListSchedulersRequest {};
    let told = ask.caller()?.call(&request, |channel, request| async move {
        SchedulingServiceClient::new(channel).list_schedulers(request).await
    })?;
    let all: Vec<SchedulerShape> = told.schedulers.into_iter().map(shape).collect();
    show::print(ask.output, &all, || table(&all))
}

fn shape(told: proto::SchedulerStatus) -> SchedulerShape {
    let holder = |holder: proto::Holder| HolderShape {
        process: holder.process,
        lease_ms: holder.lease_ms,
        left_ms: holder.left_ms,
    };
    SchedulerShape {
        name: told.name,
        scheduler: told.scheduler,
        next_transaction: told.next_transaction,
        holder: told.holder.map(holder),
    }
}

fn table(all: &[SchedulerShape]) -> String {
    let heading = [
        ("scheduler", Align::Left),
        ("held by", Align::Left),
        ("lease", Align::Right),
        ("left", Align::Right),
    ];
    let row = |scheduler: &SchedulerShape| {
        let name = scheduler.name.clone();
        let Some(holder) = &scheduler.holder else {
            return vec![name, "nobody".to_owned(), String::new(), String::new()];
        };
        let process = match holder.process.is_empty() {
            true => "not heard yet",
            false => &holder.process,
        };
        let left = if holder.left_ms == 0 { "over".to_owned() } else { seconds(holder.left_ms) };
        vec![name, process.to_owned(), seconds(holder.lease_ms), left]
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

fn seconds(ms: u32) -> String {
    format!("{:.1} s", Duration::from_millis(ms.into()).as_secs_f64())
}
