//! `omega cluster-resource`: resources of the cell as a whole, such as licences.

use crate::commands::files::amount::{self, Amount};
use crate::commands::shape::DoneShape;
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError};
use clap::{Args, Subcommand};
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::{convert, proto};
use omega_core::{KindId, Kinds, Unit};
use serde::Serialize;

/// Operations on cluster resources.
#[derive(Debug, Subcommand)]
pub(crate) enum ResourceCommand {
    /// List the cluster resources with their capacity, their claims, and the requests of pending tasks.
    #[command(after_help = "Example:\n  omega cluster-resource list")]
    List(CommandArgs),
    /// Set the capacity of a cluster resource.
    ///
    /// If the existing claims exceed the new capacity, they stay, and the cell rejects further claims.
    #[command(after_help = "Example:\n  omega cluster-resource set solver-licence 40")]
    Set(SetArgs),
}

/// Resource and amount.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Resource kind of the cell, for example one that `omega serve --kinds` defines.
    #[arg(value_name = "KIND")]
    kind: String,
    /// New capacity: the total amount in the cell.
    #[arg(value_name = "AMOUNT", allow_negative_numbers = true)]
    amount: Amount,
    #[command(flatten)]
    common: CommandArgs,
}

/// A cluster resource, with its capacity and claims.
#[derive(Debug, Serialize)]
struct ResourceShape {
    name: String,
    capacity: u64,
    claimed: u64,
    /// Amount that pending tasks would claim.
    waiting: u64,
}

/// Runs the command.
pub(crate) fn run(command: &ResourceCommand) -> Result<(), CommandError> {
    match command {
        ResourceCommand::List(common) => list(common),
        ResourceCommand::Set(args) => set(args),
    }
}

fn list(common: &CommandArgs) -> Result<(), CommandError> {
    let caller = common.caller()?;
    let kinds = caller.kinds()?;
    let request = proto::ListClusterResourcesRequest {};
    let response = caller.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).list_cluster_resources(request).await
    })?;
    let [capacity, claimed, waiting] =
        [response.capacity, response.claimed, response.waiting].map(convert::amounts);
    let shape = |(id, kind): (KindId, &omega_core::ResourceKind)| {
        let [capacity, claimed, waiting] = [&capacity, &claimed, &waiting].map(|all| all.get(id));
        let shape = ResourceShape { name: kind.name.clone(), capacity, claimed, waiting };
        (capacity.max(claimed).max(waiting) > 0).then_some(shape)
    };
    let all: Vec<ResourceShape> = kinds.iter().filter_map(shape).collect();
    show::print(common.output, &all, || table(&kinds, &all))
}

fn table(kinds: &Kinds, all: &[ResourceShape]) -> String {
    let heading = [
        ("resource", Align::Left),
        ("capacity", Align::Right),
        ("claimed", Align::Right),
        ("waiting", Align::Right),
    ];
    let row = |one: &ResourceShape| {
        let id = kinds.by_name(&one.name).unwrap_or(KindId::CPU);
        let amounts = [one.capacity, one.claimed, one.waiting];
        let mut row = vec![one.name.clone()];
        row.extend(amounts.map(|amount| kinds.display(id, amount)));
        row
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

fn set(args: &SetArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let kind = amount::kind(&kinds, "KIND".to_owned(), &args.kind)?;
    let unit = kinds.get(kind).map_or(Unit::Count, |kind| kind.unit);
    let place = "AMOUNT".to_owned();
    let amount = args.amount.of(unit).map_err(|why| CommandError::Amount { place, why })?;
    let request = proto::SetClusterCapacityRequest { kind: kind.0.into(), amount };
    let response = caller.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).set_cluster_capacity(request).await
    })?;
    let done = "is set";
    let shape = DoneShape { name: args.kind.clone(), done, version: response.version };
    show::print(args.common.output, &shape, || show::done("resource", &shape))
}
