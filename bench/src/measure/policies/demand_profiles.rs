//! Question: what do demand profiles cost, for tasks with a demand profile and for other tasks?
//!
//! A commit adds the task's profile to those of the machine. If a task does not fit on a machine at peak demand, the
//! search checks the sum of the machine's profiles. Tasks with constant demand run through the same code as tasks of a
//! cell without profiles; compare those rows.

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, commit, scan};
use omega_cellstate::{Cell, SharedCell, View};
use omega_core::{
    Amounts, Command, DemandProfile, Job, JobId, KindId, Kinds, Machine, MachineId, SchedulerId,
    TaskGroup, TaskId,
};

pub(crate) const WORKLOAD: &str = "10,000 machines; commits of a claim; a task placed by a full search and taken back, where its demand profile fits beside those of each machine";

const MACHINES: usize = 10_000;

/// Capacity of each machine, in thousandths of a core.
const CORES: u64 = 32_000;

/// Request of the task for which a machine is searched.
const NIGHT: u64 = 2000;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let claims = options.work(100_000).min(MACHINES * 10);
    let flat = Job::batch("flat", TaskGroup::new(1, Amounts::new([NIGHT])));
    let mut rows = Vec::new();
    for points in [24, 288] {
        let (with, without) = by_turns(
            options.runs(),
            || claimed(&made, claims, Some(points)),
            || claimed(&made, claims, None),
        );
        rows.push(Row::time(format!("commits of a claim, {points} points"), Unit::Nanos, with));
        rows.push(Row::time("  that does not vary", Unit::Nanos, without));
        for curve in [Curve::Steps, Curve::Smooth] {
            let by_day = |amount| by_day(&job("day", curve.points(points, [amount, 0])));
            let (mut full, mut half) = (by_day(CORES), by_day(CORES / 2));
            let night = job("night", curve.points(points, [0, NIGHT]));
            let (with, without) = by_turns(
                options.runs(),
                || scan::placed(options, &mut full, &night),
                || scan::placed(options, &mut half, &flat),
            );
            let what = format!("a full search, {points} points, {}", curve.name());
            let ratio = Row::value("  relative to that", Unit::Times, with.cpu / without.cpu);
            rows.push(Row::time(what, Unit::Micros, with));
            rows.push(Row::time("  for what does not vary", Unit::Micros, without));
            rows.push(if points == 24 { ratio.reach(Reach::AtMost(3.0)) } else { ratio });
        }
    }
    rows
}

/// Course of a demand profile over the day.
#[derive(Clone, Copy)]
enum Curve {
    /// One amount by day, and another by night. The bounds of each part of the day decide whether the task fits.
    Steps,
    /// A cosine from the amount by day to that by night. No machine has room at noon, and the task needs nothing then.
    /// With more than 24 points, the bounds decide nothing, and each machine's points are read.
    Smooth,
}

impl Curve {
    fn name(self) -> &'static str {
        match self {
            Curve::Steps => "two steps",
            Curve::Smooth => "a cosine",
        }
    }

    fn points(self, points: usize, [day, night]: [u64; 2]) -> Vec<u64> {
        let at = |point: usize| match self {
            Curve::Steps => {
                if point < points / 2 {
                    day
                } else {
                    night
                }
            }
            Curve::Smooth => {
                let angle = std::f64::consts::TAU * point as f64 / points as f64;
                let by_day = (1.0 + angle.cos()) / 2.0;
                (day as f64 * by_day + night as f64 * (1.0 - by_day)) as u64
            }
        };
        (0..points).map(at).collect()
    }
}

/// A job of one task with a demand profile.
fn job(name: &str, points: Vec<u64>) -> Job {
    let demand_profile = DemandProfile { kind: KindId::CPU, points };
    let request = Amounts::new([demand_profile.peak()]);
    Job::batch(
        name,
        TaskGroup { demand_profiles: vec![demand_profile], ..TaskGroup::new(1, request) },
    )
}

/// Commit time per claim of a small task, with a demand profile or without.
fn claimed(made: &Made, claims: usize, points: Option<usize>) -> Figure {
    let mut cell = made.copy();
    let demand_profile = |at: usize, points: usize| {
        let high = cells::small_request().get(KindId::CPU);
        let busy = |point: usize| (point + at) % points < points / 2;
        let points = (0..points).map(|point| if busy(point) { high } else { high / 2 });
        vec![DemandProfile { kind: KindId::CPU, points: points.collect() }]
    };
    let jobs: Vec<JobId> = cells::small_jobs(0, claims, 1)
        .enumerate()
        .map(|(at, mut job)| {
            job.groups[0].demand_profiles =
                points.map_or_else(Vec::new, |points| demand_profile(at, points));
            cells::submit(&mut cell, job)
        })
        .collect();
    let txns = commit::claims_of(&mut cell, made.machines, &jobs, commit::Sizes::ONE);
    let (refused, span) = timed(|| {
        let commits = txns.iter().map(|txn| cell.commit(txn).expect("it is checked"));
        commits.map(|commit| commit.conflicts.len()).sum::<usize>()
    });
    assert!(refused * 100 < claims, "{refused} of {claims} small tasks did not fit");
    span.each(claims)
}

/// A view of machines. Each machine has a task like that of the job.
fn by_day(task: &Job) -> View {
    let mut cell = Cell::new(Kinds::standard());
    for row in 0..MACHINES as u32 {
        let machine = Machine::new(format!("m{row}"), Amounts::new([CORES]));
        cell.apply(Command::RegisterMachine(machine)).expect("it is new");
        let job =
            cells::submit(&mut cell, Job { name: format!("day-{row}").into(), ..task.clone() });
        let (task, machine) = (TaskId { job, index: 0 }, MachineId::first(row));
        cell.apply(Command::AdoptTask { task, machine }).expect("it is pending");
    }
    let mut view = View::new(SchedulerId(0), 0);
    view.sync(&SharedCell::new(cell)).expect("the cell is here");
    view
}
