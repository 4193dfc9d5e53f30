//! Tenants that share a cell: turns, reclaiming, and limits.

use crate::cell::small::{LONG, amounts, cell, job, placed, report, run, submit, task};
use omega_cellstate::SharedCell;
use omega_core::{
    Amounts, Command, Job, JobId, Outcome, Precedence, Rejection, TaskReport, TenantConfig, Text,
};
use omega_schedulers::explain::{describe, describe_obstacle, describe_remedy};
use omega_schedulers::plugins::{DefaultPreemption, FairShare, Reclaim};
use omega_schedulers::{Nanos, Observer, Profile, Scheduler, Search, Settings, Unobserved};
use omega_tests::random::Dice;
use std::collections::BTreeMap;

fn stands(cell: &SharedCell, tenant: &str, tenant_config: TenantConfig) {
    cell.apply(Command::SetTenant { tenant: tenant.into(), tenant_config }).unwrap();
}

fn weighs(weight: u32) -> TenantConfig {
    TenantConfig { weight, ..TenantConfig::default() }
}

fn guaranteed(cores: u64) -> TenantConfig {
    TenantConfig { guaranteed: amounts(cores), ..TenantConfig::default() }
}

fn of(tenant: &str, name: &str, tasks: u32) -> Job {
    Job { tenant: tenant.into(), ..job(name, tasks, 1) }
}

fn used(cell: &SharedCell, tenant: &str) -> i64 {
    cell.read(|cell| cell.tenant_used(tenant).unwrap()[0] / 1000)
}

fn fair(cell: &SharedCell) -> Scheduler {
    let profile = Profile::first_fit().with_order(FairShare);
    let settings = Settings::new("default").with_search(Search::Full);
    Scheduler::new(cell, profile, settings).unwrap()
}

fn reclaiming(cell: &SharedCell, name: &str) -> Scheduler {
    let profile = Profile::first_fit().with_order(FairShare).with_post_filter(Reclaim::default());
    Scheduler::new(cell, profile, Settings::new(name).with_search(Search::Full)).unwrap()
}

/// Records the tenants in the order of their turns.
struct Turns<'a>(&'a SharedCell, Vec<Text>);

impl Observer for Turns<'_> {
    fn decided(&mut self, job: JobId, _: usize, placed: usize) {
        if placed > 0 {
            let tenant = self.0.read(|cell| cell.job(job).unwrap().tenant.clone());
            self.1.push(tenant);
        }
    }
}

#[test]
fn tenants_have_of_a_full_cell_what_they_weigh() {
    let cell = cell(&[20, 20]);
    stands(&cell, "light", weighs(1));
    stands(&cell, "heavy", weighs(3));
    for i in 0..40 {
        submit(&cell, of("light", &format!("l{i}"), 1));
    }
    for i in 0..40 {
        submit(&cell, of("heavy", &format!("h{i}"), 1));
    }
    run(&mut fair(&cell), &cell, 0);
    assert_eq!((used(&cell, "light"), used(&cell, "heavy")), (10, 30));
}

/// If each tenant has one large job, the numbers of their turns are proportional to their weights.
#[test]
fn tenants_with_one_large_job_have_what_they_weigh() {
    let cell = cell(&[600, 600]);
    for (weight, tenant) in [(1, "a"), (2, "b"), (3, "c")] {
        stands(&cell, tenant, weighs(weight));
        submit(&cell, of(tenant, tenant, 1200));
    }
    run(&mut fair(&cell), &cell, 0);
    assert_eq!(["a", "b", "c"].map(|tenant| used(&cell, tenant)), [200, 400, 600]);
    // A tenant whose jobs arrive after tasks of other tenants have ended gets more turns until it has caught up.
    for i in 0..300 {
        report(&cell, task(JobId(2), i), TaskReport::Finished);
    }
    stands(&cell, "late", weighs(5));
    submit(&cell, of("late", "late", 1200));
    run(&mut fair(&cell), &cell, LONG);
    assert_eq!(used(&cell, "late"), 300, "it is the one that is served worst");
}

#[test]
fn branches_share_first_and_then_those_in_them() {
    let cell = cell(&[40]);
    let below =
        |parent: &str, weight| TenantConfig { parent: Some(parent.into()), ..weighs(weight) };
    stands(&cell, "research", weighs(1));
    stands(&cell, "shop", weighs(1));
    for (tenant, tenant_config) in
        [("a", below("research", 1)), ("b", below("research", 3)), ("c", below("shop", 1))]
    {
        stands(&cell, tenant, tenant_config);
        for i in 0..40 {
            submit(&cell, of(tenant, &format!("{tenant}{i}"), 1));
        }
    }
    run(&mut fair(&cell), &cell, 0);
    let each = ["a", "b", "c"].map(|tenant| used(&cell, tenant));
    assert_eq!(each, [5, 15, 20]);
    assert_eq!((used(&cell, "research"), used(&cell, "shop")), (20, 20));
}

#[test]
fn without_standings_the_older_job_goes_first() {
    let cell = cell(&[2]);
    let zoo = submit(&cell, of("zoo", "first", 1));
    let urgent = Job { precedence: Precedence(1), ..of("b", "urgent", 1) };
    let urgent = submit(&cell, urgent);
    let late = submit(&cell, of("a", "late", 1));
    run(&mut fair(&cell), &cell, 0);
    assert_eq!([zoo, urgent, late].map(|job| placed(&cell, job)), [1, 1, 0]);
}

/// The tenant whose turn it is, by dominant shares that are computed from the running tasks.
fn naive_turn(used: &BTreeMap<Text, [u128; 2]>, whole: [u128; 2], waiting: &[Text]) -> Text {
    let share = |name: &Text| {
        let used = used[name];
        // Shares are compared as fractions with the same denominator.
        (used[0] * whole[1]).max(used[1] * whole[0])
    };
    let least = waiting.iter().min_by_key(|name| (share(name), (*name).clone()));
    least.unwrap().clone()
}

#[test]
fn each_turn_goes_to_the_least_dominant_share() {
    for seed in 0..50 {
        let mut dice = Dice::new(seed);
        let cell = cell(&[200]);
        let names = ["a", "b", "c"].map(Text::from);
        names.iter().for_each(|name| stands(&cell, name, weighs(2)));
        let mut used: BTreeMap<Text, [u128; 2]> =
            names.iter().map(|n| (n.clone(), [0; 2])).collect();
        let mut requests = BTreeMap::new();
        let mut waiting: BTreeMap<Text, usize> = BTreeMap::new();
        for name in &names {
            // All tasks of a tenant are equal, so their order does not matter.
            let request = [1000 * (1 + dice.below(3) as u64), (1 + dice.below(2) as u64) << 30];
            requests.insert(name.clone(), request);
            let jobs = 1 + dice.below(8);
            waiting.insert(name.clone(), jobs);
            for i in 0..jobs {
                let mut one = of(name, &format!("{name}{i}"), 1);
                one.groups[0].request = Amounts::new(request);
                submit(&cell, one);
            }
        }
        let mut scheduler = fair(&cell);
        let mut turns = Turns(&cell, Vec::new());
        while !scheduler.step(&cell, 0, &mut turns).unwrap().idle {}
        let whole = [200_000, 64 << 30];
        for (turn, tenant) in turns.1.iter().enumerate() {
            let left: Vec<Text> = waiting
                .iter()
                .filter(|(_, jobs)| **jobs > 0)
                .map(|(name, _)| name.clone())
                .collect();
            assert_eq!(*tenant, naive_turn(&used, whole, &left), "seed {seed}, turn {turn}");
            *waiting.get_mut(tenant).unwrap() -= 1;
            let request = requests[tenant];
            let used = used.get_mut(tenant).unwrap();
            (0..2).for_each(|kind| used[kind] += u128::from(request[kind]));
        }
    }
}

#[test]
fn a_large_job_does_not_take_all_of_its_turn() {
    let cell = cell(&[200]);
    for name in ["a", "b", "c"] {
        stands(&cell, name, weighs(1));
        submit(&cell, of(name, &format!("large-{name}"), 60));
    }
    let profile = Profile::first_fit().with_order(FairShare);
    let settings = Settings { claims_max: 12, ..Settings::new("default") };
    let mut scheduler = Scheduler::new(&cell, profile, settings).unwrap();
    for round in 1..=10 {
        scheduler.step(&cell, 0, &mut Unobserved).unwrap();
        let each = ["a", "b", "c"].map(|name| used(&cell, name));
        assert_eq!(each, [4 * round; 3], "each has a third of every transaction");
    }
}

#[test]
fn what_was_lent_comes_back_and_no_more() {
    let cell = cell(&[4, 4]);
    stands(&cell, "red", guaranteed(3));
    stands(&cell, "blue", guaranteed(5));
    submit(&cell, of("red", "borrower", 8));
    let mut scheduler = reclaiming(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!(used(&cell, "red"), 8, "nobody else wants it");
    let owner = submit(&cell, of("blue", "owner", 6));
    for round in 1..6 {
        run(&mut scheduler, &cell, round * LONG);
    }
    assert_eq!((used(&cell, "red"), used(&cell, "blue")), (3, 5));
    assert_eq!(placed(&cell, owner), 5, "the sixth is beyond the guarantee");
    cell.read(|cell| cell.audit().unwrap());
}

/// Checks that tenants do not evict each other in turn: tasks within a guarantee stay.
#[test]
fn nobody_takes_turns_at_evicting() {
    let cell = cell(&[4]);
    stands(&cell, "red", guaranteed(2));
    stands(&cell, "blue", guaranteed(2));
    submit(&cell, of("red", "r", 6));
    let mut scheduler = reclaiming(&cell, "default");
    run(&mut scheduler, &cell, 0);
    submit(&cell, of("blue", "b", 6));
    for round in 1..4 {
        run(&mut scheduler, &cell, round * LONG);
    }
    assert_eq!((used(&cell, "red"), used(&cell, "blue")), (2, 2));
    let version = cell.read(|cell| cell.version());
    for round in 4..10 {
        run(&mut scheduler, &cell, round * LONG);
    }
    assert_eq!(cell.read(|cell| cell.version()), version, "it has come to rest");
}

#[test]
fn a_branch_that_is_within_its_guarantee_keeps_what_one_of_it_borrowed() {
    let cell = cell(&[4]);
    let below = |cores| TenantConfig { parent: Some("red".into()), ..guaranteed(cores) };
    stands(&cell, "red", guaranteed(3));
    stands(&cell, "blue", guaranteed(1));
    stands(&cell, "crawl", below(1));
    stands(&cell, "index", below(2));
    submit(&cell, of("crawl", "c", 3));
    let mut scheduler = reclaiming(&cell, "default");
    run(&mut scheduler, &cell, 0);
    submit(&cell, of("blue", "b", 2));
    run(&mut scheduler, &cell, LONG);
    assert_eq!((used(&cell, "crawl"), used(&cell, "blue")), (3, 1));
    submit(&cell, of("index", "i", 3));
    (2..6).for_each(|round| {
        run(&mut scheduler, &cell, round * LONG);
    });
    assert_eq!(["crawl", "index", "blue"].map(|tenant| used(&cell, tenant)), [1, 2, 1]);
}

fn limit(cell: &SharedCell, tenant: &str, cores: u64) {
    let limit = Some(Amounts::new([cores * 1000, 1 << 40]));
    cell.apply(Command::SetQuota { tenant: tenant.into(), limit }).unwrap();
}

/// A scheduler has the same limits as the cell, and submits nothing that a limit would reject.
#[test]
fn no_more_is_claimed_than_a_limit_leaves() {
    let cell = cell(&[20]);
    limit(&cell, "red", 5);
    stands(&cell, "crawl", TenantConfig { parent: Some("red".into()), ..TenantConfig::default() });
    let (one, other) = (submit(&cell, of("red", "r", 4)), submit(&cell, of("crawl", "c", 9)));
    let mut scheduler = crate::cell::small::scheduler(&cell, "default");
    let mut steps = |now| {
        let mut refused = 0;
        loop {
            let step = scheduler.step(&cell, now, &mut Unobserved).unwrap();
            refused += step.conflicts;
            if step.idle {
                return refused;
            }
        }
    };
    assert_eq!(steps(0), 0);
    assert_eq!((placed(&cell, one), placed(&cell, other), used(&cell, "red")), (4, 1, 5));
    // A task ends, so there is room, and the pending job is woken.
    crate::cell::small::report(&cell, crate::cell::small::task(one, 2), TaskReport::Finished);
    assert_eq!((steps(LONG), placed(&cell, other)), (0, 2));
    limit(&cell, "red", 8);
    assert_eq!((steps(2 * LONG), placed(&cell, other), used(&cell, "red")), (0, 5, 8));
    // Without a limit the whole job is placed; a limit that is set later evicts no task.
    cell.apply(Command::SetQuota { tenant: "red".into(), limit: None }).unwrap();
    assert_eq!((steps(3 * LONG), used(&cell, "red")), (0, 12));
    limit(&cell, "red", 3);
    let late = submit(&cell, of("crawl", "late", 1));
    assert_eq!((steps(4 * LONG), placed(&cell, late)), (0, 0));
    // The explanation of a pending job names its limit.
    let kinds = cell.read(|cell| cell.kinds().clone());
    let (reason, machines) = scheduler.explain(late, 0).unwrap().refused[0];
    assert_eq!((describe(reason, &kinds).as_str(), machines), ("quota of cpu used up", 1));
    let diagnosis = scheduler.diagnose(late, 0).unwrap();
    let obstacle = describe_obstacle(&diagnosis.nearest[0].obstacles[0], &kinds);
    assert_eq!(obstacle, "10 cpu more than the quota of tenant red has left");
    let remedy = describe_remedy(&diagnosis.remedies[0], scheduler.view());
    assert_eq!(remedy, "with 10 cpu more in the quota of tenant red: 1 machine would take it");
}

/// The limit of a parent is exhausted, because one of its tenants borrows. The other tenant reclaims its guarantee,
/// although there are free machines.
#[test]
fn what_is_guaranteed_is_reclaimed_from_a_full_limit_too() {
    let cell = cell(&[4, 4, 4]);
    limit(&cell, "all", 6);
    for (tenant, cores) in [("red", 2), ("blue", 4)] {
        stands(&cell, tenant, TenantConfig { parent: Some("all".into()), ..guaranteed(cores) });
    }
    submit(&cell, of("red", "borrower", 9));
    let mut scheduler = reclaiming(&cell, "default");
    run(&mut scheduler, &cell, 0);
    assert_eq!((used(&cell, "red"), used(&cell, "all")), (6, 6));
    submit(&cell, of("blue", "owner", 9));
    (1..8).for_each(|round| {
        run(&mut scheduler, &cell, round * LONG);
    });
    assert_eq!((used(&cell, "red"), used(&cell, "blue")), (2, 4));
}

/// Only evictions within the exhausted limit help. The tasks to evict are found among those of many other borrowers.
#[test]
fn the_few_that_a_full_limit_holds_for_are_found() {
    let cell = cell(&[1; 200]);
    stands(&cell, "all", guaranteed(20));
    limit(&cell, "all", 5);
    for (tenant, cores) in [("red", 0), ("blue", 5)] {
        stands(&cell, tenant, TenantConfig { parent: Some("all".into()), ..guaranteed(cores) });
    }
    submit(&cell, of("red", "borrower", 9));
    let mut scheduler = reclaiming(&cell, "default");
    run(&mut scheduler, &cell, 0);
    submit(&cell, of("partner", "lends", 300));
    run(&mut scheduler, &cell, LONG);
    assert_eq!((used(&cell, "red"), used(&cell, "partner")), (5, 195));
    submit(&cell, of("blue", "owner", 5));
    run(&mut scheduler, &cell, 2 * LONG);
    assert_eq!((used(&cell, "red"), used(&cell, "blue"), used(&cell, "partner")), (0, 5, 195));
}

/// If a limit is exhausted, tasks of higher precedence evict only tasks within that limit.
#[test]
fn in_a_full_limit_a_tenant_displaces_its_own() {
    let cell = cell(&[4, 4]);
    limit(&cell, "red", 3);
    let low = submit(&cell, of("red", "low", 3));
    let others = submit(&cell, of("blue", "others", 3));
    let profile = Profile::first_fit().with_post_filter(DefaultPreemption::default());
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    run(&mut scheduler, &cell, 0);
    assert_eq!((placed(&cell, low), placed(&cell, others)), (3, 3));
    let high = Job { precedence: Precedence(9), ..of("red", "high", 2) };
    let high = submit(&cell, high);
    (1..4).for_each(|round| {
        run(&mut scheduler, &cell, round * LONG);
    });
    assert_eq!((placed(&cell, low), placed(&cell, high), placed(&cell, others)), (1, 2, 3));
    // A job of lower precedence than all tasks within the limit stays pending.
    let lowest = Job { precedence: Precedence(-1), ..of("red", "lowest", 1) };
    let lowest = submit(&cell, lowest);
    run(&mut scheduler, &cell, 5 * LONG);
    assert_eq!((placed(&cell, lowest), placed(&cell, others)), (0, 3));
}

/// Different schedulers on one cell, each on its own thread. No limit is exceeded at any version, and in the end every
/// tenant has its guarantee, or as much of it as it requests.
#[test]
fn schedulers_that_race_break_no_limit() {
    for seed in 0..4 {
        let cell = cell(&[6; 8]);
        let limit = Some(amounts(20));
        cell.apply(Command::SetQuota { tenant: "all".into(), limit }).unwrap();
        for (tenant, cores) in [("red", 12), ("blue", 8), ("green", 6)] {
            let parent = (tenant != "green").then(|| "all".into());
            stands(&cell, tenant, TenantConfig { parent, ..guaranteed(cores) });
        }
        let cell = &cell;
        let step = |scheduler: &mut Scheduler, now: Nanos| {
            scheduler.step(cell, now, &mut Unobserved).unwrap();
            cell.read(|cell| assert!(cell.tenant_used("all").unwrap()[0] <= 20_000));
        };
        std::thread::scope(|scope| {
            for (index, tenant) in ["red", "blue", "green"].into_iter().enumerate() {
                scope.spawn(move || {
                    let mut dice = Dice::new(seed * 10 + index as u64);
                    let mut scheduler = reclaiming(cell, tenant);
                    for round in 0..60 {
                        if round < 30 {
                            let tasks = 1 + dice.below(3) as u32;
                            let mut job = of(tenant, &format!("{tenant}{round}"), tasks);
                            job.scheduler = tenant.into();
                            if dice.chance(30) {
                                job.gang_min = Some(tasks);
                            }
                            submit(cell, job);
                        }
                        step(&mut scheduler, round * LONG);
                        end_some(cell, tenant, &mut dice);
                    }
                });
            }
        });
        cell.read(|cell| cell.audit().unwrap());
    }
}

/// Occasionally ends a task of a tenant.
fn end_some(cell: &SharedCell, tenant: &str, dice: &mut Dice) {
    if !dice.chance(20) {
        return;
    }
    let running = cell.read(|cell| {
        let jobs = cell.jobs().filter(|(_, job)| &*job.tenant == tenant).map(|(id, _)| id);
        let mut tasks = jobs.flat_map(|id| cell.tasks(id));
        tasks.find_map(|(task, state)| Some((task, state.machine()?)))
    });
    if let Some((task, machine)) = running {
        let report = TaskReport::Finished;
        // The task may have been evicted in the meantime; its report is then rejected.
        drop(cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }));
    }
}

#[test]
fn clients_that_race_ask_for_no_more_than_they_may() {
    let cell = cell(&[20]);
    stands(&cell, "red", TenantConfig { parent: Some("all".into()), ..TenantConfig::default() });
    stands(&cell, "blue", TenantConfig { parent: Some("all".into()), ..TenantConfig::default() });
    let limit = Some(amounts(100));
    cell.apply(Command::SetAdmission { tenant: "all".into(), limit }).unwrap();
    let client = |tenant: &'static str, seed: u64| {
        let (cell, mut dice, mut own) = (&cell, Dice::new(seed), Vec::new());
        move || {
            for number in 0..300 {
                let tasks = 1 + dice.below(20) as u32;
                let job = of(tenant, &format!("{tenant}-{seed}-{number}"), tasks);
                match cell.apply(Command::SubmitJob(job)) {
                    Ok(Outcome::Job(id)) => own.push(id),
                    Err(Rejection::NotAdmitted { tenant, requested: asked, limit, .. }) => {
                        assert_eq!((&*tenant, limit), ("all", 100_000));
                        assert!(asked > limit);
                        if let Some(job) = own.pop() {
                            cell.apply(Command::KillJob { job }).unwrap();
                        }
                    }
                    other => panic!("{other:?}"),
                }
                assert!(cell.read(|cell| cell.requested("all").unwrap()[0]) <= 100_000);
            }
            own.len()
        }
    };
    let left: usize = std::thread::scope(|scope| {
        let clients = [("red", 1), ("blue", 2), ("red", 3)].map(|(t, s)| scope.spawn(client(t, s)));
        clients.map(|client| client.join().unwrap()).iter().sum()
    });
    assert!(left > 0);
    cell.read(|cell| cell.audit().unwrap());
}

/// A job that requests more than its tenant's guarantee gets the guarantee, and the scheduler does not try to get more.
#[test]
fn a_job_gets_its_guarantee_though_it_asks_for_more() {
    let cell = cell(&[4, 4]);
    stands(&cell, "lender", guaranteed(3));
    stands(&cell, "owner", guaranteed(4));
    let mut scheduler = reclaiming(&cell, "default");
    submit(&cell, of("lender", "lent", 8));
    run(&mut scheduler, &cell, 0);
    assert_eq!(used(&cell, "lender"), 8);
    submit(&cell, of("owner", "own", 8));
    for now in 1..4 {
        run(&mut scheduler, &cell, now * LONG);
    }
    assert_eq!((used(&cell, "lender"), used(&cell, "owner")), (4, 4));
    let before = cell.read(|cell| cell.version());
    for now in 4..8 {
        run(&mut scheduler, &cell, now * LONG);
    }
    assert_eq!(cell.read(|cell| cell.version()), before, "nothing is tried for ever");
}
