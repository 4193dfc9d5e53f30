//! A complete scheduler of your own, which does not use the ready-made `Scheduler`. It fills machines in the order of
//! their names. It needs only a `View`, on which it decides, and a `CellHandle`, with which it syncs and commits.
//!
//! `cargo run -p omega-schedulers --example custom_scheduler`

use omega_cellstate::{Cell, CellHandle, HandleError, Interest, SharedCell, View};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, TaskGroup, TaskId, TaskState};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

/// A scheduler: its private copy of the cell, the jobs, and the pending tasks, each with the position of its group.
pub(crate) struct ByName {
    view: View,
    jobs: BTreeMap<JobId, Arc<Job>>,
    waiting: BTreeMap<TaskId, u16>,
}

impl ByName {
    /// Registers a scheduler that receives all jobs. A view receives no jobs by default.
    pub(crate) fn new(cell: &impl CellHandle) -> Result<ByName, HandleError> {
        let (me, number) = cell.register("by-name".into())?;
        let view = View::new(me, number).with_interest(Interest::AllJobs);
        Ok(ByName { view, jobs: BTreeMap::new(), waiting: BTreeMap::new() })
    }

    /// Step one, look: brings the view up to date, at a cost proportional to the changes, and reads the changes.
    fn look(&mut self, cell: &impl CellHandle) -> Result<(), HandleError> {
        self.view.sync(cell)?;
        let delta = self.view.delta();
        if delta.full {
            self.jobs.clear();
            self.waiting.clear();
        }
        let mut ended = Vec::new();
        for change in &delta.jobs {
            let Some(job) = &change.job else {
                self.jobs.remove(&change.id);
                ended.push(change.id);
                continue;
            };
            if self.jobs.insert(change.id, job.clone()).is_none() {
                // Every task of a new job is pending. Tasks are numbered group by group.
                let counts = job.groups.iter().zip(0..);
                let groups = counts.flat_map(|(group, i)| (0..group.count).map(move |_| i));
                let task = |(index, group)| (TaskId { job: change.id, index }, group);
                self.waiting.extend((0..).zip(groups).map(task));
            }
        }
        for task in &delta.tasks {
            match task.state {
                TaskState::Pending => self.waiting.insert(task.id, task.group),
                _ => self.waiting.remove(&task.id),
            };
        }
        self.waiting.retain(|task, _| self.jobs.contains_key(&task.job));
        // The view forgets the compiled groups of ended jobs.
        ended.into_iter().for_each(|job| self.view.forget_job(job));
        Ok(())
    }

    /// Step two, decide: for each task, chooses the first machine by name that passes the cell's own check of labels,
    /// taints, resources, devices, ports, spread and tenants' limits. Each claim is applied to the view at once, so its
    /// resources are no longer free in the decision about the next task. The claims of a gang are dropped unless all
    /// its tasks find a machine. Further tasks than a transaction may contain are left to the next round.
    fn decide(&mut self) {
        let ByName { view, jobs, waiting } = self;
        let mut rows: Vec<usize> = (0..view.rows()).collect();
        rows.sort_by_key(|row| view.machine(*row).map(|machine| machine.name.clone()));
        for (id, job) in jobs {
            let tasks = [0, u32::MAX].map(|index| TaskId { job: *id, index });
            let before = view.open_claims();
            let mut is_whole = true;
            for (task, index) in waiting.range(tasks[0]..=tasks[1]) {
                is_whole &= view.open_claims() < TRANSACTION_ITEMS_MAX && {
                    let group = view.compile(*id, job, usize::from(*index));
                    rows.iter().any(|row| view.claim(*task, view.machine_id(*row), group).is_ok())
                };
            }
            if job.is_placed_at_once() && !is_whole {
                view.drop_claims(view.open_claims() - before);
            }
        }
    }

    /// A whole round: look, decide, commit. At the commit, the cell rejects each claim that conflicts with a claim of
    /// another scheduler, and the next round retries its task. `settle` updates the view by the result.
    pub(crate) fn round(&mut self, cell: &impl CellHandle) -> Result<usize, HandleError> {
        self.look(cell)?;
        self.decide();
        if self.view.open_claims() == 0 {
            return Ok(0);
        }
        let txn = self.view.take_transaction();
        // After an error the view drops the claims. The next sync shows whether the cell has committed them.
        let commit = cell.commit(&txn).inspect_err(|_| self.view.abandon(&txn))?;
        self.view.settle(&txn, &commit);
        Ok(txn.claims.len() - commit.conflicts.len())
    }
}

/// Places two jobs on machines `a`, `b` and `c`. Returns the number of tasks on each machine.
pub(crate) fn run() -> Result<String, Box<dyn Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for name in ["c", "a", "b"] {
        let machine = Machine::new(name, Amounts::new([4000, 16 << 30]));
        cell.apply(Command::RegisterMachine(machine))?;
    }
    for (name, tasks, cpu_millis) in [("web", 3, 1000), ("batch", 4, 500)] {
        let group = TaskGroup::new(tasks, Amounts::new([cpu_millis]));
        cell.apply(Command::SubmitJob(Job::batch(name, group)))?;
    }
    let mut scheduler = ByName::new(&cell)?;
    while scheduler.round(&cell)? > 0 {}
    let line = |name: &&str| {
        let tasks = cell.read(|c| Some(c.machine(c.machine_by_name(name)?)?.tasks.len()));
        format!("{name}: {} tasks\n", tasks.unwrap_or(0))
    };
    Ok(["a", "b", "c"].iter().map(line).collect())
}

#[allow(dead_code, reason = "a test includes this file, and calls `run` itself")]
fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}
