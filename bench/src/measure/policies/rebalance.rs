//! Question: what does a rebalancing pass cost, and how much does it gain?
//!
//! The cell has 10,000 machines, of which every tenth is 85 to 95 % allocated and the others 55 to 65 %. The bare loop
//! computes the load above the safety level for random pairs of a machine and a request.

use crate::measure::cells::{Made, filled, machines};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::KindId;
use omega_schedulers::rebalance::{Bounds, Objectives, Plan, Rebalancer, Settings};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::hint::black_box;

pub(crate) const WORKLOAD: &str =
    "10,000 machines, every tenth 85 to 95 % in use, the others 55 to 65 %; safety level 80 %";

const MACHINES: usize = 10_000;

/// Maximum number of moves that a pass examines, which is enough to find nearly all gains here.
const STEPS: usize = 10_000_000;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let in_use = |slot: usize| if slot.is_multiple_of(10) { 850..950 } else { 550..650 };
    let made = filled(machines(MACHINES), in_use);
    let mut rows = vec![start(options, &made)];
    for (what, objectives) in
        [("balance", Objectives::balance()), ("defragment", Objectives::defragment())]
    {
        rows.extend(pass(options, &made, (what, objectives)));
    }
    rows
}

fn rebalancer(
    made: &Made,
    objectives: Objectives,
    (moves, steps): (usize, usize),
) -> (SharedCell, Rebalancer) {
    let cell = SharedCell::new(made.copy());
    let bounds = Bounds { moves, steps: steps as u64, ..Bounds::default() };
    let settings = Settings { bounds, seed: SEED, ..Settings::new(objectives) };
    let rebalancer = Rebalancer::new(&cell, settings).expect("a cell in this process answers");
    (cell, rebalancer)
}

/// Cost of preparing a plan, measured by a plan without moves.
fn start(options: &Options, made: &Made) -> Row {
    let (cell, mut rebalancer) = rebalancer(made, Objectives::balance(), (0, 1));
    let runs = (0..options.runs()).map(|_| {
        timed(|| rebalancer.plan(&cell, &mut || true).expect("a cell in this process answers")).1
    });
    let runs: Vec<Figure> = runs.map(|span| span.each(1)).collect();
    Row::time("a plan without a move", Unit::Millis, Figure::median(&runs))
}

/// A pass of up to a thousand moves: its cost per examined move and per move in the plan, and the decrease of the
/// weighted sum.
fn pass(options: &Options, made: &Made, (what, objectives): (&str, Objectives)) -> Vec<Row> {
    let (cell, mut rebalancer) = rebalancer(made, objectives.clone(), (1000, options.work(STEPS)));
    let mut last: Option<Plan> = None;
    let looks = options.work(1_000_000);
    let (ours, bare) = by_turns(
        options.runs(),
        || {
            let (plan, span) = timed(|| rebalancer.plan(&cell, &mut || true));
            let plan = plan.expect("a cell in this process answers");
            let each = span.each(plan.considered as usize);
            last = Some(plan);
            each
        },
        || {
            let mut rng = Pcg64::seed_from_u64(SEED);
            timed(|| bare(made, looks, &mut rng)).1.each(looks)
        },
    );
    let plan = last.expect("it was measured once at least");
    let (considered, moves) = (plan.considered as f64, plan.moves().count().max(1) as f64);
    let times = considered / moves;
    let each = Figure { cpu: ours.cpu * times, wall: ours.wall * times };
    let before = plan.before.total(&objectives) as f64;
    let less = plan.gain() as f64 / before * 100.0;
    vec![
        Row::time(format!("{what}: moves that are looked at"), Unit::MillionsPerSecond, ours)
            .beside(bare),
        Row::time(format!("{what}: a move that is made"), Unit::Micros, each),
        Row::value(format!("{what}: smaller by {moves} moves"), Unit::Percent, less),
    ]
}

/// Bare loop: load above the safety level on random machines.
fn bare(made: &Made, looks: usize, rng: &mut Pcg64) {
    let machines: Vec<_> = made.cell.machines().collect();
    let mut sum = 0u64;
    for _ in 0..looks {
        let machine = &machines[rng.random_range(0..machines.len())];
        for kind in [KindId::CPU, KindId::MEMORY] {
            let capacity = machine.claimable[kind.index()];
            let above = capacity - machine.free[kind.index()] + 1000 - capacity * 80 / 100;
            sum = sum.wrapping_add(above.max(0).unsigned_abs() / 1000);
        }
    }
    black_box(sum);
}
