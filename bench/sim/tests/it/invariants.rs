//! Invariants of every run: no machine is overcommitted, no task is lost, and equal inputs give equal runs.

use crate::support::{Case, FINE, SLOW, modes};
use omega_sim::engine::{
    Access, Attempt, Cell, CommitMode, DecisionTime, Ended, OfferSettings, Records, Retries,
    Running, Survey, Taken, run_offers, run_queues,
};
use omega_sim::reference::{JavaRandom, ReferenceCell, Request};

/// A cell that is checked after every event.
struct Watched<'a>(ReferenceCell<'a>);

impl Watched<'_> {
    fn check(&self) {
        // The tolerance is far above the rounding errors of adding and subtracting amounts.
        assert!(self.0.overcommitted() < 1e-9, "overcommitted by {}", self.0.overcommitted());
    }
}

impl Cell for Watched<'_> {
    fn copy(&mut self, scheduler: usize) {
        self.0.copy(scheduler);
    }

    fn attempt(&mut self, scheduler: usize, job: usize, tasks: u32, access: Access) -> Attempt {
        let attempt = self.0.attempt(scheduler, job, tasks, access);
        self.check();
        attempt
    }

    fn arrive(&mut self, job: usize) -> Running {
        self.0.arrive(job)
    }

    fn runs_for(&self, run: Taken) -> Option<f64> {
        self.0.runs_for(run)
    }

    fn end(&mut self, run: Taken) -> Ended {
        let ended = self.0.end(run);
        self.check();
        ended
    }

    fn used(&self) -> [f64; 2] {
        self.0.used()
    }
}

/// A cell with too little room: random jobs of many sizes, for four schedulers with long decisions.
fn crowd(seed: i64) -> Case {
    let mut random = JavaRandom::new(seed);
    let mut draw = |below| f64::from(random.below(below));
    let jobs: Vec<(f64, u32, f64)> =
        (0..400).map(|_| (draw(500), 1 + draw(30) as u32, 1.0 + draw(90))).collect();
    let mut case = Case::new(jobs);
    for (at, task) in case.tasks.iter_mut().enumerate() {
        task.request = Request { cpu: 0.1 + draw(60) / 10.0, memory: 0.1 + draw(120) / 10.0 };
        case.owners[at] = at as u32 % 4;
    }
    case.arrivals.sort_by(|a, b| {
        case.jobs[*a as usize].submit_s.total_cmp(&case.jobs[*b as usize].submit_s)
    });
    case.schedulers = vec![SLOW; 4];
    for scheduler in &mut case.schedulers {
        scheduler.batch = DecisionTime { job_s: 1.5, task_s: 0.25 };
    }
    (case.end_s, case.survey) = (900.0, Survey::EverySecond);
    case.retries = [Retries::Limited, Retries::Unlimited][seed as usize % 2];
    case
}

/// Checks that every task is pending, running or ended, and that jobs with pending tasks are queued or abandoned.
fn check_conserved(case: &Case, records: &Records, running: u64) {
    let all: u64 = case.jobs.iter().map(|job| u64::from(job.tasks)).sum();
    let unplaced: u64 = records.jobs.iter().map(|job| u64::from(job.unplaced)).sum();
    let taken: u64 = records.schedulers.iter().map(|record| record.claims_taken).sum();
    assert_eq!(all, unplaced + taken);
    assert_eq!(taken, running + records.ended);
    let abandoned = records.jobs.iter().filter(|job| job.abandoned).count() as u64;
    assert_eq!(abandoned, records.schedulers.iter().map(|record| record.abandoned).sum::<u64>());
    assert!(records.jobs.iter().all(|job| !job.abandoned || job.unplaced > 0));
}

fn run(case: &Case, mode: CommitMode, access: Access) -> Records {
    let mut cell = Watched(case.cell(20, mode));
    let records = run_queues(&case.plan(), access, &mut cell);
    check_conserved(case, &records, cell.0.running());
    records
}

#[test]
fn no_machine_is_ever_overcommitted_and_no_task_is_lost() {
    for seed in 0..20 {
        let case = crowd(seed);
        println!("seed {seed}");
        for mode in modes() {
            let records = run(&case, mode, Access::Copy);
            let failed: u64 = records.schedulers.iter().map(|record| record.failed).sum();
            assert!(failed > 10, "{mode:?}: {failed} conflicts are too few to tell");
        }
    }
}

#[test]
fn one_scheduler_alone_meets_no_conflict() {
    let mut case = crowd(1);
    case.schedulers.truncate(1);
    case.owners.fill(0);
    let live = run(&case, FINE, Access::Live);
    for mode in modes() {
        let records = run(&case, mode, Access::Copy);
        assert_eq!((records.schedulers[0].failed, records.schedulers[0].claims_refused), (0, 0));
    }
    assert!(live.schedulers[0].claims_taken > 1000, "{:?}", live.schedulers[0]);
}

#[test]
fn the_same_input_gives_the_same_run() {
    let case = crowd(7);
    for mode in modes() {
        let records = run(&case, mode, Access::Copy);
        assert_eq!(format!("{records:?}"), format!("{:?}", run(&case, mode, Access::Copy)));
        assert_ne!(records, run(&crowd(8), mode, Access::Copy));
    }
}

#[test]
fn offers_meet_no_conflict_and_lose_no_task() {
    let settings = OfferSettings { gather_s: 1.0, decide_s: 0.001, processors_min: 10.0 };
    for seed in 0..20 {
        let case = crowd(seed);
        let mut cell = case.cell(20, FINE);
        let records = run_offers(&case.plan(), settings, &mut cell);
        check_conserved(&case, &records, cell.running());
        assert!(records.schedulers.iter().all(|record| record.failed == 0));
        assert!(records.ended > 100, "seed {seed}: {} ended", records.ended);
        assert!(cell.overcommitted() < 1e-9, "seed {seed}");
    }
}
