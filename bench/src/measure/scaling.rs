//! Question: how much faster do two workers place tasks than one, and four than two?
//!
//! The figures are wall time, because processor time does not include the time that workers wait for each other. The
//! numbers of workers alternate, and each ratio is of two consecutive runs, so that a slow minute slows both.

use super::Options;
use super::cells::{self, Made};
use super::clock::median;
use super::scan;
use super::show::{Reach, Row, Unit};
use super::whole::{self, Load};

pub(crate) const WORKLOAD: &str = "10,000 machines from 60 to 70 % use; small tasks; 64 feasible machines, 1 score; wall time; two processors at least";

/// Number of claims in a transaction, with the target for the speed-up by a second worker.
const SECOND: [(usize, f64); 3] = [(1, 1.7), (10, 1.7), (100, 1.8)];

/// Target for four workers on two processors, as a ratio to the rate of two workers: more workers than processors
/// should cost nothing.
const FOURTH: f64 = 0.97;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(10_000);
    let mut rows = Vec::new();
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

/// Wall nanoseconds per placement, by run.
struct Walls {
    one: Vec<f64>,
    two: Vec<f64>,
    four: Vec<f64>,
}

/// Number of tasks that are submitted at once. The kernel takes some time to move woken threads to other processors,
/// and short waves would measure that time.
const WAVE: usize = 50_000;

impl Walls {
    fn measure(options: &Options, made: &Made, claims: usize) -> Walls {
        let wall = |workers| {
            let load = Load { wave: WAVE, ..Load::sampled(options.work(100_000), workers, claims) };
            whole::run(made, &load, scan::profile).each().wall
        };
        let mut walls = Walls { one: Vec::new(), two: Vec::new(), four: Vec::new() };
        for _ in 0..options.runs() {
            walls.one.push(wall(1));
            walls.two.push(wall(2));
            walls.four.push(wall(4));
        }
        walls
    }
}

/// Median speed-up of consecutive runs.
fn ratio(before: &[f64], after: &[f64]) -> f64 {
    median(before.iter().zip(after).map(|(before, after)| before / after).collect())
}
