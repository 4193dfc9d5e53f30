//! Small runs with results computed by hand, like the reference's own tests.

use crate::support::{COARSE, Case, FINE, SLOW};
use omega_core::Granularity;
use omega_sim::engine::{
    Access, Cell, CommitMode, Records, Retries, SizedCell, Sizing, run_queues,
};
use omega_sim::reference::Request;

fn run(case: &Case, machines: u32, access: Access) -> Records {
    let mut cell = case.cell(machines, COARSE);
    let records = run_queues(&case.plan(), access, &mut cell);
    assert_eq!(cell.running(), 0, "all tasks have ended");
    records
}

#[test]
fn four_jobs_that_come_together_end_when_the_last_task_of_the_last_one_does() {
    // Job i has i tasks that run for i seconds, and its decision takes 1 + i seconds. All decisions together take 14
    // seconds.
    let in_order = |jobs: [u32; 4]| Case::new(jobs.map(|i| (0.0, i, f64::from(i))));
    assert_eq!(run(&in_order([1, 2, 3, 4]), 1, Access::Live).now_s, 14.0 + 4.0);
    // The reference's heap returns these four jobs in another order, and the reference's test expects the end time that
    // this order gives.
    assert_eq!(run(&in_order([1, 4, 2, 3]), 1, Access::Live).now_s, 17.0);
}

#[test]
fn jobs_wait_for_those_before_them() {
    let records =
        run(&Case::new((1..=4).map(|i| (f64::from(i), i, f64::from(i)))), 1, Access::Live);
    let waits: Vec<f64> = records.jobs.iter().map(|job| job.wait_s).collect();
    assert_eq!(waits, [0.0, 1.0, 3.0, 6.0]);
    assert_eq!(records.schedulers[0].useful_s, 14.0);
}

#[test]
fn forty_jobs_of_one_task_on_a_shared_state_end_at_121() {
    let records =
        run(&Case::new((1..=40).map(|i| (f64::from(i), 1, f64::from(i)))), 1000, Access::Copy);
    assert_eq!(records.now_s, 121.0);
    assert_eq!((records.schedulers[0].succeeded, records.schedulers[0].failed), (40, 0));
}

/// On a cell of one machine, scheduler 0 places two tasks and scheduler 1 places one. Scheduler 1 commits while
/// scheduler 0 decides.
fn foreign_claim(mode: CommitMode, cpu: f64) -> (u32, u32) {
    let mut case = Case::new([(0.0, 2, 1.0), (0.0, 1, 1.0)]);
    case.schedulers = vec![SLOW; 2];
    case.tasks.iter_mut().for_each(|task| task.request.cpu = cpu);
    let mut cell = case.cell(1, mode);
    cell.copy(0);
    cell.copy(1);
    let foreign = cell.attempt(1, 1, 1, Access::Copy);
    assert_eq!((foreign.claimed, foreign.taken), (1, 1));
    let mine = cell.attempt(0, 0, 2, Access::Copy);
    assert!(cell.overcommitted() <= 0.0);
    (mine.claimed, mine.taken)
}

#[test]
fn a_foreign_claim_refuses_every_claim_on_its_machine_by_sequence_number() {
    assert_eq!(foreign_claim(COARSE, 1.0), (2, 0));
    // The second claim has the sequence number that the other scheduler's claim has set; nevertheless, it must be
    // rejected.
    assert_eq!(foreign_claim(COARSE, 5.0), (2, 0));
}

#[test]
fn a_foreign_claim_refuses_by_fit_only_what_has_no_room_any_more() {
    assert_eq!(foreign_claim(FINE, 1.0), (2, 2));
    assert_eq!(foreign_claim(FINE, 5.0), (2, 1));
    let whole = CommitMode { granularity: Granularity::AllOrNothing, ..FINE };
    assert_eq!(foreign_claim(whole, 5.0), (2, 0));
}

#[test]
fn a_job_that_finds_no_room_is_given_up_after_a_hundred_attempts_and_one() {
    let mut case = Case::new([(0.0, 1, 1.0)]);
    case.tasks[0].request.cpu = 11.0;
    let records = run(&case, 3, Access::Copy);
    let (mine, job) = (records.schedulers[0], records.jobs[0]);
    assert_eq!((mine.no_room, mine.abandoned, mine.useful_s + mine.wasted_s), (101, 1, 0.0));
    assert!(job.abandoned && job.unplaced == 1 && job.attempts == 101);
}

#[test]
fn a_job_that_finds_no_room_is_tried_again_once_room_is_freed() {
    // The first job fills the only machine from second 11 to second 611. The second one finds no room in second 13 and,
    // after five minutes of sleep, in second 316. It is tried for the third time once the first one ends.
    let mut case = Case::new([(0.0, 10, 600.0), (1.0, 1, 5.0)]);
    case.retries = Retries::Unlimited;
    let records = run(&case, 1, Access::Copy);
    let job = records.jobs[1];
    assert_eq!((job.attempts, job.placed_s, job.abandoned), (3, 612.0, false));
    case.retries = Retries::Limited;
    assert!(run(&case, 1, Access::Copy).jobs[1].abandoned);
}

#[test]
fn a_job_without_room_is_tried_now_and_then() {
    let mut case = Case::new([(0.0, 1, 1.0)]);
    case.tasks[0].request.cpu = 11.0;
    (case.retries, case.end_s) = (Retries::Unlimited, 3000.0);
    let job = run(&case, 3, Access::Copy).jobs[0];
    assert_eq!((job.attempts, job.unplaced, job.abandoned), (10, 1, false));
}

#[test]
fn machines_that_are_left_out_are_not_drawn() {
    let mut case = Case::new([(0.0, 40, 100.0)]);
    case.end_s = 200.0;
    let placers = [omega_sim::reference::CellPlacer { seed: 1, left_out: 2 }];
    let capacity = Request { cpu: 10.0, memory: 20.0 };
    let mut cell =
        omega_sim::reference::ReferenceCell::new(4, capacity, &placers, FINE, &case.tasks);
    let attempt = cell.attempt(0, 0, 40, Access::Live);
    assert_eq!((attempt.claimed, attempt.taken), (20, 20));
}

/// A rule that computes every job's number of tasks from the requested number and the allocation at its first decision.
struct Rule(fn(u32, [f64; 2]) -> u32);

impl Sizing for Rule {
    fn tasks(&mut self, _: usize, asked: u32, used: [f64; 2]) -> u32 {
        (self.0)(asked, used)
    }
}

#[test]
fn a_job_of_twice_the_tasks_is_over_in_half_the_time() {
    // The job requests two tasks of eight seconds each, whose decision takes 1 + 2 seconds. If it gets four tasks, each
    // runs for four seconds, and the decision takes 1 + 4 seconds.
    let case = Case::new([(0.0, 2, 8.0)]);
    let run = |rule| {
        let mut cell = SizedCell::new(case.cell(1, FINE), Rule(rule), 1);
        let records = run_queues(&case.plan(), Access::Live, &mut cell);
        (records.now_s, records.ended, records.jobs[0].tasks, cell.finish().speeds[0])
    };
    assert_eq!(run(|asked, _| asked), (3.0 + 8.0, 2, 2, 1.0));
    assert_eq!(run(|asked, _| 2 * asked), (5.0 + 4.0, 4, 4, 2.0));
    assert_eq!(run(|_, _| 0), (2.0 + 16.0, 1, 1, 0.5), "a job has a task at least");
}

#[test]
fn a_job_is_sized_by_what_is_used_when_its_first_decision_begins() {
    // The first job uses all ten idle processors. No processor is idle then, so the second job gets the requested
    // number of tasks.
    let case = Case::new([(0.0, 4, 100.0), (1.0, 1, 1.0)]);
    let idle = |asked: u32, used: [f64; 2]| asked.max(10 - (used[0] * 10.0).round() as u32);
    let mut cell = SizedCell::new(case.cell(1, FINE), Rule(idle), 2);
    let records = run_queues(&case.plan(), Access::Live, &mut cell);
    assert_eq!(records.jobs.iter().map(|job| job.tasks).collect::<Vec<_>>(), [10, 1]);
    assert_eq!(cell.finish().speeds, [2.5, 1.0]);
}
