//! Question: what do reservations cost a scheduler and the cell, used and unused? And what does it cost to order a
//! queue by run times and deadlines?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::{Command, Job, MachineSelector, Operator, Requirement, Reservation};
use omega_schedulers::plugins::{LeastSlack, ShortestFirst};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str =
    "10,000 machines in use; single-task jobs of up to an hour; a scheduler's time per job";

const MACHINES: usize = 10_000;

/// Function that makes a profile, which is compared with the profile for services.
type Make = fn() -> Profile;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let jobs = (0..).zip(cells::small_jobs(0, options.work(20_000), 1)).map(with_times);
    let jobs: Vec<Job> = jobs.collect();
    let compared = |make: Make, reservations: usize| {
        by_turns(
            options.runs(),
            || cost(&made, &jobs, (make, reservations)),
            || cost(&made, &jobs, (Profile::service, 0)),
        )
    };
    let (far, off) = compared(Profile::service, 256);
    let (slack, _) = compared(|| Profile::service().with_order(LeastSlack), 0);
    let (short, _) = compared(|| Profile::service().with_order(ShortestFirst::default()), 0);
    let ratio =
        |what: &str, figure: Figure| Row::value(what.to_owned(), Unit::Times, figure.cpu / off.cpu);
    vec![
        Row::time("for services, no reservations".to_owned(), Unit::Micros, off),
        ratio("256 reservations that keep nobody off, time", far).reach(Reach::AtMost(1.1)),
        ratio("least_slack, time", slack).reach(Reach::AtMost(1.5)),
        ratio("shortest_first, time", short).reach(Reach::AtMost(1.5)),
    ]
}

/// Gives a job a run time that depends on its number. Half of the jobs also get a deadline.
fn with_times((number, job): (u64, Job)) -> Job {
    let run = number * 7919 % 3_600_000;
    let deadline_ms = number.is_multiple_of(2).then_some(number * 104_729 % 86_400_000);
    Job { runtime_estimate_ms: Some(run), deadline_ms, ..job }
}

/// Scheduler time per job.
fn cost(made: &Made, jobs: &[Job], (make, reservations): (Make, usize)) -> Figure {
    let cell = SharedCell::new(made.copy());
    for number in 0..reservations {
        let any = Requirement { key: "".into(), operator: Operator::Exists, values: Vec::new() };
        let machines = MachineSelector { labels: Vec::new(), names: vec![any] };
        // The reservation has all machines, but begins in two days, when every job has ended.
        let (from_ms, until_ms) = (172_800_000, 180_000_000);
        let (name, tenants) = (format!("r{number}").into(), vec!["ops".into()]);
        let reservation = Reservation { name, machines, tenants, from_ms, until_ms };
        cell.apply(Command::Reserve(reservation)).expect("a reservation");
    }
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler = Scheduler::new(&cell, make(), settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    cell.apply_all(jobs.iter().cloned().map(Command::SubmitJob));
    let ((), span) = timed(run);
    span.each(jobs.len())
}
