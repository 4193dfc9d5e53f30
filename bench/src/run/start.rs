//! The start of a run: what is there already, and on which machines it runs.

use super::RunError;
use super::feeder::Feeder;
use omega_core::{Command, MachineId, TaskId, Version};

impl Feeder {
    /// Submits what is there at the start, and has the cell adopt what runs already. No rule is
    /// asked: a run tells what schedulers do with a cell as it is, and nothing in it is moved.
    pub(super) fn begin(&mut self, machines: &[MachineId]) -> Result<(), RunError> {
        let mut running = Vec::new();
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms == 0) {
            let placed = arrival.placed.clone();
            let job = self.submit(arrival)?;
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
}
