//! `omega job explain`: why a job of a live cell waits, and what would help.
//!
//! The cell's machines come as they come to a scheduler, and the diagnosis is the schedulers' own; so
//! it says what a scheduler with this profile would find. Nothing is written: not even a scheduler is
//! registered.

use super::call::Caller;
use super::job::by_name;
use super::{AskArgs, AskError, show, task};
use crate::profiles;
use clap::{Args, Parser};
use omega_bench::report::waiting::{WaitingJob, render_job};
use omega_bench::run::{AskedJob, explain_at};
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_client::convert::Malformed;
use omega_client::proto::TaskPhase;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::list_tasks_request::Of;
use omega_client::{RemoteCell, proto};
use omega_core::{
    Commit, Job, JobId, Kinds, SchedulerId, Text, Transaction, TransactionError, Version,
};
use omega_schedulers::config::Profiles;
use std::path::{Path, PathBuf};

/// Which job.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Explain by the profile of its scheduler in this file, as `omega scheduler --profile` has it.
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    ask: AskArgs,
}

/// A cell that is only looked at.
struct Onlooker(RemoteCell);

impl CellHandle for Onlooker {
    /// No id is asked for: without a commit, none is needed.
    fn register(&self, _: Text) -> Result<(SchedulerId, u64), HandleError> {
        Ok((SchedulerId(u32::MAX), 0))
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.0.sync(since, interest, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        Err(TransactionError::UnknownScheduler(txn.id.scheduler).into())
    }
}

/// What is said of a cell where a command has options of its own: the rest is in the environment.
#[derive(Debug, Parser)]
struct Environment {
    #[command(flatten)]
    ask: AskArgs,
}

/// Explains a job of the cell of these replicas.
pub(crate) fn served(cell: &str, job: &str, profile: Option<&Path>) -> Result<(), AskError> {
    let environment = Environment::try_parse_from(["omega", "--cell", cell]);
    let wrong = |error: clap::Error| AskError::Environment(crate::argument_error(&error));
    let ask = environment.map_err(wrong)?.ask;
    run(&ExplainArgs { name: job.to_owned(), profile: profile.map(Path::to_owned), ask })
}

/// Does what was asked.
pub(super) fn run(args: &ExplainArgs) -> Result<(), AskError> {
    let loaded = match &args.profile {
        Some(file) => profiles::read(file)?,
        None => Profiles::default(),
    };
    let caller = args.ask.caller()?;
    let kinds = caller.kinds()?;
    if let Some(file) = &args.profile {
        profiles::check(file, &loaded, &kinds)?;
    }
    let told = explained(&caller, &args.ask, (&kinds, &loaded), &args.name)?;
    show::print(args.ask.output, &told, || render_job(&told))
}

/// Why a job of a cell waits, by these profiles.
pub(super) fn explained(
    caller: &Caller,
    ask: &AskArgs,
    (kinds, profiles): (&Kinds, &Profiles),
    name: &str,
) -> Result<WaitingJob, AskError> {
    let (id, job) = find(caller, name)?;
    let waiting = waiting(caller, &job)?;
    let remote = RemoteCell::connect(&ask.cell.address()).map_err(AskError::Address)?;
    let asked = AskedJob { id, job: &job, waiting };
    let told = explain_at(&Onlooker(remote), kinds, profiles, asked);
    told.map_err(|why| AskError::Explain(Box::new(why)))
}

/// Why a job waits, in a line: what most machines lack for its first group that finds none.
pub(crate) fn summary(told: &WaitingJob) -> String {
    if told.waiting == 0 {
        return "none of its tasks waits".to_owned();
    }
    let Some(group) = told.groups.iter().find(|group| group.feasible == 0) else {
        let feasible = told.groups.first().map_or(0, |group| group.feasible);
        return format!("{feasible} machines would take a task: its scheduler has not come to it");
    };
    let reason = group.reasons.first().map_or("no machine may run it", |(reason, _)| reason);
    let count = group.reasons.first().map_or(0, |(_, count)| *count);
    match group.machines {
        0 => "the cell has no machines".to_owned(),
        all => format!("{count} of {all} machines: {reason}"),
    }
}

fn find(caller: &Caller, name: &str) -> Result<(JobId, Job), AskError> {
    let request = proto::GetJobRequest { job: by_name(name) };
    let told = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).get_job(request).await
    })?;
    let told = told.job.ok_or(Malformed::Missing("job"))?;
    let job = Job::try_from(told.job.ok_or(Malformed::Missing("job"))?)?;
    Ok((JobId(told.id), job))
}

/// How many tasks of each group wait.
fn waiting(caller: &Caller, job: &Job) -> Result<Vec<usize>, AskError> {
    let tasks = task::list(caller, by_name(&job.name).map(Of::Job), None)?;
    let waits = |task: &&proto::TaskStatus| task.phase() == TaskPhase::Pending;
    let waiting = |group: &omega_core::TaskGroup| {
        tasks.items.iter().filter(waits).filter(|task| *task.group == *group.name).count()
    };
    Ok(job.groups.iter().map(waiting).collect())
}
