//! Submit index of all jobs, which is known before the run: arrival, number of tasks, kind, scheduler and tenant. It
//! takes 28 bytes for each job; the jobs themselves are read when they arrive.

use super::ScenarioSettings;
use crate::engine::{Job, Kind};
use crate::shipped::Start;
use omega_core::{JobKind, Text};
use omega_workload::{Arrival, RunTime};
use std::collections::HashMap;

/// The jobs of a workload, for the event loop.
#[derive(Default)]
pub(crate) struct SubmitIndex {
    pub(crate) jobs: Vec<Job>,
    /// Numbers of jobs that arrive during the run, in order of arrival.
    pub(crate) arrivals: Vec<u32>,
    pub(crate) owners: Vec<u32>,
    /// Numbers of the jobs present from the start that never end, ascending. During the run, only those that were
    /// placed completely before it.
    pub(crate) found: Vec<u32>,
    /// Numbers of the jobs with tasks that run at the start, ascending.
    pub(crate) running: Vec<u32>,
    /// Largest arrival time of jobs whose tasks may run at the start.
    running_until_ms: u64,
    /// For each job, the tenant that is charged for the job, by position in `tenants`.
    pub(crate) payers: Vec<u32>,
    pub(crate) tenants: Vec<Text>,
    by_name: HashMap<Text, u32>,
    /// Number of jobs that arrive during the run and are gangs of several tasks.
    pub(super) gangs: u64,
    /// Time of the last arrival.
    pub(crate) last_ms: u64,
    next_batch: u32,
    next_service: u32,
}

impl SubmitIndex {
    /// Creates an index without jobs, for a cell with this initial state.
    pub(super) fn new(start: &Start) -> SubmitIndex {
        SubmitIndex { running_until_ms: start.running_until_ms, ..SubmitIndex::default() }
    }

    /// Adds the next job. Jobs are assigned round-robin to the schedulers of their kind.
    pub(super) fn add(&mut self, arrival: &Arrival, settings: &ScenarioSettings) {
        let (batch, service) = settings.counts();
        let number = self.jobs.len() as u32;
        let kind = match arrival.job.kind {
            JobKind::Batch => Kind::Batch,
            JobKind::Service => Kind::Service,
        };
        let tasks = arrival.job.task_count() as u32;
        self.jobs.push(Job { submit_s: arrival.at_ms as f64 / 1000.0, tasks, kind });
        self.owners.push(match kind {
            _ if settings.architecture.is_monolithic() => 0,
            Kind::Batch => turn(&mut self.next_batch, batch),
            Kind::Service => batch + turn(&mut self.next_service, service),
        });
        let payer = self.tenant(&arrival.job.tenant);
        self.payers.push(payer);
        if arrival.at_ms <= self.running_until_ms && !arrival.placed.is_empty() {
            self.running.push(number);
        }
        if is_found(arrival) {
            self.found.push(number)
        } else {
            self.arrivals.push(number);
            self.gangs += u64::from(arrival.job.gang_min > Some(1));
        }
        self.last_ms = arrival.at_ms;
    }

    /// Lets jobs of `found` that could not be placed completely arrive at the start of the run. Both lists are
    /// ascending.
    pub(super) fn queue(&mut self, lacking: &[u32]) {
        self.found.retain(|job| lacking.binary_search(job).is_err());
        self.arrivals.splice(0..0, lacking.iter().copied());
    }

    fn tenant(&mut self, name: &Text) -> u32 {
        if let Some(tenant) = self.by_name.get(name) {
            return *tenant;
        }
        let tenant = self.tenants.len() as u32;
        self.tenants.push(name.clone());
        self.by_name.insert(name.clone(), tenant);
        tenant
    }
}

/// Whether a job is present from the start and never ends. Such jobs are placed before the run begins if they fit.
pub(super) fn is_found(arrival: &Arrival) -> bool {
    arrival.at_ms == 0 && arrival.run == RunTime::Forever
}

/// Returns the number of the next scheduler in turn, of `of` schedulers.
fn turn(next: &mut u32, of: u32) -> u32 {
    let turn = *next % of;
    *next = turn + 1;
    turn
}
