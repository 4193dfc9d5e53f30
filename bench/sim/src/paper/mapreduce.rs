//! A scheduler that chooses the number of workers of MapReduce jobs (Figures 15 and 16): three
//! rules on the usual cell and on a mostly idle one.
//!
//! The paper's jobs are not public. [`assumed`] has the assumptions, which the report states.

use super::lists::Dice;
use super::runs::{CellPair, SHARED};
use super::sections::check;
use super::setting::{CellSize, Setting};
use super::workers::{MapReduce, SizeByIdle, Workers};
use crate::compat::{Load, run_sized};
use crate::engine::{Job, Kind, Records, SizedRun};
use crate::page::{Check, Section, Table, figure};
use crate::plot::{Axis, Line, Plot, Style};
use rayon::prelude::*;

/// Assumptions about properties of the paper's jobs that the paper does not state.
mod assumed {
    /// Number of batch jobs per MapReduce job. By the paper, about a fifth of the jobs at Google are MapReduce jobs.
    pub(super) const ONE_IN: f64 = 5.0;
    /// Requested numbers of workers, each with the cumulative share of the jobs. The paper names these peaks, but not
    /// the share of the jobs at each.
    pub(super) const ASKED: [(f64, u32); 4] = [(0.4, 5), (0.75, 11), (0.95, 200), (1.0, 1000)];
    /// Mean and standard deviation of the logarithm of the ratio of a job's activities (map and reduce tasks that can
    /// run at one time) to its requested workers. The ratio has a lognormal distribution. With unlimited resources,
    /// 60 % of the jobs have more activities than workers, and one in five has at least 3.5 times as many. So the
    /// gains with unlimited resources are an input, taken from the paper; the result is the part of these gains that
    /// a cell and a rule allow.
    pub(super) const ACTIVITIES: (f64, f64) = (0.29, 1.144);
}

const RULES: [(&str, Workers); 4] = [
    ("as asked", Workers::AsAsked),
    ("max-parallelism", Workers::MaxParallelism),
    ("global cap", Workers::GlobalCap(60)),
    ("relative job size", Workers::RelativeSize(4)),
];

/// Cells: a name, and the number of machines as a multiple of the medium cell's.
const CELLS: [(&str, u32); 2] = [("usual", 1), ("idle", 2)];

/// Result of a rule on a cell.
struct Ran {
    /// Speed-up of each MapReduce job on which a decision began, in ascending order.
    speedups: Vec<f64>,
    /// Allocated share of the processors, sampled every second.
    looks: Vec<f32>,
    /// Mean wait of batch jobs, in seconds. The next field is the number of abandoned batch jobs.
    wait_s: f64,
    abandoned: u64,
}

impl Ran {
    /// The share of the jobs whose speed-up is at least this.
    fn gained(&self, least: f64) -> f64 {
        let below = self.speedups.partition_point(|speedup| *speedup < least);
        1.0 - below as f64 / self.speedups.len().max(1) as f64
    }

    fn percentile(&self, share: f64) -> f64 {
        let at = (self.speedups.len().saturating_sub(1) as f64 * share) as usize;
        self.speedups.get(at).copied().unwrap_or(1.0)
    }

    /// Mean and standard deviation of the allocation.
    fn used(&self) -> (f64, f64) {
        let count = self.looks.len().max(1) as f64;
        let mean = self.looks.iter().map(|look| f64::from(*look)).sum::<f64>() / count;
        let squares = self.looks.iter().map(|look| (f64::from(*look) - mean).powi(2)).sum::<f64>();
        (mean, (squares / count).sqrt())
    }
}

/// Repeats Figures 15 and 16 of the paper.
pub(super) fn run(lab: &CellPair) -> Section {
    let points: Vec<(u32, Workers)> =
        CELLS.iter().flat_map(|(_, times)| RULES.map(|(_, workers)| (*times, workers))).collect();
    let ran: Vec<Ran> =
        points.par_iter().map(|(times, workers)| simulate(lab, *times, *workers)).collect();
    let cells: Vec<&[Ran]> = ran.chunks(RULES.len()).collect();
    let mut plots = Vec::new();
    for ((cell, _), ran) in CELLS.iter().zip(&cells) {
        plots.push((format!("fig15-{cell}"), speedups(cell, ran)));
    }
    for ((cell, _), ran) in CELLS.iter().zip(&cells) {
        plots.push((format!("fig16-{cell}"), utilisation(cell, ran)));
    }
    Section {
        prose: vec![
            "In the paper, a MapReduce scheduler gives jobs more workers than they ask for while the cell has room: as many as have \
             something to do (max-parallelism), the same while less than 60 % of the cell are used (global cap), or at most four \
             times as many as were asked for (relative job size). 50 to 70 % of the jobs gain; at the 80th percentile by a factor of \
             3 to 4 with max-parallelism; relative job size does nearly as well, and the global cap only where the cell is idle. The \
             price is that the use of the cell varies more."
                .to_owned(),
            "The paper's jobs are not public. Assumed here: a fifth of the batch jobs are MapReduce jobs; people ask for 5, 11, 200 or \
             1,000 workers (40, 35, 20 and 5 % of the jobs: the paper names the peaks, not their heights); activities by worker asked \
             for are lognormal, so that 60 % of the jobs have more activities than workers, and a fifth at least 3.5 times as many. So the \
             gains with room without end are put in; what comes out is what the cell and each rule leave of them. Requests and times \
             are those of the job lists. A job's run time shrinks in proportion to its workers up to its activities. The usual cell has \
             2,000 machines, the idle one 4,000 and the same jobs."
                .to_owned(),
        ],
        checks: checks(&cells),
        plots,
        tables: CELLS.iter().zip(&cells).map(|((cell, _), ran)| table(cell, ran)).collect(),
        ..Section::default()
    }
}

fn simulate(lab: &CellPair, times: u32, workers: Workers) -> Ran {
    let setting = Setting { cell: CellSize::Medium, ..Setting::of(SHARED) };
    let (point, lists) = lab.point_on(&setting, times);
    let mut dice = Dice::new(lab.seed(), 4);
    let mut load = Load::of_point(&point, lists);
    let whole = [4.0, 16.0].map(|of| of * f64::from(point.machines));
    let mut jobs: Vec<Option<MapReduce>> = vec![None; load.jobs.len()];
    for (number, job) in load.jobs.iter_mut().enumerate() {
        if job.kind != Kind::Batch || dice.even() * assumed::ONE_IN >= 1.0 {
            continue;
        }
        let which = dice.even();
        let asked = assumed::ASKED.iter().find(|(below, _)| which < *below);
        job.tasks = asked.map_or(1, |(_, workers)| *workers);
        let (mean, deviation) = assumed::ACTIVITIES;
        let ratio = libm::exp(mean + deviation * dice.normal());
        let request = load.tasks[number].request;
        jobs[number] = Some(MapReduce {
            activities: (f64::from(job.tasks) * ratio).clamp(1.0, 1e6) as u32,
            share: [request.cpu / whole[0], request.memory / whole[1]],
        });
    }
    let sizing = SizeByIdle { workers, jobs: &jobs };
    let (records, run) = run_sized(&point, lists, &load, sizing);
    ran(&records, &load.jobs, &jobs, run)
}

fn ran(records: &Records, all: &[Job], jobs: &[Option<MapReduce>], run: SizedRun) -> Ran {
    let begun = |number: &usize| jobs[*number].is_some() && records.jobs[*number].attempts > 0;
    let mut speedups: Vec<f64> =
        (0..all.len()).filter(begun).map(|number| run.speeds[number]).collect();
    speedups.sort_by(f64::total_cmp);
    let batch = all.iter().zip(&records.jobs);
    let waits: Vec<f64> = batch
        .filter(|(job, record)| job.kind == Kind::Batch && record.attempts > 0)
        .map(|(_, record)| record.wait_s)
        .collect();
    Ran {
        speedups,
        looks: run.looks,
        wait_s: waits.iter().sum::<f64>() / waits.len().max(1) as f64,
        abandoned: records.schedulers.iter().map(|record| record.abandoned).sum(),
    }
}

/// Figure 15 of a cell: cumulative distribution of the jobs' speed-ups.
fn speedups(cell: &str, ran: &[Ran]) -> Plot {
    let mut plot = Plot::new(
        format!("Speed-up of MapReduce jobs: {cell} cell"),
        Axis { most: Some(MOST_DRAWN), ..Axis::log("speed-up") },
        Axis::share("share of the jobs"),
    );
    for ((name, _), ran) in RULES.iter().zip(ran).skip(1) {
        // More than a hundred steps could not be distinguished in the plot.
        let points = (0..=100).map(|percent| {
            let share = f64::from(percent) / 100.0;
            (ran.percentile(share).min(MOST_DRAWN), share)
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        // Of several points with equal values, only the last one has the cumulative share. The others are removed.
        points.dedup_by(|next, kept| {
            let equal = next.0 == kept.0;
            kept.1 = if equal { next.1 } else { kept.1 };
            equal
        });
        plot = plot.line(Line::new(*name, points).styled(Style::Steps));
    }
    plot
}

/// The largest plotted speed-up.
const MOST_DRAWN: f64 = 30.0;

/// Figure 16 of a cell: its allocation over the day, as means of ten minutes.
fn utilisation(cell: &str, ran: &[Ran]) -> Plot {
    let mut plot = Plot::new(
        format!("Use of the cell: {cell} cell"),
        Axis::linear("hours since the start"),
        Axis::share("processors taken"),
    );
    for ((name, _), ran) in RULES.iter().zip(ran) {
        let means = ran.looks.chunks(LOOKS_DRAWN).enumerate().map(|(number, looks)| {
            let mean = looks.iter().map(|look| f64::from(*look)).sum::<f64>() / looks.len() as f64;
            ((number * LOOKS_DRAWN) as f64 / 3600.0, mean)
        });
        plot = plot.line(Line::new(*name, means.collect()));
    }
    plot
}

/// Number of samples, one each second, averaged to one point.
const LOOKS_DRAWN: usize = 600;

fn table(cell: &str, ran: &[Ran]) -> Table {
    let head = [
        "rule",
        "jobs that gain",
        "median speed-up",
        "80th percentile",
        "processors taken",
        "their deviation",
        "batch wait, s",
        "given up",
    ];
    let row = |((name, _), ran): (&(&str, Workers), &Ran)| {
        let (mean, deviation) = ran.used();
        let figures = [
            ran.gained(GAIN),
            ran.percentile(0.5),
            ran.percentile(0.8),
            mean,
            deviation,
            ran.wait_s,
            ran.abandoned as f64,
        ];
        std::iter::once((*name).to_owned()).chain(figures.map(figure)).collect()
    };
    Table {
        title: format!("MapReduce jobs of the {cell} cell"),
        head: head.map(str::to_owned).to_vec(),
        rows: RULES.iter().zip(ran).map(row).collect(),
    }
}

/// Smallest speed-up that is counted as a gain.
const GAIN: f64 = 1.01;

fn checks(cells: &[&[Ran]]) -> Vec<Check> {
    let (usual, idle) = (cells[0], cells[1]);
    let cap = 2;
    let at_80 = |ran: &Ran| ran.percentile(0.8);
    let (most, relative) = (&idle[1], &idle[3]);
    let deviations = [0, 1].map(|rule| idle[rule].used().1);
    vec![
        check(
            "On the idle cell, 50 to 70 % of the jobs gain by max-parallelism",
            (0.5..=0.7).contains(&most.gained(GAIN)),
            format!("{} of them", figure(most.gained(GAIN))),
        ),
        check(
            "There, the 80th percentile is 3 to 4 times as fast",
            (3.0..=4.0).contains(&at_80(most)),
            format!("{} times", figure(at_80(most))),
        ),
        check(
            "Relative job size is nearly as good",
            at_80(relative) >= 0.8 * at_80(most)
                && relative.gained(GAIN) >= 0.9 * most.gained(GAIN),
            format!(
                "{} times, and {} of the jobs gain",
                figure(at_80(relative)),
                figure(relative.gained(GAIN))
            ),
        ),
        check(
            "The global cap helps on the idle cell alone",
            idle[cap].gained(GAIN) >= 0.5 && usual[cap].gained(GAIN) <= 0.1,
            format!(
                "{} of the jobs gain there, and {} on the usual one",
                figure(idle[cap].gained(GAIN)),
                figure(usual[cap].gained(GAIN))
            ),
        ),
        check(
            "The use of the cell varies more with max-parallelism than as asked",
            deviations[1] > deviations[0],
            format!("by {} and {}", figure(deviations[1]), figure(deviations[0])),
        ),
    ]
}
