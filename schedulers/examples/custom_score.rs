//! A scheduler with a score of your own: tasks go where the disk is fast.
//!
//! `cargo run -p omega-schedulers --example custom_score`

use omega_cellstate::{Cell, SharedCell};
use omega_core::{Amounts, Command, Job, JobId, Kinds, Labels, Machine, TaskGroup};
use omega_schedulers::{
    MachineRef, MachineScore, PerMachine, Profile, SCORE_MAX, Scheduler, Settings, Tasks,
    Unobserved,
};
use std::error::Error;

/// Prefers machines with an NVMe disk, and next machines with any other SSD.
struct FastDisk;

impl MachineScore for FastDisk {
    fn name(&self) -> &'static str {
        "fast_disk"
    }

    fn score(&self, _tasks: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
        match machine.machine().labels.get("disk").map(|disk| &**disk) {
            Some("nvme") => SCORE_MAX,
            Some("ssd") => SCORE_MAX / 2,
            _ => 0,
        }
    }
}

/// Places three tasks of two cores each on machines with four cores. Returns the outcome of each task.
pub(crate) fn run() -> Result<String, Box<dyn Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for (name, disk) in [("slow", "hdd"), ("good", "ssd"), ("best", "nvme")] {
        let mut machine = Machine::new(name, Amounts::new([4000, 16 << 30]));
        machine.labels = Labels::new([("disk", disk)]);
        cell.apply(Command::RegisterMachine(machine))?;
    }
    cell.apply(Command::SubmitJob(Job::batch("db", TaskGroup::new(3, Amounts::new([2000])))))?;

    // The built-in plugins for services, and our own score plugin, with five times the weight of each
    // built-in score.
    let profile = Profile::service().with_score(PerMachine(FastDisk), 5);
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
    while !scheduler.step(&cell, 0, &mut Unobserved)?.idle {}

    let mut report = String::new();
    for (task, state) in cell.read(|cell| cell.tasks(JobId(0)).collect::<Vec<_>>()) {
        let machine = state.machine().and_then(|id| scheduler.view().machine(id.row()));
        let name = machine.map_or("no machine", |machine| &*machine.name);
        report += &format!("db/{} is on {name}\n", task.index);
    }
    Ok(report)
}

#[allow(dead_code, reason = "a test includes this file, and calls `run` itself")]
fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}
