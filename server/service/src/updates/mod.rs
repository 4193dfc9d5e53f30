//! The controller of updates: moves services to their latest versions, keeps one task on each machine for groups that
//! request this, and evacuates machines at the deadline of their drain.
//!
//! ```text
//!   versions, machines ──changes──▶ open jobs ──plan.rs──▶ RollJob, UpdateJob ──▶ Host ──▶ the log
//!                                       ▲                                                 │
//!                                       └──────────────── states of tasks ◀───────────────┘
//! ```
//!
//! The controller runs on the leader, beside the monitor of machines. It is a client of the cell like any other. Each
//! step names the version for which it was decided, so a step of a replaced leader changes nothing after an update.
//!
//! The cell records whether the update to a version is complete or has failed. Only the start times of tasks are in
//! memory: a new leader measures `min_healthy_ms` from the start of its leadership.

mod admission;
#[cfg(test)]
mod ended_tests;
mod evacuate;
mod plan;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use crate::cell_clock::unix_ms;
use crate::host::Host;
use crate::overload::in_flight::TenantUse;
use crate::overload::tenant_limits::{Admitted, TenantLimits};
use admission::{Admission, Allowed, Size};
use evacuate::COMMAND_MAX;
use futures_util::StreamExt;
use omega_cellstate::{Cell, Changed, MachineState};
use omega_client::{ApiError, ErrorCode};
use omega_core::{Command, Job, JobId, MachineId, Outcome, Version};
use omega_store::log::Term;
use plan::{Next, Progress, drain_by};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Interval at which open jobs are examined. It is short compared with the start of a program.
const STEP: Duration = Duration::from_millis(200);

/// Time after which a job is examined again if the cell has rejected its step, for example because of a request limit.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Pause after an examination of a job, as a multiple of its duration. A job with many tasks takes long.
const PAUSE: u32 = 20;

/// Maximum number of jobs that are changed concurrently.
const AT_ONCE: usize = 64;

/// Runs until the replica has stopped. Tasks are added only within the limit on each tenant's tasks.
pub(crate) async fn run(host: Host, bound: TenantLimits) {
    let mut steps = tokio::time::interval(STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lead: Option<LeaderState> = None;
    while host.stopped().is_none() {
        steps.tick().await;
        let leadership = host.leadership();
        let term = leadership.is_leader.then_some(leadership.term);
        if lead.as_ref().map(|lead| lead.term) != term {
            lead = term.map(LeaderState::new);
        }
        if let Some(lead) = &mut lead {
            lead.step(&host, bound).await;
        }
    }
}

/// State that exists only while this replica leads.
struct LeaderState {
    term: Term,
    /// Version up to which changes were read.
    since: Version,
    open: BTreeMap<JobId, OpenJob>,
    /// Jobs with a group that has one task on each machine.
    per_machine: BTreeSet<JobId>,
    /// Machines with a drain deadline.
    evacuated: BTreeSet<MachineId>,
    began: Instant,
}

/// A job that was updated, or has tasks that must be replaced. It is kept until the job's record is removed.
#[derive(Debug, Default)]
struct OpenJob {
    progress: Progress,
    admission: Admission,
    /// Whether the job is not examined until the job or a machine changes.
    is_idle: bool,
    /// Time before which the job is not examined.
    not_before: Option<Instant>,
}

/// A command for a job.
struct PlannedCommand {
    id: JobId,
    command: Command,
    size: Size,
    /// Tasks that are reserved until the command is done.
    admitted: Option<Admitted>,
}

impl LeaderState {
    fn new(term: Term) -> LeaderState {
        let (since, began) = (Version(0), Instant::now());
        let (open, per_machine, evacuated) = Default::default();
        LeaderState { term, since, open, per_machine, evacuated, began }
    }

    async fn step(&mut self, host: &Host, bound: TenantLimits) {
        host.read(|cell| self.read_changes(cell));
        let now = Instant::now();
        let now_ms = now.duration_since(self.began).as_millis() as u64;
        let mut commands = Vec::new();
        host.read(|cell| {
            // The change log does not name jobs that were forgotten.
            self.open.retain(|id, _| cell.job(*id).is_some());
            self.per_machine.retain(|id| cell.job(*id).is_some());
        });
        for (id, open) in &mut self.open {
            if open.is_idle || open.not_before.is_some_and(|until| now < until) {
                continue;
            }
            // Between two jobs, the lock is released, so that other calls are not delayed.
            let (next, took) = host.read(|cell| {
                let began = Instant::now();
                (plan::next(cell, *id, &mut open.progress, now_ms), began.elapsed())
            });
            open.not_before = Some(Instant::now() + took * PAUSE);
            open.is_idle = matches!(next, Next::Settled | Next::Stopped);
            commands.extend(open.plan_command(host, bound, *id, next));
        }
        let done = futures_util::stream::iter(commands).map(|planned| async move {
            let PlannedCommand { id, command, size, admitted } = planned;
            let outcome = host.apply(command, Instant::now() + COMMAND_MAX).await;
            drop(admitted);
            (id, size, outcome)
        });
        let done: Vec<(JobId, Size, Result<Outcome, ApiError>)> =
            done.buffer_unordered(AT_ONCE).collect().await;
        for (id, size, outcome) in done {
            self.record_result(id, size, outcome);
        }
        if !self.evacuated.is_empty() {
            evacuate::step(host, &self.evacuated, unix_ms()).await;
        }
    }

    /// Records the result of a job's step.
    fn record_result(&mut self, id: JobId, size: Size, outcome: Result<Outcome, ApiError>) {
        let Some(open) = self.open.get_mut(&id) else { return };
        match outcome {
            // The job was updated or has ended. The next step reads this change.
            Err(error) if matches!(error.code, ErrorCode::OtherVersion | ErrorCode::UnknownJob) => {
            }
            Err(error) => {
                let may_go_on = open.admission.refused(id, size, &error) || error.is_temporary();
                if !may_go_on {
                    open.not_before = Some(Instant::now() + REFUSED_FOR);
                }
            }
            Ok(_) => open.admission.accepted(size),
        }
    }

    /// Reads the changes since the last step, and adds the affected jobs to the jobs that each step examines.
    fn read_changes(&mut self, cell: &Cell) {
        if self.since == cell.version() && self.since != Version(0) {
            return;
        }
        let changes: Option<Vec<Changed>> = match self.since {
            Version(0) => None,
            since => cell.changed_since(since).map(Iterator::collect),
        };
        match changes {
            None => {
                (self.per_machine, self.evacuated) = Default::default();
                self.open.retain(|id, _| cell.job(*id).is_some());
                cell.jobs().for_each(|(id, job)| self.changed(cell, id, job));
                self.machines_changed(cell.machines());
            }
            Some(changes) => {
                let (mut jobs, mut slots) = (BTreeSet::new(), BTreeSet::new());
                for change in changes {
                    match change {
                        Changed::Machine(slot) => _ = slots.insert(slot),
                        Changed::Job(id) => _ = jobs.insert(id),
                        Changed::Task(task) => _ = jobs.insert(task.job),
                    }
                }
                if !slots.is_empty() {
                    self.evacuated.retain(|id| !slots.contains(&id.slot));
                    self.machines_changed(slots.iter().filter_map(|slot| cell.machine_in(*slot)));
                }
                for id in jobs {
                    match cell.job(id) {
                        Some(job) => self.changed(cell, id, job),
                        None => {
                            self.per_machine.remove(&id);
                            self.open.remove(&id);
                        }
                    }
                }
            }
        }
        self.since = cell.version();
    }

    fn changed(&mut self, cell: &Cell, id: JobId, job: &Job) {
        let has = job.groups.iter().any(|group| group.per_machine);
        if has && cell.is_alive(id) {
            _ = self.per_machine.insert(id)
        } else {
            _ = self.per_machine.remove(&id)
        }
        if has || !cell.job_versions(id).is_empty() {
            self.reopen(id);
        }
    }

    fn reopen(&mut self, id: JobId) {
        self.open.entry(id).or_default().is_idle = false;
    }

    /// Adds the jobs with one task on each machine, and the jobs with tasks on those of the changed machines that are
    /// evacuated, to the jobs that each step examines.
    fn machines_changed<'a>(&mut self, changed: impl Iterator<Item = MachineState<'a>>) {
        for id in &self.per_machine {
            self.open.entry(*id).or_default().is_idle = false;
        }
        for machine in changed.filter(|state| drain_by(state.machine).is_some()) {
            self.evacuated.insert(machine.id);
            for task in machine.tasks {
                self.reopen(task.job);
            }
        }
    }
}

impl OpenJob {
    /// Returns the command for a job's next step within the limits, if any.
    fn plan_command(
        &mut self,
        host: &Host,
        bound: TenantLimits,
        id: JobId,
        next: Next,
    ) -> Option<PlannedCommand> {
        if self.is_idle {
            self.admission = Admission::default();
        }
        let (next, size, admitted) = match next {
            Next::Roll(step) => match self.admission.allow(host, bound, id, step) {
                Some(Allowed { step, size, admitted }) => (Next::Roll(step), size, admitted),
                None => {
                    self.not_before = Some(Instant::now() + REFUSED_FOR);
                    return None;
                }
            },
            // An update of an ended service starts all its tasks.
            Next::Start { ref spec, .. } | Next::Rollback { ref spec, .. }
                if host.read(|cell| !cell.is_alive(id)) =>
            {
                let adds = TenantUse::described(spec, spec.task_count());
                let Ok(admitted) = bound.admit(host, &spec.tenant, adds) else {
                    self.not_before = Some(Instant::now() + REFUSED_FOR);
                    return None;
                };
                (next, Size::default(), Some(admitted))
            }
            next => (next, Size::default(), None),
        };
        command(id, next).map(|command| PlannedCommand { id, command, size, admitted })
    }
}

/// Returns the command for a job's next step; `None` if the step changes nothing.
fn command(job: JobId, next: Next) -> Option<Command> {
    match next {
        Next::Settled | Next::Wait | Next::Stopped => None,
        Next::Roll(step) => Some(Command::RollJob { job, step }),
        Next::Ended { version, result } => Some(Command::EndUpdate { job, version, result }),
        Next::Start { version, spec } | Next::Rollback { version, spec } => {
            let spec = Job::clone(&spec);
            Some(Command::UpdateJob { job, version: Some(version), spec })
        }
    }
}
