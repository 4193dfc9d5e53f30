//! Question: what do calendars of peak hours cost a scheduler and the cell, outside of and during a peak?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::{
    Command, DAY_MS, Job, KindId, KindShare, MachineSelector, Operator, Peak, PeakCalendar,
    Requirement,
};
use omega_schedulers::peaks::{PeakController, Settings as KeeperSettings};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str =
    "10,000 machines in use; single-task batch jobs; a scheduler's time per job";

const MACHINES: usize = 10_000;

/// The calendars of a cell.
#[derive(Clone, Copy)]
enum Peaks {
    None,
    /// A calendar for all machines, at a time that is not in a peak.
    Later,
    /// A calendar during its peak, which leaves room for nearly all jobs.
    Now,
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let jobs: Vec<Job> = cells::small_jobs(0, options.work(20_000), 1).collect();
    let compared = |peaks: Peaks| {
        by_turns(options.runs(), || cost(&made, &jobs, peaks), || cost(&made, &jobs, Peaks::None))
    };
    let (later, off) = compared(Peaks::Later);
    let (now, _) = compared(Peaks::Now);
    let ratio =
        |what: &str, figure: Figure| Row::value(what.to_owned(), Unit::Times, figure.cpu / off.cpu);
    vec![
        Row::time("for batch, no calendar".to_owned(), Unit::Micros, off),
        ratio("a calendar for all machines, no peak, time", later).reach(Reach::AtMost(1.25)),
        ratio("the same in a peak, time", now).reach(Reach::AtMost(1.5)),
        Row::time(
            "a look of the keeper that finds nothing".to_owned(),
            Unit::Micros,
            look(&made, options),
        ),
    ]
}

fn calendar(peaks: Peaks) -> Option<Command> {
    let (from_ms, until_ms) = match peaks {
        Peaks::None => return None,
        Peaks::Later => (DAY_MS / 2, DAY_MS),
        Peaks::Now => (0, DAY_MS / 2),
    };
    let any = Requirement { key: "".into(), operator: Operator::Exists, values: Vec::new() };
    let machines = MachineSelector { labels: Vec::new(), names: vec![any] };
    let share = |kind| KindShare { kind, percent: 100 };
    let batch_max = vec![share(KindId::CPU), share(KindId::MEMORY)];
    let peaks = vec![Peak { from_ms, until_ms, batch_max }];
    Some(Command::SetPeaks(PeakCalendar { name: "all".into(), machines, peaks }))
}

fn cell_with(made: &Made, peaks: Peaks) -> SharedCell {
    let cell = SharedCell::new(made.copy());
    if let Some(command) = calendar(peaks) {
        cell.apply(command).expect("a calendar");
    }
    cell
}

/// Scheduler time per job.
fn cost(made: &Made, jobs: &[Job], peaks: Peaks) -> Figure {
    let cell = cell_with(made, peaks);
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler =
        Scheduler::new(&cell, Profile::batch(), settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    cell.apply_all(jobs.iter().cloned().map(Command::SubmitJob));
    let ((), span) = timed(run);
    span.each(jobs.len())
}

/// Time of the peak controller for a pass that changes nothing.
fn look(made: &Made, options: &Options) -> Figure {
    let cell = cell_with(made, Peaks::Now);
    let mut keeper = PeakController::new(&cell, KeeperSettings::new()).expect("it registers");
    keeper.step(&cell).expect("the first look is longer");
    let looks = options.work(100);
    let ((), span) = timed(|| {
        for _ in 0..looks {
            keeper.step(&cell).expect("it answers");
        }
    });
    span.each(looks)
}
