//! Question: how much faster do two workers place tasks than one, and four than two?
//!
//! The figures are wall time, because processor time does not include the time that workers wait for each other. The
//! numbers of workers alternate, and each ratio is of two consecutive runs, so that a slow minute slows both.
//!
//! The ratios depend on the machine: workers write the same cache lines, and two processors with a common cache
//! exchange a line several times faster than distant ones. A virtual machine's processors may move from one place to
//! another. So a row has the time of such an exchange.

use crate::measure::Options;
use crate::measure::cells::{self, Made};
use crate::measure::clock::{median, timed};
use crate::measure::scan;
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::whole::{self, Load};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const WORKLOAD: &str = "10,000 machines from 60 to 70 % use; small tasks; 64 feasible machines, 1 score; wall time; two processors at least";

/// Number of claims in a transaction, with the target for the speed-up by a second worker.
const SECOND: [(usize, f64); 3] = [(1, 1.7), (10, 1.7), (100, 1.8)];

/// Target for four workers on two processors, as a ratio to the rate of two workers: more workers than processors
/// should cost nothing.
const FOURTH: f64 = 0.97;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(10_000);
    let exchange = median((0..options.runs()).map(|_| exchange()).collect());
    let mut rows =
        vec![Row::value("a cache line goes to the other processor", Unit::Nanos, exchange)];
    for (claims, second) in SECOND {
        let Walls { one, two, four } = Walls::measure(options, &made, claims);
        let rate = format!("1 worker, {claims}-task jobs, {claims} claims");
        rows.push(Row::value(rate, Unit::MillionsPerSecond, 1000.0 / median(one.clone())));
        let row = Row::value("  2 workers to 1", Unit::Times, ratio(&one, &two));
        rows.push(row.reach(Reach::AtLeast(second)));
        let row = Row::value("  4 workers to 2", Unit::Times, ratio(&two, &four));
        rows.push(row.reach(Reach::AtLeast(FOURTH)));
    }
    rows
}

/// Time of a passage of a cache line from one processor to another, in nanoseconds: two threads write it by turns.
fn exchange() -> f64 {
    const PASSAGES: u64 = 20_000;
    let turn = AtomicU64::new(0);
    let write_from = |first: u64| {
        for n in (first..PASSAGES).step_by(2) {
            let mut looks = 0;
            while turn.load(Ordering::Acquire) != n {
                std::hint::spin_loop();
                looks += 1;
                // Both threads may be on one processor.
                if looks > 10_000 {
                    std::thread::yield_now();
                }
            }
            turn.store(n + 1, Ordering::Release);
        }
    };
    let ((), span) = timed(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| write_from(1));
            write_from(0);
        });
    });
    span.wall_nanos_each(PASSAGES as usize)
}

/// Wall nanoseconds per placement, by run.
struct Walls {
    one: Vec<f64>,
    two: Vec<f64>,
    four: Vec<f64>,
}

/// Number of tasks that are submitted at once. At the end of each wave, one worker waits for the other.
pub(crate) const WAVE: usize = 50_000;

impl Walls {
    fn measure(options: &Options, made: &Made, claims: usize) -> Walls {
        let wall = |workers| wall(options, made, workers, claims);
        let mut walls = Walls { one: Vec::new(), two: Vec::new(), four: Vec::new() };
        for _ in 0..options.runs() {
            walls.one.push(wall(1));
            walls.two.push(wall(2));
            walls.four.push(wall(4));
        }
        walls
    }
}

/// Wall nanoseconds per placement by this many workers.
pub(crate) fn wall(options: &Options, made: &Made, workers: usize, claims: usize) -> f64 {
    let load = Load { wave: WAVE, ..Load::sampled(options.work(100_000), workers, claims) };
    whole::run(made, &load, scan::profile).each().wall
}

/// Median speed-up of consecutive runs.
fn ratio(before: &[f64], after: &[f64]) -> f64 {
    median(before.iter().zip(after).map(|(before, after)| before / after).collect())
}
