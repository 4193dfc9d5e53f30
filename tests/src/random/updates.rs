//! Random deletions and updates of jobs, and changes of taints.

use super::{Dice, Generator};
use crate::reference::{Reference, ReferenceJob};
use omega_core::{
    Amounts, Command, Job, JobId, JobKind, KindId, MachineId, OnFailure, RollStep, Taint,
    TaintEffect, TaskGroup, TaskRule, TaskSelector, Text, TopologyLevel, UpdateResult, UpdateRules,
};

impl Generator {
    /// Creates a history in which jobs are deleted and updated.
    #[must_use]
    pub fn with_updates(self, seed: u64) -> Generator {
        Generator { updates: Some(Dice::new(seed ^ 0x0DA7E)), ..self }
    }

    /// Creates a history in which updates get results, and single taints change.
    #[must_use]
    pub fn with_results(self, seed: u64) -> Generator {
        Generator { results: Some(Dice::new(seed ^ 0x2E5)), ..self }
    }

    pub(super) fn result(&mut self, reference: &Reference) -> Option<Command> {
        let dice = self.results.as_mut().filter(|_| !reference.jobs().is_empty())?;
        match dice.below(100) {
            0..6 => end_update(dice, reference, Among::RunningAndEnded),
            6..12 => Some(change_taint(dice, reference)),
            _ => None,
        }
    }

    pub(super) fn update(&mut self, reference: &Reference) -> Option<Command> {
        let among = if self.results.is_some() { Among::RunningAndEnded } else { Among::Running };
        let dice = self.updates.as_mut().filter(|_| !reference.jobs().is_empty())?;
        match dice.below(100) {
            0..2 => Some(Command::DeleteJob { job: some_job(dice, reference) }),
            2..7 => update_job(dice, reference, among),
            7..14 => roll_job(dice, reference, among),
            14..20 => scale_group(dice, reference),
            _ => None,
        }
    }
}

/// A job of the cell; occasionally an unknown one.
fn some_job(dice: &mut Dice, reference: &Reference) -> JobId {
    let known: Vec<JobId> = reference.jobs().keys().copied().collect();
    if dice.chance(5) { JobId(1 << 20) } else { *dice.pick(&known) }
}

/// The services of which one is picked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    Running,
    RunningAndEnded,
}

/// A service of the cell; occasionally another job.
fn some_service<'a>(
    dice: &mut Dice,
    reference: &'a Reference,
    among: Among,
) -> Option<(JobId, &'a ReferenceJob)> {
    let any = dice.chance(5);
    let ended = among == Among::RunningAndEnded && dice.chance(15);
    let is_service = |job: &ReferenceJob| {
        let is_wanted = (job.alive() == 0) == ended;
        job.spec.kind == JobKind::Service && job.spec.gang_min.is_none() && is_wanted
    };
    let jobs = reference.jobs().iter().filter(|(_, job)| any || is_service(job));
    let jobs: Vec<(JobId, &ReferenceJob)> = jobs.map(|(id, job)| (*id, job)).collect();
    if jobs.is_empty() { None } else { Some(*dice.pick(&jobs)) }
}

/// The version of a job for a precondition; occasionally none, or a wrong one.
fn some_version(dice: &mut Dice, job: &ReferenceJob) -> Option<u32> {
    match dice.below(10) {
        0 => Some(job.version() + 1),
        1..6 => Some(job.version()),
        _ => None,
    }
}

fn update_job(dice: &mut Dice, reference: &Reference, among: Among) -> Option<Command> {
    let (id, job) = some_service(dice, reference, among)?;
    let version = some_version(dice, job);
    let earlier = dice.chance(25) && !job.versions.is_empty();
    let spec = if earlier { dice.pick(&job.versions).spec.clone() } else { job.target().clone() };
    let mut spec = Job::clone(&spec);
    for _ in 0..1 + dice.below(2) {
        change(dice, &mut spec);
    }
    Some(Command::UpdateJob { job: id, version, spec })
}

fn change(dice: &mut Dice, spec: &mut Job) {
    match dice.below(12) {
        0 => spec.deadline_ms = Some(dice.below(100) as u64),
        1 => {
            spec.update = Some(UpdateRules {
                max_unavailable: dice.below(2) as u32,
                max_surge: dice.below(3) as u32,
                min_healthy_ms: *dice.pick(&[0, 10_000, 3_600_001]),
                on_failure: *dice.pick(&[OnFailure::Stop, OnFailure::Rollback]),
            });
        }
        2 => spec.precedence.0 += i32::from(dice.chance(30)),
        3 => spec.kind = *dice.pick(&[JobKind::Service, JobKind::Service, JobKind::Batch]),
        4 => {
            let name = Text::from(*dice.pick(&["g0", "g1", "g2"]));
            let count = dice.below(3) as u32;
            let group = TaskGroup { name, ..TaskGroup::new(count, Amounts::zero()) };
            spec.groups.push(group.into());
        }
        5 if spec.groups.len() > 1 => _ = spec.groups.swap_remove(dice.below(spec.groups.len())),
        _ => {
            let group = dice.below(spec.groups.len());
            change_group(dice, &mut spec.groups[group]);
        }
    }
}

fn change_group(dice: &mut Dice, group: &mut TaskGroup) {
    match dice.below(7) {
        0 => group.count = dice.below(5) as u32,
        1 => group.request.set(KindId(0), dice.below(4) as u64),
        2 => group.restarts = dice.below(3) as u32,
        3 => group.payload = Default::default(),
        4 => {
            group.rules.ports.clear();
            group.any_ports.clear();
        }
        5 => {
            let (from, level) = (TaskSelector::SameJob, TopologyLevel::Machine);
            group.rules.tasks = vec![TaskRule::AntiAffinity { from, level }];
        }
        _ => {
            group.per_machine = !group.per_machine;
            let (from, level) = (TaskSelector::SameGroup, TopologyLevel::Machine);
            if dice.chance(70) {
                group.rules.tasks.push(TaskRule::AntiAffinity { from, level });
            }
        }
    }
}

fn roll_job(dice: &mut Dice, reference: &Reference, among: Among) -> Option<Command> {
    let (id, job) = some_service(dice, reference, among)?;
    let mut step = RollStep::of(some_version(dice, job).unwrap_or(job.version()));
    for _ in 0..dice.below(3) {
        let name = if dice.chance(5) {
            "other".into()
        } else {
            dice.pick(&job.target().groups).name.clone()
        };
        step = step.with_tasks(name, dice.below(3) as u32);
    }
    for _ in 0..dice.below(4) {
        let beyond = usize::from(dice.chance(5));
        step.stops.push(dice.below(job.tasks.len() + beyond) as u32);
    }
    Some(Command::RollJob { job: id, step })
}

/// Resizes a group, often to 0, and often of a service without tasks.
fn scale_group(dice: &mut Dice, reference: &Reference) -> Option<Command> {
    let (job, found) = some_service(dice, reference, Among::RunningAndEnded)?;
    let group = dice.pick(&found.target().groups).name.clone();
    let count = if dice.chance(50) { 0 } else { dice.below(4) as u32 };
    Some(Command::ScaleGroup { job, group, count })
}

fn end_update(dice: &mut Dice, reference: &Reference, among: Among) -> Option<Command> {
    let (id, job) = some_service(dice, reference, among)?;
    let version = some_version(dice, job).unwrap_or(job.version());
    let result = *dice.pick(&[UpdateResult::Complete, UpdateResult::Failed]);
    Some(Command::EndUpdate { job: id, version, result })
}

/// Adds or removes a taint of a machine; occasionally of an unknown one.
fn change_taint(dice: &mut Dice, reference: &Reference) -> Command {
    let rows = reference.rows().len();
    let is_unknown = rows == 0 || dice.chance(5);
    let id = if is_unknown {
        MachineId { slot: 10_000, incarnation: 0 }
    } else {
        reference.machine_id(dice.below(rows))
    };
    let key = Text::from(*dice.pick(&["old", "special"]));
    if dice.chance(50) {
        return Command::RemoveTaint { id, key };
    }
    let value = Text::from(*dice.pick(&["", "yes"]));
    let effect = *dice.pick(&[TaintEffect::NoSchedule, TaintEffect::NoExecute]);
    Command::AddTaint { id, taint: Taint { key, value, effect } }
}
