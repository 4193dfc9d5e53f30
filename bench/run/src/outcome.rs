//! A finished run, and its conversion to a report.

use crate::backend::DurableRun;
use crate::clients::Served;
use crate::driver::feeder::Fed;
use crate::meter::Meter;
use crate::report::{MachineHeat, ResourceReport, RunReport, SchedulerReport, Unplaced};
use crate::samples::used_shares;
use crate::{RunOptions, Stop};
use omega_cellstate::{Cell, MachineState};
use omega_core::{Amounts, DeviceRequest, Job, JobId, KindId, Kinds, PlacementRules, Reason};
use omega_schedulers::Worker;
use omega_schedulers::explain::{Explanation, describe};
use omega_workload::kube::kinds::is_nominal;
use std::collections::HashMap;

/// Labels by which a heat map groups machines; the first of them that a machine has is used.
const PLACES: [&str; 4] = ["zone", "topology.kubernetes.io/zone", "gpu-model", "platform"];

/// The parts of a run after its end, from which its report is made.
pub(crate) struct FinishedRun {
    pub(crate) fed: Fed,
    /// The storage of the cell; `None` for a cell in memory.
    pub(crate) durable: Option<Box<dyn DurableRun>>,
    pub(crate) workers: Vec<Worker<Meter>>,
    pub(crate) served: Vec<Served>,
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: Option<f64>,
}

/// Number of tasks without a machine. (The feeder does not see all removals of tasks from machines, for example when a
/// gang times out.)
fn waiting(cell: &Cell) -> usize {
    let waits = |task: &(omega_core::TaskId, _)| task.1 == omega_core::TaskState::Pending;
    cell.jobs().map(|(id, _)| cell.tasks(id).filter(waits).count()).sum()
}

/// The report of a run that has ended.
pub(super) fn report(ended: FinishedRun, options: &RunOptions) -> RunReport {
    let FinishedRun { fed, durable, mut workers, served, wall_s, cpu_s } = ended;
    let mut unplaced = unplaced(&fed, &mut workers, &options.stop);
    unplaced.extend(served.iter().filter_map(|one| unserved(&fed, one.name)));
    let kinds = fed.cell.read(|cell| cell.kinds().clone());
    let pending = fed.cell.read(waiting);
    let reported = reported(&fed, &kinds);
    let resources = resources(&fed, &kinds, &reported);
    let Fed { cell, name, notes, counts, ledger, rebalancing, mut series, .. } = fed;
    series.iter_mut().for_each(|sample| sample.used = of_kinds(&sample.used, &reported));
    let own = workers.iter().map(|one| (&*one.scheduler.settings().name, &one.observer));
    let meters = own.chain(served.iter().map(|one| (one.name, &one.meter)));
    let schedulers = meters.enumerate().map(|(index, (name, meter))| {
        let mut report = scheduler(name, meter, &kinds);
        ledger.tell_scheduler(index, &mut report);
        report
    });
    let schedulers: Vec<SchedulerReport> = schedulers.collect();
    let claims = schedulers.iter().map(|scheduler| scheduler.claims).sum();
    RunReport {
        seed: options.seed,
        machines: cell.read(|cell| cell.machines().count()),
        interrupted: fed.interrupted,
        jobs: fed.jobs,
        tasks: counts.submitted as usize,
        placed_at_start: counts.placed_at_start,
        placements: counts.placements,
        finished: counts.finished,
        lost: counts.lost,
        evictions: counts.evictions.total(),
        evicted_again: counts.evictions.repeated(),
        pending,
        wall_s,
        cpu_s,
        workload_s: fed.now_ms as f64 / 1000.0,
        placements_per_s: counts.placements as f64 / wall_s.max(1e-9),
        schedulers,
        tenants: cell.read(|cell| ledger.tenants(cell)),
        resources,
        rebalancing,
        durable: durable.map(|durable| durable.report(claims)),
        unplaced,
        heat: cell.read(|cell| cell.machines().map(|m| heat(&m, &reported)).collect()),
        name,
        notes,
        series,
    }
}

fn scheduler(name: &str, meter: &Meter, kinds: &Kinds) -> SchedulerReport {
    let mut reasons = meter.reasons.clone();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let has_decisions = !meter.decision_ns.is_empty();
    let quantile =
        |q| has_decisions.then(|| meter.decision_ns.value_at_quantile(q) as f64 / 1000.0);
    SchedulerReport {
        name: name.to_owned(),
        placements: meter.placements,
        decisions: meter.decisions,
        transactions: meter.transactions,
        claims: meter.claims,
        conflicts: meter.conflicts,
        conflict_reasons: reasons.into_iter().map(|(r, n)| (describe(r, kinds), n)).collect(),
        decision_us_p50: quantile(0.5),
        decision_us_p99: quantile(0.99),
        deciding_s: meter.deciding.as_secs_f64(),
        wasted_s: meter.wasted.as_secs_f64(),
        ..SchedulerReport::default()
    }
}

/// Pending jobs of a frontend at the end. They have no reasons, because a frontend's clients give none.
fn unserved(fed: &Fed, name: &str) -> Option<Unplaced> {
    let reason = match name {
        "offers" => "its framework got no offer that it could use",
        _ => "its application did not request a container for it",
    };
    fed.cell.read(|cell| {
        let waiting = |id: JobId| {
            cell.tasks(id).filter(|(_, task)| *task == omega_core::TaskState::Pending).count()
        };
        let of = cell.jobs().filter(|(_, job)| *job.scheduler == *name);
        let of = of.map(|(id, job)| (job, waiting(id))).filter(|(_, tasks)| *tasks > 0);
        let jobs: Vec<_> = of.collect();
        let (example, _) = jobs.first()?;
        let tasks = jobs.iter().map(|(_, tasks)| tasks).sum();
        let example = example.name.to_string();
        let (reason, reasons) = (reason.to_owned(), Vec::new());
        Some(Unplaced { reason, reasons, jobs: jobs.len(), tasks, example })
    })
}

/// Total capacity of a kind.
fn capacity(fed: &Fed, kind: KindId) -> u64 {
    let amount = |m: MachineState<'_>| u128::from(m.machine.capacity.get(kind));
    let sum: u128 = fed.cell.read(|cell| cell.machines().map(amount).sum());
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// The kinds that are reported: those that machines have. Machines have unlimited amounts of nominal kinds, so shares
/// of these would mean nothing.
fn reported(fed: &Fed, kinds: &Kinds) -> Vec<KindId> {
    let shown = kinds.iter().filter(|(_, spec)| !is_nominal(&spec.name)).map(|(kind, _)| kind);
    shown.filter(|kind| capacity(fed, *kind) > 0).collect()
}

/// The values of these kinds, from a list that has a value for each kind of the cell.
fn of_kinds<T: Copy>(all: &[T], kinds: &[KindId]) -> Vec<T> {
    kinds.iter().map(|kind| all[kind.index()]).collect()
}

fn resources(fed: &Fed, kinds: &Kinds, reported: &[KindId]) -> Vec<ResourceReport> {
    let at_end = fed.cell.read(used_shares).0;
    let fragmented = fed.cell.read(|cell| fed.ledger.requests.fragmented(cell));
    let report = |kind: &KindId| {
        let used = fed.series.iter().filter_map(|sample| sample.used.get(kind.index()));
        ResourceReport {
            name: kinds.get(*kind).map_or_else(String::new, |spec| spec.name.clone()),
            capacity: kinds.display(*kind, capacity(fed, *kind)),
            used_at_end: at_end[kind.index()],
            used_at_peak: used.copied().fold(at_end[kind.index()], f64::max),
            fragmented: fragmented[kind.index()],
        }
    };
    reported.iter().map(report).collect()
}

fn heat(state: &MachineState<'_>, reported: &[KindId]) -> MachineHeat {
    let place = PLACES.iter().find_map(|label| state.machine.labels.get(label));
    let used = |kind: &KindId| match state.machine.capacity.get(*kind) {
        0 => None,
        capacity => {
            let i = kind.index();
            Some((state.claimable[i] - state.free[i]) as f64 / capacity as f64)
        }
    };
    MachineHeat {
        name: state.machine.name.to_string(),
        place: place.map_or_else(String::new, ToString::to_string),
        used: reported.iter().map(used).collect(),
    }
}

/// Maximum number of explanations for each scheduler. In a cell of a thousand machines, each takes 2 ms.
const EXPLAINED_MAX: usize = 200;

/// Maximum number of explanations for each scheduler if the end of the run was requested.
const EXPLAINED_MAX_STOPPED: usize = 20;

/// Reason of the jobs beyond the maximum.
const UNEXAMINED: &str = "not examined, because many jobs are pending";

/// Pending jobs at the end, grouped by the reason that excludes most machines.
pub(super) fn unplaced(fed: &Fed, workers: &mut [Worker<Meter>], stop: &Stop) -> Vec<Unplaced> {
    let kinds = fed.cell.read(|cell| cell.kinds().clone());
    let mut list: Vec<Unplaced> = Vec::new();
    for worker in workers {
        let mut waiting = worker.scheduler.queue().waiting();
        waiting.retain(|(_, tasks)| *tasks > 0);
        let (known, explained) = (HashMap::new(), 0);
        let mut examiner = Examiner { fed, kinds: &kinds, worker, stop, known, explained };
        for (id, tasks) in waiting {
            let Some(job) = fed.cell.read(|cell| cell.job(id).cloned()) else { continue };
            let Why { reason, reasons } = examiner.why(id, &job);
            match list.iter_mut().find(|entry| entry.reason == reason) {
                Some(entry) => {
                    entry.jobs += 1;
                    entry.tasks += tasks;
                }
                None => {
                    let example = job.name.to_string();
                    list.push(Unplaced { reason, reasons, jobs: 1, tasks, example });
                }
            }
        }
    }
    list.sort_by(|a, b| b.tasks.cmp(&a.tasks).then_with(|| a.reason.cmp(&b.reason)));
    list
}

/// Needs of a task group, on which the reasons depend: groups with equal needs have equal reasons.
#[derive(PartialEq, Eq, Hash)]
struct Need {
    /// The amounts on the task's machine, and those of cluster resources.
    requests: [Amounts; 2],
    devices: Option<DeviceRequest>,
    rules: PlacementRules,
}

/// Reasons why a job is pending.
#[derive(Clone)]
struct Why {
    /// The reason by which jobs are grouped.
    reason: String,
    /// The reasons for which machines reject a task of the job, with the number of machines, the most frequent first.
    reasons: Vec<(String, usize)>,
}

impl From<String> for Why {
    fn from(reason: String) -> Why {
        Why { reason, reasons: Vec::new() }
    }
}

/// The reasons of one scheduler's pending jobs.
struct Examiner<'a> {
    fed: &'a Fed,
    kinds: &'a Kinds,
    worker: &'a mut Worker<Meter>,
    stop: &'a Stop,
    known: HashMap<Need, Why>,
    /// Number of explanations so far.
    explained: usize,
}

impl Examiner<'_> {
    fn why(&mut self, id: JobId, job: &Job) -> Why {
        if let Some(reason) = self.worker.observer.refused.get(&id) {
            return describe(*reason, self.kinds).into();
        }
        let pending = self.fed.cell.read(|cell| {
            let waits = |task: &(omega_core::TaskId, _)| task.1 == omega_core::TaskState::Pending;
            cell.tasks(id).find(waits).and_then(|(task, _)| cell.task_group(task))
        });
        let index = pending.unwrap_or(0);
        let group = &job.groups[index];
        let rules = &group.rules;
        let alone = rules.tasks.is_empty() && rules.ports.is_empty() && group.volumes.is_empty();
        let requests = [group.request.clone(), group.cluster_request.clone()];
        let need = Need { requests, devices: group.devices, rules: rules.clone() };
        if let Some(why) = self.known.get(&need).filter(|_| alone && job.gang_min.is_none()) {
            return why.clone();
        }
        let max = if self.stop.is_requested() { EXPLAINED_MAX_STOPPED } else { EXPLAINED_MAX };
        if self.explained >= max {
            return UNEXAMINED.to_owned().into();
        }
        let Some(explanation) = self.worker.scheduler.explain(id, index) else {
            return "no scheduler has tried it yet".to_owned().into();
        };
        self.explained += 1;
        let why = self.by_machines(&explanation, job);
        // If a filter of the profile rejected machines, the reason may depend on more than these needs, so it is not
        // reused.
        if explanation.filtered.is_empty() {
            self.known.insert(need, why.clone());
        }
        why
    }

    /// Returns the reasons for which machines reject a task. The job is grouped by the most frequent one.
    fn by_machines(&self, explanation: &Explanation, job: &Job) -> Why {
        let filters = explanation.filtered.iter();
        let filters = filters.map(|(filter, machines)| (format!("refused by {filter}"), *machines));
        let own = explanation.refused.iter();
        let own = own.map(|(reason, machines)| (describe(*reason, self.kinds), *machines));
        let mut reasons: Vec<(String, usize)> = filters.chain(own).collect();
        // The sort is stable, so of equally frequent reasons a filter comes first.
        reasons.sort_by_key(|(_, machines)| std::cmp::Reverse(*machines));
        if explanation.feasible > 0 && job.gang_min.is_none() {
            return "a machine had room for it only at the end of the run".to_owned().into();
        }
        let reason = match reasons.first() {
            _ if explanation.feasible > 0 => describe(Reason::GangIncomplete, self.kinds),
            Some((reason, _)) => reason.clone(),
            None => "the cell has no machines".to_owned(),
        };
        Why { reason, reasons }
    }
}
