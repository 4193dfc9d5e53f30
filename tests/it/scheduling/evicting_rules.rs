//! Eviction of tasks that have rules about other tasks.

use crate::cell::small::{LONG, assert_settled, cell, job, placed, submit};
use omega_cellstate::{Cell, CellHandle, Delta, HandleError, Interest, SharedCell};
use omega_core::{
    Commit, Job, Precedence, SchedulerId, TaskRule, TaskSelector, Text, TopologyLevel, Transaction,
    Version,
};
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
use std::sync::Mutex;

/// A cell whose deltas arrive later than its replies, as over a network: each sync returns the state before the last
/// commit.
struct Lagging<'a> {
    cell: &'a SharedCell,
    seen: Mutex<SharedCell>,
}

impl Lagging<'_> {
    fn of(cell: &SharedCell) -> Lagging<'_> {
        let seen = Mutex::new(SharedCell::new(cell.read(Cell::clone)));
        Lagging { cell, seen }
    }

    fn catch_up(&self) {
        *self.seen.lock().unwrap() = SharedCell::new(self.cell.read(Cell::clone));
    }
}

impl CellHandle for Lagging<'_> {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(&self, since: Version, of: &Interest, delta: &mut Delta) -> Result<(), HandleError> {
        self.seen.lock().unwrap().sync(since, of, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.catch_up();
        self.cell.commit(txn)
    }
}

fn apart(mut job: Job) -> Job {
    let (from, level) = (TaskSelector::SameJob, TopologyLevel::Machine);
    job.groups[0].rules.tasks.push(TaskRule::AntiAffinity { from, level });
    job
}

/// An evicted task stays in its machine's list until the next delta, and must not be evicted again until then.
#[test]
fn tasks_with_rules_are_evicted_once_though_deltas_come_late() {
    for base in [Profile::batch, Profile::service, Profile::first_fit] {
        let cell = cell(&[8, 8, 8]);
        let lagging = Lagging::of(&cell);
        let profile = base().with_post_filter(DefaultPreemption::default());
        let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
        let of = |precedence, job: Job| Job { precedence: Precedence(precedence), ..job };
        let jobs = [
            of(0, apart(job("low", 3, 2))),
            of(10, apart(job("middle", 3, 2))),
            of(50, job("large", 3, 4)),
            of(50, apart(job("small", 1, 2))),
            of(50, apart(job("last", 3, 4))),
        ];
        let mut now = 0;
        let ids = jobs.map(|job| {
            let id = submit(&cell, job);
            for _ in 0..3 {
                lagging.catch_up();
                for _ in 0..2 {
                    now += LONG;
                    while !scheduler.step(&lagging, now, &mut Unobserved).unwrap().idle {}
                }
            }
            id
        });
        assert_settled(&mut scheduler, &cell, now + LONG);
        assert_eq!(ids.map(|id| placed(&cell, id)), [0, 1, 3, 1, 2]);
    }
}
