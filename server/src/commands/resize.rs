//! `omega task resize`: resizes a placed task.
//!
//! The command sends a transaction with one resize, like `omega txn commit`. Kinds that are not given keep their
//! amounts.

use crate::commands::call::Caller;
use crate::commands::files::amount::{self, AmountArgs};
use crate::commands::files::txn_file::task_name;
use crate::commands::jobs::named_job;
use crate::commands::shape::{ByKind, by_kind, listed};
use crate::commands::show;
use crate::commands::txn::{self, WhyShape};
use crate::commands::{CommandArgs, CommandError, task_pages};
use clap::Args;
use omega_client::convert::{self, Malformed};
use omega_client::proto;
use omega_client::proto::list_tasks_request::Of;
use omega_core::{Amounts, Item, Job, Resize, TaskId, Transaction, Version};
use serde::Serialize;

/// The task, and its new resources.
#[derive(Debug, Args)]
pub(crate) struct ResizeArgs {
    /// Task: the name of its job and its number, such as web/0.
    #[arg(value_name = "JOB/INDEX", value_parser = name)]
    task: (String, u32),
    #[command(flatten)]
    amounts: AmountArgs,
    /// Scheduler name under which the change is committed. It must be a name that no scheduler process owns.
    #[arg(long = "as", value_name = "NAME", default_value = "by-hand")]
    name: String,
    #[command(flatten)]
    common: CommandArgs,
}

/// Reads the name of a task.
pub(in crate::commands) fn name(text: &str) -> Result<(String, u32), String> {
    let found = task_name(text).map(|found| (found.job.to_owned(), found.index));
    found.ok_or_else(|| {
        "must be the name of a job and the number of a task, such as \
         web/0"
            .to_owned()
    })
}

/// Requested allocation of a task, and whether the task got it.
#[derive(Debug, Serialize)]
struct ResizedShape {
    task: String,
    allocated: ByKind<u64>,
    version: u64,
    committed: bool,
    #[serde(flatten)]
    why: WhyShape,
}

/// Runs the command.
pub(in crate::commands) fn run(args: &ResizeArgs) -> Result<(), CommandError> {
    if args.amounts.named().is_empty() {
        return Err(CommandError::NoAmount);
    }
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let (job, index) = (args.task.0.as_str(), args.task.1);
    let task = TaskId { job: txn::find_job(&caller, job)?, index };
    let mut to = allocation(&caller, task)?;
    let named = args.amounts.named();
    for (place, kind, amount) in named {
        let id = amount::kind(&kinds, place.clone(), &kind)?;
        to.set(id, amount::amounts(&kinds, [(place, kind, amount)], 0)?.get(id));
    }
    let id = txn::transaction_id(&caller, &args.name, None)?;
    let mut transaction = Transaction::new(id, Version(0), Vec::new());
    transaction.resizes.push(Resize { task, to: to.clone() });
    let commit = txn::send(&caller, &transaction)?;
    let conflict = commit.conflict_of(Item::Resize(0));
    let name = format!("{job}/{index}");
    let shape = ResizedShape {
        task: name.clone(),
        allocated: by_kind(&kinds, &to),
        version: commit.version.0,
        committed: conflict.is_none(),
        why: WhyShape::new(&kinds, conflict),
    };
    let shown = show::clean_name(&name);
    show::print(args.common.output, &shape, || {
        if !shape.committed {
            // The error gives the reason.
            String::new()
        } else if to == Amounts::default() {
            format!("{shown} is allocated nothing\n")
        } else {
            format!("{shown} is allocated {}\n", listed(&kinds, &shape.allocated))
        }
    })?;
    if shape.committed {
        return Ok(());
    }
    Err(CommandError::NotResized { task: shown, why: shape.why.text() })
}

/// Current allocation of a task, or if it has no machine, the allocation that it would get. The cell rejects unknown
/// tasks.
fn allocation(caller: &Caller, id: TaskId) -> Result<Amounts, CommandError> {
    let by_id = || Some(proto::JobRef { job: Some(proto::job_ref::Job::Id(id.job.0)) });
    let listed = task_pages::list(caller, by_id().map(Of::Job), id.index.checked_add(1), None)?;
    let response = listed.items.into_iter().nth(id.index as usize).unwrap_or_default();
    if !response.allocated.is_empty() {
        return Ok(convert::amounts(response.allocated));
    }
    let job =
        Job::try_from(named_job::find(caller, by_id())?.job.ok_or(Malformed::Missing("job"))?)?;
    let group = job.groups.into_iter().find(|group| *group.name == *response.group);
    Ok(group.map(|group| group.request.clone()).unwrap_or_default())
}
