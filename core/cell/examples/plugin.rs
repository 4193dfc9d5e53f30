//! A ready-made scheduler with an additional filter: batch tasks are kept off the machines that another team has
//! labelled.
//!
//! `cargo run -p omega-cell --example plugin`

use omega_cell::types::JobKind;
use omega_cell::{Amounts, Cell, Command, Job, Kinds, Machine, SharedCell, TaskGroup};
use omega_cell::{MachineFilter, MachineRef, PerMachine, Profile, Scheduler, Settings};
use omega_cell::{Tasks, Unobserved};

/// A filter that rejects machines with the label `quiet` for batch jobs.
struct Quiet;

impl MachineFilter for Quiet {
    fn name(&self) -> &'static str {
        "quiet"
    }

    fn allows(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        tasks.job.kind == JobKind::Service || machine.machine().labels.get("quiet").is_none()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    let capacity = Amounts::new([4000, 16 << 30]);
    cell.apply(Command::RegisterMachine(
        Machine::new("studio", capacity.clone()).with_label("quiet", "yes"),
    ))?;
    cell.apply(Command::RegisterMachine(Machine::new("plain", capacity)))?;
    let tasks = |count| TaskGroup::new(count, Amounts::new([1000]));
    cell.apply(Command::SubmitJob(Job::batch("render", tasks(6))))?;
    cell.apply(Command::SubmitJob(Job::service("editor", tasks(2))))?;

    let profile = Profile::batch().with_filter(PerMachine(Quiet));
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
    let mut placed = 0;
    for step in 0..10 {
        placed += scheduler.step(&cell, step * 1_000_000, &mut Unobserved)?.placed;
    }
    let on = |name| {
        cell.read(|cell| Some(cell.machine(cell.machine_by_name(name)?)?.tasks.len())).unwrap_or(0)
    };
    println!("studio: {} tasks, plain: {} tasks", on("studio"), on("plain"));
    // Four batch tasks fill `plain`, both services run on `studio`, and two batch tasks stay pending.
    assert_eq!((placed, on("studio") + on("plain")), (6, 6));
    Ok(())
}
