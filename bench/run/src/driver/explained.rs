//! Explanation of pending jobs after a run, by the schedulers that could not place them.

use crate::cell::RunCell;
use crate::driver::feeder::Fed;
use crate::error::RunError;
use crate::meter::Meter;
use crate::named::Named;
use crate::outcome::FinishedRun;
use crate::outcome::unplaced;
use crate::report::waiting::{
    Help, Lack, NearMiss, WaitingGang, WaitingGroup, WaitingJob, WaitingReport,
};
use crate::stop::Stop;
use omega_cellstate::{Cell, CellHandle, View};
use omega_core::{CorePlace, Job, JobId, Kinds, TaskGroup, TaskState};
use omega_schedulers::config::Profiles;
use omega_schedulers::explain::{Miss, Obstacle, Remedy, describe};
use omega_schedulers::{Profile, Scheduler, Settings, Worker};
use omega_workload::kube::kinds::is_nominal;
use omega_workload::words::plural;

/// The jobs to explain after a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The job with this name.
    Job(&'a str),
    /// One job for each reason for which tasks are pending, up to five. The reason of the most tasks comes first.
    EachReason,
}

/// Number of jobs that are explained if no job is named: one for each of the most frequent reasons.
const JOBS_MAX: usize = 5;

/// Explains jobs of a run that has ended. If `stop` was requested, fewer reasons are found.
pub(crate) fn report(ended: FinishedRun, which: Which<'_>, stop: &Stop) -> WaitingReport {
    let FinishedRun { fed, mut workers, .. } = ended;
    let names: Vec<String> = match which {
        Which::Job(name) => vec![name.to_owned()],
        Which::EachReason => {
            let reasons = unplaced(&fed, &mut workers, stop);
            reasons.into_iter().map(|reason| reason.example).take(JOBS_MAX).collect()
        }
    };
    let jobs = names.into_iter().map(|name| job_of_run(&fed, &mut workers, name)).collect();
    WaitingReport { jobs, pending: fed.counts.pending(), name: fed.name, notes: fed.notes }
}

fn job_of_run(fed: &Fed, workers: &mut [Worker<Meter>], name: String) -> WaitingJob {
    let id = fed.cell.read(|cell| cell.job_by_name(&name));
    let waits = |worker: &&mut Worker<Meter>| {
        worker.scheduler.queue().waiting().iter().any(|(waiting, _)| Some(*waiting) == id)
    };
    let Some(worker) = workers.iter_mut().find(waits) else {
        return job(&fed.cell, None, name);
    };
    let kinds = fed.cell.read(|cell| cell.kinds().clone());
    let refused = id.and_then(|id| worker.observer.refused.get(&id));
    let refused = refused.map(|reason| describe(*reason, &kinds));
    WaitingJob { refused, ..job(&fed.cell, Some(&mut worker.scheduler), name) }
}

/// Explains why a job is pending in the present cell, with the profile of the job's scheduler or a built-in
/// profile. No task is placed. Returns `None` if the cell has no job with this name.
///
/// # Errors
/// If the profile names something that the cell does not have.
pub fn explain_cell(
    cell: Cell,
    profiles: &Profiles,
    name: &str,
) -> Result<Option<WaitingJob>, RunError> {
    let Some(id) = cell.job_by_name(name) else { return Ok(None) };
    let Some(job) = cell.job(id).cloned() else { return Ok(None) };
    let kinds = cell.kinds().clone();
    let cell = RunCell::memory(cell);
    let asked = AskedJob { id, job: &job, waiting: waiting(&cell, (id, &job)) };
    explain_at(&cell, &kinds, profiles, asked, &|| true).map(Some)
}

/// A job of a cell that is only reachable through a handle.
#[derive(Clone, Debug)]
pub struct AskedJob<'a> {
    /// Id of the job.
    pub id: JobId,
    /// Description of the job.
    pub job: &'a Job,
    /// Number of pending tasks in each group.
    pub waiting: Vec<usize>,
}

/// Explains why a job is pending in the cell behind a handle. A scheduler is made with the profile for the job's
/// scheduler, or with a built-in profile. It registers as `explain`, reads the cell and places no task. `goes_on` is
/// called before each machine; once it returns false, the work ends, and the result is incomplete.
///
/// # Errors
/// If the profile names something that the cell does not have, or the cell does not answer.
pub fn explain_at(
    cell: &impl CellHandle,
    kinds: &Kinds,
    profiles: &Profiles,
    asked: AskedJob<'_>,
    goes_on: &dyn Fn() -> bool,
) -> Result<WaitingJob, RunError> {
    let takes = asked.job.scheduler.to_string();
    let profile = match profiles.get(&takes) {
        Some(spec) => spec
            .bind(kinds)
            .map_err(|why| RunError::Profile { name: takes.clone(), why: why.into() })?,
        None if takes == "service" => Profile::service(),
        None => Profile::batch(),
    };
    let settings = Settings { name: "explain".into(), ..Settings::worker(&takes, 0, 1) };
    let shown = settings.takes.clone();
    let failed = |why| RunError::Scheduler { name: shown.clone(), why };
    let mut scheduler = Scheduler::new(cell, profile, settings).map_err(failed)?;
    scheduler.look(cell, 0).map_err(failed)?;
    Ok(WaitingJob { scheduler: takes, ..waiting_job(&mut scheduler, &asked, goes_on) })
}

/// Explains a pending job, with the help of its scheduler if there is one.
fn job(cell: &RunCell, scheduler: Option<&mut Scheduler>, name: String) -> WaitingJob {
    let id = cell.read(|cell| cell.job_by_name(&name));
    let Some((id, spec)) = id.and_then(|id| Some((id, cell.read(|c| c.job(id).cloned())?))) else {
        return WaitingJob { job: name, ..WaitingJob::default() };
    };
    let Some(scheduler) = scheduler else {
        return WaitingJob { job: name, tasks: spec.task_count(), ..WaitingJob::default() };
    };
    let waiting = waiting(cell, (id, &spec));
    waiting_job(scheduler, &AskedJob { id, job: &spec, waiting }, &|| true)
}

/// Explains a pending job as its scheduler sees it.
fn waiting_job(
    scheduler: &mut Scheduler,
    asked: &AskedJob<'_>,
    goes_on: &dyn Fn() -> bool,
) -> WaitingJob {
    let AskedJob { id, job, waiting } = asked;
    let mut explained = WaitingJob {
        job: job.name.to_string(),
        tasks: job.task_count(),
        scheduler: scheduler.settings().name.to_string(),
        gang: gang(scheduler, (*id, job), goes_on),
        ..WaitingJob::default()
    };
    for (index, (waiting, group)) in waiting.iter().zip(&job.groups).enumerate() {
        if *waiting > 0 && goes_on() {
            explained.waiting += waiting;
            let told = self::group(scheduler, (*id, index), group, *waiting, goes_on);
            explained.groups.extend(told);
        }
    }
    explained
}

/// Number of pending tasks of each group.
fn waiting(cell: &RunCell, (id, job): (JobId, &Job)) -> Vec<usize> {
    let mut waiting = vec![0; job.groups.len()];
    cell.read(|cell| {
        for (task, _) in cell.tasks(id).filter(|(_, state)| *state == TaskState::Pending) {
            if let Some(count) = cell.task_group(task).and_then(|group| waiting.get_mut(group)) {
                *count += 1;
            }
        }
    });
    waiting
}

fn gang(
    scheduler: &mut Scheduler,
    (id, job): (JobId, &Job),
    goes_on: &dyn Fn() -> bool,
) -> Option<WaitingGang> {
    let needs = job.gang_min?;
    let have = scheduler.queue().placed_tasks(id);
    // The gang is incomplete. Either its placed tasks keep their machines until the other tasks are placed, or it has
    // run and lost some tasks. In both cases, `needs` minus `have` tasks are missing.
    let holds =
        job.gang_timeout_ms.is_some() && have > 0 && !scheduler.queue().gang_suffices(id, 0);
    Some(WaitingGang { needs, have, room: scheduler.room_for_while(id, goes_on), holds })
}

fn group(
    scheduler: &mut Scheduler,
    (id, index): (JobId, usize),
    group: &TaskGroup,
    waiting: usize,
    goes_on: &dyn Fn() -> bool,
) -> Option<WaitingGroup> {
    let explanation = scheduler.explain_while(id, index, goes_on)?;
    let diagnosis = scheduler.diagnose_while(id, index, goes_on)?;
    let view = scheduler.view();
    let named = Named::new(group, view);
    let own = explanation.refused.into_iter().map(|(r, n)| (named.reason(r), n));
    let filters = explanation.filtered.into_iter();
    let filters = filters.map(|(name, n)| (format!("removed by the filter {name}"), n));
    Some(WaitingGroup {
        group: group.name.to_string(),
        waiting,
        request: request(group, view.kinds()),
        machines: diagnosis.machines,
        feasible: diagnosis.feasible,
        removed: diagnosis.removed.into_iter().map(|(f, n)| (f.to_owned(), n)).collect(),
        reasons: own.chain(filters).collect(),
        nearest: diagnosis.nearest.iter().map(|miss| near_miss(miss, view, &named)).collect(),
        remedies: diagnosis.remedies.iter().map(|remedy| help(remedy, view, &named)).collect(),
    })
}

/// Request of each task of a group.
fn request(group: &TaskGroup, kinds: &Kinds) -> String {
    let amount = |(kind, amount)| {
        let name = kinds.get(kind).map_or("units", |kind| kind.name.as_str());
        // The kind of Kubernetes that counts tasks.
        let name = if name == "pods" && amount == 1 { "pod" } else { name };
        (!is_nominal(name)).then(|| format!("{} {name}", kinds.display(kind, amount)))
    };
    let amounts = group.request.iter().filter_map(amount);
    let devices = group.devices.map(|devices| match devices.milli_each {
        1000 if devices.count == 1 => "1 whole device".to_owned(),
        1000 => format!("{} whole devices", devices.count),
        milli => format!("{} of each of {} devices", f64::from(milli) / 1000.0, devices.count),
    });
    let cores = group.cores.map(|cores| {
        let count = plural(cores.count.into(), "exclusive core");
        match cores.place {
            CorePlace::AnyNodes => count,
            CorePlace::OneNode => format!("{count} of one NUMA node"),
        }
    });
    let parts: Vec<String> = amounts.chain(devices).chain(cores).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn near_miss(miss: &Miss, view: &View, named: &Named<'_>) -> NearMiss {
    NearMiss {
        machines: miss.machines,
        example: machine_name(view, miss.example.row()),
        lacks: miss.obstacles.iter().map(|obstacle| lack(obstacle, view.kinds(), named)).collect(),
    }
}

fn lack(obstacle: &Obstacle, kinds: &Kinds, named: &Named<'_>) -> Lack {
    let (kind, missing) = match obstacle {
        Obstacle::Room { kind, missing } | Obstacle::Cell { kind, missing } => {
            (kinds.get(*kind).map(|kind| kind.name.clone()), Some(*missing))
        }
        Obstacle::Quota(lack) => {
            (kinds.get(lack.kind).map(|kind| kind.name.clone()), Some(lack.missing))
        }
        Obstacle::Devices { missing } | Obstacle::Cores { missing } => {
            (None, Some(u64::from(*missing)))
        }
        _ => (None, None),
    };
    Lack { what: obstacle.name().into(), kind, missing, text: named.obstacle(obstacle) }
}

fn help(remedy: &Remedy, view: &View, named: &Named<'_>) -> Help {
    let (obstacles, machine, machines) = match remedy {
        Remedy::Room { shortage, .. } => (shortage.obstacles(), Some(shortage.machine), 1),
        Remedy::LargerMachine { shortage } => (shortage.obstacles(), Some(shortage.machine), 0),
        Remedy::Lift { obstacle, machines } => (vec![obstacle.clone()], None, *machines),
    };
    Help {
        what: remedy.name().into(),
        machine: machine.map(|machine| machine_name(view, machine.row())),
        machines,
        lacks: obstacles.iter().map(|obstacle| lack(obstacle, view.kinds(), named)).collect(),
        text: named.remedy(remedy),
    }
}

fn machine_name(view: &View, row: usize) -> String {
    view.machine(row).map_or_else(String::new, |machine| machine.name.to_string())
}
