//! The start of a run: what is there already, and on which machines it runs.

use super::RunError;
use super::feeder::Feeder;
use omega_core::{Command, Job, JobId, MachineId, TaskGroup, TaskId, Version};

impl Feeder {
    /// Submits what is there at the start, and has the cell adopt what runs already. No rule is
    /// asked: a run tells what schedulers do with a cell as it is, and nothing in it is moved.
    pub(super) fn begin(&mut self, machines: &[MachineId]) -> Result<(), RunError> {
        let mut running = Vec::new();
        let mut with_volumes = Vec::new();
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms == 0) {
            let placed = arrival.placed.clone();
            let spec = uses_volumes(&arrival.job).then(|| arrival.job.clone());
            let job = self.submit(arrival)?;
            with_volumes.extend(spec.map(|spec| (job, spec)));
            let tasks = placed.into_iter();
            running.extend(tasks.map(|(index, machine)| (TaskId { job, index }, machine)));
        }
        let mut refused = 0;
        let mut adopted = Vec::with_capacity(running.len());
        for (task, machine) in running {
            let machine = machines[machine as usize];
            match self.cell.apply(Command::AdoptTask { task, machine }) {
                Ok(_) => adopted.push((task, machine)),
                Err(_) => refused += 1,
            }
        }
        self.tell_of_volumes(&with_volumes, &adopted);
        self.placed_at_start += adopted.len();
        self.schedule_ends((Version(0), adopted));
        if refused > 0 {
            let tasks = if refused == 1 { "task that ran" } else { "tasks that ran" };
            self.notes.push(format!(
                "{refused} {tasks} at the start found no cards left on the machine: placed anew"
            ));
        }
        Ok(())
    }

    /// Tells which volumes are in use at the start: a scheduler hears only of tasks of its own, and
    /// may decide before another has told of those.
    fn tell_of_volumes(&self, jobs: &[(JobId, Job)], adopted: &[(TaskId, MachineId)]) {
        for (task, machine) in adopted {
            let Ok(job) = jobs.binary_search_by_key(&task.job, |(id, _)| *id) else { continue };
            let name =
                self.cell.read(|cell| cell.machine(*machine).map(|m| m.machine.name.clone()));
            if let Some(group) = group_of(&jobs[job].1, task.index)
                && let Some(name) = name
                && !group.volumes.is_empty()
            {
                self.volumes.runs(*task, &group.volumes, &name);
            }
        }
    }
}

fn uses_volumes(job: &Job) -> bool {
    job.groups.iter().any(|group| !group.volumes.is_empty())
}

/// The group of a task of a job that was never resized: tasks are counted group by group.
fn group_of(job: &Job, index: u32) -> Option<&TaskGroup> {
    let mut before = 0;
    job.groups.iter().find(|group| {
        before += group.count;
        index < before
    })
}
