//! Question: what does it cost to find whom to evict, where every machine is full?

use super::cells::{filled, machines};
use super::clock::timed;
use super::show::{Reach, Row, Unit};
use super::{Options, SEED};
use omega_cellstate::{SharedCell, View};
use omega_core::{Amounts, Job, JobId, Precedence, SchedulerId, TaskGroup};
use omega_schedulers::Profile;
use omega_schedulers::preemption::{Preemptor, best};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str = "5,000 full machines; one task of higher precedence; candidates on a tenth of the machines, the best of them";

const MACHINES: usize = 5000;

/// On how many machines room is looked for: what kube-scheduler looks at.
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
    let preemptor = Preemptor { profile: &profile, group, budgets: &[], expected: &[] };
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
    vec![row.limit("36/s").reach(Reach::AtMost(100.0))]
}
