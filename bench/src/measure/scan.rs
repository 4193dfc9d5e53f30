//! Question: what does a full scan cost, and what does a decision for a thousand tasks cost?

use crate::measure::bare::{Columns, KINDS};
use crate::measure::cells;
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED, forms};
use omega_cellstate::{GroupRef, View};
use omega_core::{Amounts, Job, JobId, TaskGroup, TaskId};
use omega_schedulers::plugin::tasks;
use omega_schedulers::plugins::LeastAllocated;
use omega_schedulers::search::{Candidates, Request, search};
use omega_schedulers::{GroupPlacement, Home, Placement, Placer, Profile, Search};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str =
    "10,000 machines of a published cell's shapes, 55-65 % in use; a request of 4 kinds, 1 score";

const MACHINES: usize = 10_000;

/// Request of a task in the scan, with an amount of each kind, so that all four are compared.
const REQUEST: [u64; KINDS] = [2000, 8 << 30, 1 << 30, 1000];

/// Number of tasks of the batch.
const BATCH: usize = 1000;

/// A profile with the cell's own filters and one score.
pub(crate) fn profile() -> Profile {
    Profile::first_fit().with_score(LeastAllocated::default(), 1)
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let (_, mut view) = cells::viewed(&cells::in_use(MACHINES));
    let profile = profile();
    profile.prepare(&mut view);
    let columns = Columns::of(&view);
    let job = Arc::new(Job::batch("scan", TaskGroup::new(1, Amounts::new(REQUEST))));
    let group = view.compile(JobId(u64::MAX), &job, 0);
    let scans = options.work(2000);
    let bare_scan = || {
        let request = REQUEST.map(|amount| amount as i64);
        let ((), span) = timed(|| {
            for _ in 0..scans {
                black_box(columns.scan(black_box(request)));
            }
        });
        span.each(scans * MACHINES)
    };
    let blocks = by_turns(options.runs(), || scan(&view, &profile, group, scans), bare_scan);
    let collect = || collect(&mut view, &profile, group, scans / 10);
    let collected = by_turns(options.runs(), collect, bare_scan);
    let mut rows = vec![
        Row::time("fit over 4 kinds + 1 score, full scan, per machine", Unit::Nanos, blocks.0)
            .beside(blocks.1)
            .limit("0.3 ns")
            .reach(Reach::AtMost(1.0)),
        Row::value("  time to the bare scan's", Unit::Times, blocks.0.cpu / blocks.1.cpu)
            .reach(Reach::AtMost(1.1)),
        Row::time("  the same, collecting candidates", Unit::Nanos, collected.0)
            .beside(collected.1),
    ];
    rows.extend(forms::rows(options, &view, group));
    rows.push(batch(options, &mut view, &profile));
    rows
}

/// Cost of filters and scores over all blocks.
fn scan(view: &View, profile: &Profile, group: GroupRef, scans: usize) -> Figure {
    let tasks = tasks(view, group);
    let active = profile.evaluator().active(&tasks);
    let ((), span) = timed(|| {
        for _ in 0..scans {
            for index in 0..view.blocks() {
                let block = view.block(index);
                let feasible = active.feasible(&tasks, block, u64::MAX);
                if feasible != 0 {
                    black_box(&active.scores(&tasks, block, feasible));
                }
            }
        }
    });
    span.each(scans * MACHINES)
}

/// Cost of full searches.
fn collect(view: &mut View, profile: &Profile, group: GroupRef, scans: usize) -> Figure {
    let request = Request {
        evaluator: profile.evaluator(),
        group,
        search: Search::Full,
        tasks: 1,
        home: Home::EVERYWHERE,
        near_best: 1,
    };
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut candidates = Candidates::default();
    let ((), span) = timed(|| {
        for _ in 0..scans {
            search(view, request, &mut rng, &mut candidates);
            black_box(&candidates.found);
        }
    });
    span.each(scans * MACHINES)
}

/// Cost of one decision for a thousand identical tasks.
fn batch(options: &Options, view: &mut View, profile: &Profile) -> Row {
    let request = cells::small_request();
    let job = Arc::new(Job::batch("batch", TaskGroup::new(BATCH as u32, request)));
    let id = JobId(u64::MAX - 1);
    let group = view.compile(id, &job, 0);
    let ids: Vec<TaskId> = (0..BATCH as u32).map(|index| TaskId { job: id, index }).collect();
    let how = Placement { search: Search::Full, ..Placement::default() };
    let mut placer = Placer::default();
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut ours = || {
        let wanted = GroupPlacement { profile, placement: how, group };
        let (placed, span) = timed(|| placer.place(view, wanted, &ids, &mut rng));
        assert_eq!(placed, BATCH, "the cell has room for the batch");
        view.drop_claims(BATCH);
        span.each(1)
    };
    ours();
    let figures: Vec<_> = (0..options.runs() * 10).map(|_| ours()).collect();
    let bare = bare_batch(options, &Columns::of(view));
    Row::time(
        "1,000 identical tasks in one decision, exact",
        Unit::Millis,
        crate::measure::clock::Figure::median(&figures),
    )
    .beside(bare)
    .limit("0.14 ms")
    .reach(Reach::AtMost(0.4))
}

/// Cost of one bare scan, and of a thousand scores of the chosen machine.
fn bare_batch(options: &Options, columns: &Columns) -> Figure {
    let request = REQUEST.map(|amount| amount as i64);
    let runs = (0..options.runs()).map(|_| {
        let ((), span) = timed(|| {
            black_box(columns.scan(black_box(request)));
            for task in 0..BATCH {
                black_box(columns.best_of(black_box(task % 100)));
            }
        });
        span.each(1)
    });
    crate::measure::clock::Figure::median(&runs.collect::<Vec<_>>())
}

/// Time to find a machine for a task, and to undo the claim.
pub(crate) fn placed(options: &Options, view: &mut View, job: &Job) -> Figure {
    let profile = profile();
    profile.prepare(view);
    let id = JobId(u64::MAX);
    let group = view.compile(id, &Arc::new(job.clone()), 0);
    let how = Placement { search: Search::Full, ..Placement::default() };
    let tasks = [TaskId { job: id, index: 0 }];
    let (mut placer, mut rng) = (Placer::default(), Pcg64::seed_from_u64(SEED));
    let count = options.work(200);
    let ((), span) = timed(|| {
        for _ in 0..count {
            let wanted = GroupPlacement { profile: &profile, placement: how, group };
            let placed = placer.place(view, wanted, &tasks, &mut rng);
            assert_eq!(placed, 1, "every machine takes the task");
            view.drop_claims(1);
        }
    });
    view.forget_job(id);
    span.each(count)
}
