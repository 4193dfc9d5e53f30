//! Question: how does each cost grow with the cell, from 1,000 to 1,000,000 machines?
//!
//! The *growth* of a cost is the cost in the largest cell, relative to a cell with a tenth of the machines. It is 1 for a
//! cost that does not depend on the size, and 10 for a cost that is proportional to the size.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, timed};
use crate::measure::commit::Sizes;
use crate::measure::memory::Build;
use crate::measure::show::{Row, Unit};
use crate::measure::snapshot::Spent;
use crate::measure::{Options, commit, decide, memory, snapshot, sync};
use omega_cellstate::{CellHandle, Interest, View};
use omega_core::{Job, TaskGroup};
use omega_schedulers::Search;

pub(crate) const WORKLOAD: &str =
    "cells of 1k to 1 M machines, 55-65 % in use; memory: 10 tasks on each machine, 100-task jobs";

const SIZES: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];

/// Number of feasible machines at which a bounded search stops.
const FEASIBLE: u32 = 64;

/// Number of tasks per machine in the cells whose memory is measured.
const TASKS: usize = 10;

/// A cost that is measured in a cell of each size.
struct Cost {
    what: &'static str,
    unit: Unit,
    measure: fn(&Options, &Made) -> Figure,
}

const COSTS: [Cost; 9] = [
    Cost { what: "commit of 1 claim", unit: Unit::Nanos, measure: |o, made| committed(o, made, 1) },
    Cost {
        what: "commit of 100 claims, per claim",
        unit: Unit::Nanos,
        measure: |o, made| committed(o, made, 100),
    },
    Cost {
        what: "sync, 10 changed machines",
        unit: Unit::Nanos,
        measure: |options, made| sync::cost(options, made, 10),
    },
    Cost {
        what: "sync, 1,000 changed machines",
        unit: Unit::Micros,
        measure: |options, made| sync::cost(options, made, 1000),
    },
    Cost { what: "first sync of a view", unit: Unit::Millis, measure: first_sync },
    Cost {
        what: "a decision, adaptive",
        unit: Unit::Nanos,
        measure: |o, made| decision(o, made, Search::Adaptive),
    },
    Cost {
        what: "a decision, 64 scored",
        unit: Unit::Nanos,
        measure: |o, made| decision(o, made, Search::Indexed { feasible: FEASIBLE }),
    },
    Cost {
        what: "a decision, all scored",
        unit: Unit::Micros,
        measure: |o, made| decision(o, made, Search::Full),
    },
    Cost { what: "longest pause of a snapshot", unit: Unit::Millis, measure: pause },
];

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let mut figures: [Vec<Figure>; COSTS.len()] = Default::default();
    for machines in SIZES {
        let made = cells::in_use(machines);
        for (cost, figures) in COSTS.iter().zip(&mut figures) {
            figures.push((cost.measure)(options, &made));
        }
    }
    let mut rows = Vec::new();
    for (cost, figures) in COSTS.iter().zip(&figures) {
        for (machines, figure) in SIZES.iter().zip(figures) {
            rows.push(Row::time(format!("{}, {machines} machines", cost.what), cost.unit, *figure));
        }
        rows.push(growth(&figures.iter().map(|figure| figure.cpu).collect::<Vec<_>>()));
    }
    rows.extend(memory_rows("memory of the cell", false));
    rows.extend(memory_rows("memory of a view", true));
    rows
}

/// The cost in the largest cell, relative to the second-largest.
fn growth(costs: &[f64]) -> Row {
    let last = costs.len() - 1;
    Row::value("  growth", Unit::Times, costs[last] / costs[last - 1])
}

/// Median cost of a claim, with `each` claims in a transaction and as many tasks in a job.
fn committed(options: &Options, made: &Made, each: usize) -> Figure {
    let claims = options.work(100_000).min(made.machines * 10);
    let runs: Vec<Figure> =
        (0..options.runs()).map(|_| commit::run(made, claims, Sizes::each(each))).collect();
    Figure::median(&runs)
}

/// Median cost of the first sync of a view.
fn first_sync(options: &Options, made: &Made) -> Figure {
    let (cell, _) = cells::viewed(made);
    let run = |run: usize| {
        let (id, number) = cell.register(format!("new-{run}").into()).expect("a viewer registers");
        let mut view = View::new(id, number).with_interest(Interest::Machines);
        let (synced, span) = timed(|| view.sync(&cell));
        synced.expect("a cell in this process answers");
        span.each(1)
    };
    Figure::median(&(0..options.runs()).map(run).collect::<Vec<_>>())
}

/// Median cost of a decision for one task.
fn decision(options: &Options, made: &Made, search: Search) -> Figure {
    let (_, mut view) = cells::viewed(made);
    let job = Job::batch("one", TaskGroup::new(1, cells::small_request()));
    decide::measure(options, &mut view, &job, search).0
}

/// Median of the longest pauses of snapshots.
fn pause(options: &Options, made: &Made) -> Figure {
    let mut cell = made.copy();
    let run = |run| {
        let mut spent = Spent::default();
        drop(snapshot::capture(&mut cell, run, &mut spent));
        spent.pause.each(1)
    };
    Figure::median(&(0..options.runs()).map(run).collect::<Vec<_>>())
}

/// Memory of a cell, or of a view of it.
fn memory_rows(what: &str, view: bool) -> Vec<Row> {
    let measure = |machines| {
        memory::child(Build { machines, tasks: TASKS * machines, job_tasks: 100, view })
            / f64::from(1 << 20)
    };
    let measured = SIZES.map(measure);
    let row = |(machines, mebibytes): (&usize, &f64)| {
        Row::value(format!("{what}, {machines} machines"), Unit::Mebibytes, *mebibytes)
    };
    let mut rows: Vec<Row> = SIZES.iter().zip(&measured).map(row).collect();
    rows.push(growth(&measured));
    rows
}
