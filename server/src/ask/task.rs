//! `omega task`: the tasks of a job, or of a machine; `resize.rs` has the verb that gives one more or less.

use super::call::{Caller, Listed, Page};
use super::logs::LogsArgs;
use super::resize::ResizeArgs;
use super::shape::{ListShape, TaskShape, listed};
use super::show::{self, Align, and_more, columns};
use super::{AskArgs, AskError, job, logs, machine, resize};
use clap::{Args, Subcommand};
use omega_client::proto;
use omega_client::proto::list_tasks_request::Of;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_core::Kinds;

/// Commands for tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// List the tasks of a job, or those that a machine has.
    #[command(
        after_help = "Examples:\n  omega task list --job web\n  omega task list --machine m-1"
    )]
    List(ListArgs),
    /// Print what a task writes.
    #[command(
        after_help = "Examples:\n  omega task logs web/0 -f\n  omega task logs web/0 --tail 20 --stderr"
    )]
    Logs(LogsArgs),
    /// Give a task that has a machine more or less of it, while it runs.
    #[command(after_help = "Example:\n  omega task resize web/0 --cpu 2 --memory 4GiB")]
    Resize(Box<ResizeArgs>),
}

/// Selection of tasks.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only tasks of this job.
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "machine",
        conflicts_with = "machine"
    )]
    job: Option<String>,
    /// Those that this machine has.
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Runs the command.
pub(crate) fn run(command: &TaskCommand) -> Result<(), AskError> {
    match command {
        TaskCommand::List(args) => run_list(args),
        TaskCommand::Logs(args) => logs::run(args),
        TaskCommand::Resize(args) => resize::run(args),
    }
}

fn run_list(args: &ListArgs) -> Result<(), AskError> {
    let of = match (&args.job, &args.machine) {
        (Some(name), _) => job::by_name(name).map(Of::Job),
        (None, name) => machine::by_name(name.as_deref().unwrap_or_default()).map(Of::Machine),
    };
    let caller = args.ask.caller()?;
    let kinds = caller.kinds()?;
    let listed = list(&caller, of, args.limit)?;
    let shape = ListShape {
        version: listed.version,
        more: listed.more,
        items: listed.items.into_iter().map(|told| TaskShape::new(&kinds, told)).collect(),
    };
    show::print(args.ask.output, &shape, || table(&kinds, &shape.items) + and_more(shape.more))
}

/// The tasks of a job or a machine.
pub(super) fn list(
    caller: &Caller,
    of: Option<Of>,
    limit: Option<u32>,
) -> Result<Listed<proto::TaskStatus>, AskError> {
    caller.pages(limit, |caller, page_size, page_token| {
        let request = proto::ListTasksRequest { of: of.clone(), page_size, page_token };
        let page = caller.call(&request, |channel, request| async move {
            TaskServiceClient::new(channel).list_tasks(request).await
        })?;
        Ok::<Page<proto::TaskStatus>, _>((page.tasks, page.next_page_token, page.version))
    })
}

/// Columns of the table. Devices, exclusive cores and allocations have one only if a task has them.
fn table(kinds: &Kinds, tasks: &[TaskShape]) -> String {
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
    let some: [Column; 3] = [
        ("devices", &|task| numbers(&task.devices)),
        ("cores", &|task| numbers(&task.cores)),
        ("allocated", &|task| allocated(task).unwrap_or_default()),
    ];
    let some = some.into_iter().filter(|(_, of)| tasks.iter().any(|task| !of(task).is_empty()));
    let shown: Vec<Column> = always.into_iter().chain(some).collect();
    let heading: Vec<_> = shown.iter().map(|(name, _)| (*name, Align::Left)).collect();
    let row = |task: &TaskShape| shown.iter().map(|(_, of)| of(task)).collect();
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    columns(&heading, &rows)
}

/// Text of a task in a column.
type Column<'a> = (&'static str, &'a dyn Fn(&TaskShape) -> String);
