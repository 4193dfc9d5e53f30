//! Tenants: `/api/v1/tenants` lists them in pages, with their limits, usage, and numbers of jobs and tasks.

use super::Shown;
use super::cell::TasksShape;
use super::jobs::counts;
use super::response::{JsonResult, ListShape, Params, json, page_size};
use crate::access::identity::Caller;
use crate::host::Host;
use crate::observe::summary::Counts;
use crate::service::{page_start, page_token};
use axum::Extension;
use axum::extract::State;
use omega_cellstate::Cell;
use omega_core::limits::QUOTA_MAX;
use omega_core::{Amounts, JobId, KindId, TenantConfig, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Number of tenants that are read per lock of the cell.
const AT_ONCE: usize = 1000;

/// Number of jobs whose tasks are counted per lock of the cell.
const JOBS_AT_ONCE: usize = 256;

/// Time for which the numbers of jobs are cached, because counting reads all jobs.
const FRESH: Duration = Duration::from_secs(3);

/// Numbers of jobs and tasks of each tenant and all tenants below it.
type ByTenant = BTreeMap<Text, Jobs>;

/// Cached numbers of jobs.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Locked while jobs are counted, so that only one request at a time counts them.
    now: Mutex<Option<(Instant, Arc<ByTenant>)>>,
}

/// Jobs, and their tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Jobs {
    jobs: u64,
    tasks: Counts,
}

#[derive(Deserialize)]
pub(super) struct ListParams {
    /// Text that the names of the tenants contain.
    name: Option<String>,
    limit: Option<usize>,
    /// Last tenant on the previous page.
    page: Option<String>,
}

/// A tenant, with the fields of `omega quota list`. All amounts and numbers include the tenants below it.
#[derive(Serialize)]
struct TenantShape {
    name: String,
    parent: Option<String>,
    weight: u32,
    /// Limits on the claims, by resource; `null` if there are none. A resource with `null` has no limit.
    limit: Option<BTreeMap<String, Option<u64>>>,
    guaranteed: BTreeMap<String, u64>,
    tasks_per_machine_max: Option<u32>,
    /// Limits on the total request of the jobs, like `limit`.
    request_limit: Option<BTreeMap<String, Option<u64>>>,
    /// Total request of the jobs; 0 while no tenant has a request limit.
    requested: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    jobs: u64,
    tasks: TasksShape,
}

impl Jobs {
    fn add(&mut self, other: &Jobs) {
        let Counts { pending, placed, running, finished, failed, killed } = other.tasks;
        self.jobs += other.jobs;
        self.tasks.pending += pending;
        self.tasks.placed += placed;
        self.tasks.running += running;
        self.tasks.finished += finished;
        self.tasks.failed += failed;
        self.tasks.killed += killed;
    }
}

/// A value for each resource kind of the cell.
fn by_kind<T>(cell: &Cell, value: impl Fn(KindId) -> T) -> BTreeMap<String, T> {
    cell.kinds().iter().map(|(id, kind)| (kind.name.clone(), value(id))).collect()
}

fn shape(cell: &Cell, name: &Text, limit: Option<&Amounts>, jobs: Jobs) -> TenantShape {
    let limits = |limit: &Amounts| {
        // `QUOTA_MAX` means that the kind has no limit.
        by_kind(cell, |kind| Some(limit.get(kind)).filter(|most| *most < QUOTA_MAX))
    };
    let TenantConfig { parent, guaranteed, weight, tasks_per_machine_max } =
        cell.tenant_config(name).cloned().unwrap_or_default();
    let requested = cell.requested(name).unwrap_or_default();
    let used = cell.tenant_used(name).unwrap_or_default();
    let amount = |used: &i64| (*used).max(0) as u64;
    TenantShape {
        name: name.to_string(),
        parent: parent.map(|parent| parent.to_string()),
        weight,
        limit: limit.map(limits),
        guaranteed: by_kind(cell, |kind| guaranteed.get(kind)),
        tasks_per_machine_max,
        request_limit: cell.admission(name).map(limits),
        requested: by_kind(cell, |kind| requested.get(kind.index()).copied().unwrap_or(0)),
        used: by_kind(cell, |kind| used.get(kind.index()).map_or(0, amount)),
        jobs: jobs.jobs,
        tasks: jobs.tasks.into(),
    }
}

pub(super) async fn list(
    State(shown): State<Shown>,
    caller: Option<Extension<Arc<Caller>>>,
    Params(params): Params<ListParams>,
) -> JsonResult {
    let caller =
        caller.map_or_else(|| Arc::new(Caller::without_certificate()), |Extension(caller)| caller);
    let size = page_size(params.limit)?;
    let mut row = usize::try_from(page_start(params.page.as_deref().unwrap_or_default())?)
        .unwrap_or(usize::MAX);
    let matches = |name: &Text| {
        caller.may_see_tenant(name)
            && params.name.as_ref().is_none_or(|part| name.contains(part.as_str()))
    };
    let jobs = shown.tenant_jobs.of(&shown.web.host).await;
    let mut list = ListShape { version: 0, items: Vec::new(), next_page: None };
    // The lock is released after a number of tenants, even if few of them match.
    loop {
        let next = shown.web.host.read(|cell| {
            list.version = cell.version().0;
            for (read_count, (name, limit, _)) in cell.tenants().skip(row).enumerate() {
                if list.items.len() == size || read_count == AT_ONCE {
                    return Some(row.saturating_add(read_count));
                }
                if matches(name) {
                    let jobs = jobs.get(name).copied().unwrap_or_default();
                    list.items.push(shape(cell, name, limit, jobs));
                }
            }
            None
        });
        match next {
            Some(next) if list.items.len() < size => row = next,
            next => {
                list.next_page = next.map(|next| page_token(next as u64));
                return Ok(json(&list));
            }
        }
    }
}

impl Cache {
    /// The numbers of all tenants' jobs, counted at most [`FRESH`] ago.
    async fn of(&self, host: &Host) -> Arc<ByTenant> {
        let mut now = self.now.lock().await;
        if let Some((since, known)) = &*now
            && since.elapsed() < FRESH
        {
            return known.clone();
        }
        let host = host.clone();
        let counted = tokio::task::spawn_blocking(move || count(&host)).await;
        let counted = Arc::new(counted.expect("counting jobs does not panic"));
        *now = Some((Instant::now(), counted.clone()));
        counted
    }
}

fn count(host: &Host) -> ByTenant {
    let mut own = ByTenant::new();
    let mut first = Some(JobId(0));
    while let Some(from) = first {
        first = host.read(|cell| count_some(cell, from, &mut own));
    }
    let mut all = ByTenant::new();
    for (tenant, jobs) in own {
        // The tree has a bounded depth and no cycle.
        let mut next = Some(tenant);
        while let Some(tenant) = next {
            next = host.read(|cell| cell.tenant_config(&tenant)?.parent.clone());
            all.entry(tenant).or_default().add(&jobs);
        }
    }
    all
}

/// Counts some jobs. Returns the job to continue from, if there are more jobs.
fn count_some(cell: &Cell, first: JobId, own: &mut ByTenant) -> Option<JobId> {
    for (number, (id, job)) in cell.jobs_from(first).enumerate() {
        if number >= JOBS_AT_ONCE {
            return Some(id);
        }
        let jobs = Jobs { jobs: 1, tasks: counts(cell, id) };
        own.entry(job.tenant.clone()).or_default().add(&jobs);
    }
    None
}
