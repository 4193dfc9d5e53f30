//! Question: how much of the computer does `omega run` use, and how much faster is it with several schedulers?
//!
//! The run is the first command of the README, with fewer hours. Wall time is from the first job to the end.

use crate::measure::Options;
use crate::measure::clock::median;
use crate::measure::show::{Reach, Row, Unit};
use omega_run::report::RunReport;
use omega_run::{RunOptions, run};
use omega_workload::synth::{SynthOptions, synthesize};

pub(crate) const WORKLOAD: &str = "omega run: 10,000 machines, hours of generated jobs at 78 % use, 1 service scheduler; on two processors";

/// Length of the workload in hours of its own time. One scheduler places it in about a second. With `--quick`, the
/// workload is a quarter as long.
const HOURS: u32 = 8;

/// Number of batch schedulers of the README's command.
const BATCH: u32 = 3;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let hours = if options.quick { HOURS / 4 } else { HOURS };
    let mut runs = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        runs.0.push(one(1, hours));
        runs.1.push(one(BATCH, hours));
    }
    let of = |runs: &[RunReport], figure: fn(&RunReport) -> f64| {
        median(runs.iter().map(figure).collect())
    };
    let rate = |report: &RunReport| report.placements_per_s / 1e6;
    let busy = |report: &RunReport| report.cpu_s.unwrap_or(f64::NAN) / report.wall_s;
    let speed_up = runs.0.iter().zip(&runs.1);
    let speed_up = speed_up.map(|(one, three)| three.placements_per_s / one.placements_per_s);
    vec![
        Row::value("1 batch scheduler, wall", Unit::MillionsPerSecond, of(&runs.0, rate)),
        Row::value(
            format!("{BATCH} batch schedulers, wall"),
            Unit::MillionsPerSecond,
            of(&runs.1, rate),
        ),
        Row::value(format!("  {BATCH} to 1"), Unit::Times, median(speed_up.collect()))
            .reach(Reach::AtLeast(1.6)),
        Row::value("  processors busy, of 2", Unit::Times, of(&runs.1, busy))
            .reach(Reach::AtLeast(1.8)),
    ]
}

/// Runs the generated workload, and returns the report.
fn one(batch_schedulers: u32, span_hours: u32) -> RunReport {
    let workload = synthesize(&SynthOptions { span_hours, ..SynthOptions::default() });
    let options = RunOptions { batch_schedulers, ..RunOptions::default() };
    run(workload, &options, &mut |_| ()).expect("a generated workload runs")
}
