//! `omega task`: the tasks of a job, or of a machine; `resize.rs` has the verb that gives one more or less.

use super::call::{Caller, Listed, Page};
use super::resize::ResizeArgs;
use super::shape::{ListShape, TaskShape};
use super::show::{self, Align, and_more, columns};
use super::{AskArgs, AskError, job, machine, resize};
use clap::{Args, Subcommand};
use omega_client::proto;
use omega_client::proto::list_tasks_request::Of;
use omega_client::proto::task_service_client::TaskServiceClient;

/// What to do with tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// List the tasks of a job, or those that a machine has.
    #[command(
        after_help = "Examples:\n  omega task list --job web\n  omega task list --machine m-1"
    )]
    List(ListArgs),
    /// Give a task that has a machine more or less of it, while it runs.
    #[command(after_help = "Example:\n  omega task resize web/0 --cpu 2 --memory 4GiB")]
    Resize(Box<ResizeArgs>),
}

/// Whose tasks.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Those of this job.
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
    /// At most so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Does what was asked.
pub(crate) fn run(command: &TaskCommand) -> Result<(), AskError> {
    match command {
        TaskCommand::List(args) => run_list(args),
        TaskCommand::Resize(args) => resize::run(args),
    }
}

fn run_list(args: &ListArgs) -> Result<(), AskError> {
    let of = match (&args.job, &args.machine) {
        (Some(name), _) => job::by_name(name).map(Of::Job),
        (None, name) => machine::by_name(name.as_deref().unwrap_or_default()).map(Of::Machine),
    };
    let listed = list(&args.ask.caller()?, of, args.limit)?;
    let shape = ListShape {
        version: listed.version,
        more: listed.more,
        items: listed.items.into_iter().map(TaskShape::new).collect(),
    };
    show::print(args.ask.output, &shape, || table(&shape.items) + and_more(shape.more))
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

fn table(tasks: &[TaskShape]) -> String {
    let heading = ["task", "group", "state", "machine"].map(|name| (name, Align::Left));
    let row = |task: &TaskShape| {
        let machine = task.machine.clone().unwrap_or_default();
        vec![task.task.clone(), task.group.clone(), task.state.to_owned(), machine]
    };
    let rows: Vec<Vec<String>> = tasks.iter().map(row).collect();
    columns(&heading, &rows)
}
