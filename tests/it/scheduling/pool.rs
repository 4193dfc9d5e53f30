//! The pool: each scheduler runs on its own thread, over connections that break.

use crate::cell::small::{add_machine, amounts, assert_settled, job, placed, submit};
use omega_cellstate::{
    Cell, CellHandle, CommitHook, Delta, HandleError, Interest, SharedCell, View, Wake,
};
use omega_core::{
    Commit, Job, JobId, Kinds, Machine, SchedulerId, Text, Transaction, TransactionError, Version,
};
use omega_schedulers::{
    Clock, Lack, MadeRoom, Nanos, Observer, Pool, PostFilter, Profile, Scheduler, Settings,
    Unobserved,
};
use omega_tests::faulty::FaultyCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// A clock that advances by a tenth of a millisecond at each reading.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Nanos {
        self.0.fetch_add(100_000, Ordering::Relaxed)
    }
}

/// Observer that counts the placements of all workers, and ends the run at a given number.
struct Count<'a> {
    placed: &'a AtomicUsize,
    wanted: usize,
    done: Sender<()>,
}

impl Observer for Count<'_> {
    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        let taken = txn.claims.len() - commit.conflicts.len();
        if self.placed.fetch_add(taken, Ordering::SeqCst) + taken == self.wanted {
            self.done.send(()).unwrap();
        }
    }
}

fn workers(cell: &impl CellHandle, count: u32) -> Vec<Scheduler> {
    let worker = |index| {
        let settings = Settings {
            claims_max: 7,
            commits_in_flight: 1 + index as usize,
            ..Settings::worker("default", index, count)
        };
        Scheduler::new(cell, Profile::service(), settings).unwrap()
    };
    (0..count).map(worker).collect()
}

fn large_cell() -> SharedCell {
    let cell = SharedCell::new(Cell::with_change_limit(Kinds::standard(), 200));
    for i in 0..50 {
        add_machine(&cell, Machine::new(format!("m{i}"), amounts(40)));
    }
    cell
}

#[test]
fn four_workers_place_every_task_once_over_a_connection_that_breaks() {
    let cell = large_cell();
    let handle = FaultyCell::new(&cell, 11, 20);
    let clock = Ticks::default();
    let total = AtomicUsize::new(0);
    let (done, all_placed) = channel();
    // The jobs have as many tasks as fit.
    let jobs: Vec<JobId> = (0..40).map(|i| submit(&cell, job(&format!("j{i}"), 50, 1))).collect();
    let mut ended = std::thread::scope(|scope| {
        let observer = || Count { placed: &total, wanted: 2000, done: done.clone() };
        let schedulers = workers(&handle, 4).into_iter().map(|s| (s, observer())).collect();
        let pool = Pool::start(scope, &handle, &clock, schedulers);
        pool.wake();
        all_placed.recv().unwrap();
        pool.stop()
    });
    handle.heal();
    assert!(jobs.iter().all(|job| placed(&cell, *job) == 50));
    cell.read(|cell| cell.audit_no_overcommit()).expect("the cell is right");
    for worker in &mut ended {
        assert_eq!(worker.error, None);
        assert_settled(&mut worker.scheduler, &cell, u64::MAX / 2);
    }
    assert_eq!(total.into_inner(), 2000, "each claim was told as taken once");
}

#[test]
fn a_pool_stops_while_it_works_and_while_it_sleeps() {
    let cell = large_cell();
    let clock = Ticks::default();
    for tasks in [0, 2000] {
        if tasks > 0 {
            submit(&cell, job("large", tasks, 1));
        }
        let ended = std::thread::scope(|scope| {
            let schedulers = workers(&cell, 3).into_iter().map(|s| (s, Unobserved)).collect();
            Pool::start(scope, &cell, &clock, schedulers).stop()
        });
        assert_eq!(ended.len(), 3);
        assert!(ended.iter().all(|worker| worker.error.is_none()));
    }
}

/// A cell that wakes the schedulers of one name, and counts all syncs.
struct Watching {
    cell: SharedCell,
    watched: &'static str,
    wake: Mutex<Option<Wake>>,
    syncs: Mutex<HashMap<Text, usize>>,
}

impl Watching {
    fn syncs(&self, name: &str) -> usize {
        self.syncs.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

fn name_of(interest: &Interest) -> Text {
    match interest {
        Interest::JobsOf(name, _) => name.clone(),
        _ => "nobody".into(),
    }
}

impl CellHandle for Watching {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(&self, since: Version, of: &Interest, delta: &mut Delta) -> Result<(), HandleError> {
        *self.syncs.lock().unwrap().entry(name_of(of)).or_default() += 1;
        self.cell.sync(since, of, delta)
    }

    fn watch(&self, interest: &Interest, wake: Wake) -> bool {
        let watches = *name_of(interest) == *self.watched;
        if watches {
            *self.wake.lock().unwrap() = Some(wake);
        }
        watches
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        self.cell.commit(txn)
    }
}

#[test]
fn a_worker_whose_cell_wakes_it_does_not_look_all_the_time() {
    let cell = Watching {
        cell: large_cell(),
        watched: "watched",
        wake: Mutex::default(),
        syncs: Mutex::default(),
    };
    let clock = Ticks::default();
    let scheduler = |name: &str| {
        (Scheduler::new(&cell, Profile::batch(), Settings::new(name)).unwrap(), Unobserved)
    };
    let schedulers = ["watched", "looks"].map(scheduler);
    let ended = std::thread::scope(|scope| {
        let pool = Pool::start(scope, &cell, &clock, schedulers.into());
        // Even on a slow computer, one scheduler syncs every millisecond, and the other every quarter of a second.
        while cell.syncs("looks") < 100 {
            std::thread::yield_now();
        }
        assert!(cell.syncs("watched") < 50, "{} syncs", cell.syncs("watched"));
        let job = Job { scheduler: "watched".into(), ..job("j", 1, 1) };
        let id = submit(&cell.cell, job);
        let wake = cell.wake.lock().unwrap().clone().unwrap();
        wake();
        while placed(&cell.cell, id) == 0 {
            std::thread::yield_now();
        }
        // The cell still has the wake function, but this does not prevent the workers from ending.
        pool.stop()
    });
    assert!(ended.iter().all(|worker| worker.error.is_none()));
    cell.wake.lock().unwrap().take().unwrap()();
}

#[test]
fn a_worker_that_is_refused_ends_with_the_error_and_loses_nothing() {
    let cell = large_cell();
    let outdated = |txn: &&Transaction| Err(TransactionError::AnswerExpired(txn.id).into());
    let refusing = CommitHook::new(&cell, |_: &SharedCell, txns: &[&Transaction]| {
        txns.iter().map(outdated).collect()
    });
    submit(&cell, job("j", 5, 1));
    let clock = Ticks::default();
    let mut ended = std::thread::scope(|scope| {
        let schedulers = workers(&refusing, 2).into_iter().map(|s| (s, Unobserved)).collect();
        let pool = Pool::start(scope, &refusing, &clock, schedulers);
        while pool.running() > 1 {
            std::thread::yield_now();
        }
        pool.wake();
        pool.stop()
    });
    // The other worker has no jobs, and went on to look for some.
    assert_eq!(ended.len(), 2);
    assert_eq!(ended[1].error, None);
    assert!(matches!(
        ended[0].error,
        Some(HandleError::Refused(TransactionError::AnswerExpired(_)))
    ));
    assert_eq!(ended[0].scheduler.queue().pending_tasks(), 5);
    assert_settled(&mut ended[0].scheduler, &cell, u64::MAX / 2);
    assert_eq!(placed(&cell, JobId(0)), 5);
}

/// A post filter that makes no room, and panics for one of the jobs.
struct Poisoned(Arc<AtomicUsize>);

impl PostFilter for Poisoned {
    fn name(&self) -> &'static str {
        "poisoned"
    }

    fn make_room(&mut self, _: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert_ne!(*lack.job.name, *"poison", "a mistake of a plugin");
        None
    }
}

/// Observer that records jobs which were set aside after a panic, and ends the run at a number of placements.
struct Aside<'a>(Vec<(JobId, String)>, Count<'a>);

impl Observer for Aside<'_> {
    fn committed(&mut self, txn: &Transaction, commit: &Commit) {
        self.1.committed(txn, commit);
    }

    fn set_aside(&mut self, job: JobId, panic: &str) {
        self.0.push((job, panic.to_owned()));
    }
}

#[test]
fn a_job_on_which_a_plugin_panics_is_set_aside_and_the_others_are_placed() {
    let cell = large_cell();
    let clock = Ticks::default();
    let asked = Arc::new(AtomicUsize::new(0));
    let profile = Profile::batch().with_post_filter(Poisoned(asked.clone()));
    let scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    let poison = submit(&cell, job("poison", 1, 100));
    let too_large = submit(&cell, job("too large", 1, 100));
    let well = submit(&cell, job("well", 50, 1));
    let total = AtomicUsize::new(0);
    let (done, all_placed) = channel();
    let count = Count { placed: &total, wanted: 50, done };
    let mut ended = std::thread::scope(|scope| {
        let schedulers = vec![(scheduler, Aside(Vec::new(), count))];
        let pool = Pool::start(scope, &cell, &clock, schedulers);
        all_placed.recv().unwrap();
        assert_eq!(pool.running(), 1);
        pool.stop()
    });
    let worker = &mut ended[0];
    assert!(worker.scheduler.set_aside().eq([poison]));
    assert_eq!(worker.observer.0.len(), 1);
    assert_eq!(worker.observer.0[0].0, poison);
    assert!(worker.observer.0[0].1.contains("a mistake of a plugin"));
    assert_eq!((placed(&cell, well), placed(&cell, too_large)), (50, 0));
    assert!(asked.load(Ordering::SeqCst) > 1, "the plugin is asked for others as before");
}
