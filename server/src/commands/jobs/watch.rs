//! `omega job watch`: prints changes of a job's tasks.
//!
//! If the replica fails, a stream is opened at the next replica. The new stream begins with all tasks, but states that
//! were printed before are not printed again.

use crate::commands::call::{Caller, another_try_may_help};
use crate::commands::jobs::named_job::{by_name, find, target};
use crate::commands::shape::{TaskShape, state};
use crate::commands::show::{clean_name, one_of_many};
use crate::commands::{CommandArgs, CommandError};
use crate::output;
use clap::{Args, ValueEnum};
use omega_client::proto;
use omega_client::proto::TaskPhase;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::{JobKind, Kinds, TaskId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The job, and the end of the watch.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    name: String,
    /// End when all tasks have reached this state.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Until::Ended)]
    until: Until,
    #[command(flatten)]
    common: CommandArgs,
}

/// End of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Until {
    /// Every task has a machine, or has ended.
    Placed,
    /// Every task is running, or has ended.
    Running,
    /// Every task has ended.
    Ended,
}

/// One change, which is printed as a line of JSON.
#[derive(Debug, Serialize)]
struct ChangeShape {
    version: u64,
    #[serde(flatten)]
    task: TaskShape,
}

/// Prints changes until the requested event.
///
/// # Errors
/// If a task has failed before that event, or if a task of a batch job was killed, as with `--wait`.
pub(in crate::commands) fn run(args: &WatchArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let status = find(&caller, by_name(&args.name))?;
    let (kind, is_updated) = (target(&status)?.kind, status.version > 0);
    let (kinds, known) = (caller.kinds()?, BTreeMap::new());
    let mut watch = Watch { args, kind, is_updated, kinds, known, failed_before: None };
    caller.runtime().block_on(async {
        // A broken stream is opened again. If the cell cannot be reached, the call returns the error.
        while !watch.follow(&caller).await.map_err(|error| error.if_deleted(&args.name))? {
            caller.go_on().await;
        }
        Ok::<_, CommandError>(())
    })?;
    watch.check()
}

/// State of a watch.
struct Watch<'a> {
    args: &'a WatchArgs,
    kind: JobKind,
    is_updated: bool,
    kinds: Kinds,
    known: BTreeMap<TaskId, (TaskPhase, String)>,
    /// Tasks of a service that had failed before the watch began. `None` until all tasks are known.
    failed_before: Option<BTreeSet<TaskId>>,
}

impl Watch<'_> {
    /// Follows one stream. Returns whether the watch is complete; if not, the stream must be opened again.
    async fn follow(&mut self, caller: &Caller) -> Result<bool, CommandError> {
        let request = proto::WatchJobRequest { job: by_name(&self.args.name) };
        let mut changes = caller
            .call_async(&request, |channel, mut request| async move {
                // A timeout would apply to the whole stream, so none is set.
                request.metadata_mut().remove("grpc-timeout");
                JobServiceClient::new(channel).watch_job(request).await
            })
            .await?;
        loop {
            match changes.message().await {
                Ok(Some(change)) => {
                    let more = change.more;
                    self.print_change(change)?;
                    if !more {
                        self.record_failed_before();
                        if self.is_over() {
                            return Ok(true);
                        }
                    }
                }
                Ok(None) => return Ok(self.is_over()),
                Err(status) => {
                    let error = omega_client::ApiError::from(status);
                    return if another_try_may_help(&error) {
                        Ok(false)
                    } else {
                        Err(CommandError::Refused(error))
                    };
                }
            }
        }
    }

    fn print_change(&mut self, change: proto::WatchJobResponse) -> Result<(), CommandError> {
        let mut text = String::new();
        for status in change.tasks {
            let Some(id) = status.task.map(TaskId::from) else { continue };
            let now = (status.phase(), status.machine_name.clone());
            if self.known.get(&id) == Some(&now) {
                continue;
            }
            self.known.insert(id, now);
            text += &self.line(change.version, status);
        }
        Ok(output::print(&text)?)
    }

    fn line(&self, version: u64, status: proto::TaskStatus) -> String {
        let phase = state(status.phase());
        let status = proto::TaskStatus { job_name: self.args.name.clone(), ..status };
        let task = TaskShape::new(&self.kinds, status);
        let shape = ChangeShape { version, task };
        if let Some(text) = one_of_many(self.args.common.output, &shape) {
            return text;
        }
        match &shape.task.machine {
            Some(machine) => {
                format!("{} {phase} on {}\n", clean_name(&shape.task.task), clean_name(machine))
            }
            None => format!("{} {phase}\n", clean_name(&shape.task.task)),
        }
    }

    /// Number of tasks in a state, without those that had failed before.
    fn count(&self, state: TaskPhase) -> usize {
        let is_new = |id: &TaskId| self.failed_before.iter().all(|before| !before.contains(id));
        self.known.iter().filter(|(id, (phase, _))| *phase == state && is_new(id)).count()
    }

    /// Notes which tasks of an updated service had failed before the watch began. They do not count, because the update
    /// may have replaced them.
    fn record_failed_before(&mut self) {
        if self.failed_before.is_none() {
            use TaskPhase::{Pending, Placed, Running};
            let lives =
                |(phase, _): &(TaskPhase, String)| matches!(phase, Pending | Placed | Running);
            let may_be_replaced = self.kind == JobKind::Service
                && self.is_updated
                && self.args.until != Until::Ended
                && self.known.values().any(lives);
            let failed = self.known.iter().filter(|(_, (phase, _))| *phase == TaskPhase::Failed);
            let failed = failed.map(|(id, _)| *id).filter(|_| may_be_replaced);
            self.failed_before = Some(failed.collect());
        }
    }

    /// Checks that no task has failed, and that none of a batch job was killed. Tasks of a service are also killed by
    /// updates and by `omega job resize`.
    fn check(&self) -> Result<(), CommandError> {
        let failed = self.count(TaskPhase::Failed);
        let killed = match self.kind {
            JobKind::Batch => self.count(TaskPhase::Killed),
            JobKind::Service => 0,
        };
        let states = [(failed, "failed"), (killed, "killed")].into_iter().filter(|(n, _)| *n > 0);
        let states = states.map(|(tasks, state)| format!("{tasks} {state}")).collect::<Vec<_>>();
        if states.is_empty() {
            return Ok(());
        }
        Err(CommandError::NotDone {
            name: self.args.name.clone(),
            why: format!(
                "some tasks have failed or were killed ({}): run `omega job history {}` to see why",
                states.join(", "),
                clean_name(&self.args.name)
            ),
        })
    }

    fn is_over(&self) -> bool {
        use TaskPhase::{Pending, Placed, Running};
        let open: &[TaskPhase] = match self.args.until {
            Until::Placed => &[Pending],
            Until::Running => &[Pending, Placed],
            Until::Ended => &[Pending, Placed, Running],
        };
        self.known.values().all(|(phase, _)| !open.contains(phase))
    }
}
