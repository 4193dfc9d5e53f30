//! `omega machine`: the machines of a cell.

use crate::commands::call::{Caller, Listed, Page};
use crate::commands::events::{self, EventsShape};
use crate::commands::files::amount::{Amount, AmountArgs};
use crate::commands::files::lines::with_line;
use crate::commands::files::machine_file::{self, MachineFile, MachinesFile};
use crate::commands::files::moment;
use crate::commands::files::pairs::{self, Condition};
use crate::commands::shape::{DoneShape, ListShape, MachineShape, MadeShape};
use crate::commands::show::{self, Align, Format, and_more, columns, facts, fitted};
use crate::commands::{CommandArgs, CommandError, NameArgs, named, task, task_pages};
use clap::{Args, Subcommand, ValueEnum};
use omega_client::agent::DRAIN_BY;
use omega_client::proto;
use omega_client::proto::list_tasks_request::Of;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_core::{Kinds, MachineId, NodeCores, PortRange, Taint};
use omega_workload::file;
use omega_workload::words::plural;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Heading of options in the help.
const RESOURCES: &str =
    "Resources [default: none, but --gpu defaults to --devices, and --cpu to the sum of --numa]";

/// Commands for machines.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// List the machines, their states, and their free resources.
    #[command(
        mut_arg("output", show::with_wide),
        after_help = "Example:\n  omega machine list --label rack=a --limit 20"
    )]
    List(ListArgs),
    /// Show one machine, and its recent events.
    #[command(
        mut_arg("name", named("machine")),
        after_help = "Example:\n  omega machine get m-1 -o json"
    )]
    Get(NameArgs),
    /// Add machines, described by options or by a file, or change existing machines of the same names.
    ///
    /// A change replaces the whole description of a machine. Its tasks stay. An agent adds its own machine; a change of
    /// such a machine keeps its `omega.io/` labels and taints, and, without --numa, its NUMA nodes.
    #[command(after_help = "Examples:\n  \
        omega machine add m-1 --cpu 4 --memory 16GiB --label rack=a\n  \
        omega machine add -f machines.toml")]
    Add(Box<AddArgs>),
    /// Stop placing tasks on a machine. Running tasks stay, unless --deadline is given.
    ///
    /// The command does not wait until the machine is empty; `omega machine get` shows its tasks.
    #[command(
        visible_alias = "cordon",
        mut_arg("name", named("machine")),
        after_help = "Examples:\n  \
        omega machine drain m-1\n  \
        omega machine drain m-1 --deadline 10m"
    )]
    Drain(DrainArgs),
    /// Resume placing tasks on a machine that was drained.
    #[command(
        visible_alias = "uncordon",
        mut_arg("name", named("machine")),
        after_help = "Example:\n  omega machine resume m-1"
    )]
    Resume(NameArgs),
    /// Remove a machine from the cell. If it has tasks, --force is required, unless it drains and has only tasks of
    /// per_machine groups.
    #[command(
        mut_arg("name", named("machine")),
        after_help = "Examples:\n  omega machine remove m-1\n  omega machine remove m-1 --force"
    )]
    Remove(RemoveArgs),
}

/// The machine to drain.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Also move the tasks away within this time, such as 10m. Until then, a service task is stopped when its
    /// replacement runs on another machine, and batch tasks keep running. Tasks that are still on the machine after
    /// this time are stopped and placed elsewhere; 0s stops all tasks immediately [default: no task is moved].
    #[arg(long, value_name = "TIME", value_parser = crate::duration::duration)]
    deadline: Option<Duration>,
    #[command(flatten)]
    of: NameArgs,
}

/// The machine to remove.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Remove the machine even if it has tasks, which become pending.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    of: NameArgs,
}

/// Selection of machines.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    selected: Selected,
    /// Maximum number of rows [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    common: CommandArgs,
}

/// Selection of machines. The default selects all.
#[derive(Debug, Default, Args)]
pub(super) struct Selected {
    /// Only machines with this label; KEY!=VALUE for machines without it. KEY and !KEY select any value. May be
    /// repeated, or contain several conditions, separated by commas, which values cannot contain: a machine must meet all.
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_delimiter = ',',
          value_parser = pairs::condition)]
    labels: Vec<Condition>,
    /// Only machines in this state [default: all].
    #[arg(long, value_name = "STATE")]
    state: Option<MachineState>,
}

/// State of a machine, as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MachineState {
    /// Accepts tasks.
    Up,
    /// Accepts no further tasks: see `omega machine drain`.
    Draining,
    /// Its agent sends no heartbeats.
    Unreachable,
}

impl MachineState {
    /// Word for the state in lists.
    fn name(self) -> &'static str {
        match self {
            MachineState::Up => "up",
            MachineState::Draining => "draining",
            MachineState::Unreachable => "unreachable",
        }
    }
}

/// The machine by flags, or a file of machines.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Add the machines of this file (TOML or JSON; docs/cli.md describes the fields), instead of a machine described
    /// by options. `-` is standard input.
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["name",
          "cpu", "memory", "disk", "gpu", "amounts", "devices", "numa", "ports", "labels", "taints"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    given: Described,
    #[command(flatten)]
    common: CommandArgs,
}

#[derive(Debug, Args)]
struct Described {
    /// Name of the machine; required unless --file is given.
    #[arg(value_name = "NAME", required_unless_present = "file")]
    name: Option<String>,
    /// Number of GPUs in the machine. Tasks may claim all GPUs, unless --gpu gives a lower amount [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=32))]
    devices: Option<u8>,
    /// For each NUMA node, the number of cores that tasks may use exclusively, such as 16,16. The sum of these numbers
    /// is also the machine's cpu, unless --cpu is given [default: no exclusive cores].
    #[arg(long, value_name = "CORES,CORES", value_parser = pairs::numa)]
    numa: Option<NodeCores>,
    /// Range of the ports that the cell may give to tasks, or `none` for no ports [default: 20000-31999].
    #[arg(long, value_name = "FIRST-LAST")]
    ports: Option<PortRange>,
    /// Label of the machine. May be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pairs::label)]
    labels: Vec<(String, String)>,
    /// Taint of the machine, such as team=ml:NoSchedule. May be repeated.
    #[arg(long = "taint", value_name = "KEY=VALUE:EFFECT", value_parser = pairs::taint)]
    taints: Vec<Taint>,
    #[command(flatten, next_help_heading = RESOURCES)]
    amounts: AmountArgs,
}

/// Runs the command.
pub(crate) fn run(command: &MachineCommand) -> Result<(), CommandError> {
    match command {
        MachineCommand::List(args) => list(args),
        MachineCommand::Get(args) => get(args),
        MachineCommand::Add(args) => add(args),
        MachineCommand::Drain(args) => drain(args),
        MachineCommand::Resume(args) => resume(args),
        MachineCommand::Remove(args) => remove(args),
    }
}

/// The API's reference to a machine by its name.
pub(super) fn by_name(name: &str) -> Option<proto::MachineRef> {
    let machine = Some(proto::machine_ref::Machine::Name(name.to_owned()));
    Some(proto::MachineRef { machine })
}

fn list(args: &ListArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let listed = machines(&caller, &kinds, &args.selected, args.limit)?;
    let shape = ListShape { version: listed.version, more: listed.more, items: listed.items };
    let wide = args.common.output == Format::Wide;
    show::print(args.common.output, &shape, || {
        table(&kinds, &shape.items, wide) + and_more(shape.more)
    })
}

/// Requests the selected machines, sorted by name.
///
/// # Errors
/// As [`Caller::call`], or if a machine cannot be decoded.
pub(super) fn machines(
    caller: &Caller,
    kinds: &Kinds,
    selected: &Selected,
    limit: Option<u32>,
) -> Result<Listed<MachineShape>, CommandError> {
    let labels = selected.labels.iter();
    let labels = labels.map(|condition| (&condition.requirement()).into());
    let labels: Vec<proto::Requirement> = labels.collect();
    // Pages are in the order of ids, so all are needed to find the first names.
    let mut listed = caller.pages(None, |caller, page_size, page_token| {
        let request = proto::ListMachinesRequest { labels: labels.clone(), page_size, page_token };
        let page = page(caller, &request)?;
        let shapes = page.machines.into_iter().map(|response| MachineShape::new(kinds, response));
        let mut shapes = shapes.collect::<Result<Vec<_>, _>>()?;
        shapes.retain(|machine| selected.state.is_none_or(|state| state.name() == machine.status));
        Ok::<Page<MachineShape>, _>((shapes, page.next_page_token, page.version))
    })?;
    listed.items.sort_by(|one, other| show::by_name(&one.name, &other.name));
    listed.cut(limit);
    Ok(listed)
}

/// Requests one page of machines.
///
/// # Errors
/// As [`Caller::call`].
pub(super) fn page(
    caller: &Caller,
    request: &proto::ListMachinesRequest,
) -> Result<proto::ListMachinesResponse, CommandError> {
    caller.call(request, |channel, request| async move {
        let max = omega_client::connect::MESSAGE_BYTES_MAX;
        let client = MachineServiceClient::new(channel);
        client.max_decoding_message_size(max * PAGE_BYTES).list_machines(request).await
    })
}

/// Factor by which pages of machines may be larger than other messages: a machine may have 256 labels of a kilobyte
/// each.
const PAGE_BYTES: usize = 16;

fn table(kinds: &Kinds, machines: &[MachineShape], wide: bool) -> String {
    let used = kinds.iter().filter(|(_, kind)| {
        machines.iter().any(|machine| machine.resources[&kind.name].claimable > 0)
    });
    let used: Vec<_> = used.collect();
    let titles: Vec<String> = used.iter().map(|(_, kind)| format!("free {}", kind.name)).collect();
    let mut heading = vec![("name", Align::Left), ("status", Align::Left), ("tasks", Align::Right)];
    heading.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
    if wide {
        heading.extend([("labels", Align::Left), ("taints", Align::Left), ("id", Align::Left)]);
    }
    let row = |machine: &MachineShape| {
        let mut row =
            vec![machine.name.clone(), machine.status.to_owned(), machine.tasks.to_string()];
        row.extend(used.iter().map(|(id, kind)| {
            let resource = machine.resources[&kind.name];
            let (free, all) = (resource.free, resource.claimable);
            format!("{} of {}", signed(kinds, *id, free), kinds.display(*id, all))
        }));
        if wide {
            row.extend([labels(machine, ","), machine.taints.join(","), machine.id.clone()]);
        }
        row
    };
    let rows: Vec<Vec<String>> = machines.iter().map(row).collect();
    if wide {
        return columns(&heading, &rows);
    }
    // A narrow terminal does not get these. Last are the amounts that most users look at.
    let mut least = vec!["free disk"];
    let ordered = ["free cpu", "free memory", "free disk", "free gpu"];
    let others = titles.iter().map(String::as_str).rev();
    least.extend(others.filter(|title| !ordered.contains(title)));
    least.extend(["tasks", "free gpu"]);
    fitted(&heading, &rows, &least)
}

/// Formats an amount that may be negative, such as the free amount of a machine that shrank below its claims.
fn signed(kinds: &Kinds, kind: omega_core::KindId, amount: i64) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    format!("{sign}{}", kinds.display(kind, amount.unsigned_abs()))
}

fn get(args: &NameArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let shape = request(&caller, &kinds, &args.name)?;
    show::print(args.common.output, &shape, || text(&kinds, &shape))
}

/// Requests a machine and its latest events.
fn request(caller: &Caller, kinds: &Kinds, name: &str) -> Result<OneShape, CommandError> {
    let response = find(caller, name)?;
    let of = by_name(name).map(events::Of::Machine);
    let events = events::latest(caller, of, None, events::FEW)?;
    Ok(OneShape { machine: MachineShape::new(kinds, response)?, events })
}

fn text(kinds: &Kinds, shape: &OneShape) -> String {
    format!("{}\n{}", one(kinds, &shape.machine), events::table(&shape.events))
}

/// Describes a machine as `omega machine get` does, with its tasks.
///
/// # Errors
/// As [`Caller::call`], or if there is no such machine.
pub(super) fn detail(caller: &Caller, kinds: &Kinds, name: &str) -> Result<String, CommandError> {
    let text = text(kinds, &request(caller, kinds, name)?);
    let tasks = task::table_of(caller, kinds, by_name(name).map(Of::Machine))?;
    Ok(format!("{text}\n{tasks}"))
}

/// Finds a machine by name.
fn find(caller: &Caller, name: &str) -> Result<proto::MachineStatus, CommandError> {
    let request = proto::GetMachineRequest { machine: by_name(name) };
    let response = caller.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).get_machine(request).await
    })?;
    Ok(response.machine.ok_or(omega_client::convert::Malformed::Missing("machine"))?)
}

/// A machine, and its latest events.
#[derive(Debug, Serialize)]
struct OneShape {
    #[serde(flatten)]
    machine: MachineShape,
    events: EventsShape,
}

/// Labels of a machine in one line.
fn labels(machine: &MachineShape, between: &str) -> String {
    let labels = machine.labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(between)
}

/// The end of a drain in milliseconds since 1970, if the taint gives one.
fn drain_by_ms(taint: &str) -> Option<u64> {
    let value = taint.strip_prefix(DRAIN_BY)?.strip_prefix('=')?;
    value.split(':').next()?.parse().ok()
}

/// The status of a machine, with the time at which a drain stops its tasks.
fn status_text(machine: &MachineShape, now_ms: u64) -> String {
    let by_ms = machine.taints.iter().find_map(|taint| drain_by_ms(taint));
    match by_ms.map(|by_ms| by_ms.saturating_sub(now_ms).div_ceil(1000)) {
        None => machine.status.to_owned(),
        Some(0) => format!("{}, its deadline has passed", machine.status),
        Some(left) => format!("{}, its tasks are stopped in {left} s", machine.status),
    }
}

/// The taints of a machine in one line, without the end of a drain.
fn taints_text(machine: &MachineShape) -> String {
    let taints = machine.taints.iter().filter(|taint| drain_by_ms(taint).is_none());
    taints.map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn one(kinds: &Kinds, machine: &MachineShape) -> String {
    let nodes = machine.numa.iter().zip(&machine.cores_left);
    let numa: Vec<String> = nodes.map(|(cores, left)| format!("{left} of {cores}")).collect();
    let default = PortRange::default().to_string();
    let head = facts(&[
        ("name", machine.name.clone()),
        ("id", machine.id.clone()),
        ("status", status_text(machine, moment::unix_ms())),
        ("tasks", machine.tasks.to_string()),
        ("devices", if machine.devices > 0 { machine.devices.to_string() } else { String::new() }),
        ("numa", numa.join(", ")),
        ("ports", if machine.ports == default { String::new() } else { machine.ports.clone() }),
        ("labels", labels(machine, " ")),
        ("taints", taints_text(machine)),
    ]);
    let row = |(id, kind): (omega_core::KindId, &omega_core::ResourceKind)| {
        let of = machine.resources[&kind.name];
        vec![
            kind.name.clone(),
            kinds.display(id, of.capacity),
            kinds.display(id, of.claimable),
            signed(kinds, id, of.claimed),
            signed(kinds, id, of.free),
            kinds.display(id, of.load),
        ]
    };
    let right = |name| (name, Align::Right);
    let heading = [
        ("resource", Align::Left),
        right("capacity"),
        right("claimable"),
        right("claimed"),
        right("free"),
        right("load"),
    ];
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    format!("{head}\n{}", columns(&heading, &rows))
}

fn add(args: &AddArgs) -> Result<(), CommandError> {
    file::reject_file_name(args.given.name.as_deref())?;
    let files: MachinesFile = match &args.file {
        Some(file) => file::read(file)?,
        None => MachinesFile { machine: vec![args.given.machine()] },
    };
    let source = args.file.as_deref();
    let caller = args.common.caller()?;
    // Everything is checked before anything is sent.
    let at_line = |error| match source {
        Some(file) => with_line(error, file),
        None => error,
    };
    let machines = machine_file::machines(&files, &caller.kinds()?, source).map_err(at_line)?;
    let mut made = Vec::with_capacity(machines.len());
    for machine in machines {
        let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
        let response = caller.call(&request, |channel, request| async move {
            MachineServiceClient::new(channel).register_machine(request).await
        })?;
        let id = MachineId::from(response.id.unwrap_or_default()).to_string();
        made.push(MadeShape { name: machine.name.to_string(), id });
    }
    show::print(args.common.output, &made, || match made.as_slice() {
        [one] => {
            format!("machine {} is in the cell\n", crate::commands::show::clean_name(&one.name))
        }
        many => format!("{} machines are added or unchanged\n", many.len()),
    })
}

impl Described {
    /// The machine that the flags describe, in the form of a file.
    fn machine(&self) -> MachineFile {
        let named = self.amounts.named();
        let capacity: BTreeMap<String, Amount> =
            named.into_iter().map(|(_, kind, amount)| (kind, amount.clone())).collect();
        MachineFile {
            name: self.name.clone().unwrap_or_default(),
            count: None,
            capacity,
            devices: self.devices.unwrap_or_default(),
            numa: self.numa.map_or(Vec::new(), |numa| numa.as_slice().to_vec()),
            ports: self.ports.as_ref().map(ToString::to_string),
            labels: self.labels.iter().cloned().collect(),
            taints: self.taints.iter().map(pairs::taint_text).collect(),
            overcommit: BTreeMap::new(),
        }
    }
}

fn drain(args: &DrainArgs) -> Result<(), CommandError> {
    let in_ms = args.deadline.map(|time| moment::unix_ms().saturating_add(moment::millis(time)));
    let leave_by_ms = in_ms.unwrap_or(0);
    let machine = by_name(&args.of.name);
    let request = proto::DrainMachineRequest { machine, resume: false, leave_by_ms };
    let done = if leave_by_ms > 0 { "drains, and its tasks move" } else { "takes no new tasks" };
    set_drained(&args.of, &request, done)
}

fn resume(args: &NameArgs) -> Result<(), CommandError> {
    let machine = by_name(&args.name);
    let request = proto::DrainMachineRequest { machine, resume: true, leave_by_ms: 0 };
    set_drained(args, &request, "takes tasks again")
}

fn set_drained(
    args: &NameArgs,
    request: &proto::DrainMachineRequest,
    done: &'static str,
) -> Result<(), CommandError> {
    let response = args.common.caller()?.call(request, |channel, request| async move {
        MachineServiceClient::new(channel).drain_machine(request).await
    })?;
    changed(args, done, response.version)
}

fn remove(args: &RemoveArgs) -> Result<(), CommandError> {
    let RemoveArgs { of: args, force } = args;
    let caller = args.common.caller()?;
    let machine = if *force { None } else { Some(find(&caller, &args.name)?) };
    let tasks = machine.as_ref().map_or(0, |machine| machine.tasks);
    // Tasks of per_machine groups belong to their machine, and stay during a drain.
    let is_drained = machine.is_some_and(|machine| machine.draining)
        && task_pages::all_stay(&caller, by_name(&args.name).map(Of::Machine))?;
    if tasks > 0 && !is_drained {
        return Err(CommandError::HasTasks {
            name: args.name.clone(),
            tasks: plural(tasks.into(), "task"),
        });
    }
    let request = proto::RemoveMachineRequest { machine: by_name(&args.name) };
    let response = caller.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).remove_machine(request).await
    })?;
    changed(args, "is removed", response.version)
}

fn changed(args: &NameArgs, done: &'static str, version: u64) -> Result<(), CommandError> {
    let shape = DoneShape { name: args.name.clone(), done, version };
    show::print(args.common.output, &shape, || show::done("machine", &shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Machine};

    #[test]
    fn a_drain_with_a_deadline_shows_the_time_that_is_left() {
        let kinds = Kinds::standard();
        let shown = |taints: &[&str]| {
            let taints = taints.iter().map(|text| pairs::taint(text).unwrap()).collect();
            let machine = Machine { taints, ..Machine::new("m", Amounts::new([1])) };
            let status = proto::MachineStatus {
                machine: Some((&machine).into()),
                id: Some(MachineId::first(0).into()),
                draining: true,
                ..Default::default()
            };
            let machine = MachineShape::new(&kinds, status).unwrap();
            (status_text(&machine, 2000), taints_text(&machine))
        };
        let drain_by = format!("{DRAIN_BY}=6500:NoSchedule");
        let left = "draining, its tasks are stopped in 5 s".to_owned();
        let past = format!("{DRAIN_BY}=2000:NoSchedule");
        assert_eq!(shown(&[&past]).0, "draining, its deadline has passed");
        assert_eq!(shown(&[&drain_by, "a:NoExecute"]), (left, "a:NoExecute".to_owned()));
        assert_eq!(shown(&[]), ("draining".to_owned(), String::new()));
    }
}
