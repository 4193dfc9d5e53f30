//! Question: does the cost of a sync depend on the changes and not on the size of the cell?
//!
//! Machines are changed by placing one task on each. Only the sync is measured.

use crate::measure::bare::{self, Columns};
use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, median, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::{CellHandle, SharedCell, View};
use omega_core::{Claim, MachineId, SequenceNumber, TaskId, Transaction, TransactionId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub(crate) const WORKLOAD: &str =
    "a view of 1k, 10k and 100k machines in use, after 0 to 1,000 machines were committed to";

/// Numbers of machines of the cell, each with the target in nanoseconds per changed machine.
const SIZES: [(usize, f64); 3] = [(1000, 8.0), (10_000, 8.0), (100_000, 10.0)];
const CHANGED: [usize; 5] = [0, 1, 10, 100, 1000];

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for (machines, most) in SIZES {
        let made = cells::in_use(machines);
        let costs: Vec<(usize, Figure)> =
            CHANGED.iter().map(|changed| (*changed, cost(options, &made, *changed))).collect();
        let (fixed, slope) = line(&costs);
        let (_, view) = cells::viewed(&made);
        let changed = random_slots(machines, 1000);
        let mut columns = Columns::of(&view);
        let bare = bare::sync(&mut columns, &changed, options.work(2000));
        let points: Vec<String> =
            costs.iter().map(|(n, figure)| format!("{n}:{:.0}", figure.cpu)).collect();
        rows.push(
            Row::value(format!("per changed machine, {machines} machines"), Unit::Nanos, slope)
                .beside(bare)
                .limit("1-3 ns")
                .reach(Reach::AtMost(most)),
        );
        rows.push(
            Row::value(format!("  fixed {}", points.join(" ")), Unit::Nanos, fixed)
                .reach(Reach::AtMost(300.0)),
        );
    }
    rows
}

/// Median cost of one sync after this many machines have changed.
pub(super) fn cost(options: &Options, made: &Made, changed: usize) -> Figure {
    let rounds = options.work(1000).clamp(100, 200_000 / changed.max(20));
    let (cell, mut view) = cells::viewed(made);
    let runs: Vec<Figure> =
        (0..options.runs()).map(|_| run(&cell, &mut view, changed, rounds)).collect();
    Figure::median(&runs)
}

/// Runs rounds of changes and a sync. Only the time of the syncs is counted.
fn run(cell: &SharedCell, view: &mut View, changed: usize, rounds: usize) -> Figure {
    let mut spans = Vec::with_capacity(rounds);
    let slots = random_slots(view.rows(), changed);
    let (writer, mut number) = cell.register("writer".into()).expect("a writer registers");
    let job = cells::small_jobs(view.version().0 as usize, changed.max(1), changed.max(1)).next();
    let job = job.expect("one job is asked for");
    let job = cell.apply(omega_core::Command::SubmitJob(job)).expect("a job is submitted");
    let omega_core::Outcome::Job(job) = job else { unreachable!("a job gets an id") };
    let clock = timed(|| ()).1;
    for _ in 0..rounds {
        let tasks = (0..).map(|index| TaskId { job, index });
        let claims = slots
            .iter()
            .zip(tasks)
            .map(|(slot, task)| Claim::new(task, MachineId::first(*slot), SequenceNumber(0)));
        view.sync(cell).expect("a cell in this process answers");
        let id = TransactionId { scheduler: writer, number };
        let mut txn = Transaction::new(id, view.version(), claims.collect());
        if changed > 0 {
            let commit = cell.commit(&txn).expect("the transaction is checked");
            assert!(commit.is_complete(), "small tasks fit: {:?}", commit.conflicts.first());
        }
        let ((), span) = timed(|| view.sync(cell).expect("a cell in this process answers"));
        spans.push(span.each(1));
        number += 2;
        txn.releases = txn.claims.drain(..).map(|claim| claim.task).collect();
        txn.id.number += 1;
        if changed > 0 {
            cell.commit(&txn).expect("the releases are checked");
        }
    }
    let figure = Figure::median(&spans);
    // The time of reading the clocks is subtracted.
    let clock = clock.each(1);
    Figure { cpu: figure.cpu - clock.cpu.min(figure.cpu), wall: figure.wall }
}

fn random_slots(machines: usize, count: usize) -> Vec<u32> {
    let mut rng = Pcg64::seed_from_u64(SEED);
    (0..count).map(|_| rng.random_range(0..machines as u32)).collect()
}

/// Returns the fixed cost of a sync, and its cost per change. The cost per change is the slope from the third-largest
/// to the largest number of changes; the fixed cost is the median of the fixed costs at the three smallest numbers of
/// changes.
fn line(costs: &[(usize, Figure)]) -> (f64, f64) {
    let at = |i: usize| (costs[i].0 as f64, costs[i].1.cpu);
    let last = costs.len() - 1;
    let slope = (at(last).1 - at(last - 2).1) / (at(last).0 - at(last - 2).0);
    let fixed = median((0..3).map(|i| at(i).1 - slope * at(i).0).collect());
    (fixed, slope)
}
