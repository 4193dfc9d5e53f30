//! Waits of jobs and busyness of schedulers when decisions on service jobs take longer.
//!
//! Three architectures are compared: one scheduler for all jobs, one scheduler with a fast path for batch jobs, and two
//! schedulers that share the cell's state.

use super::found::Found;
use super::runs::{CellPair, SHARED};
use super::sections::{DECISIONS_S, OBJECTIVE_S, TWO_CELLS, check, check_on, line, pairs, table};
use super::setting::{CellSize, Setting, USUAL};
use crate::compat::Architecture;
use crate::engine::DecisionTime;
use crate::page::{Check, Section, figure};
use crate::plot::{Axis, Plot, Style};

const DECISION: &str = "decision time of a service job, seconds";
/// Smallest plotted wait, because a logarithmic axis has no zero.
const WAIT_LEAST_S: f64 = 0.01;

/// Repeats Figures 5 and 6 of the paper.
pub(super) fn of_jobs(lab: &CellPair) -> Section {
    let slow = |job_s| DecisionTime { job_s, ..USUAL };
    let mono = Setting::of(Architecture::Monolithic);
    let sweep = |setting: &dyn Fn(DecisionTime) -> Setting| -> Vec<Setting> {
        DECISIONS_S.map(|job_s| setting(slow(job_s))).to_vec()
    };
    let single = sweep(&|decides| Setting { batch: decides, service: decides, ..mono });
    let multi = sweep(&|decides| Setting { service: decides, ..mono });
    let shared = sweep(&|decides| Setting { service: decides, ..Setting::of(SHARED) });
    let both = lab.run_both(&[single, multi, shared].concat());
    let column = |which: usize, value: &dyn Fn(&Found) -> f64| {
        both.each().map(|(_, _, all)| {
            let found = &all[which * DECISIONS_S.len()..][..DECISIONS_S.len()];
            found.iter().map(value).collect::<Vec<f64>>()
        })
    };
    let over = "t_job(service), s";
    Section {
        prose: vec![
            "In the paper, one scheduler for all jobs (single-path) gets busier in a straight line with the decision time \
             until it saturates, and then nothing is placed in time. With a quick path for batch jobs (multi-path) that comes \
             far later, but a batch job still waits behind a slow service job. With shared state, batch jobs do not notice \
             how long decisions on service jobs take."
                .to_owned(),
            TWO_CELLS.to_owned(),
        ],
        checks: both.each().into_iter().flat_map(|(_, cell, all)| checks(cell, all)).collect(),
        plots: both.each().into_iter().flat_map(|(ending, cell, all)| plots(ending, cell, all)).collect(),
        tables: vec![
            pairs("Mean wait of batch jobs in seconds", over, &DECISIONS_S, &[
                ("single-path", column(0, &|found| found.batch.wait_s)),
                ("multi-path", column(1, &|found| found.batch.wait_s)),
                ("shared", column(2, &|found| found.batch.wait_s)),
            ]),
            pairs("Mean wait of service jobs in seconds", over, &DECISIONS_S, &[
                ("single-path", column(0, &|found| found.service.wait_s)),
                ("multi-path", column(1, &|found| found.service.wait_s)),
                ("shared", column(2, &|found| found.service.wait_s)),
            ]),
            pairs("Busyness", over, &DECISIONS_S, &[
                ("single-path", column(0, &|found| found.batch.busy)),
                ("multi-path", column(1, &|found| found.batch.busy)),
                ("shared, batch", column(2, &|found| found.batch.busy)),
                ("shared, service", column(2, &|found| found.service.busy)),
            ]),
        ],
        ..Section::default()
    }
}

/// Plots Figures 5 and 6 for one cell.
fn plots(ending: &str, cell: &str, all: &[Found]) -> [(String, Plot); 2] {
    let mut waits = Plot::new(
        format!("Wait of jobs: {cell} cell"),
        Axis::log(DECISION),
        Axis { least: Some(WAIT_LEAST_S), ..Axis::log("mean wait, seconds") },
    )
    .guide(OBJECTIVE_S, "30 s");
    let mut busyness = Plot::new(
        format!("Busyness of schedulers: {cell} cell"),
        Axis::log(DECISION),
        Axis { least: Some(0.0), ..Axis::share("busyness") },
    );
    let names = ["single-path", "multi-path", "shared state"];
    for (number, (name, found)) in names.iter().zip(all.chunks(DECISIONS_S.len())).enumerate() {
        let of = |kind: &str, style, value: &dyn Fn(&Found) -> f64| {
            line(&format!("{name}, {kind}"), &DECISIONS_S, found.iter().map(value))
                .styled(style)
                .coloured(number)
        };
        let drawn = |seconds: f64| seconds.max(WAIT_LEAST_S);
        waits = waits.line(of("batch", Style::Solid, &|found| drawn(found.batch.wait_s))).line(of(
            "service",
            Style::Dashed,
            &|found| drawn(found.service.wait_s),
        ));
        busyness = busyness.line(of("batch", Style::Solid, &|found| found.batch.busy));
        // A single scheduler handles both kinds of job, so only schedulers with shared state have a line for each kind.
        if *name == "shared state" {
            busyness = busyness.line(of("service", Style::Dashed, &|found| found.service.busy));
        }
    }
    [(format!("fig5{ending}"), waits), (format!("fig6{ending}"), busyness)]
}

fn checks(cell: &str, all: &[Found]) -> Vec<Check> {
    let count = DECISIONS_S.len();
    let [single, multi, shared] = [0, 1, 2].map(|which| &all[which * count..][..count]);
    let check = |claim: &str, holds, found| check_on(cell, claim, holds, found);
    let at = |job_s: f64| DECISIONS_S.iter().position(|swept| *swept == job_s).unwrap_or(0);
    let (one, three, thirty) = (at(1.0), at(3.0), at(30.0));
    // Change of busyness per second of decision time, between two decision times.
    let slope = |from: usize, to: usize| {
        (single[to].batch.busy - single[from].batch.busy) / (DECISIONS_S[to] - DECISIONS_S[from])
    };
    let straight = slope(one, three) / slope(0, one);
    let saturated = |found: &[Found]| {
        let first = found.iter().position(|found| found.batch.busy > 0.99);
        first.map_or(f64::INFINITY, |index| DECISIONS_S[index])
    };
    let flat = {
        let busy = || shared.iter().map(|found| found.batch.busy);
        busy().fold(0.0, f64::max) / busy().fold(f64::INFINITY, f64::min)
    };
    let freed = multi[thirty].batch.wait_s / shared[thirty].batch.wait_s.max(1e-9);
    vec![
        check(
            "With one path, busyness grows in a straight line until it saturates",
            (0.8..1.2).contains(&straight),
            format!("the slope from 1 to 3 s is {} of that before", figure(straight)),
        ),
        check(
            "With a quick path for batch jobs, the scheduler saturates later",
            saturated(multi) > saturated(single),
            format!("single-path at {} s, multi-path at {} s", saturated(single), saturated(multi)),
        ),
        check(
            "With shared state, the batch scheduler is as busy however long service jobs take",
            flat < 1.25,
            format!("the most is {} times the least", figure(flat)),
        ),
        check(
            "At 30 s a service job, batch jobs wait a hundred times less with shared state than behind one scheduler",
            freed > 100.0,
            format!(
                "{} s against {} s",
                figure(shared[thirty].batch.wait_s),
                figure(multi[thirty].batch.wait_s)
            ),
        ),
    ]
}

/// Repeats Figure 10 of the paper, which varies the decision time per job and the decision time per task.
pub(super) fn of_tasks(lab: &CellPair) -> Section {
    let decisions: Vec<DecisionTime> = TASKS_S
        .iter()
        .flat_map(|&task_s| DECISIONS_S.map(|job_s| DecisionTime { job_s, task_s }))
        .collect();
    let setting = |&service: &DecisionTime| Setting {
        cell: CellSize::Medium,
        service,
        ..Setting::of(SHARED)
    };
    let settings: Vec<Setting> = decisions.iter().map(setting).collect();
    let all = lab.run(&settings);
    let found: Vec<&[Found]> = all.chunks(DECISIONS_S.len()).collect();
    let mut plot = Plot::new(
        "Busyness of the service scheduler",
        Axis::log(DECISION),
        Axis::share("busyness"),
    );
    for (task_s, found) in TASKS_S.iter().zip(&found) {
        let name = format!("{task_s} s a task");
        plot = plot.line(line(&name, &DECISIONS_S, found.iter().map(|found| found.service.busy)));
    }
    let names: Vec<String> = TASKS_S.iter().map(|task_s| format!("{task_s} s a task")).collect();
    let columns: Vec<(&str, Vec<f64>)> = names
        .iter()
        .zip(&found)
        .map(|(name, found)| {
            (name.as_str(), found.iter().map(|found| found.service.busy).collect())
        })
        .collect();
    let last = DECISIONS_S.len() - 1;
    let grows = found.iter().all(|found| {
        found.windows(2).all(|pair| pair[1].service.busy >= pair[0].service.busy - 0.01)
    });
    let worst = found[TASKS_S.len() - 1][0].service.busy;
    let batch = all.iter().map(|found| found.batch.wait_s).fold(0.0, f64::max);
    Section {
        prose: vec![
            "In the paper, the service scheduler of a cell with shared state stays usable over most of both decision times, and \
             gets busier in a straight line with each."
                .to_owned(),
        ],
        checks: vec![
            check("Busyness never falls when decisions take longer", grows, format!("up to {}", figure(found[0][last].service.busy))),
            check(
                "A long time for each task alone does not saturate the scheduler",
                worst < 0.9,
                format!("{} at {} s a task", figure(worst), TASKS_S[TASKS_S.len() - 1]),
            ),
            check("Batch jobs wait less than a second everywhere", batch < 1.0, format!("at most {} s", figure(batch))),
        ],
        plots: vec![("fig10".to_owned(), plot)],
        tables: vec![table("Busyness of the service scheduler", "t_job(service), s", &DECISIONS_S, &columns)],
        ..Section::default()
    }
}

/// Swept decision times of a task, in seconds.
const TASKS_S: [f64; 4] = [0.001, 0.01, 0.1, 1.0];
