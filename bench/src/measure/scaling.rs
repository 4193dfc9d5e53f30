//! Question: how much faster do two workers place than one, and four than two?
//!
//! Wall time, because processor time does not show that workers wait for each other. The numbers of
//! workers alternate, and each ratio is of two adjacent runs, so that a slow minute slows both.

use super::Options;
use super::cells::{self, Made};
use super::clock::median;
use super::scan;
use super::show::{Reach, Row, Unit};
use super::whole::{self, Load};

pub(crate) const WORKLOAD: &str = "10,000 machines from 60 to 70 % use; small tasks; 64 feasible machines, 1 score; wall time; two processors at least";

/// Claims in a transaction, with the least speed-up that the second worker is to bring.
const SECOND: [(usize, f64); 3] = [(1, 1.7), (10, 1.7), (100, 1.8)];

/// Least rate of four workers on two processors, of that of two: more workers than processors are to cost nothing.
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

/// Wall nanoseconds for each placement, by run.
struct Walls {
    one: Vec<f64>,
    two: Vec<f64>,
    four: Vec<f64>,
}

/// Tasks that are submitted at once. Threads that wake are moved to other processors only after a while, so short waves
/// would measure that.
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

/// The median speed-up of runs next to each other.
fn ratio(before: &[f64], after: &[f64]) -> f64 {
    median(before.iter().zip(after).map(|(before, after)| before / after).collect())
}
