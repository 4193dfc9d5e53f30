//! The plugin that makes room by evicting, step by step.

use crate::cell::small::{
    LONG, add_machine, amounts, assert_settled, cell, job, placed, report, run, step, submit, task,
};
use omega_cellstate::{BLOCK, Block, CellHandle, CommitHook, SharedCell, TaskSet};
use omega_core::{
    Amounts, Commit, Job, JobId, KindId, LabelSelector, Labels, Machine, Precedence, Preemption,
    Requirement, TaskReport, Transaction,
};
use omega_schedulers::disruption::{DisruptionBudget, Keep, Share};
use omega_schedulers::plugins::{CandidateMachines, DefaultPreemption};
use omega_schedulers::{Filter, Observer, Profile, Reads, Scheduler, Settings, Tasks};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn evicting(cell: &impl CellHandle) -> Scheduler {
    with_plugin(cell, DefaultPreemption::default())
}

fn with_plugin(cell: &impl CellHandle, plugin: DefaultPreemption) -> Scheduler {
    let profile = Profile::batch().with_post_filter(plugin);
    Scheduler::new(cell, profile, Settings::new("default")).unwrap()
}

fn important(name: &str, tasks: u32, cores: u64) -> Job {
    Job { precedence: Precedence(1), ..job(name, tasks, cores) }
}

/// Submitted and committed transactions.
#[derive(Default)]
struct Seen {
    decisions: usize,
    transactions: usize,
    evictions: usize,
}

impl Observer for Seen {
    fn deciding(&mut self) {
        self.decisions += 1;
    }

    fn committed(&mut self, txn: &Transaction, _: &Commit) {
        self.transactions += 1;
        self.evictions += txn.evictions.len();
    }
}

fn run_seen(scheduler: &mut Scheduler, cell: &SharedCell, now: u64) -> Seen {
    let mut seen = Seen::default();
    while !scheduler.step(cell, now, &mut seen).unwrap().idle {}
    seen
}

#[test]
fn a_task_that_finds_no_machine_evicts_who_hurts_least() {
    let cell = cell(&[4, 4]);
    let lowest = submit(&cell, Job { precedence: Precedence(-1), ..job("lowest", 4, 1) });
    let mut scheduler = evicting(&cell);
    run(&mut scheduler, &cell, 0);
    let low = submit(&cell, job("low", 1, 4));
    run(&mut scheduler, &cell, 0);
    assert_eq!((placed(&cell, low), placed(&cell, lowest)), (1, 4));
    let high = submit(&cell, important("high", 1, 2));
    let seen = run_seen(&mut scheduler, &cell, 0);
    assert_eq!((seen.evictions, placed(&cell, high)), (2, 1));
    assert_eq!((placed(&cell, low), placed(&cell, lowest)), (1, 2));
    assert_settled(&mut scheduler, &cell, LONG);
    assert_eq!(scheduler.queue().unplaceable(), [(lowest, 2)], "they are pending again");
}

#[test]
fn nobody_is_evicted_for_a_job_that_never_preempts_or_is_no_more_important() {
    for (precedence, preemption) in
        [(1, Preemption::Never), (0, Preemption::LowerPrecedence), (-1, Preemption::default())]
    {
        let cell = cell(&[4]);
        let low = submit(&cell, job("low", 4, 1));
        let mut scheduler = evicting(&cell);
        run(&mut scheduler, &cell, 0);
        let precedence = Precedence(precedence);
        submit(&cell, Job { precedence, preemption, ..job("high", 1, 2) });
        for now in 0..5 {
            assert_eq!(run_seen(&mut scheduler, &cell, now * LONG).transactions, 0);
        }
        assert_eq!(placed(&cell, low), 4);
        assert_settled(&mut scheduler, &cell, 5 * LONG);
    }
}

/// Each of two jobs could evict the other. The more important one gets the machine, and then there are no further
/// evictions.
#[test]
fn who_was_evicted_does_not_come_back_at_the_cost_of_others() {
    let cell = cell(&[2, 2]);
    let jobs = [0, 1, 2, 3].map(|precedence| {
        let precedence = Precedence(precedence);
        submit(&cell, Job { precedence, ..job(&format!("p{precedence:?}"), 1, 2) })
    });
    let mut schedulers = ["a", "b"].map(|name| {
        let settings = Settings { takes: "default".into(), ..Settings::new(name) };
        let profile = Profile::service().with_post_filter(DefaultPreemption::default());
        Scheduler::new(&cell, profile, settings).unwrap()
    });
    for now in 0..4 {
        for scheduler in &mut schedulers {
            run(scheduler, &cell, now * LONG);
        }
    }
    assert_eq!(jobs.map(|id| placed(&cell, id)), [0, 0, 1, 1]);
    let before = cell.read(|cell| cell.version());
    for now in 4..10 {
        for scheduler in &mut schedulers {
            run(scheduler, &cell, now * LONG);
        }
    }
    assert_eq!(cell.read(|cell| cell.version()), before, "nothing moves any more");
}

#[test]
fn no_eviction_is_submitted_for_a_gang_that_stays_too_small() {
    let cell = cell(&[4, 4]);
    let low = submit(&cell, job("low", 8, 1));
    let mut scheduler = evicting(&cell);
    run(&mut scheduler, &cell, 0);
    // Evictions would make room for two of the gang's tasks, but not for the third.
    let gang = Job { gang_min: Some(3), ..important("gang", 3, 3) };
    let gang = submit(&cell, gang);
    let before = cell.read(|cell| cell.version());
    for now in 0..5 {
        let seen = run_seen(&mut scheduler, &cell, now * LONG);
        assert_eq!((seen.transactions, seen.evictions), (0, 0));
        assert_eq!(scheduler.view().open_evictions(), 0);
    }
    assert_eq!(cell.read(|cell| cell.version()), before);
    assert_eq!((placed(&cell, gang), placed(&cell, low)), (0, 8));
    assert_settled(&mut scheduler, &cell, 5 * LONG);
    // With one more machine, the gang fits.
    add_machine(&cell, Machine::new("more", amounts(4)));
    let seen = run_seen(&mut scheduler, &cell, 6 * LONG);
    assert_eq!((placed(&cell, gang), seen.evictions), (3, 6));
    run(&mut scheduler, &cell, 7 * LONG);
    assert_settled(&mut scheduler, &cell, 8 * LONG);
}

#[test]
fn claims_of_one_transaction_evict_different_tasks() {
    let cell = cell(&[4]);
    let low = submit(&cell, job("low", 4, 1));
    let mut scheduler = evicting(&cell);
    run(&mut scheduler, &cell, 0);
    let high = submit(&cell, important("high", 3, 1));
    let seen = run_seen(&mut scheduler, &cell, 0);
    assert_eq!((seen.transactions, seen.evictions), (1, 3));
    assert_eq!((placed(&cell, high), placed(&cell, low)), (3, 1));
    assert_settled(&mut scheduler, &cell, LONG);
}

/// If free resources alone do not suffice, evictions supplement them.
#[test]
fn room_that_comes_free_wakes_who_can_evict_the_rest() {
    let cell = cell(&[4]);
    let peer = submit(&cell, important("peer", 1, 2));
    let low = submit(&cell, job("low", 2, 1));
    let mut scheduler = evicting(&cell);
    run(&mut scheduler, &cell, 0);
    let high = submit(&cell, important("high", 1, 3));
    for now in 0..4 {
        run(&mut scheduler, &cell, now * LONG);
    }
    assert_eq!((placed(&cell, high), placed(&cell, low)), (0, 2));
    report(&cell, task(low, 0), TaskReport::Finished);
    // One core is free, and one could be freed by an eviction. That is not enough for the job, so it is not woken.
    let seen = run_seen(&mut scheduler, &cell, 4 * LONG);
    assert_eq!((seen.decisions, placed(&cell, high)), (0, 0));
    report(&cell, task(peer, 0), TaskReport::Finished);
    run(&mut scheduler, &cell, 5 * LONG);
    run(&mut scheduler, &cell, 6 * LONG);
    assert_eq!((placed(&cell, high), placed(&cell, low)), (1, 1), "three were free");
    assert_settled(&mut scheduler, &cell, 7 * LONG);
}

/// Rejects every machine, and counts its calls.
struct Closed(Arc<AtomicUsize>);

impl Filter for Closed {
    fn name(&self) -> &'static str {
        "closed"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.job.precedence > Precedence(0)
    }

    fn filter(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        0
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }
}

#[test]
fn a_job_that_no_eviction_helps_costs_one_pass() {
    let machines = 3 * BLOCK;
    let cell = cell(&vec![4; machines]);
    let asked = Arc::new(AtomicUsize::new(0));
    let profile = Profile::of_filters(vec![Box::new(Closed(asked.clone()))])
        .with_post_filter(DefaultPreemption::default());
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    submit(&cell, job("low", machines as u32, 1));
    run(&mut scheduler, &cell, 0);
    submit(&cell, important("high", 1, 1));
    step(&mut scheduler, &cell, 0);
    // For each block of machines, the filter is called once for the search, and once to find victims.
    assert_eq!(asked.load(Ordering::Relaxed), 2 * machines / BLOCK);
}

fn labelled(mut job: Job, app: &str) -> Job {
    job.groups[0].labels = Labels::new([("app", app)]);
    job
}

fn budget(app: &str, keep: Keep) -> DisruptionBudget {
    let requirements = vec![Requirement::equals("app", app)];
    let set = TaskSet { tenant: "default".into(), tasks: LabelSelector { requirements } };
    DisruptionBudget { set, keep }
}

#[test]
fn a_budget_protects_what_it_can_and_counts_what_is_about_to_go() {
    let cell = cell(&[4, 4]);
    let db = submit(&cell, labelled(job("db", 4, 1), "db"));
    let candidates = CandidateMachines::default();
    let keep = Keep::MaxUnavailable(Share::Percent(25));
    let mut scheduler =
        with_plugin(&cell, DefaultPreemption::new(candidates, vec![budget("web", keep)]));
    run(&mut scheduler, &cell, 0);
    // These tasks are younger than the others, so they would be evicted first.
    let web = submit(&cell, labelled(job("web", 4, 1), "web"));
    run(&mut scheduler, &cell, 0);
    let high = Job { precedence: Precedence(2), ..job("high", 3, 1) };
    let high = submit(&cell, high);
    let seen = run_seen(&mut scheduler, &cell, 0);
    assert_eq!((seen.transactions, seen.evictions, placed(&cell, high)), (1, 3, 3));
    assert_eq!((placed(&cell, web), placed(&cell, db)), (3, 2), "one of four may go");
    // A budget is violated only if nothing else makes room.
    let highest = Job { precedence: Precedence(3), ..job("highest", 2, 4) };
    let highest = submit(&cell, highest);
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, highest), placed(&cell, web)), (2, 0));
    assert_settled(&mut scheduler, &cell, 2 * LONG);
}

#[test]
fn the_plugin_tries_as_many_machines_as_it_is_to() {
    let machines = 4 * BLOCK;
    let cell = cell(&vec![1; machines]);
    // Only one machine has a victim of the lowest precedence, so a search of few machines may miss it.
    let lowest = submit(&cell, Job { precedence: Precedence(-5), ..job("lowest", 1, 1) });
    let mut missed = 0;
    let low = submit(&cell, job("low", machines as u32 - 1, 1));
    let mut filler = evicting(&cell);
    run(&mut filler, &cell, 0);
    assert_eq!((placed(&cell, lowest), placed(&cell, low)), (1, machines - 1));
    for index in 0..8u32 {
        let copy = SharedCell::new(cell.read(|cell| cell.clone()));
        for other in 0..index {
            copy.register(format!("s{other}").into()).unwrap();
        }
        let candidates = CandidateMachines { percentage: 0, absolute: 1 };
        let plugin = DefaultPreemption::new(candidates, Vec::new());
        let profile = Profile::batch().with_post_filter(plugin);
        let settings = Settings { takes: "default".into(), ..Settings::new(format!("m{index}")) };
        let mut scheduler = Scheduler::new(&copy, profile, settings).unwrap();
        let high = submit(&copy, important("high", 1, 1));
        let seen = run_seen(&mut scheduler, &copy, 0);
        assert_eq!(placed(&copy, high), 1);
        // If a task of `low` is evicted instead, the evicted task then evicts the task of `lowest`.
        missed += usize::from(seen.evictions > 1);
    }
    assert!(missed > 0, "all looked at every machine");
    let every = CandidateMachines { percentage: 100, absolute: 1 };
    let mut thorough = with_plugin(&cell, DefaultPreemption::new(every, Vec::new()));
    let high = submit(&cell, important("high", 1, 1));
    let seen = run_seen(&mut thorough, &cell, 0);
    assert_eq!((seen.evictions, placed(&cell, high), placed(&cell, lowest)), (1, 1, 0));
}

/// If another scheduler takes the resources of a claim, the claim's evictions do not happen.
#[test]
fn what_is_refused_evicts_nobody() {
    let cell = cell(&[4]);
    let low = submit(&cell, job("low", 3, 1));
    let mut scheduler = evicting(&cell);
    run(&mut scheduler, &cell, 0);
    let high = submit(&cell, important("high", 1, 2));
    // Another scheduler takes a core just before the first commit.
    let racing = CommitHook::new(&cell, |cell: &SharedCell, txns: &[&Transaction]| {
        submit(cell, Job { scheduler: "other".into(), ..important("other", 1, 1) });
        run(&mut crate::cell::small::scheduler(cell, "other"), cell, 0);
        cell.commit_all(txns)
    });
    step(&mut scheduler, &racing, 0);
    assert_eq!((placed(&cell, high), placed(&cell, low)), (0, 3));
    let cpu = |scheduler: &Scheduler| scheduler.view().free(0, KindId::CPU);
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, high), placed(&cell, low)), (1, 1));
    assert_eq!(cpu(&scheduler), 0);
    assert_settled(&mut scheduler, &cell, 2 * LONG);
}

#[test]
fn requests_of_nothing_evict_nobody() {
    let cell = cell(&[1]);
    let low = submit(&cell, job("low", 1, 1));
    let mut scheduler = evicting(&cell);
    run(&mut scheduler, &cell, 0);
    let mut nothing = important("nothing", 2, 1);
    nothing.groups[0].request = Amounts::zero();
    let nothing: JobId = submit(&cell, nothing);
    assert_eq!(run_seen(&mut scheduler, &cell, 0).evictions, 0);
    assert_eq!((placed(&cell, nothing), placed(&cell, low)), (2, 1));
}
