//! Question: what does it cost to place a task through an offer or a resource request, compared with a scheduler on the
//! same cell?
//!
//! A scheduler, a framework and an application place the same jobs. The time is from the sync that brings the jobs
//! until every task has its machine. The framework only puts tasks on offered machines, so the figures are the cost of
//! the protocol, not of a policy.

use crate::measure::Options;
use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::scan;
use crate::measure::show::{Row, Unit};
use crate::measure::whole::{self, Load};
use omega_cellstate::SharedCell;
use omega_core::{Command, JobId, KindId, TaskId};
use omega_schedulers::Search;
use omega_schedulers::mesos::{self, Framework, FrameworkId, Launch, Offer, OfferId, Refuse};
use omega_schedulers::yarn::{self, Ask, Heartbeat, Place};

pub(crate) const WORKLOAD: &str =
    "10,000 machines from 60 % use; 100-task jobs, 100 claims; bare: the plain scheduler";

/// Number of tasks of a job, and of claims in a transaction.
const EACH: usize = 100;

/// Number of tasks that the framework puts on each offered machine.
const ON_ONE: u64 = 4;

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(10_000);
    let tasks = options.work(50_000);
    let load = Load::sampled(tasks, 1, EACH);
    let plain = || whole::run(&made, &load, scan::profile).each();
    let mut rows = Vec::new();
    let mut beside = |what: &str, ours: &dyn Fn() -> Figure| {
        let (ours, plain) = by_turns(options.runs(), ours, plain);
        rows.push(Row::time(what, Unit::MillionsPerSecond, ours).beside(plain));
    };
    beside("placements through offers, 25 machines at once", &|| through_offers(&made, tasks));
    beside("placements through asks, anywhere", &|| through_asks(&made, tasks, anywhere));
    beside("  on machines that were asked for", &|| through_asks(&made, tasks, on_machines));
    let figures: Vec<Figure> = (0..options.runs()).map(|_| offers_alone(&made, tasks)).collect();
    rows.push(Row::time("an offer, made and declined", Unit::Nanos, Figure::median(&figures)));
    rows
}

/// A copy of the cell, with jobs for the scheduler `default`.
fn with_jobs(made: &Made, tasks: usize) -> SharedCell {
    let cell = SharedCell::new(made.copy());
    cell.apply_all(cells::small_jobs(0, tasks, EACH).map(Command::SubmitJob));
    cell
}

fn front(cell: &SharedCell, machines_at_once: usize) -> (mesos::Frontend, FrameworkId) {
    let settings = mesos::Settings {
        machines_at_once,
        offers_max: machines_at_once,
        ..mesos::Settings::new("default")
    };
    let mut front = mesos::Frontend::new(cell, settings).expect("a front registers");
    let framework = Framework::new("framework", "default");
    let framework = front.register(framework).expect("it is the first");
    (front, framework)
}

/// The pending tasks of a framework; the one to place next is last.
fn waiting(front: &mesos::Frontend, framework: FrameworkId) -> Vec<TaskId> {
    let jobs: Vec<JobId> = front.jobs_of(framework).map(|(id, _)| id).collect();
    let mut waiting: Vec<TaskId> = jobs.iter().flat_map(|job| front.waiting(*job, 0)).collect();
    waiting.reverse();
    waiting
}

fn through_offers(made: &Made, tasks: usize) -> Figure {
    let cell = with_jobs(made, 0);
    let (mut front, framework) = front(&cell, EACH / ON_ONE as usize);
    front.step(&cell, 0).expect("a cell in this process answers");
    cell.apply_all(cells::small_jobs(0, tasks, EACH).map(Command::SubmitJob));
    let ((), span) = timed(|| {
        front.step(&cell, 0).expect("the cell answers");
        let mut left = waiting(&front, framework);
        while front.counters().launched < tasks as u64 {
            let offers: Vec<Offer> = front.offers_of(framework).cloned().collect();
            fill(&mut front, (framework, &offers), &mut left);
            front.step(&cell, 0).expect("the cell answers");
        }
    });
    span.each(tasks)
}

/// Launches tasks on all offers in one reply.
fn fill(
    front: &mut mesos::Frontend,
    (framework, offers): (FrameworkId, &[Offer]),
    left: &mut Vec<TaskId>,
) {
    let request = cells::small_request();
    let mut launches = Vec::with_capacity(EACH);
    for offer in offers {
        let times = |(kind, amount): (KindId, u64)| offer.amounts.get(kind) / amount;
        let fits = request.iter().map(times).min().unwrap_or(0).min(ON_ONE);
        let tasks = std::iter::from_fn(|| left.pop()).take(fits as usize);
        launches.extend(tasks.map(|task| Launch { task, machine: offer.machine }));
    }
    let ids: Vec<OfferId> = offers.iter().map(|offer| offer.id).collect();
    front.accept(framework, &ids, &launches, Refuse::Nothing).expect("they fit");
}

/// Cost of offering all resources and declining them.
fn offers_alone(made: &Made, tasks: usize) -> Figure {
    let cell = with_jobs(made, 0);
    let (mut front, framework) = front(&cell, usize::MAX);
    front.step(&cell, 0).expect("a cell in this process answers");
    let rounds = (tasks / made.machines).max(1);
    let before = front.counters().declined;
    let ((), span) = timed(|| {
        for _ in 0..rounds {
            let ids: Vec<OfferId> = front.offers_of(framework).map(|offer| offer.id).collect();
            front.decline(framework, &ids, Refuse::Nothing).expect("they are out");
            front.step(&cell, 0).expect("the cell answers");
        }
    });
    span.each((front.counters().declined - before) as usize)
}

/// Request of each application.
fn anywhere(_: usize) -> Vec<Ask> {
    vec![Ask::new("main", Place::Anywhere, EACH as u32)]
}

/// Requests for one container on each of several machines.
fn on_machines(application: usize) -> Vec<Ask> {
    let name = |i: usize| format!("m{:05}", (application * EACH + i) % 10_000);
    let on = |i| Ask::new("main", Place::Machine(name(i).into()), 1);
    (0..EACH).map(on).chain(anywhere(application)).collect()
}

fn through_asks(made: &Made, tasks: usize, asks: fn(usize) -> Vec<Ask>) -> Figure {
    let cell = with_jobs(made, tasks);
    let mut settings = yarn::Settings {
        claims_max: EACH,
        machine_delay: u32::MAX,
        ..yarn::Settings::new("default")
    };
    settings.placement.search = Search::Sampled { feasible: whole::FEASIBLE };
    let mut front =
        yarn::Frontend::new(&cell, scan::profile(), settings).expect("a front registers");
    front.step(&cell, 0).expect("a cell in this process answers");
    let ((), span) = timed(|| {
        for application in 0..tasks / EACH {
            let id = front.join(&format!("small-{application}"), 0).expect("its job is there");
            front.heartbeat(id, Heartbeat::asking(asks(application)), 0).expect("it makes sense");
        }
        while front.counters().allocated() < tasks as u64 {
            front.step(&cell, 0).expect("the cell answers");
        }
    });
    span.each(tasks)
}
