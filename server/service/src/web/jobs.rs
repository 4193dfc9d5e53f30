//! Jobs: `/api/v1/jobs` lists them in pages, and `/api/v1/job` shows one with its groups and tasks.

use super::Shown;
use super::cell::TasksShape;
use super::program::{ProgramShape, program};
use super::response::{JsonResult, ListShape, OneParams, Params, check_state, json, page_size};
use super::task::{TaskShape, task};
use crate::access::identity::Caller;
use crate::calls::jobs_page::JOBS_AT_ONCE;
use crate::host::Host;
use crate::observe::statistics::age_ms;
use crate::observe::summary::Counts;
use crate::service::{page_start, page_token};
use axum::Extension;
use axum::extract::State;
use omega_cellstate::Cell;
use omega_client::{ApiError, ErrorCode};
use omega_core::{Job, JobId, JobKind, SharedGroup, TaskId, UpdateResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of tasks that are read per lock of the cell.
const TASKS_AT_ONCE: usize = 8192;

/// States by which jobs are selected: `waiting` selects jobs with pending tasks, `live` jobs with unfinished tasks, and
/// the name of a state jobs with tasks in this state.
const STATES: [&str; 8] =
    ["live", "waiting", "pending", "placed", "running", "finished", "failed", "killed"];

#[derive(Deserialize)]
pub(super) struct ListParams {
    /// One of [`STATES`].
    state: Option<String>,
    /// Text that the names of the jobs contain.
    name: Option<String>,
    /// Tenant of the jobs.
    tenant: Option<String>,
    /// Scheduler name of the jobs.
    scheduler: Option<String>,
    limit: Option<usize>,
    /// Last job on the previous page.
    page: Option<String>,
}

#[derive(Serialize)]
struct OneShape {
    version: u64,
    job: JobShape,
    groups: Vec<GroupShape>,
    tasks: Vec<TaskShape>,
    next_page: Option<String>,
}

#[derive(Serialize)]
struct JobShape {
    name: String,
    id: String,
    tenant: String,
    scheduler: String,
    precedence: i32,
    kind: &'static str,
    /// Number of tasks that must run together; `null` without a gang.
    gang_min: Option<u32>,
    /// Version of the job; 0 if it was never updated.
    version: u32,
    /// Result of the update to this version: `complete` or `failed`; `null` if it has none yet.
    update: Option<&'static str>,
    tasks: TasksShape,
    /// Time since the job was submitted.
    age_ms: u64,
}

#[derive(Serialize)]
struct GroupShape {
    name: String,
    /// Version of the job with which the group was added.
    version: u32,
    /// Whether the job's version has this group. The tasks of other groups are replaced.
    current: bool,
    count: u32,
    /// Number of failures after which tasks were placed again.
    failures: u32,
    /// Request of each task, by resource.
    request: BTreeMap<String, u64>,
    /// Program of each task; `null` if there is none, or the caller may not see it.
    program: Option<ProgramShape>,
    /// Number of times that a failed task is placed again.
    restarts: u32,
    tasks: TasksShape,
}

impl From<Counts> for TasksShape {
    fn from(counts: Counts) -> TasksShape {
        let Counts { pending, placed, running, finished, failed, killed } = counts;
        TasksShape { pending, placed, running, finished, failed, killed }
    }
}

/// Numbers of a job's tasks by state.
pub(super) fn counts(cell: &Cell, id: JobId) -> Counts {
    let mut counts = Counts::default();
    counts.add_job(cell.task_counts(id).unwrap_or_default());
    counts
}

/// Result of the update to the job's present version.
fn update(cell: &Cell, id: JobId) -> Option<&'static str> {
    let version = cell.job_versions(id).last().filter(|version| version.number > 0)?;
    match version.result {
        Some(UpdateResult::Complete) => Some("complete"),
        Some(UpdateResult::Failed) => Some("failed"),
        None => None,
    }
}

fn shape(shown: &Shown, cell: &Cell, id: JobId, job: &Job, counts: Counts) -> JobShape {
    JobShape {
        name: job.name.to_string(),
        id: id.to_string(),
        tenant: job.tenant.to_string(),
        scheduler: job.scheduler.to_string(),
        precedence: job.precedence.0,
        kind: match job.kind {
            JobKind::Service => "service",
            JobKind::Batch => "batch",
        },
        gang_min: job.gang_min,
        version: cell.job_version(id).unwrap_or_default(),
        update: update(cell, id),
        tasks: counts.into(),
        age_ms: age_ms(&shown.web.host, cell, id),
    }
}

impl ListParams {
    fn has_names(&self, job: &Job) -> bool {
        self.name.as_ref().is_none_or(|part| job.name.contains(part.as_str()))
            && self.tenant.as_ref().is_none_or(|name| *job.tenant == **name)
            && self.scheduler.as_ref().is_none_or(|name| *job.scheduler == **name)
    }

    fn has_state(&self, cell: &Cell, id: JobId, counts: &Counts) -> bool {
        let Counts { pending, placed, running, finished, failed, killed } = *counts;
        match self.state.as_deref() {
            Some("waiting" | "pending") => pending > 0,
            Some("live") => pending + placed + running > 0 || cell.is_scaled_to_zero(id),
            Some("placed") => placed > 0,
            Some("running") => running > 0,
            Some("finished") => finished > 0,
            Some("failed") => failed > 0,
            Some("killed") => killed > 0,
            _ => true,
        }
    }
}

pub(super) async fn list(
    State(shown): State<Shown>,
    Params(params): Params<ListParams>,
) -> JsonResult {
    check_state(params.state.as_deref(), &STATES)?;
    let size = page_size(params.limit)?;
    let mut first = JobId(page_start(params.page.as_deref().unwrap_or_default())?);
    let mut list = ListShape { version: 0, items: Vec::new(), next_page: None };
    // The lock is released after a number of jobs, even if few of them match.
    loop {
        let next = shown.web.host.read(|cell| {
            list.version = cell.version().0;
            for (read_count, (id, job)) in cell.jobs_from(first).enumerate() {
                if list.items.len() == size || read_count == JOBS_AT_ONCE {
                    return Some(id);
                }
                if !params.has_names(job) {
                    continue;
                }
                let counts = counts(cell, id);
                if params.has_state(cell, id, &counts) {
                    list.items.push(shape(&shown, cell, id, job, counts));
                }
            }
            None
        });
        match next {
            Some(next) if list.items.len() < size => first = next,
            next => {
                list.next_page = next.map(|next| page_token(next.0));
                return Ok(json(&list));
            }
        }
    }
}

pub(super) async fn one(
    State(shown): State<Shown>,
    caller: Option<Extension<Arc<Caller>>>,
    Params(params): Params<OneParams>,
) -> JsonResult {
    let caller =
        caller.map_or_else(|| Arc::new(Caller::without_certificate()), |Extension(caller)| caller);
    let size = page_size(params.limit)?;
    let start = u32::try_from(page_start(params.page.as_deref().unwrap_or_default())?);
    let start = start.unwrap_or(u32::MAX);
    let by_group = count_by_group(&shown.web.host, &params.name).await;
    let response = shown.web.host.read(|cell| {
        let id = cell.job_by_name(&params.name)?;
        let job = cell.job(id)?;
        let page = cell.tasks_from(id, start).take(size);
        let next = start.saturating_add(size as u32);
        let shows_programs = caller.may_see_programs(job);
        let mut groups = groups(cell, id, job, by_group);
        groups.iter_mut().filter(|_| !shows_programs).for_each(|group| group.program = None);
        let has_more = cell.task(TaskId { job: id, index: next }).is_some();
        Some(OneShape {
            version: cell.version().0,
            job: shape(&shown, cell, id, job, counts(cell, id)),
            groups,
            tasks: page.filter_map(|(id, _)| task(cell, id)).collect(),
            next_page: has_more.then(|| page_token(next.into())),
        })
    });
    let missing = || {
        let message = format!(
            "there is no job {:?}, or the job ended so long ago that the cell has \
             forgotten it",
            params.name
        );
        ApiError::new(ErrorCode::UnknownJob, message)
    };
    Ok(json(&response.ok_or_else(missing)?))
}

/// Numbers of a group's tasks by state, and number of failures after which they were placed again.
#[derive(Clone, Copy, Default)]
struct GroupCounts {
    tasks: Counts,
    failures: u32,
}

/// Counts the tasks of a job by the position of their group, some tasks per lock of the cell.
async fn count_by_group(host: &Host, job: &str) -> Vec<GroupCounts> {
    let mut all: Vec<GroupCounts> = Vec::new();
    let first = host.read(|cell| cell.job_by_name(job));
    let mut next = first.map(|job| TaskId { job, index: 0 });
    while let Some(TaskId { job, index }) = next {
        next = host.read(|cell| {
            for (read_count, (task, state)) in cell.tasks_from(job, index).enumerate() {
                if read_count == TASKS_AT_ONCE {
                    return Some(task);
                }
                let group = cell.task_group(task)?;
                if all.len() <= group {
                    all.resize(group + 1, GroupCounts::default());
                }
                all[group].tasks.add(state);
                all[group].failures += cell.task_failures(task);
            }
            None
        });
        tokio::task::yield_now().await;
    }
    all
}

fn groups(cell: &Cell, id: JobId, job: &Job, mut all: Vec<GroupCounts>) -> Vec<GroupShape> {
    all.resize(job.groups.len(), GroupCounts::default());
    let targets = cell.job_target(id).map(|target| &target.groups).into_iter().flatten();
    let current: Vec<usize> =
        targets.filter_map(|group| cell.target_group(id, &group.name)).collect();
    let amounts = |group: &omega_core::TaskGroup| {
        let requested =
            cell.kinds().iter().map(|(id, kind)| (kind.name.clone(), group.request.get(id)));
        requested.filter(|(_, amount)| *amount > 0).collect()
    };
    let one = |(at, (group, counts)): (usize, (&SharedGroup, GroupCounts))| GroupShape {
        name: group.name.to_string(),
        version: group.version,
        current: current.contains(&at),
        count: group.count,
        failures: counts.failures,
        request: amounts(group),
        program: program(group),
        restarts: group.restarts,
        tasks: counts.tasks.into(),
    };
    let all = job.groups.iter().zip(all).enumerate().map(one);
    // Groups of older versions are of interest only while they have tasks to run.
    all.filter(|group| group.current || group.count > 0).collect()
}
