//! Question: how much memory do a machine, a placed task, and a machine of a view use?
//!
//! The binary starts itself as a child process that builds a cell and prints its resident set, from `/proc/self/statm`,
//! before and after. Cells of two sizes are built. The difference in memory is divided by the difference in size, so
//! everything that does not grow with the cell is excluded. The allocator is configured to return free pages at once.
//! The figures are slightly too high, because they include unused memory of the allocator.

use crate::measure::Options;
use crate::measure::cells;
use crate::measure::show::{Reach, Row, Unit};
use crate::print::say;
use clap::Args;
use omega_cellstate::{Cell, CellHandle, SharedCell, View};
use omega_core::limits::{MACHINES_MAX, TRANSACTION_ITEMS_MAX};
use omega_core::{
    Amounts, Claim, Command, Job, Kinds, MachineId, TaskGroup, TaskId, Transaction, TransactionId,
};
use std::process::Command as Process;

pub(crate) const WORKLOAD: &str =
    "resident set of a child process, difference of two sizes; jobs of 100 tasks and of 1";

/// Sizes of the cell to build.
#[derive(Args, Clone, Copy, Debug)]
pub struct Build {
    /// Number of machines in the cell.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = machines)]
    pub(super) machines: usize,
    /// Number of tasks placed on the machines.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub(super) tasks: usize,
    /// Number of tasks per job.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 100,
          value_parser = job_tasks)]
    pub(super) job_tasks: usize,
    /// Print the memory of a scheduler's view, instead of the memory of the cell.
    #[arg(long)]
    pub(super) view: bool,
}

fn machines(text: &str) -> Result<usize, String> {
    count(text, MACHINES_MAX)
}

/// Parses the number of tasks of a job, which are claimed in one transaction.
fn job_tasks(text: &str) -> Result<usize, String> {
    count(text, TRANSACTION_ITEMS_MAX)
}

/// Parses a number from 1 to `most`.
fn count(text: &str, most: usize) -> Result<usize, String> {
    let count = text.parse::<usize>().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("must be a whole number from 1 to {most}"))
}

/// Builds the cell, and prints by how many bytes the resident set grew.
pub(crate) fn print(build: &Build) {
    let machines = cells::machines(build.machines);
    let before = resident();
    let mut cell = Cell::new(Kinds::standard());
    for machine in machines {
        cell.apply(Command::RegisterMachine(machine)).expect("a made-up machine is registered");
    }
    let cell = SharedCell::new(cell);
    place(&cell, build);
    let built = resident();
    let mut after = built;
    if build.view {
        let (id, number) = cell.register("viewer".into()).expect("a viewer registers");
        let mut view = View::new(id, number);
        // After the first sync, the view still has the delta with the whole cell. The second sync replaces it by an
        // empty one.
        for _ in 0..2 {
            view.sync(&cell).expect("a cell in this process answers");
        }
        after = resident();
        assert_eq!(view.rows(), build.machines, "the view is complete");
    }
    say!("{} bytes", if build.view { after - built } else { built - before });
    cell.read(|cell| assert_eq!(cell.machines().count(), build.machines));
}

/// Places tasks on the machines in turn.
fn place(cell: &SharedCell, build: &Build) {
    let (scheduler, _) = cell.register("filler".into()).expect("a scheduler registers");
    let mut slot = 0;
    // The request is so small that the smallest machine has room for a hundred tasks.
    let group = TaskGroup::new(build.job_tasks as u32, Amounts::new([10, 16 << 20]));
    for number in 0..(build.tasks / build.job_tasks) as u64 {
        let job = Job::batch(format!("small-{number}"), group.clone());
        let job = match cell.apply(Command::SubmitJob(job)) {
            Ok(omega_core::Outcome::Job(id)) => id,
            other => unreachable!("a made-up job is submitted: {other:?}"),
        };
        let claims = (0..build.job_tasks as u32).map(|index| {
            slot = (slot + 1) % build.machines as u32;
            Claim::new(TaskId { job, index }, MachineId::first(slot), Default::default())
        });
        let id = TransactionId { scheduler, number };
        let base = cell.read(Cell::version);
        let commit = cell.commit(&Transaction::new(id, base, claims.collect()));
        assert!(commit.is_ok_and(|commit| commit.is_complete()), "small tasks fit");
    }
}

/// Number of bytes of this process that are in memory.
fn resident() -> i64 {
    /// Page size of the kernel.
    const PAGE: i64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = statm.split_whitespace().nth(1).and_then(|field| field.parse::<i64>().ok());
    pages.expect("the second field is a number") * PAGE
}

/// The growth that a child process printed, in bytes.
pub(super) fn child(build: Build) -> f64 {
    let program = std::env::current_exe().expect("a process knows its program");
    let mut process = Process::new(program);
    process.env("MIMALLOC_PURGE_DELAY", "0").arg("memory");
    for (name, value) in
        [("--machines", build.machines), ("--tasks", build.tasks), ("--job-tasks", build.job_tasks)]
    {
        process.arg(name).arg(value.to_string());
    }
    if build.view {
        process.arg("--view");
    }
    let output = process.output().expect("a process can start its own program");
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes = text.trim().strip_suffix(" bytes").and_then(|number| number.parse().ok());
    bytes.expect("the child prints a number of bytes")
}

pub(crate) fn rows(_: &Options) -> Vec<Row> {
    let machines = |machines, view| child(Build { machines, tasks: 0, job_tasks: 100, view });
    let tasks = |tasks, job_tasks| child(Build { machines: 10_000, tasks, job_tasks, view: false });
    let each = |small: f64, large: f64, difference: usize| (large - small) / difference as f64;
    // Both cells have more tasks than the change lists can have entries, so the lists have their full size in both.
    let (few, many) = (400_000, 800_000);
    let rows = [
        (
            "master, per machine",
            each(machines(100_000, false), machines(200_000, false), 100_000),
            256.0,
        ),
        (
            "master, per placed task, 100-task jobs",
            each(tasks(few, 100), tasks(many, 100), many - few),
            128.0,
        ),
        (
            "view, per machine",
            each(machines(100_000, true), machines(200_000, true), 100_000),
            48.0,
        ),
    ];
    let row = |(what, value, reach): (&str, f64, f64)| {
        Row::value(what, Unit::Bytes, value).reach(Reach::AtMost(reach))
    };
    let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
    let single = each(tasks(few, 1), tasks(many, 1), many - few);
    let row = Row::value("master, per placed task, 1-task jobs", Unit::Bytes, single);
    rows.push(row.reach(Reach::AtMost(200.0)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        assert_eq!(machines("0"), Err("must be a whole number from 1 to 1048576".to_owned()));
        assert_eq!(job_tasks("0"), Err("must be a whole number from 1 to 10000".to_owned()));
        assert_eq!((machines("1"), job_tasks("10000")), (Ok(1), Ok(10_000)));
    }
}
