//! Jobs: `/api/v1/jobs` lists them in pages, and `/api/v1/job` shows one with its groups and tasks.

use super::Shown;
use super::answer::{Answer, Asked, PAGE, PAGE_MAX, check_state, json};
use super::cell::TasksShape;
use super::task::{TaskShape, task};
use crate::calls::jobs_page::{JOBS_AT_ONCE, TASKS_AT_ONCE};
use crate::observe::statistics::age_ms;
use crate::observe::summary::Counts;
use crate::service::{page_start, page_token};
use axum::extract::State;
use omega_cellstate::Cell;
use omega_client::{ApiError, ErrorCode};
use omega_core::{Job, JobId, JobKind, SharedGroup};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// States by which jobs are selected: `waiting` selects jobs with pending tasks, `live` jobs with unfinished tasks, and
/// the name of a state jobs with tasks in this state.
const STATES: [&str; 8] =
    ["live", "waiting", "pending", "placed", "running", "finished", "failed", "killed"];

#[derive(Deserialize)]
pub(super) struct AskedList {
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

#[derive(Deserialize)]
pub(super) struct AskedOne {
    name: String,
    limit: Option<usize>,
    page: Option<String>,
}

#[derive(Serialize)]
struct ListShape {
    version: u64,
    items: Vec<JobShape>,
    /// Token of the next page; `null` on the last page.
    next_page: Option<String>,
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
    tasks: TasksShape,
    /// Time since the job was submitted.
    age_ms: u64,
}

#[derive(Serialize)]
struct GroupShape {
    name: String,
    count: u32,
    /// Request of each task, by resource.
    request: BTreeMap<String, u64>,
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
    cell.tasks(id).for_each(|(_, state)| counts.add(state));
    counts
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
        tasks: counts.into(),
        age_ms: age_ms(&shown.web.host, cell, id),
    }
}

impl AskedList {
    fn has_names(&self, job: &Job) -> bool {
        self.name.as_ref().is_none_or(|part| job.name.contains(part.as_str()))
            && self.tenant.as_ref().is_none_or(|name| *job.tenant == **name)
            && self.scheduler.as_ref().is_none_or(|name| *job.scheduler == **name)
    }

    fn has_state(&self, counts: &Counts) -> bool {
        let Counts { pending, placed, running, finished, failed, killed } = *counts;
        match self.state.as_deref() {
            Some("waiting" | "pending") => pending > 0,
            Some("live") => pending + placed + running > 0,
            Some("placed") => placed > 0,
            Some("running") => running > 0,
            Some("finished") => finished > 0,
            Some("failed") => failed > 0,
            Some("killed") => killed > 0,
            _ => true,
        }
    }
}

pub(super) async fn list(State(shown): State<Shown>, Asked(asked): Asked<AskedList>) -> Answer {
    check_state(asked.state.as_deref(), &STATES)?;
    let size = asked.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let mut first = JobId(page_start(asked.page.as_deref().unwrap_or_default())?);
    let mut list = ListShape { version: 0, items: Vec::new(), next_page: None };
    // The lock is released after a number of jobs, even if few of them match.
    loop {
        let next = shown.web.host.read(|cell| {
            list.version = cell.version().0;
            let mut tasks = 0;
            for (looked, (id, job)) in cell.jobs_from(first).enumerate() {
                if list.items.len() == size || looked == JOBS_AT_ONCE || tasks > TASKS_AT_ONCE {
                    return Some(id);
                }
                // Tasks are counted only if the job may be in the list, because a job may have very many.
                if !asked.has_names(job) {
                    continue;
                }
                let counts = counts(cell, id);
                tasks += job.task_count();
                if asked.has_state(&counts) {
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

pub(super) async fn one(State(shown): State<Shown>, Asked(asked): Asked<AskedOne>) -> Answer {
    let size = asked.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let start = usize::try_from(page_start(asked.page.as_deref().unwrap_or_default())?)
        .unwrap_or(usize::MAX);
    let told = shown.web.host.read(|cell| {
        let id = cell.job_by_name(&asked.name)?;
        let job = cell.job(id)?;
        let page = cell.tasks(id).skip(start).take(size);
        let count = cell.tasks(id).count();
        Some(OneShape {
            version: cell.version().0,
            job: shape(&shown, cell, id, job, counts(cell, id)),
            groups: groups(cell, (id, job)),
            tasks: page.filter_map(|(id, _)| task(cell, id)).collect(),
            next_page: (count > start.saturating_add(size))
                .then(|| page_token((start + size) as u64)),
        })
    });
    let missing = || {
        let say = format!(
            "there is no job {:?}, or the job ended so long ago that the cell has \
             forgotten it",
            asked.name
        );
        ApiError::new(ErrorCode::UnknownJob, say)
    };
    Ok(json(&told.ok_or_else(missing)?))
}

fn groups(cell: &Cell, (id, job): (JobId, &Job)) -> Vec<GroupShape> {
    let mut all = vec![Counts::default(); job.groups.len()];
    for (task, state) in cell.tasks(id) {
        if let Some(counts) = cell.task_group(task).and_then(|group| all.get_mut(group)) {
            counts.add(state);
        }
    }
    let amounts = |group: &omega_core::TaskGroup| {
        let asked =
            cell.kinds().iter().map(|(id, kind)| (kind.name.clone(), group.request.get(id)));
        asked.filter(|(_, amount)| *amount > 0).collect()
    };
    let one = |(group, counts): (&SharedGroup, Counts)| GroupShape {
        name: group.name.to_string(),
        count: group.count,
        request: amounts(group),
        tasks: counts.into(),
    };
    job.groups.iter().zip(all).map(one).collect()
}
