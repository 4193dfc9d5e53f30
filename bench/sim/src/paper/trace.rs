//! Batch jobs divided among several schedulers, on a real trace (Figure 13): the arrivals of a week of Google's cell of
//! May 2011.
//!
//! The public list of this length has neither tasks nor requests. So the experiment shows the longest decision time
//! with which schedulers can process the jobs of a real cell, with its bursts. It does not show how often the
//! schedulers conflict.

use super::runs::CellPair;
use super::sections::{OBJECTIVE_S, check, line, table};
use super::setting::USUAL;
use crate::engine::{DecisionTime, Retries};
use crate::page::{Check, Section, figure};
use crate::plot::{Axis, Plot};
use crate::scenario::{ArchitectureKind, ScenarioSettings, SchedulerReport, simulate};
use omega_core::{ConflictCheck, Granularity};
use omega_schedulers::config::Profiles;
use omega_workload::Workload;
use rayon::prelude::*;

/// Number of schedulers that share the batch jobs.
const SCHEDULERS: [u32; 2] = [1, 3];
/// Swept decision times of a batch job, in seconds.
const DECISIONS_S: [f64; 11] = [0.1, 0.3, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0, 15.0, 20.0];
/// Duration of the run, as in the paper.
const WEEK_S: f64 = 7.0 * 86_400.0;
/// Smallest plotted wait, because a logarithmic axis has no zero.
const WAIT_LEAST_S: f64 = 0.1;

/// Results of the batch schedulers of a run.
struct Ran {
    /// Mean share of the time that the schedulers spent deciding.
    busy: f64,
    /// Mean wait of all jobs, in seconds. The next field is the 90th percentile of the scheduler with the longest
    /// waits.
    wait_s: f64,
    wait_p90_s: f64,
}

/// Repeats Figure 13 of the paper.
pub(super) fn run(lab: &CellPair) -> Section {
    let Some(workload) = lab.trace() else { return Section::default() };
    let points: Vec<(u32, f64)> = SCHEDULERS
        .iter()
        .flat_map(|schedulers| DECISIONS_S.map(|job_s| (*schedulers, job_s)))
        .collect();
    let all: Vec<Ran> = points.par_iter().map(|point| of_week(workload, *point)).collect();
    let [one, three] = [0, 1].map(|which| &all[which * DECISIONS_S.len()..][..DECISIONS_S.len()]);
    let column = |ran: &[Ran], of: &dyn Fn(&Ran) -> f64| ran.iter().map(of).collect::<Vec<f64>>();
    let over = "t_job(batch), s";
    Section {
        prose: vec![
            "In the paper, on a week of one of Google's cells, a batch scheduler saturates when it needs about 4 s for a job; three \
             that share the jobs saturate at about 15 s, and all keep the waits below 30 s until then."
                .to_owned(),
            "This is a week of the cell that Google made public (May 2011), on the cell that ships. The list of its jobs has no \
             tasks and no requests: each job is one task that asks for nothing. So there is nothing to conflict about, and what \
             the paper says of conflicts is not repeated. The times at which jobs come are real."
                .to_owned(),
            format!(
                "A finding: with one scheduler, these jobs wait less than 30 s on average only up to decisions of {} s, where it is \
                 busy for {:.0} % of the time, and not until it saturates. Jobs come in bursts, and a burst has to be worked off.",
                DECISIONS_S[kept(one)],
                100.0 * one[kept(one)].busy
            ),
        ],
        checks: checks(one, three),
        plots: plots(one, three),
        tables: vec![table("Batch schedulers and their jobs", over, &DECISIONS_S, &[
            ("busyness: one", column(one, &|ran| ran.busy)),
            ("busyness: three", column(three, &|ran| ran.busy)),
            ("mean wait, s: one", column(one, &|ran| ran.wait_s)),
            ("mean wait, s: three", column(three, &|ran| ran.wait_s)),
            ("90th percentile, s: one", column(one, &|ran| ran.wait_p90_s)),
            ("90th percentile, s: three", column(three, &|ran| ran.wait_p90_s)),
        ])],
        ..Section::default()
    }
}

/// Runs a week with this number of batch schedulers and this decision time per job.
fn of_week(workload: &Workload, (schedulers, job_s): (u32, f64)) -> Ran {
    let settings = ScenarioSettings {
        architecture: ArchitectureKind::SharedState,
        batch_schedulers: schedulers,
        service_schedulers: 1,
        batch_decides: DecisionTime { job_s, ..USUAL },
        service_decides: USUAL,
        check: ConflictCheck::ResourceFit,
        granularity: Granularity::Incremental,
        pickiness: 0.0,
        near_best: 1,
        parts: 1,
        probes: 1,
        retries: Retries::Limited,
        end_s: Some(WEEK_S),
        seed: 1,
        profiles: Profiles::default(),
    };
    let outcome = simulate(workload, &settings);
    let report = outcome.expect("jobs that ask for nothing are jobs that a cell takes").report;
    let batch = || report.schedulers.iter().filter(|scheduler| scheduler.name.starts_with("batch"));
    let sum = |of: &dyn Fn(&SchedulerReport) -> f64| batch().map(of).sum::<f64>();
    let tried = sum(&|scheduler| scheduler.jobs_tried as f64);
    Ran {
        busy: sum(&|scheduler| scheduler.busy) / f64::from(schedulers),
        wait_s: sum(&|it| it.wait.mean_s * it.jobs_tried as f64) / tried.max(1.0),
        wait_p90_s: batch().map(|scheduler| scheduler.wait.p90_s).fold(0.0, f64::max),
    }
}

/// Returns the decision time at saturation, extrapolated linearly from the longest decision time without saturation.
fn saturated_s(ran: &[Ran]) -> f64 {
    let last = ran.iter().rposition(|ran| ran.busy < 0.99).unwrap_or(0);
    DECISIONS_S[last] / ran[last].busy
}

/// Index of the longest decision time up to which the mean wait meets the objective.
fn kept(ran: &[Ran]) -> usize {
    ran.iter().take_while(|ran| ran.wait_s <= OBJECTIVE_S).count().saturating_sub(1)
}

fn checks(one: &[Ran], three: &[Ran]) -> Vec<Check> {
    let saturated = [one, three].map(saturated_s);
    let longer = saturated[1] / saturated[0];
    let kept = [one, three].map(|ran| DECISIONS_S[kept(ran)]);
    vec![
        check(
            "One batch scheduler saturates at a decision time of a few seconds a job",
            (2.0..8.0).contains(&saturated[0]),
            format!("at {} s", figure(saturated[0])),
        ),
        check(
            "Three that share the jobs take three times as long",
            (2.7..3.3).contains(&longer),
            format!(
                "they saturate at {} s, {} times as long",
                figure(saturated[1]),
                figure(longer)
            ),
        ),
        check(
            "Jobs wait less than 30 s on average up to three times as long decisions, too",
            (2.0..4.5).contains(&(kept[1] / kept[0])),
            format!("up to {} s a job with one, {} s with three", kept[0], kept[1]),
        ),
    ]
}

fn plots(one: &[Ran], three: &[Ran]) -> Vec<(String, Plot)> {
    let decision = "decision time of a batch job, seconds";
    let lines = |plot: Plot, of: &dyn Fn(&Ran) -> f64| {
        [("one scheduler", one), ("three schedulers", three)]
            .into_iter()
            .fold(plot, |plot, (name, ran)| plot.line(line(name, &DECISIONS_S, ran.iter().map(of))))
    };
    let busyness = Plot::new(
        "Busyness of batch schedulers on a week of Google's jobs",
        Axis::log(decision),
        Axis { least: Some(0.0), ..Axis::share("busyness") },
    );
    let waits = Plot::new(
        "Wait of batch jobs on a week of Google's jobs",
        Axis::log(decision),
        Axis { least: Some(WAIT_LEAST_S), ..Axis::log("mean wait, seconds") },
    );
    let waits = waits.guide(OBJECTIVE_S, "30 s");
    vec![
        ("fig13-busyness".to_owned(), lines(busyness, &|ran| ran.busy)),
        ("fig13-wait".to_owned(), lines(waits, &|ran| ran.wait_s.max(WAIT_LEAST_S))),
    ]
}
