//! A cell with a service, a controller, and a simple scheduler with agents, for tests of updates.

use super::command;
use super::plan::{Next, Progress, next};
use omega_cellstate::Cell;
use omega_core::{
    Amounts, Command, Job, JobId, Kinds, Machine, MachineId, OnFailure, Outcome, Run, Taint,
    TaintEffect, TaskGroup, TaskId, TaskReport, TaskState, UpdateResult, UpdateRules,
};
use std::sync::Arc;

pub(super) const MACHINES: u32 = 4;

/// A cell, a controller, and a simple scheduler with agents.
pub(super) struct World {
    pub(super) cell: Cell,
    pub(super) id: JobId,
    pub(super) progress: Progress,
    pub(super) now_ms: u64,
    /// Name of the program that fails.
    pub(super) bad: &'static str,
}

pub(super) fn group(count: u32, program: &str) -> TaskGroup {
    let run = Some(Arc::new(Run::new(program)));
    TaskGroup { run, ..TaskGroup::new(count, Amounts::new([1])) }
}

/// A service whose failed tasks are placed again, and whose updates are rolled back after a failure.
pub(super) fn restored(count: u32, program: &str) -> Job {
    let rules = UpdateRules { on_failure: OnFailure::Rollback, ..UpdateRules::default() };
    let group = TaskGroup { restarts: 100, ..group(count, program) };
    Job { update: Some(rules), ..Job::service("web", group) }
}

pub(super) fn machine(name: &str) -> Machine {
    Machine::new(name, Amounts::new([100]))
}

impl World {
    pub(super) fn new(job: Job) -> World {
        let mut cell = Cell::new(Kinds::standard());
        for row in 0..MACHINES {
            let added = Command::RegisterMachine(machine(&format!("m{row}")));
            cell.apply(added).expect("it is a machine");
        }
        let Ok(Outcome::Job(id)) = cell.apply(Command::SubmitJob(job)) else { panic!("a job") };
        World { cell, id, progress: Progress::default(), now_ms: 0, bad: "none" }
    }

    pub(super) fn apply(&mut self, command: Command) {
        self.cell.apply(command.clone()).unwrap_or_else(|why| panic!("{command:?}: {why}"));
    }

    pub(super) fn update(&mut self, change: impl FnOnce(&mut Job)) {
        let mut spec = Job::clone(self.cell.job_target(self.id).expect("it runs"));
        change(&mut spec);
        self.apply(Command::UpdateJob { job: self.id, version: None, spec });
    }

    /// Makes a step of the controller, and returns it.
    pub(super) fn control(&mut self) -> Next {
        let next = next(&self.cell, self.id, &mut self.progress, self.now_ms);
        command(self.id, next.clone()).into_iter().for_each(|command| self.apply(command));
        next
    }

    pub(super) fn tasks(&self, wanted: impl Fn(TaskState) -> bool) -> Vec<TaskId> {
        let tasks = self.cell.tasks(self.id).filter(|(_, state)| wanted(*state));
        tasks.map(|(id, _)| id).collect()
    }

    pub(super) fn living(&self) -> usize {
        self.tasks(|state| !state.ended()).len()
    }

    pub(super) fn running(&self) -> usize {
        self.tasks(|state| matches!(state, TaskState::Running(_))).len()
    }

    pub(super) fn program(&self, task: TaskId) -> String {
        let group = &self.cell.job(self.id).expect("it is there").groups
            [self.cell.task_group(task).expect("it has a group")];
        group.run.as_ref().map_or_else(String::new, |run| run.command.to_string())
    }

    /// Places a pending task on a machine that accepts tasks.
    pub(super) fn place(&mut self, choice: usize) {
        let Some(task) = self.tasks(|state| state == TaskState::Pending).first().copied() else {
            return;
        };
        let group = self.cell.task_group(task);
        let per_machine = group.is_some_and(|group| {
            self.cell.job(self.id).is_some_and(|job| job.groups[group].per_machine)
        });
        let is_taken = |machine: MachineId| {
            per_machine
                && self.cell.tasks(self.id).any(|(other, state)| {
                    state.machine() == Some(machine) && self.cell.task_group(other) == group
                })
        };
        let open: Vec<MachineId> = self
            .cell
            .machines()
            .filter(|state| state.machine.taints.is_empty() && !is_taken(state.id))
            .map(|state| state.id)
            .collect();
        if !open.is_empty() {
            let machine = open[choice % open.len()];
            self.apply(Command::AdoptTask { task, machine });
        }
    }

    /// Starts the program of a placed task, or reports its failure.
    pub(super) fn start(&mut self) {
        let placed = self.tasks(|state| matches!(state, TaskState::Placed(_)));
        let Some(task) = placed.first().copied() else { return };
        let machine = self.cell.task(task).and_then(TaskState::machine).expect("it is placed");
        let is_bad = self.program(task) == self.bad;
        let report = if is_bad { TaskReport::Failed } else { TaskReport::Started };
        self.apply(Command::ReportTask { task, machine, placed_ms: 0, report });
    }

    /// Runs all parts until nothing changes.
    pub(super) fn settle(&mut self) -> Next {
        for round in 0..1000 {
            self.now_ms += 1000;
            let next = self.control();
            let before = self.cell.version();
            self.place(round);
            self.start();
            match next {
                Next::Roll(_) | Next::Start { .. } | Next::Rollback { .. } | Next::Ended { .. } => {
                }
                next if before == self.cell.version() && round > 100 => return next,
                _ => {}
            }
        }
        panic!("it does not end: {:?}", self.cell.tasks(self.id).collect::<Vec<_>>());
    }

    /// Fails a task that runs.
    pub(super) fn fail(&mut self) {
        let running = self.tasks(|state| matches!(state, TaskState::Running(_)));
        let task = *running.first().expect("a task runs");
        let machine = self.cell.task(task).and_then(TaskState::machine).expect("it runs");
        self.apply(Command::ReportTask { task, machine, placed_ms: 0, report: TaskReport::Failed });
    }

    /// Replaces the controller by one without memory.
    pub(super) fn change_leader(&mut self) {
        self.progress = Progress::default();
    }

    /// Result of the update to the newest version.
    pub(super) fn result(&self) -> Option<UpdateResult> {
        self.cell.job_versions(self.id).last().and_then(|version| version.result)
    }

    pub(super) fn evacuate(&mut self, id: MachineId) {
        let spec = self.cell.machine(id).expect("it is there").machine.clone();
        let (key, effect) = (omega_client::agent::DRAIN_BY, TaintEffect::NoSchedule);
        let taints = [Taint { key: key.into(), value: "99".into(), effect }];
        let machine = Machine { taints: Box::new(taints), ..Machine::clone(&spec) };
        self.apply(Command::UpdateMachine { id, machine });
    }

    pub(super) fn programs(&self) -> Vec<String> {
        let running = self.tasks(|state| matches!(state, TaskState::Running(_)));
        running.into_iter().map(|task| self.program(task)).collect()
    }
}
