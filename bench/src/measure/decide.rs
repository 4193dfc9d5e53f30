//! Question: what does one decision cost as the cell grows, and when hardly any machine fits?

use crate::measure::bare::Columns;
use crate::measure::cells::{self, filled, machines};
use crate::measure::clock::{Figure, by_turns, timed, timed_on_all_threads};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED, scan};
use omega_cellstate::View;
use omega_core::{Amounts, Job, JobId, MachineSelector, TaskGroup, TaskId};
use omega_schedulers::{GroupPlacement, Placement, Placer, Search};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str =
    "one task placed on a view in use and taken back; rare: 1 machine in 1,000 of 100,000 takes it";

/// Number of feasible machines at which a bounded search stops.
const FEASIBLE: u32 = 64;

/// One machine in this many accepts the rare task.
const RARE: usize = 1000;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let searches = [
        ("adaptive", Search::Adaptive),
        ("sampled", Search::Sampled { feasible: FEASIBLE }),
        ("indexed", Search::Indexed { feasible: FEASIBLE }),
    ];
    let sizes = [1000, 10_000, 100_000];
    let mut views = sizes.map(|size| cells::viewed(&cells::in_use(size)).1);
    let job = Job::batch("one", TaskGroup::new(1, cells::small_request()));
    let mut rows = Vec::new();
    for (name, search) in searches {
        let mut costs = Vec::new();
        for (size, view) in sizes.iter().zip(&mut views) {
            let (ours, bare) = measure(options, view, &job, search);
            costs.push(ours.cpu);
            let what = format!("a decision, {name}, {size} machines");
            rows.push(Row::time(what, Unit::Nanos, ours).beside(bare));
        }
        let what = format!("  {name}: 100,000 machines to 1,000");
        let row = Row::value(what, Unit::Times, costs[2] / costs[0]);
        rows.push(row.limit("1.3 x").reach(Reach::AtMost(2.0)));
    }
    drop(views);
    rows.extend(rare(options));
    rows
}

/// Measurements of tasks that one machine in a thousand accepts.
fn rare(options: &Options) -> Vec<Row> {
    let chosen = |slot: usize| slot % RARE == RARE / 2;
    let mut machines = machines(100_000);
    cells::label(&mut machines, "rare", chosen);
    // The chosen machines are less than half allocated, so only these have much memory and disk left.
    machines.iter_mut().enumerate().for_each(|(slot, machine)| {
        let cpu = if chosen(slot) { 100_000 } else { 32_000 };
        machine.capacity.set(omega_core::KindId::CPU, cpu);
    });
    let made = filled(machines, |_| 550..650);
    let (_, mut view) = cells::viewed(&made);
    let mut by_label = Job::batch("label", TaskGroup::new(1, cells::small_request()));
    let selector = MachineSelector::label("rare", "yes");
    by_label.groups[0].rules.affinity.required = Some(vec![selector]);
    let request = Amounts::new([25_000, 1 << 30, 1 << 30]);
    let by_room = Job::batch("room", TaskGroup::new(1, request));
    let searches =
        [("adaptive", Search::Adaptive), ("first found", Search::Indexed { feasible: 1 })];
    let mut rows = Vec::new();
    for (what, job) in [("resources", by_room), ("a label", by_label)] {
        for (name, search) in searches {
            let (ours, bare) = measure(options, &mut view, &job, search);
            let what = format!("a rare task, by {what}, {name}");
            let row = Row::time(what, Unit::Micros, ours).beside(bare);
            rows.push(row.limit("0.55 us").reach(Reach::AtMost(5.0)));
        }
    }
    rows
}

/// Median cost of a decision, and of a bare scan of one random block of 64 machines.
pub(super) fn measure(
    options: &Options,
    view: &mut View,
    job: &Job,
    search: Search,
) -> (Figure, Figure) {
    let profile = scan::profile();
    profile.prepare(view);
    let columns = Columns::of(view);
    let id = JobId(u64::MAX);
    let group = view.compile(id, &Arc::new(job.clone()), 0);
    let how = Placement { search, ..Placement::default() };
    let tasks = [TaskId { job: id, index: 0 }];
    let mut placer = Placer::default();
    let mut rng = Pcg64::seed_from_u64(SEED);
    let is_full = matches!(search, Search::Full);
    let full = (options.work(2_000_000) / view.rows()).max(10);
    let count = if is_full { full } else { options.work(20_000) };
    let ours = || {
        let work = || {
            for _ in 0..count {
                let wanted = GroupPlacement { profile: &profile, placement: how, group };
                let placed = placer.place(view, wanted, &tasks, &mut rng);
                assert_eq!(placed, 1, "a machine takes the task");
                view.drop_claims(1);
            }
        };
        let ((), span) = if is_full { timed_on_all_threads(work) } else { timed(work) };
        span.each(count)
    };
    let blocks = columns.blocks();
    let bare = || {
        let ((), span) = timed(|| {
            for i in 0..count {
                black_box(columns.best_of(black_box(i * 7919 % blocks)));
            }
        });
        span.each(count)
    };
    let figures = by_turns(options.runs(), ours, bare);
    view.forget_job(id);
    figures
}
