//! A `Permit` plugin: a task keeps its machine while the image is pulled.
//!
//! `cargo run -p omega-schedulers --example image_pull`

use omega_cellstate::{Cell, SharedCell};
use omega_core::{Amounts, Command, Job, Kinds, Machine, MachineId, TaskGroup, TaskId};
use omega_schedulers::{
    Claimed, Events, Permission, Permit, Profile, Refused, Scheduler, Settings, Unobserved, Waiting,
};
use std::error::Error;
use std::sync::mpsc::{self, Sender};

const MINUTE: u64 = 60_000_000_000;

/// Requests the image on the machine, and lets the task wait. If the machine does not have the image after a minute,
/// the claim is undone, and the job is retried after its backoff.
struct PullImage(Sender<(TaskId, MachineId)>);

impl Permit for PullImage {
    fn name(&self) -> &'static str {
        "pull_image"
    }

    fn permit(&mut self, claimed: &Claimed<'_>, _: &Waiting) -> Permission {
        match self.0.send((claimed.task, claimed.machine)) {
            Ok(()) => Permission::Wait { at_most: MINUTE, then: Refused(Events::TIME) },
            Err(_) => Permission::Refuse(Refused(Events::TIME)),
        }
    }
}

/// Places two tasks. Returns their events.
pub(crate) fn run() -> Result<String, Box<dyn Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([4000]))))?;
    cell.apply(Command::SubmitJob(Job::batch("web", TaskGroup::new(2, Amounts::new([2000])))))?;

    let (asked, to_pull) = mpsc::channel();
    let profile = Profile::service().with_permit(PullImage(asked));
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
    let waiting = scheduler.waiting();
    let mut report = String::new();
    for now in 0..3 {
        let placed = scheduler.step(&cell, now, &mut Unobserved)?.placed;
        report += &format!("step {now}: {placed} placed, {} wait\n", waiting.list().len());
        // In a real program, a separate thread would pull the images. `Waiting` may be sent to any thread.
        for (task, _machine) in to_pull.try_iter() {
            waiting.allow(task, "pull_image");
        }
    }
    Ok(report)
}

#[allow(dead_code, reason = "a test includes this file, and calls `run` itself")]
fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}
