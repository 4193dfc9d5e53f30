//! Question: what does the search for victims cost on full machines? And what does a profile with
//! preemption cost a scheduler that never needs it?

use crate::measure::cells::{self, filled, machines};
use crate::measure::clock::{by_turns, timed};
use crate::measure::scan;
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::whole::{self, Load};
use crate::measure::{Options, SEED};
use omega_cellstate::{SharedCell, View};
use omega_core::{Amounts, Job, JobId, Precedence, SchedulerId, TaskGroup};
use omega_schedulers::Profile;
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::preemption::{Preemptor, best};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str = "5,000 full machines; one task of higher precedence; candidates on a tenth of the machines, the best of them";

const MACHINES: usize = 5000;

/// Number of machines that are examined for victims: as many as kube-scheduler examines.
const CANDIDATES: usize = MACHINES / 10;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = filled(machines(MACHINES), |_| 970..1000);
    let cell = SharedCell::new(made.cell);
    let mut view = View::new(SchedulerId(0), 0).with_placements();
    view.sync(&cell).expect("a cell in this process answers");
    let mut job = Job::batch("urgent", TaskGroup::new(1, Amounts::new([4000, 16 << 30, 1 << 30])));
    job.precedence = Precedence(100);
    let group = view.compile(JobId(u64::MAX), &Arc::new(job), 0);
    let profile = Profile::first_fit();
    let preemptor =
        Preemptor { evaluator: profile.evaluator(), group, budgets: &[], expected: &[] };
    let mut rng = Pcg64::seed_from_u64(SEED);
    let count = options.work(500);
    let mut runs: Vec<_> = (0..options.runs())
        .map(|_| {
            let ((), span) = timed(|| {
                for _ in 0..count {
                    let start = rng.random_range(0..MACHINES);
                    let candidates = preemptor.candidates(&mut view, start, CANDIDATES);
                    assert!(best(&candidates).is_some(), "somebody is less important");
                }
            });
            span.each(count)
        })
        .collect();
    runs.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    let figure = runs[runs.len() / 2];
    let row = Row::time("a preemption", Unit::Micros, figure);
    let mut rows = vec![row.limit("36/s").reach(Reach::AtMost(100.0))];
    rows.extend(readiness(options));
    rows
}

/// A profile that preempts.
fn evicting() -> Profile {
    scan::profile().with_post_filter(DefaultPreemption::default())
}

/// The loop of the group `whole`, where all tasks fit, without and with the profile that preempts.
fn readiness(options: &Options) -> Vec<Row> {
    let made = cells::in_use(10_000);
    let mut rows = Vec::new();
    for workers in [1, 4] {
        let load = Load::sampled(options.work(100_000), workers, 100);
        let (with, without) = by_turns(
            options.runs(),
            || whole::run(&made, &load, evicting).each(),
            || whole::run(&made, &load, scan::profile).each(),
        );
        let what = format!("placements, all fit, {workers} workers, none evicts");
        rows.push(Row::time(what, Unit::MillionsPerSecond, without));
        let what = "  each might evict, and keeps what runs where";
        rows.push(Row::time(what, Unit::MillionsPerSecond, with).beside(without));
    }
    rows
}
