//! A custom simulation: two schedulers share one cell, and the program's own clock decides when tasks arrive and end.
//!
//! Both schedulers work once in each simulated second. The libraries read no clock, so all runs give equal results.
//!
//! `cargo run -p omega-cell --example simulation`

use omega_cell::types::TaskReport;
use omega_cell::{Amounts, Cell, Command, Job, JobId, Kinds, Machine, MachineId, SharedCell};
use omega_cell::{Profile, Scheduler, Settings, TaskGroup, TaskId, Unobserved};
use std::collections::BTreeMap;
use std::error::Error;

/// Running tasks by the second in which they end.
#[derive(Default)]
struct Running(BTreeMap<u64, Vec<(TaskId, MachineId)>>);

impl Running {
    /// Ends the tasks whose run time has passed.
    fn end(&mut self, cell: &SharedCell, second: u64) -> Result<(), Box<dyn Error>> {
        for (task, machine) in self.0.remove(&second).unwrap_or_default() {
            cell.apply(Command::ReportTask {
                task,
                machine,
                placed_ms: 0,
                report: TaskReport::Finished,
            })?;
        }
        Ok(())
    }

    /// Records that all newly placed tasks of a job end at the second `until`.
    fn begin(&mut self, cell: &SharedCell, job: JobId, until: u64) {
        let placed = cell.read(|cell| {
            let tasks = (0..TASKS).map(|index| TaskId { job, index });
            tasks.filter_map(|task| Some((task, cell.task(task)?.machine()?))).collect::<Vec<_>>()
        });
        for one in placed {
            if !self.0.values().flatten().any(|running| *running == one) {
                self.0.entry(until).or_default().push(one);
            }
        }
    }
}

/// Number of tasks of each job.
const TASKS: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for number in 0..10 {
        let machine = Machine::new(format!("m{number}"), Amounts::new([2000, 8 << 30]));
        cell.apply(Command::RegisterMachine(machine))?;
    }
    let mut schedulers = Vec::new();
    for name in ["one", "two"] {
        schedulers.push(Scheduler::new(&cell, Profile::first_fit(), Settings::new(name))?);
    }
    let (mut placed, mut running) = (0, Running::default());
    for second in 0..60 {
        running.end(&cell, second)?;
        for name in ["one", "two"] {
            let group = TaskGroup::new(TASKS, Amounts::new([500, 1 << 30]));
            let job = Job::batch(format!("{name}-{second}"), group).with_scheduler(name);
            cell.apply(Command::SubmitJob(job))?;
        }
        for scheduler in &mut schedulers {
            placed += scheduler.step(&cell, second * 1_000_000_000, &mut Unobserved)?.placed;
        }
        for job in 0..2 * (second + 1) {
            running.begin(&cell, JobId(job), second + 5);
        }
    }
    println!("{placed} of {} tasks placed in a minute", 2 * 60 * u64::from(TASKS));
    // Eight tasks arrive in each second, each runs for five seconds, and forty fit at once, so all are placed in the
    // second of their arrival.
    assert_eq!(u64::from(placed as u32), 2 * 60 * u64::from(TASKS));
    Ok(())
}
