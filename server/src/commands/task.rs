//! `omega task`: the tasks of a job or of a machine. The command that resizes a task is in `resize.rs`.

use crate::commands::call::Caller;
use crate::commands::events::{self, EventsShape};
use crate::commands::files::moment::unix_ms;
use crate::commands::jobs::named_job;
use crate::commands::logs::LogsArgs;
use crate::commands::resize;
use crate::commands::resize::ResizeArgs;
use crate::commands::shape::{ListShape, TaskShape, listed};
use crate::commands::show::{self, Align, Format, and_more, columns, facts, fitted};
use crate::commands::task_pages::{list, page};
use crate::commands::task_state::State;
use crate::commands::{CommandArgs, CommandError, logs, machine};
use clap::{Args, Subcommand};
use omega_client::convert::Malformed;
use omega_client::proto;
use omega_client::proto::list_tasks_request::Of;
use omega_core::Kinds;
use serde::Serialize;

/// Commands for tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// List the tasks of a job or of a machine. Either --job or --machine is required.
    #[command(
        mut_arg("output", show::with_wide),
        after_help = "Examples:\n  omega task list --job web\n  omega task list --machine m-1"
    )]
    List(ListArgs),
    /// Show one task: its state, how its program last ended (exit code or signal), and its recent events.
    #[command(after_help = "Example:\n  omega task get web/0")]
    Get(GetArgs),
    /// Print the standard output or standard error of a task, or of all tasks of a job, as their agents stored it.
    #[command(
        after_help = "Examples:\n  omega task logs web/0 -f\n  omega task logs web/0 --tail 20 --stderr\n  omega task logs web -f"
    )]
    Logs(LogsArgs),
    /// Resize the allocation of a placed task, while it runs. Resource kinds that are not given keep their amounts.
    #[command(after_help = "Example:\n  omega task resize web/0 --cpu 2 --memory 4GiB")]
    Resize(Box<ResizeArgs>),
}

/// Selection of tasks.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("of").required(true).args(["job", "machine"]))]
pub(crate) struct ListArgs {
    /// Tasks of this job.
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Tasks on this machine.
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Only tasks in this state [default: all].
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Maximum number of rows [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    common: CommandArgs,
}

/// The task.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Task: the name of its job and its number, such as web/0.
    #[arg(value_name = "JOB/INDEX", value_parser = resize::name)]
    task: (String, u32),
    #[command(flatten)]
    common: CommandArgs,
}

/// A task, and its latest events.
#[derive(Debug, Serialize)]
struct OneShape {
    #[serde(flatten)]
    task: TaskShape,
    events: EventsShape,
}

/// Runs the command.
pub(crate) fn run(command: &TaskCommand) -> Result<(), CommandError> {
    match command {
        TaskCommand::List(args) => run_list(args),
        TaskCommand::Get(args) => get(args),
        TaskCommand::Logs(args) => logs::run(args),
        TaskCommand::Resize(args) => resize::run(args),
    }
}

fn run_list(args: &ListArgs) -> Result<(), CommandError> {
    let of = match (&args.job, &args.machine) {
        (Some(name), _) => named_job::by_name(name).map(Of::Job),
        (None, name) => machine::by_name(name.as_deref().unwrap_or_default()).map(Of::Machine),
    };
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let listed = list(&caller, of, args.limit, args.state)?;
    let shape = ListShape {
        version: listed.version,
        more: listed.more,
        items: listed.items.into_iter().map(|response| TaskShape::new(&kinds, response)).collect(),
    };
    let format = args.common.output;
    show::print(format, &shape, || table(&kinds, &shape.items, format) + and_more(shape.more))
}

fn get(args: &GetArgs) -> Result<(), CommandError> {
    let (name, index) = &args.task;
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let of = named_job::by_name(name).map(Of::Job);
    let request = proto::ListTasksRequest { of, index: Some(*index), ..Default::default() };
    let page = page(&caller, &request)?;
    let response = page.tasks.into_iter().next().ok_or(Malformed::Missing("tasks"))?;
    let of = named_job::by_name(name).map(events::Of::Job);
    let mut events = events::latest(&caller, of, Some(*index), events::FEW)?;
    if State::Killed.is_of(&response) {
        events::add_kill(&caller, name, &mut events);
    }
    let shape = OneShape { task: TaskShape::new(&kinds, response), events };
    show::print(args.common.output, &shape, || one(&kinds, &shape))
}

fn one(kinds: &Kinds, shape: &OneShape) -> String {
    let OneShape { task, events } = shape;
    let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let end = task.last_end.as_ref().map(|end| end.text().to_owned());
    let head = facts(&[
        ("name", task.task.clone()),
        ("group", task.group.clone()),
        ("state", task.state.to_owned()),
        ("machine", task.machine.clone().unwrap_or_default()),
        ("age", events::age(unix_ms(), task.placed_ms)),
        ("restarts", task.restarts.to_string()),
        ("last end", end.unwrap_or_default()),
        ("devices", numbers(&task.devices)),
        ("cores", numbers(&task.cores)),
        ("ports", ports(task)),
        ("allocated", task.allocated.as_ref().map(|all| listed(kinds, all)).unwrap_or_default()),
    ]);
    format!("{head}\n{}", events::table(events))
}

/// The ports of a task in one line: `http=20017 metrics=9100`.
fn ports(task: &TaskShape) -> String {
    let ports = task.ports.iter().map(|(name, number)| format!("{name}={number}"));
    ports.collect::<Vec<_>>().join(" ")
}

/// Maximum number of tasks in a detail.
const DETAIL_MAX: u32 = 1000;

/// Table of the first tasks of a job or a machine, with their ages and last ends.
///
/// # Errors
/// As [`Caller::call`].
pub(super) fn table_of(
    caller: &Caller,
    kinds: &Kinds,
    of: Option<Of>,
) -> Result<String, CommandError> {
    let listed = list(caller, of, Some(DETAIL_MAX), None)?;
    let tasks = listed.items.into_iter().map(|response| TaskShape::new(kinds, response));
    let tasks: Vec<TaskShape> = tasks.collect();
    Ok(table(kinds, &tasks, Format::Wide) + and_more(listed.more))
}

/// Columns of the table. Restarts, devices, exclusive cores and allocations have a column only if some task has them.
fn table(kinds: &Kinds, tasks: &[TaskShape], format: Format) -> String {
    let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let allocated = |task: &TaskShape| {
        let listed = listed(kinds, task.allocated.as_ref()?);
        Some(if listed.is_empty() { "nothing".to_owned() } else { listed })
    };
    let always: [Column; 4] = [
        ("task", &|task| task.task.clone()),
        ("group", &|task| task.group.clone()),
        ("state", &|task| task.state.to_owned()),
        ("machine", &|task| task.machine.clone().unwrap_or_default()),
    ];
    let restarts = |task: &TaskShape| match task.restarts {
        0 => String::new(),
        many => many.to_string(),
    };
    let (now_ms, is_wide) = (unix_ms(), format == Format::Wide);
    let age = |task: &TaskShape| events::age(now_ms, task.placed_ms);
    let last_end = |task: &TaskShape| {
        task.last_end.as_ref().map(|end| end.text().to_owned()).unwrap_or_default()
    };
    let wide: [Column; 2] = [("age", &age), ("last end", &last_end)];
    let some: [Column; 4] = [
        ("restarts", &restarts),
        ("devices", &|task| numbers(&task.devices)),
        ("cores", &|task| numbers(&task.cores)),
        ("allocated", &|task| allocated(task).unwrap_or_default()),
    ];
    let some = some.into_iter().filter(|(_, of)| tasks.iter().any(|task| !of(task).is_empty()));
    let has_ports = tasks.iter().any(|task| !task.ports.is_empty());
    let ports: Option<Column> = has_ports.then_some(("ports", &ports));
    let wide = wide.into_iter().chain(ports).filter(|_| is_wide);
    let shown: Vec<Column> = always.into_iter().chain(some).chain(wide).collect();
    let heading: Vec<_> = shown.iter().map(|(name, _)| (*name, Align::Left)).collect();
    let row = |task: &TaskShape| shown.iter().map(|(_, of)| of(task)).collect();
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    if is_wide { columns(&heading, &rows) } else { fitted(&heading, &rows, &LEAST) }
}

/// Columns that a narrow terminal does not get, in this order.
const LEAST: [&str; 4] = ["allocated", "cores", "devices", "group"];

/// Heading of a column, and the text of a task in it.
type Column<'a> = (&'static str, &'a dyn Fn(&TaskShape) -> String);
