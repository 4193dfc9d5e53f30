//! The next step of a job towards its version: a plain function of the cell and of the time for which tasks have run.
//!
//! For each group of the version:
//!
//! - *new* tasks belong to the version, and may stay on their machines;
//! - *old* tasks belong to an earlier version, or are on a machine that is evacuated;
//! - tasks of groups that the version no longer has are ended at once.
//!
//! A step ends old tasks while enough tasks remain available, and adds new tasks while the total stays within its
//! limit. An old task is available while it runs, and a new task after it has run for `min_healthy_ms`.

use omega_cellstate::{Cell, JobVersion, MachineStatus, shrink_order};
use omega_client::agent::{DISK_FULL, DRAIN_BY};
use omega_client::restart;
use omega_client::rollback::{self, KnownVersion};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{
    GroupGrowth, Job, JobId, JobKind, Machine, MachineId, OnFailure, RollStep, Taint, TaintEffect,
    TaskGroup, TaskId, TaskState, Text, UpdateResult, UpdateRules,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The progress of a job, as observed by the controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Start times of the running tasks.
    since_ms: BTreeMap<u32, u64>,
}

/// The next step of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is left to do until the job or a machine changes.
    Settled,
    /// The job must be examined again later, because tasks are starting or are not healthy yet.
    Wait,
    /// The update has failed, and tasks of earlier versions run: it waits for an operator.
    Stopped,
    /// The result of the update is known. It is recorded once.
    Ended {
        /// The version of the update.
        version: u32,
        /// Result of the update.
        result: UpdateResult,
    },
    /// Tasks of the job are to be changed.
    Roll(RollStep),
    /// The job ended before the update added a task, and is to run in its newest version.
    Start {
        /// The newest version.
        version: u32,
        /// Description of the newest version.
        spec: Arc<Job>,
    },
    /// The update has failed, and the job is to go back to this description.
    Rollback {
        /// The version that failed.
        version: u32,
        /// Description of an earlier version.
        spec: Arc<Job>,
    },
}

/// A task that has not ended.
#[derive(Clone, Copy, Debug)]
struct Living {
    index: u32,
    group: usize,
    state: TaskState,
}

/// Returns the next step of a job.
pub(super) fn next(cell: &Cell, id: JobId, progress: &mut Progress, now_ms: u64) -> Next {
    let Some((target, version)) = cell.job_target(id).zip(cell.job_version(id)) else {
        return Next::Settled;
    };
    if target.kind == JobKind::Batch || target.gang_min.is_some() {
        return Next::Settled;
    }
    let living = living(cell, id);
    let has_ended = living.is_empty();
    // An update has its result only when tasks of its version run.
    if cell.is_scaled_to_zero(id) {
        return Next::Settled;
    }
    // A job that its users have ended stays so. If it was killed during an update, the update has failed.
    if has_ended && (target.task_count() == 0 || cell.job_was_killed(id)) {
        let latest = cell.job_versions(id).last();
        let is_open = latest.is_some_and(|update| update.result.is_none());
        let result =
            if cell.job_was_killed(id) { UpdateResult::Failed } else { UpdateResult::Complete };
        return if is_open { Next::Ended { version, result } } else { Next::Settled };
    }
    progress.observe(&living, now_ms);
    let plan = Plan::new((cell, id), target, living, now_ms);
    let result = plan.update.map_or(Some(UpdateResult::Complete), |update| update.result);
    match result {
        None if has_ended && !plan.has_added() => {
            return Next::Start { version, spec: target.clone() };
        }
        None if has_ended || plan.has_failed() => {
            return Next::Ended { version, result: UpdateResult::Failed };
        }
        Some(UpdateResult::Failed) => {
            if let Some(spec) = plan.version_to_restore() {
                return Next::Rollback { version, spec };
            }
            // If no task is left to replace, there is nothing to stop.
            if plan.has_tasks_of_other_versions() {
                return Next::Stopped;
            }
        }
        _ => {}
    }
    if has_ended {
        return Next::Settled;
    }
    let (step, state) = plan.step(progress, RollStep::of(version));
    match state {
        _ if !step.adds.is_empty() || !step.stops.is_empty() => Next::Roll(step),
        State::Reached if result.is_none() => {
            Next::Ended { version, result: UpdateResult::Complete }
        }
        State::Reached => Next::Settled,
        State::Open => Next::Wait,
    }
}

/// Whether a job has reached its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reached,
    Open,
}

/// Whether a task has failed for good, or finished.
fn is_over(state: TaskState) -> bool {
    matches!(state, TaskState::Failed | TaskState::Finished)
}

/// Those tasks of a job that have not ended.
fn living(cell: &Cell, job: JobId) -> Vec<Living> {
    let tasks = cell.tasks(job).filter(|(_, state)| !state.ended());
    let living = tasks.filter_map(|(id, state)| {
        Some(Living { index: id.index, group: cell.task_group(id)?, state })
    });
    living.collect()
}

impl Progress {
    /// Records which tasks run, and since when.
    fn observe(&mut self, living: &[Living], now_ms: u64) {
        let runs = |task: &&Living| matches!(task.state, TaskState::Running(_));
        let running: BTreeSet<u32> = living.iter().filter(runs).map(|task| task.index).collect();
        self.since_ms.retain(|index, _| running.contains(index));
        for index in running {
            self.since_ms.entry(index).or_insert(now_ms);
        }
    }
}

/// The state on which a step of a job is decided.
struct Plan<'c> {
    cell: &'c Cell,
    id: JobId,
    target: &'c Arc<Job>,
    /// The newest version of the job; `None` if it was never updated.
    update: Option<&'c JobVersion>,
    living: Vec<Living>,
    /// Living tasks by the name of their group.
    by_name: HashMap<&'c Text, Vec<Living>>,
    /// Failed and finished tasks by the position of their group.
    over: HashMap<usize, Vec<u32>>,
    /// Machines with living tasks.
    on: BTreeSet<MachineId>,
    now_ms: u64,
    rules: UpdateRules,
}

impl<'c> Plan<'c> {
    /// Creates the plan of a job with these living tasks. Tasks are divided by group once, because a job may have many
    /// groups.
    fn new(
        (cell, id): (&'c Cell, JobId),
        target: &'c Arc<Job>,
        living: Vec<Living>,
        now_ms: u64,
    ) -> Plan<'c> {
        let groups = cell.job(id).map_or(&[][..], |job| &job.groups);
        let mut by_name: HashMap<&Text, Vec<Living>> = HashMap::new();
        for task in &living {
            if let Some(group) = groups.get(task.group) {
                by_name.entry(&group.name).or_default().push(*task);
            }
        }
        let mut over: HashMap<usize, Vec<u32>> = HashMap::new();
        for (task, _) in cell.tasks(id).filter(|(_, state)| is_over(*state)) {
            if let Some(position) = cell.task_group(task) {
                over.entry(position).or_default().push(task.index);
            }
        }
        let on = living.iter().filter_map(|task| task.state.machine()).collect();
        let rules = target.update.unwrap_or_default();
        let update = cell.job_versions(id).last();
        Plan { cell, id, target, update, living, by_name, over, on, now_ms, rules }
    }

    fn step(&self, progress: &Progress, mut step: RollStep) -> (RollStep, State) {
        let mut state = State::Reached;
        for group in &self.target.groups {
            if self.step_group(group, progress, &mut step) == State::Open {
                state = State::Open;
            }
        }
        let wanted: HashSet<&Text> = self.target.groups.iter().map(|group| &group.name).collect();
        let unwanted = self.by_name.iter().filter(|(name, _)| !wanted.contains(*name));
        let unwanted: BTreeSet<u32> =
            unwanted.flat_map(|(_, tasks)| tasks).map(|task| task.index).collect();
        step.stops.extend(unwanted);
        if step.stops.len() > TRANSACTION_ITEMS_MAX {
            // The rest is ended, and tasks are added, in later steps.
            step.stops.truncate(TRANSACTION_ITEMS_MAX);
            step.adds.clear();
        }
        // If the last task of a job were ended, the job would end too, so one task is kept.
        if step.adds.is_empty() && step.stops.len() >= self.living.len() {
            step.stops.truncate(self.living.len().saturating_sub(1));
        }
        (step, state)
    }

    fn step_group(&self, group: &TaskGroup, progress: &Progress, step: &mut RollStep) -> State {
        let Some(position) = self.cell.target_group(self.id, &group.name) else {
            return State::Reached;
        };
        let places = self.places(group, position);
        let is_new = |task: &&Living| task.group == position && places.may_stay(task);
        let of_group = self.by_name.get(&group.name).into_iter().flatten();
        let (new, old): (Vec<&Living>, Vec<&Living>) = of_group.partition(is_new);
        let spent = self.spent(position);
        let wanted = places.target_count(group);
        let healthy = new.iter().filter(|task| self.is_healthy(progress, task)).count() as u32;
        let stops = self.stops(wanted, healthy.min(wanted), &old);
        let surplus = (new.len() as u32).saturating_sub(wanted);
        let ended = stops.len() as u32;
        step.stops.extend(stops);
        step.stops.extend(shrink_order(new.iter().map(|task| (task.index, task.state)), surplus));
        let missing = wanted.saturating_sub(new.len() as u32 + spent);
        let total = (new.len() + old.len()) as u32 - ended;
        let room = wanted.saturating_add(self.rules.max_surge).saturating_sub(total);
        // If there are no old tasks, all new ones are added at once, because none is replaced.
        let adds = if old.is_empty() { missing } else { missing.min(room) };
        if adds > 0 {
            step.adds.push(GroupGrowth { group: group.name.clone(), count: adds });
        }
        if old.is_empty() && missing == 0 && surplus == 0 && healthy as usize == new.len() {
            State::Reached
        } else {
            State::Open
        }
    }

    /// The old tasks to end: those that do not run, and as many others as the rules allow to be missing.
    fn stops(&self, wanted: u32, healthy: u32, old: &[&Living]) -> Vec<u32> {
        let runs = |task: &&&Living| matches!(task.state, TaskState::Running(_));
        let running: Vec<u32> = old.iter().filter(runs).map(|task| task.index).collect();
        let least = wanted.saturating_sub(self.rules.max_unavailable);
        let available = healthy + running.len() as u32;
        let spare = available.saturating_sub(least) as usize;
        let idle = old.iter().filter(|task| !runs(task)).map(|task| task.index);
        idle.chain(running.into_iter().take(spare)).collect()
    }

    /// Number of a group's tasks that have failed for good or finished, and are not replaced.
    fn spent(&self, position: usize) -> u32 {
        // A new group may have the position of a group of a forgotten version, and so the ended tasks of that group.
        let update = self.update.filter(|update| self.is_made_by(position, update.number));
        let first = update.map_or(0, |update| update.first_task);
        let over = self.over.get(&position).into_iter().flatten();
        let over = over.filter(|index| **index >= first).count() as u32;
        // Tasks that ended before the job ended and ran again do not belong to the group's count.
        let job = self.cell.job(self.id);
        let count = job.and_then(|job| job.groups.get(position)).map_or(0, |group| group.count);
        let living = self.living.iter().filter(|task| task.group == position).count() as u32;
        over.min(count.saturating_sub(living))
    }

    /// Whether the group at this position is new or changed in a version.
    fn is_made_by(&self, position: usize, version: u32) -> bool {
        let job = self.cell.job(self.id);
        job.and_then(|job| job.groups.get(position)).is_some_and(|group| group.version == version)
    }

    fn is_healthy(&self, progress: &Progress, task: &Living) -> bool {
        let since = progress.since_ms.get(&task.index);
        since.is_some_and(|since| {
            self.now_ms.saturating_sub(*since) >= u64::from(self.rules.min_healthy_ms)
        })
    }

    /// The tasks that were added by the update.
    fn added(&self) -> impl Iterator<Item = (TaskId, TaskState)> {
        let first = self.update.map_or(0, |update| update.first_task);
        let positions = self.positions();
        let is_new = move |id| self.cell.task_group(id).is_some_and(|at| positions.contains(&at));
        self.cell.tasks_from(self.id, first).filter(move |(id, _)| is_new(*id))
    }

    fn has_added(&self) -> bool {
        self.added().next().is_some()
    }

    /// Whether a task that was added by the update has failed or ended.
    fn has_failed(&self) -> bool {
        self.added().any(|(id, state)| is_over(state) || self.cell.task_failures(id) > 0)
    }

    /// Positions of the version's groups in the job.
    fn positions(&self) -> BTreeSet<usize> {
        let groups = self.target.groups.iter();
        groups.filter_map(|group| self.cell.target_group(self.id, &group.name)).collect()
    }

    fn has_tasks_of_other_versions(&self) -> bool {
        let positions = self.positions();
        self.living.iter().any(|task| !positions.contains(&task.group))
    }

    /// Description of the version to which a job goes back after a failure, if its rules say so. Groups keep their
    /// present counts.
    ///
    /// If a restart of a version that worked has failed, the update stops: no other description is known to work better.
    fn version_to_restore(&self) -> Option<Arc<Job>> {
        if self.rules.on_failure != OnFailure::Rollback {
            return None;
        }
        let versions = self.cell.job_versions(self.id).iter();
        let known = versions.map(|one| KnownVersion { job: &one.spec, result: one.result });
        let known: Vec<KnownVersion<'_>> = known.collect();
        if rollback::restarts_complete(&known) {
            return None;
        }
        let restored = known[rollback::version_to_restore(&known)?].job.with_counts_of(self.target);
        Some(Arc::new(restart::without_restart(&restored, self.target)))
    }

    /// The machines on which a group's tasks of the new version may stay.
    fn places(&self, group: &TaskGroup, position: usize) -> Places {
        let on = &self.on;
        if !group.per_machine {
            let evacuated = |id: &MachineId| {
                self.cell.machine(*id).is_some_and(|state| drain_by(state.machine).is_some())
            };
            return Places::AnyBut(on.iter().copied().filter(evacuated).collect());
        }
        // A machine with a full disk keeps its tasks, and gets no new ones.
        let is_full = |taint: &Taint| {
            &*taint.key == DISK_FULL && !group.rules.tolerations.iter().any(|one| one.covers(taint))
        };
        let fits = self.cell.machines().filter(|state| {
            let is_open = state.status == MachineStatus::Schedulable
                && !state.machine.taints.iter().any(is_full);
            (is_open || on.contains(&state.id))
                && self.cell.group_selects(self.id, position, state.id)
                && tolerates(group, state.machine)
        });
        Places::EachOf(fits.map(|state| state.id).collect())
    }
}

/// The machines on which tasks of a group may stay.
enum Places {
    /// All machines except these, which are evacuated.
    AnyBut(BTreeSet<MachineId>),
    /// Exactly these machines, with one task on each.
    EachOf(BTreeSet<MachineId>),
}

impl Places {
    /// Number of tasks that a group is to have.
    fn target_count(&self, group: &TaskGroup) -> u32 {
        match self {
            Places::EachOf(fits) => fits.len() as u32,
            Places::AnyBut(_) => group.count,
        }
    }

    fn may_stay(&self, task: &Living) -> bool {
        match (self, task.state.machine()) {
            (_, None) => true,
            (Places::AnyBut(evacuated), Some(machine)) => !evacuated.contains(&machine),
            (Places::EachOf(fits), Some(machine)) => fits.contains(&machine),
        }
    }
}

/// The time by which tasks have to leave a machine that is evacuated, in milliseconds since 1970.
pub(super) fn drain_by(machine: &Machine) -> Option<u64> {
    let taint = machine.taints.iter().find(|taint| &*taint.key == DRAIN_BY)?;
    Some(taint.value.parse().unwrap_or(u64::MAX))
}

/// Whether a group tolerates the taints that keep tasks off a machine.
fn tolerates(group: &TaskGroup, machine: &Machine) -> bool {
    let rules = &group.rules;
    let keeps_off = |effect| matches!(effect, TaintEffect::NoSchedule | TaintEffect::NoExecute);
    // These taints are tolerated, because tasks that belong to their machine stay during an evacuation, and while the
    // disk is full.
    let is_tolerated = |taint: &Taint| {
        [DRAIN_BY, DISK_FULL].contains(&&*taint.key)
            || rules.tolerations.iter().any(|one| one.covers(taint))
    };
    machine.taints.iter().all(|taint| !keeps_off(taint.effect) || is_tolerated(taint))
}
