//! The start of a run: machines, and tasks that already run.

use super::Feeder;
use crate::RunError;
use omega_core::{Command, Job, JobId, MachineId, TaskGroup, TaskId, Version};
use omega_workload::Arrival;

impl Feeder {
    /// Submits the jobs that exist at the start, and makes the cell adopt their running tasks. No rules are checked,
    /// because a run starts from the given state of a cell, and moves no task.
    pub(super) fn begin(&mut self, machines: &[MachineId]) -> Result<(), RunError> {
        let mut running = Vec::new();
        let mut with_volumes = Vec::new();
        let arrivals = self.agenda.arrived(0);
        let of = |arrival: &Arrival| {
            let spec = uses_volumes(&arrival.job).then(|| arrival.job.clone());
            (arrival.placed.clone(), spec)
        };
        let placed: Vec<_> = arrivals.iter().map(of).collect();
        for (job, (placed, spec)) in self.submit_now(arrivals)?.into_iter().zip(placed) {
            with_volumes.extend(spec.map(|spec| (job, spec)));
            let task = |(index, machine)| (TaskId { job, index }, machines[machine as usize]);
            running.extend(placed.into_iter().map(task));
        }
        let adopt = |(task, machine): &_| Command::AdoptTask { task: *task, machine: *machine };
        let answers = self.cell.apply_all(running.iter().map(adopt))?;
        let refused = answers.iter().filter(|answer| answer.is_err()).count();
        let mut answers = answers.into_iter();
        running.retain(|_| answers.next().is_some_and(|answer| answer.is_ok()));
        let adopted = running;
        self.tell_of_volumes(&with_volumes, &adopted);
        self.counts.placed_at_start += adopted.len();
        self.agenda.schedule_ends(0, (Version(0), adopted), &self.cell);
        if refused > 0 {
            let tasks = if refused == 1 { "task that ran" } else { "tasks that ran" };
            self.source.notes.push(format!(
                "{refused} {tasks} at the start found no free devices on their machine, and were \
                 placed again"
            ));
        }
        Ok(())
    }

    /// Records the volumes of all tasks that run at the start. The schedulers do not do this in time: each records only
    /// its own tasks, and may decide before another scheduler has recorded its tasks.
    fn tell_of_volumes(&self, jobs: &[(JobId, Job)], adopted: &[(TaskId, MachineId)]) {
        for (task, machine) in adopted {
            let Ok(job) = jobs.binary_search_by_key(&task.job, |(id, _)| *id) else { continue };
            let name =
                self.cell.read(|cell| cell.machine(*machine).map(|m| m.machine.name.clone()));
            if let Some(group) = group_of(&jobs[job].1, task.index)
                && let Some(name) = name
                && !group.volumes.is_empty()
            {
                self.factory.volumes().runs(*task, &group.volumes, &name);
            }
        }
    }
}

fn uses_volumes(job: &Job) -> bool {
    job.groups.iter().any(|group| !group.volumes.is_empty())
}

/// The group of a task of a job that was never resized; tasks are numbered group by group.
fn group_of(job: &Job, index: u32) -> Option<&TaskGroup> {
    let mut before = 0;
    let group = job.groups.iter().find(|group| {
        before += group.count;
        index < before
    });
    group.map(|group| &**group)
}
