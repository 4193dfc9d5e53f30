//! A race between threads: ordinary schedulers, an offer frontend and a request frontend work on one cell at once.
//!
//! All tasks are placed, no machine is overcommitted, and the counters of every client agree with the cell.

use super::fixtures::{cell, submit_job};
use crate::frontends::mesos::{self, Framework, FrameworkId, Happened, Launch, Offer, Refuse};
use crate::frontends::yarn::{self, Ask, Heartbeat, Place};
use crate::{Profile, Scheduler, Settings, Unobserved};
use omega_cellstate::{Cell, SharedCell};
use omega_core::{Amounts, Job, JobId, TaskGroup, TaskId};
use std::collections::BTreeSet;
use std::sync::Barrier;

const TASKS: u32 = 600;
const REQUEST: [u64; 2] = [100, 1];

/// Submits a job for one of the clients. All jobs together need 30 of 40 machines: they fit, but there are conflicts.
fn job(cell: &SharedCell, scheduler: &str, tenant: &str) -> JobId {
    let mut job = Job::batch(format!("{tenant}-job"), TaskGroup::new(TASKS, Amounts::new(REQUEST)));
    (job.scheduler, job.tenant) = (scheduler.into(), tenant.into());
    submit_job(cell, job)
}

/// Steps a scheduler until all its tasks are placed. Returns the numbers of placed and rejected claims.
fn scheduler(cell: &SharedCell, name: &str) -> (usize, usize) {
    let settings = Settings { claims_max: 7, ..Settings::new(name) };
    let mut scheduler = Scheduler::new(cell, Profile::batch(), settings).unwrap();
    let (mut placed, mut refused) = (0, 0);
    for round in 0u64.. {
        let step = scheduler.step(cell, round * 10_000_000, &mut Unobserved).unwrap();
        placed += step.placed;
        refused += step.conflicts;
        if placed == TASKS as usize {
            break;
        }
        std::thread::yield_now();
    }
    (placed, refused)
}

/// Answers each open offer of a framework with at most five tasks.
fn answer(front: &mut mesos::Frontend, framework: FrameworkId) {
    let jobs: Vec<JobId> = front.jobs_of(framework).map(|(id, _)| id).collect();
    let mut waiting: Vec<TaskId> = jobs.iter().flat_map(|job| front.waiting(*job, 0)).collect();
    let offers: Vec<Offer> = front.offers_of(framework).cloned().collect();
    for offer in offers {
        let fits =
            |kind: usize| offer.amounts.as_slice().get(kind).map_or(0, |has| has / REQUEST[kind]);
        let count = fits(0).min(fits(1)).min(5).min(waiting.len() as u64) as usize;
        let tasks = waiting.split_off(waiting.len() - count);
        let launch = |task: TaskId| Launch { task, machine: offer.machine };
        let launches: Vec<Launch> = tasks.into_iter().map(launch).collect();
        front.accept(framework, &[offer.id], &launches, Refuse::Nothing).unwrap();
    }
}

fn offers(cell: &SharedCell) -> mesos::Counters {
    let settings =
        mesos::Settings { machines_at_once: 4, offers_max: 8, ..mesos::Settings::new("offers") };
    let mut front = mesos::Frontend::new(cell, settings).unwrap();
    let frameworks =
        ["a", "b"].map(|tenant| front.register(Framework::new(tenant, tenant)).unwrap());
    let mut running = BTreeSet::new();
    for round in 0.. {
        for event in front.step(cell, round).unwrap() {
            if let Happened::Launched { task, .. } = event.happened {
                assert!(running.insert(task), "{task} is launched twice");
            }
        }
        if running.len() == 2 * TASKS as usize {
            break;
        }
        frameworks.iter().for_each(|framework| answer(&mut front, *framework));
        std::thread::yield_now();
    }
    front.counters()
}

/// Requests all containers of a job from a request frontend. Once some containers are allocated, the other clients
/// begin.
fn asks(cell: &SharedCell, id: JobId, begun: &Barrier) -> yarn::Counters {
    let settings = yarn::Settings {
        machine_delay: 3,
        rack_delay: 3,
        claims_max: 11,
        ..yarn::Settings::new("asks")
    };
    let mut front = yarn::Frontend::new(cell, Profile::batch(), settings).unwrap();
    front.step(cell, 0).unwrap();
    assert_eq!(front.join("c-job", 0), Ok(id));
    let near = Ask::near("main", "m3", "r1", 200);
    let mut heartbeat = Heartbeat::asking(near);
    heartbeat.asks[2] = Ask::new("main", Place::Anywhere, TASKS);
    let (mut running, mut others_run) = (BTreeSet::new(), false);
    for round in 0.. {
        front.step(cell, round).unwrap();
        for container in
            front.heartbeat(id, std::mem::take(&mut heartbeat), round).unwrap().allocated
        {
            assert!(running.insert(container.task), "{} is allocated twice", container.task);
        }
        if front.counters().on_machine > 0 && !std::mem::replace(&mut others_run, true) {
            begun.wait();
        }
        if running.len() == TASKS as usize {
            break;
        }
        std::thread::yield_now();
    }
    front.counters()
}

#[test]
fn three_kinds_of_client_place_all_their_work_on_one_cell_at_once() {
    let cell = cell(&[[10_000, 100]; 40]);
    for (scheduler, tenant) in [("one", "one"), ("two", "two"), ("offers", "a"), ("offers", "b")] {
        job(&cell, scheduler, tenant);
    }
    let asked = job(&cell, "asks", "c");
    let begun = Barrier::new(4);
    let (placed, offered, asked) = std::thread::scope(|scope| {
        let [one, two] =
            ["one", "two"].map(|name| scope.spawn(|| (begun.wait(), scheduler(&cell, name)).1));
        let offers = scope.spawn(|| (begun.wait(), offers(&cell)).1);
        let asks = scope.spawn(|| asks(&cell, asked, &begun));
        let audits = scope.spawn(|| {
            for _ in 0..50 {
                cell.read(Cell::audit_no_overcommit).expect("the cell is right");
                std::thread::yield_now();
            }
        });
        audits.join().unwrap();
        let placed = [one.join().unwrap().0, two.join().unwrap().0];
        (placed, offers.join().unwrap(), asks.join().unwrap())
    });
    cell.read(Cell::audit_no_overcommit).expect("the cell is right");
    let tasks = u64::from(TASKS);
    assert_eq!((placed, offered.launched, asked.allocated()), ([600; 2], 2 * tasks, tasks));
    let running: usize = cell.read(|cell| cell.machines().map(|machine| machine.tasks.len()).sum());
    assert_eq!(running, 5 * TASKS as usize, "what all clients were told is what the cell has");
    assert!(asked.on_machine > 0 && asked.elsewhere > 0, "{asked:?}");
}
