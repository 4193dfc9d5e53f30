//! Empties a machine that drains: the rebalancer plans moves, and applies them as ordinary transactions.
//! `cargo run -p omega-schedulers --example rebalance`
use omega_cellstate::{Cell, SharedCell};
use omega_core::{Amounts, Command, Job, Kinds, Machine, MachineId, TaskGroup, TaskId};
use omega_schedulers::rebalance::{Objectives, Rebalancer, Settings};

/// Sets up three machines. Two tasks run on one machine, which is then drained.
pub(crate) fn run() -> Result<String, Box<dyn std::error::Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for name in ["a", "b", "c"] {
        cell.apply(Command::RegisterMachine(Machine::new(name, Amounts::new([4000]))))?;
    }
    cell.apply(Command::SubmitJob(Job::batch("web", TaskGroup::new(2, Amounts::new([3000])))))?;
    let first = MachineId::first(0);
    for index in 0..2 {
        let task = TaskId { index, ..TaskId::default() };
        cell.apply(Command::AdoptTask { task, machine: first })?;
    }
    cell.apply(Command::DrainMachine { id: first, draining: true })?;
    let mut rebalancer = Rebalancer::new(&cell, Settings::new(Objectives::drain()))?;
    let plan = rebalancer.plan(&cell, &mut || true)?;
    let done = rebalancer.apply_plan(&cell, &plan)?;
    let lines = plan.moves().map(|m| format!("{} goes from {} to {}\n", m.task, m.from, m.to));
    Ok(lines.chain([format!("{} moves were taken\n", done.moved())]).collect())
}

#[allow(dead_code, reason = "a test includes this file, and calls `run` itself")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", run()?);
    Ok(())
}
