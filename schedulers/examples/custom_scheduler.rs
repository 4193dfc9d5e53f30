//! A complete scheduler of your own, which does not use the ready-made `Scheduler`. It fills machines in the order of
//! their names. It needs only a `View`, on which it decides, and a `CellHandle`, with which it syncs and commits.
//!
//! `cargo run -p omega-schedulers --example custom_scheduler`

use omega_cellstate::{Cell, CellHandle, HandleError, Interest, SharedCell, View};
use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, TaskGroup, TaskId, TaskState};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

/// A scheduler: its private copy of the cell, the jobs, and the pending tasks, each with the position of its group.
struct ByName {
    view: View,
    jobs: BTreeMap<JobId, Arc<Job>>,
    waiting: BTreeMap<TaskId, u16>,
}

impl ByName {
    /// Step one, look: brings the view up to date, at a cost proportional to the changes, and reads the changes.
    fn look(&mut self, cell: &impl CellHandle) -> Result<(), HandleError> {
        self.view.sync(cell)?;
        let delta = self.view.delta();
        if delta.full {
            self.jobs.clear();
            self.waiting.clear();
        }
        for change in &delta.jobs {
            let Some(job) = &change.job else {
                self.jobs.remove(&change.id);
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
        Ok(())
    }

    /// Step two, decide: for each task, chooses the first machine by name that passes the cell's own check of labels,
    /// taints, resources, devices, ports and spread. Each claim is applied to the view at once, so its resources are
    /// no longer free in the decision about the next task.
    fn decide(&mut self) {
        let view = &mut self.view;
        let mut rows: Vec<usize> = (0..view.rows()).collect();
        rows.sort_by_key(|row| view.machine(*row).map(|machine| machine.name.clone()));
        for (task, index) in &self.waiting {
            let group = view.compile(task.job, &self.jobs[&task.job], usize::from(*index));
            if let Some(row) = rows.iter().find(|row| view.check_fit(**row, group).is_ok()) {
                view.claim(*task, view.machine_id(*row), group).expect("the judge allowed it");
            }
        }
    }

    /// A whole round: look, decide, commit. At the commit, the cell rejects each claim that conflicts with a claim of
    /// another scheduler, and the next round retries its task. `settle` updates the view by the result.
    fn round(&mut self, cell: &impl CellHandle) -> Result<usize, HandleError> {
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
    let (me, number) = cell.register("by-name".into())?;
    let view = View::new(me, number).with_interest(Interest::AllJobs);
    let mut scheduler = ByName { view, jobs: BTreeMap::new(), waiting: BTreeMap::new() };
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
