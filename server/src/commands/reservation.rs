//! `omega reservation`: machines reserved for some tenants for a time.

use crate::commands::files::moment::{Moment, millis, unix_ms};
use crate::commands::files::pairs;
use crate::commands::shape::{DoneForShape, DoneShape};
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError, NameArgs, named, quota};
use clap::{Args, Subcommand};
use omega_client::proto;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_core::{MachineSelector, Operator, Requirement, Reservation};
use serde::Serialize;
use std::time::Duration;

/// Operations on reservations.
#[derive(Debug, Subcommand)]
pub(crate) enum ReservationCommand {
    /// List current and future reservations.
    #[command(after_help = "Example:\n  omega reservation list")]
    List(CommandArgs),
    /// Reserve machines for some tenants, from one time to another.
    ///
    /// At least one --label or --machine is required. Running tasks are not evicted. Until the reservation starts, a
    /// task of another tenant is placed on these machines only if it is expected to end before the start.
    #[command(
        after_help = "Examples:\n  omega reservation create demo --label rack=a --tenant show \
        --from 2h --for 30m\n  omega reservation create night --machine m1 --tenant batch \\\n    --from @1764540000 --for 8h"
    )]
    Create(Box<CreateArgs>),
    /// Delete a reservation, even if it has not ended.
    #[command(
        mut_arg("name", named("reservation")),
        after_help = "Example:\n  omega reservation delete demo"
    )]
    Delete(NameArgs),
}

/// The machines, tenants and time of the reservation to create.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("machines").required(true).multiple(true)
    .args(["labels", "machines_named"]))]
pub(crate) struct CreateArgs {
    /// Name of the reservation.
    #[arg(value_name = "NAME")]
    name: String,
    /// Reserve machines with this label. May be repeated: a machine must have all the labels. If --machine is also
    /// given, a machine must also have one of the names that --machine gives.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pairs::label)]
    labels: Vec<(String, String)>,
    /// Reserve this machine. May be repeated.
    #[arg(long = "machine", id = "machines_named", value_name = "NAME")]
    machines: Vec<String>,
    /// Tenant that may use the machines, together with all tenants below it. May be repeated.
    #[arg(long = "tenant", value_name = "NAME", required = true)]
    tenants: Vec<String>,
    /// Start: a time from now such as 2h (0s is now), or @1764000000 in seconds since 1970.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = Moment::parse)]
    from: Moment,
    /// Duration, such as 30m or 8h.
    #[arg(long = "for", value_name = "TIME", value_parser = crate::duration::duration)]
    length: Duration,
    #[command(flatten)]
    common: CommandArgs,
}

/// A reservation.
#[derive(Debug, Serialize)]
struct ReservationShape {
    name: String,
    /// Requirements on the machines' labels and names, in words.
    machines: String,
    tenants: Vec<String>,
    /// Begin of the reservation, in milliseconds since 1970.
    from_ms: u64,
    until_ms: u64,
    /// Whether the reservation has begun, by the cell's time.
    begun: bool,
}

/// Runs the command.
pub(crate) fn run(command: &ReservationCommand) -> Result<(), CommandError> {
    match command {
        ReservationCommand::List(common) => list(common),
        ReservationCommand::Create(args) => create(args),
        ReservationCommand::Delete(args) => delete(args),
    }
}

fn create(args: &CreateArgs) -> Result<(), CommandError> {
    let labels = args.labels.iter();
    let labels = labels.map(|(key, value)| Requirement::equals(&**key, &**value)).collect();
    let values = args.machines.iter().map(|name| name.as_str().into()).collect();
    let name = Requirement { key: "".into(), operator: Operator::In, values };
    let names = if args.machines.is_empty() { Vec::new() } else { vec![name] };
    let from_ms = args.from.unix_ms();
    let reservation = Reservation {
        name: args.name.as_str().into(),
        machines: MachineSelector { labels, names },
        tenants: args.tenants.iter().map(|tenant| tenant.as_str().into()).collect(),
        from_ms,
        until_ms: from_ms.saturating_add(millis(args.length)),
    };
    let caller = args.common.caller()?;
    // A tenant may get its first job later, so this is only a warning.
    let warning = match quota::check_all_known(&caller, &args.tenants) {
        Err(error @ CommandError::NoTenant { .. }) => format!("warning: {error}\n"),
        _ => String::new(),
    };
    let request = proto::CreateReservationRequest { reservation: Some((&reservation).into()) };
    let response = caller.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).create_reservation(request).await
    })?;
    let done = DoneShape { name: args.name.clone(), done: "is made", version: response.version };
    let shape = DoneForShape { done, machines: response.machines };
    show::print(args.common.output, &shape, || show::done_for("reservation", &shape) + &warning)
}

fn delete(args: &NameArgs) -> Result<(), CommandError> {
    let request = proto::DeleteReservationRequest { name: args.name.clone() };
    let response = args.common.caller()?.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).delete_reservation(request).await
    })?;
    let shape = DoneShape { name: args.name.clone(), done: "is ended", version: response.version };
    show::print(args.common.output, &shape, || show::done("reservation", &shape))
}

fn list(common: &CommandArgs) -> Result<(), CommandError> {
    let request = proto::ListReservationsRequest {};
    let response = common.caller()?.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).list_reservations(request).await
    })?;
    // In a new cell the time has not been set yet.
    let now_ms = if response.now_ms > 0 { response.now_ms } else { unix_ms() };
    let all = response.reservations.into_iter().map(|given| shape(given, now_ms));
    let all: Vec<ReservationShape> = all.collect::<Result<_, _>>()?;
    show::print(common.output, &all, || table(&all, now_ms))
}

fn shape(given: proto::Reservation, now_ms: u64) -> Result<ReservationShape, CommandError> {
    let reservation = Reservation::try_from(given)?;
    let Reservation { name, machines, tenants, from_ms, until_ms } = reservation;
    Ok(ReservationShape {
        name: name.to_string(),
        machines: selector(&machines),
        tenants: tenants.iter().map(ToString::to_string).collect(),
        from_ms,
        until_ms,
        begun: from_ms <= now_ms,
    })
}

/// A selector of machines, in words.
pub(super) fn selector(machines: &MachineSelector) -> String {
    let one = |what: &str, requirement: &Requirement| {
        let values = requirement.values.join("|");
        match requirement.operator {
            Operator::In => format!("{what}={values}"),
            Operator::NotIn => format!("{what}!={values}"),
            Operator::Exists => format!("has {what}"),
            Operator::DoesNotExist => format!("has no {what}"),
            Operator::Gt => format!("{what}>{values}"),
            Operator::Lt => format!("{what}<{values}"),
        }
    };
    let labels = machines.labels.iter().map(|requirement| one(&requirement.key, requirement));
    let names = machines.names.iter().map(|requirement| one("name", requirement));
    labels.chain(names).collect::<Vec<_>>().join(", ")
}

fn table(all: &[ReservationShape], now_ms: u64) -> String {
    let heading = [
        ("reservation", Align::Left),
        ("machines", Align::Left),
        ("tenants", Align::Left),
        ("begins", Align::Right),
        ("ends", Align::Right),
    ];
    let row = |one: &ReservationShape| {
        let begins = if one.begun { "has begun".to_owned() } else { away(one.from_ms, now_ms) };
        let tenants = one.tenants.join(", ");
        vec![one.name.clone(), one.machines.clone(), tenants, begins, away(one.until_ms, now_ms)]
    };
    columns(&heading, &all.iter().map(row).collect::<Vec<_>>())
}

/// Time from now to another time, in words.
fn away(at_ms: u64, now_ms: u64) -> String {
    let seconds = at_ms.saturating_sub(now_ms) / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 if minutes == 0 => format!("in {seconds} s"),
        0 => format!("in {minutes} min"),
        _ => format!("in {hours} h {minutes} min"),
    }
}
