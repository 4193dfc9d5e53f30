//! `omega cluster-resource`: resources of the cell as a whole, such as licences.

use crate::ask::files::amount::{self, Amount};
use crate::ask::shape::DoneShape;
use crate::ask::show::{self, Align, columns};
use crate::ask::{AskArgs, AskError};
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
    List(AskArgs),
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
    ask: AskArgs,
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
pub(crate) fn run(command: &ResourceCommand) -> Result<(), AskError> {
    match command {
        ResourceCommand::List(ask) => list(ask),
        ResourceCommand::Set(args) => set(args),
    }
}

fn list(ask: &AskArgs) -> Result<(), AskError> {
    let caller = ask.caller()?;
    let kinds = caller.kinds()?;
    let request = proto::ListClusterResourcesRequest {};
    let told = caller.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).list_cluster_resources(request).await
    })?;
    let [capacity, claimed, waiting] =
        [told.capacity, told.claimed, told.waiting].map(convert::amounts);
    let shape = |(id, kind): (KindId, &omega_core::ResourceKind)| {
        let [capacity, claimed, waiting] = [&capacity, &claimed, &waiting].map(|all| all.get(id));
        let shape = ResourceShape { name: kind.name.clone(), capacity, claimed, waiting };
        (capacity.max(claimed).max(waiting) > 0).then_some(shape)
    };
    let all: Vec<ResourceShape> = kinds.iter().filter_map(shape).collect();
    show::print(ask.output, &all, || table(&kinds, &all))
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

fn set(args: &SetArgs) -> Result<(), AskError> {
    let caller = args.ask.caller()?;
    let kinds = caller.kinds()?;
    let kind = amount::kind(&kinds, "KIND".to_owned(), &args.kind)?;
    let unit = kinds.get(kind).map_or(Unit::Count, |kind| kind.unit);
    let place = "AMOUNT".to_owned();
    let amount = args.amount.of(unit).map_err(|why| AskError::Amount { place, why })?;
    let request = proto::SetClusterCapacityRequest { kind: kind.0.into(), amount };
    let told = caller.call(&request, |channel, request| async move {
        CellServiceClient::new(channel).set_cluster_capacity(request).await
    })?;
    let done = "is set";
    let shape = DoneShape { name: args.kind.clone(), done, version: told.version };
    show::print(args.ask.output, &shape, || show::done("resource", &shape))
}
