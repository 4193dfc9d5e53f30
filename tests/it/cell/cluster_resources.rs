//! Cluster resources in schedulers: the last licence, pending jobs, explanations, and races.

use crate::cell::small::{
    LONG, add_machine, amounts, placed, report, run, scheduler, submit, task,
};
use omega_cellstate::{Cell, SharedCell, View};
use omega_core::limits::QUOTA_MAX;
use omega_core::{
    Amounts, Command, Job, KindId, Kinds, Machine, Precedence, Preemption, Reason, ResourceKind,
    SchedulerId, TaskId, TaskReport, Unit,
};
use omega_schedulers::explain::{describe, describe_obstacle, describe_remedy};
use omega_schedulers::plugins::DefaultPreemption;
use omega_schedulers::{Observer, Profile, Scheduler, Settings, Unobserved};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first resource kind after the standard ones.
const LICENCE: KindId = KindId(4);

/// A cell with these licences, and machines with these cores.
fn licensed(cores: &[u64], licences: u64) -> SharedCell {
    let standard = Kinds::standard();
    let mut kinds: Vec<ResourceKind> = standard.iter().map(|(_, kind)| kind.clone()).collect();
    kinds.push(ResourceKind { name: "licence".into(), unit: Unit::Count, compressible: false });
    let cell = SharedCell::new(Cell::new(Kinds::new(kinds).unwrap()));
    for (i, cores) in cores.iter().enumerate() {
        add_machine(&cell, Machine::new(format!("m{i}"), amounts(*cores)));
    }
    set(&cell, licences);
    cell
}

fn set(cell: &SharedCell, amount: u64) {
    cell.apply(Command::SetClusterCapacity { kind: LICENCE, amount }).unwrap();
}

/// A job whose tasks have one core and claim this many licences each.
fn job(name: &str, tasks: u32, licences: u64) -> Job {
    let mut job = crate::cell::small::job(name, tasks, 1);
    job.groups[0].cluster_request = Amounts::zero().with(LICENCE, licences);
    job
}

fn claimed(cell: &SharedCell) -> u64 {
    cell.read(|cell| cell.resources().claimed.get(LICENCE))
}

/// Number of decisions so far.
#[derive(Default)]
struct Decisions(usize);

impl Observer for Decisions {
    fn deciding(&mut self) {
        self.0 += 1;
    }
}

#[test]
fn as_many_are_placed_as_there_are_licences_and_the_others_wait_for_one() {
    let cell = licensed(&[16, 16], 3);
    let [batch, plain] = [job("batch", 5, 1), job("plain", 4, 0)].map(|job| submit(&cell, job));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, batch), placed(&cell, plain), claimed(&cell)), (3, 4, 3));
    run(&mut scheduler, &cell, 2 * LONG);
    let mut seen = Decisions::default();
    for index in 0..4 {
        // A machine becomes free, but no licence.
        report(&cell, task(plain, index), TaskReport::Finished);
        scheduler.step(&cell, 2 * LONG, &mut seen).unwrap();
    }
    assert!(seen.0 <= 1, "room is not what it waits for: {} decisions", seen.0);
    report(&cell, task(batch, 0), TaskReport::Finished);
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!((placed(&cell, batch), claimed(&cell)), (3, 3));
    set(&cell, 9);
    run(&mut scheduler, &cell, 4 * LONG);
    assert_eq!((placed(&cell, batch), claimed(&cell)), (4, 4));
}

#[test]
fn what_is_claimed_stays_when_there_is_less() {
    let cell = licensed(&[16], 4);
    let first = submit(&cell, job("first", 4, 1));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    set(&cell, 2);
    let next = submit(&cell, job("next", 2, 1));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, first), placed(&cell, next)), (4, 0));
    for (index, left) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        report(&cell, task(first, index), TaskReport::Finished);
        run(&mut scheduler, &cell, (3 + u64::from(index)) * LONG);
        assert_eq!(placed(&cell, next), left, "after task {index}");
    }
    cell.read(Cell::audit).unwrap();
}

#[test]
fn a_gang_without_enough_licences_claims_none() {
    let cell = licensed(&[16], 3);
    let gang = Job { gang_min: Some(4), ..job("gang", 4, 1) };
    let [gang, single] = [gang, job("single", 3, 1)].map(|job| submit(&cell, job));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!((placed(&cell, gang), placed(&cell, single)), (0, 3));
    cell.apply(Command::KillJob { job: single }).unwrap();
    set(&cell, 4);
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, gang), claimed(&cell)), (4, 4));
}

#[test]
fn nobody_is_evicted_for_a_licence() {
    let cell = licensed(&[2], 1);
    let low = submit(&cell, job("low", 1, 1));
    let mut scheduler = Scheduler::new(
        &cell,
        Profile::first_fit().with_post_filter(DefaultPreemption::default()),
        Settings::new("default"),
    )
    .unwrap();
    run(&mut scheduler, &cell, LONG);
    let urgent = |name: &str, cores: u64, licences: u64| {
        let mut job = Job { precedence: Precedence(9), ..job(name, 1, licences) };
        job.preemption = Preemption::LowerPrecedence;
        job.groups[0].request = Amounts::new([cores * 1000]);
        job
    };
    let licensed = submit(&cell, urgent("licensed", 1, 1));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((placed(&cell, low), placed(&cell, licensed)), (1, 0));
    let large = submit(&cell, urgent("large", 2, 0));
    run(&mut scheduler, &cell, 3 * LONG);
    assert_eq!((placed(&cell, low), placed(&cell, large)), (0, 1), "for room it is");
    assert_eq!(claimed(&cell), 0);
}

#[test]
fn a_task_taken_off_in_a_view_leaves_its_licence_there() {
    let cell = licensed(&[4], 1);
    submit(&cell, job("first", 1, 1));
    run(&mut scheduler(&cell, "default"), &cell, LONG);
    let next = job("next", 1, 1);
    let id = submit(&cell, next.clone());
    let mut view = View::new(SchedulerId(0), 0).with_placements();
    view.sync(&cell).unwrap();
    let group = view.compile(id, &Arc::new(next), 0);
    let exhausted = (0, Some(Reason::CellExhausted(LICENCE)));
    assert_eq!((view.cell_room(group), view.check_fit(0, group).err()), exhausted);
    let running = view.tasks_on(0)[0];
    view.lift(0, running);
    assert_eq!((view.cell_room(group), view.check_fit(0, group).err()), (1, None));
    view.put_back(0, running);
    assert_eq!((view.cell_room(group), view.check_fit(0, group).err()), exhausted);
}

#[test]
fn a_tenant_may_have_a_limit_of_licences() {
    let cell = licensed(&[16], 10);
    let limit = Some(Amounts::new([QUOTA_MAX; 4]).with(LICENCE, 2));
    cell.apply(Command::SetQuota { tenant: "default".into(), limit }).unwrap();
    let limited = submit(&cell, job("limited", 5, 1));
    let others = submit(&cell, Job { tenant: "others".into(), ..job("others", 5, 1) });
    let mut scheduler = scheduler(&cell, "default");
    (1..5).for_each(|now| _ = run(&mut scheduler, &cell, now * LONG));
    assert_eq!((placed(&cell, limited), placed(&cell, others)), (2, 5));
    let used = cell.read(|cell| cell.tenant_used("default").unwrap()[LICENCE.index()]);
    assert_eq!(used, 2);
}

#[test]
fn who_waits_is_told_what_is_missing_of_the_cell() {
    let cell = licensed(&[16, 16], 3);
    let id = submit(&cell, job("job", 2, 2));
    let mut scheduler = scheduler(&cell, "default");
    run(&mut scheduler, &cell, LONG);
    assert_eq!(placed(&cell, id), 1);
    let diagnosis = scheduler.diagnose(id, 0).unwrap();
    assert_eq!(diagnosis.removed[0], ("cluster_resources", 2));
    let kinds = cell.read(|cell| cell.kinds().clone());
    let obstacle = describe_obstacle(&diagnosis.nearest[0].obstacles[0], &kinds);
    assert_eq!(obstacle, "1 licence missing in the whole cell");
    let remedy = describe_remedy(&diagnosis.remedies[0], scheduler.view());
    assert_eq!(remedy, "with 1 licence more in the whole cell: 2 machines would take it");
    let (reason, machines) = scheduler.explain(id, 0).unwrap().refused[0];
    assert_eq!(machines, 2);
    assert_eq!(describe(reason, &kinds), "too little licence left in the whole cell");
}

/// Schedulers on threads compete for the last licences while tasks end. Claims never exceed the capacity, and in the
/// end all tasks have run.
#[test]
fn schedulers_on_threads_never_claim_more_than_there_is() {
    let cell = licensed(&[64, 64, 64], 5);
    let (schedulers, tasks) = (3, 60);
    for i in 0..schedulers {
        for k in 0..6 {
            let mut job = job(&format!("j{i}-{k}"), tasks / 6, 1 + k % 2);
            job.scheduler = format!("s{i}").into();
            if k == 5 {
                job.gang_min = Some(2);
            }
            submit(&cell, job);
        }
    }
    let ended = AtomicUsize::new(0);
    let all = (schedulers * tasks) as usize;
    std::thread::scope(|scope| {
        for i in 0..schedulers {
            let (cell, ended) = (&cell, &ended);
            scope.spawn(move || {
                let settings = Settings::new(format!("s{i}").as_str());
                let mut scheduler = Scheduler::new(cell, Profile::batch(), settings).unwrap();
                let mut now = LONG;
                while ended.load(Ordering::Relaxed) < all {
                    scheduler.step(cell, now, &mut Unobserved).unwrap();
                    now += 1_000_000;
                    std::thread::yield_now();
                }
            });
        }
        while ended.load(Ordering::Relaxed) < all {
            let placed: Vec<TaskId> = cell.read(|cell| {
                let resources = cell.resources();
                assert!(resources.claimed.fits_in(&resources.capacity), "{resources:?}");
                cell.machines().flat_map(|machine| machine.tasks.to_vec()).collect()
            });
            for id in placed {
                report(&cell, id, TaskReport::Finished);
                ended.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(claimed(&cell), 0);
    cell.read(Cell::audit).unwrap();
}
