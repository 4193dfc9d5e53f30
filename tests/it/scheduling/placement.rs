//! Decisions of schedulers, compared with a naive search that checks one task and one machine at a time.

use crate::cell::small;
use crate::scheduling::placement_plugins::Silent;
use crate::scheduling::placement_world::{PROFILES, World};
use omega_cellstate::{Cell, GroupRef, SharedCell, View};
use omega_core::{Amounts, JobId, Kinds, Machine, Reason, SchedulerId, TaskGroup, TaskId};
use omega_schedulers::plugins::ImageLocality;
use omega_schedulers::search::{Candidate, Candidates, Request, search};
use omega_schedulers::{
    Explanation, GroupPlacement, Home, MachineRef, MachineScore, PerMachine, Placement, Placer,
    Profile, Search, Tasks, appraise, explain,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Creates a random generator with a seed.
pub(crate) fn rng(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

/// A home range without machines, so that every search starts at the first block.
const FIXED: Home = Home { index: 0, of: u32::MAX };

const SEARCHES: [Search; 6] = [
    Search::Full,
    Search::Sampled { feasible: 3 },
    Search::Indexed { feasible: 3 },
    Search::Adaptive,
    Search::Percentage(0),
    Search::Percentage(30),
];

pub(crate) fn how(search: Search) -> Placement {
    Placement { search, home: FIXED, ..Placement::default() }
}

/// The best machine by a full search.
fn best(view: &mut View, profile: &Profile, group: GroupRef) -> Option<(i32, u32)> {
    let mut candidates = Candidates::default();
    let request = Request {
        evaluator: profile.evaluator(),
        group,
        search: Search::Full,
        tasks: 1,
        home: FIXED,
        near_best: 1,
    };
    search(view, request, &mut rng(0), &mut candidates);
    candidates.found.iter().max().map(|best| (best.score, best.row))
}

/// The score of a machine among all machines, by a full computation.
fn score_of(view: &View, profile: &Profile, group: GroupRef, row: usize) -> i32 {
    let appraisal = appraise(view, profile, group);
    let position = appraisal.feasible.binary_search(&(row as u32)).expect("it is feasible");
    appraisal.totals[position] as i32
}

/// Checks that every machine is feasible or has a reason. Only a machine that lacks resources may have several reasons.
pub(crate) fn check_counts(explanation: &Explanation) {
    let (short, others): (Vec<_>, Vec<_>) =
        explanation.refused.iter().partition(|(reason, _)| matches!(reason, Reason::NoRoom(_)));
    let others: usize = others.iter().map(|(_, count)| count).sum();
    let filtered: usize = explanation.filtered.iter().map(|(_, count)| count).sum();
    let rest = explanation.machines - explanation.feasible - filtered - others;
    let most = short.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let sum = short.iter().map(|(_, count)| count).sum();
    assert!((most..=sum).contains(&rest), "{explanation:?}");
}

/// The rows of the open claims, in order.
pub(crate) fn claimed(view: &mut View) -> Vec<u32> {
    let txn = view.take_transaction();
    view.abandon(&txn);
    txn.claims.iter().map(|claim| claim.machine.slot).collect()
}

fn one_by_one(
    view: &mut View,
    profile: &Profile,
    (group, tasks): (GroupRef, &[TaskId]),
) -> Vec<(i32, u32)> {
    let mut chosen = Vec::new();
    for task in tasks {
        let Some((score, row)) = best(view, profile, group) else { break };
        assert_eq!(score, score_of(view, profile, group, row as usize));
        view.claim(*task, view.machine_id(row as usize), group).expect("it is feasible");
        chosen.push((score, row));
    }
    view.drop_claims(chosen.len());
    chosen
}

/// (a) Checks the scores of a batch. The claims are made again one by one in the same order, and each machine is scored
/// just before its claim.
fn check_batch(seed: u64, machines: usize, count: u32) {
    let mut world = World::new(seed, machines).with_reservations(seed);
    (0..20).for_each(|_| world.churn());
    let mut group = world.random_group();
    group.count = count;
    let group = world.submit(group);
    let tasks = world.tasks(count);
    for profile in PROFILES {
        let profile = profile();
        let view = &mut world.view;
        let expected = one_by_one(view, &profile, (group, &tasks));
        let mut rng = rng(seed);
        let mut placer = Placer::default();
        let placement = how(Search::Full);
        let wanted = GroupPlacement { profile: &profile, placement, group };
        let placed = placer.place(view, wanted, &tasks, &mut rng);
        let rows = claimed(view);
        assert_eq!(placed, rows.len());
        let mut chosen = Vec::new();
        for (task, row) in tasks.iter().zip(rows) {
            chosen.push((score_of(view, &profile, group, row as usize), row));
            view.claim(*task, view.machine_id(row as usize), group).expect("it was claimed before");
        }
        view.drop_claims(chosen.len());
        assert_eq!(chosen, expected, "seed {seed} {profile:?}: batch, one by one");
    }
}

/// (b) Checks rules about other tasks: claims are accepted, and equal those of a greedy scheduler that checks one
/// machine after the other.
fn check_rules(seed: u64, machines: usize) {
    let mut world = World::new(seed, machines).with_reservations(seed);
    for round in 0..8 {
        let group = world.ruled_group();
        let count = group.count;
        let group = world.submit(group);
        let tasks = world.tasks(count);
        let view = &mut world.view;
        let mut greedy = Vec::new();
        for task in &tasks {
            let Some(row) = (0..view.rows()).find(|row| view.check_fit(*row, group).is_ok()) else {
                break;
            };
            view.claim(*task, view.machine_id(row), group).expect("the check allowed it");
            greedy.push(row as u32);
        }
        view.drop_claims(greedy.len());
        let mut rng = rng(seed);
        let profile = PROFILES[round % PROFILES.len()]();
        let placement = how(Search::Full);
        let wanted = GroupPlacement { profile: &profile, placement, group };
        let placed = Placer::default().place(view, wanted, &tasks, &mut rng);
        let feasible = (0..view.rows()).any(|row| view.check_fit(row, group).is_ok());
        assert!(placed == tasks.len() || !feasible, "seed {seed}: it stopped too early");
        if round % PROFILES.len() == 0 {
            assert_eq!(claimed(view), greedy, "seed {seed}: first fit, greedy");
            Placer::default().place(view, wanted, &tasks, &mut rng);
        }
        world.commit();
    }
}

/// (c), (d) Checks that every search finds only feasible machines, and finds one if there is any; and that the
/// explanation is consistent.
fn check_searches(seed: u64, machines: usize) {
    let mut world = World::new(seed, machines).with_reservations(seed);
    let mut rng = rng(seed);
    let mut candidates = Candidates::default();
    for _ in 0..25 {
        world.churn();
        let group = if world.dice.chance(50) { world.random_group() } else { world.ruled_group() };
        let group = world.submit(group);
        let profile = if world.dice.chance(50) {
            Profile::service().with_filter(Silent)
        } else {
            Profile::kube(&Kinds::standard()).with_filter(Silent)
        };
        let view = &mut world.view;
        let feasible: Vec<u32> = (0..view.rows())
            .filter(|row| view.check_fit(*row, group).is_ok())
            .map(|r| r as u32)
            .collect();
        let explanation = explain(view, &profile, group);
        assert_eq!(explanation.filtered, [], "the check and the filters agree");
        assert_eq!(explanation.feasible, feasible.len());
        assert_eq!(explanation.machines, machines);
        check_counts(&explanation);
        for search_kind in SEARCHES {
            let home = Home { index: world.dice.below(4) as u32, of: 4 };
            let request = Request {
                evaluator: profile.evaluator(),
                group,
                search: search_kind,
                tasks: 1,
                home,
                near_best: 1,
            };
            search(view, request, &mut rng, &mut candidates);
            let mut found: Vec<u32> = candidates.found.iter().map(|c| c.row).collect();
            found.sort_unstable();
            assert!(found.iter().all(|row| feasible.binary_search(row).is_ok()), "seed {seed}");
            assert_eq!(found.is_empty(), feasible.is_empty(), "seed {seed} {search_kind:?}");
            assert!(search_kind != Search::Full || found == feasible, "seed {seed}");
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "each machine once");
        }
    }
}

/// Checks that equal seeds give equal claims, for every kind of search and of choice.
fn check_seeds(seed: u64, machines: usize, near_best: u32) {
    let run = || {
        let mut world = World::new(seed, machines).with_reservations(seed);
        let mut rng = rng(seed);
        let mut all = Vec::new();
        for search in SEARCHES {
            for count in [1, 9] {
                let mut group = world.random_group();
                group.count = count;
                let group = world.submit(group);
                let tasks = world.tasks(count);
                let profile = Profile::service();
                let placement = Placement { search, near_best, ..Placement::default() };
                let wanted = GroupPlacement { profile: &profile, placement, group };
                Placer::default().place(&mut world.view, wanted, &tasks, &mut rng);
                all.push(claimed(&mut world.view));
            }
        }
        all
    };
    assert_eq!(run(), run());
}

/// Checks that a placer's caches change no choice: after any changes between searches, it chooses the same machine as a
/// placer without caches.
fn check_reuse(seed: u64, machines: usize, which: usize) {
    let mut world = World::new(seed, machines).with_reservations(seed);
    if world.dice.chance(50) {
        world.make_plain();
    }
    let profile = match PROFILES.get(which) {
        Some(profile) => profile(),
        None if which == PROFILES.len() => Profile::batch().with_score(ImageLocality, 2),
        None => Profile::batch().with_score(PerMachine(ByJob), 3),
    };
    let mut remembers = Placer::default();
    // There are more groups than kinds of groups, so that some are equal.
    let kinds: Vec<TaskGroup> = (0..4).map(|_| world.random_group()).collect();
    for round in 0..120 {
        let group = world.dice.pick(&kinds).clone();
        let group = world.submit(group);
        let tasks = world.tasks(1);
        let search = *world.dice.pick(&SEARCHES);
        let home = Home { index: world.dice.below(3) as u32, of: 3 };
        let near_best = *world.dice.pick(&[1, 1, 2, 5, 40]);
        let how = Placement { search, home, near_best, ..Placement::default() };
        // A separate view is used, because placing and dropping tasks changes the view.
        let (mut other, same_group) = world.fresh_view(&profile, group);
        let place = |view: &mut View, placer: &mut Placer, placement, group| {
            let wanted = GroupPlacement { profile: &profile, placement, group };
            placer.place(view, wanted, &tasks, &mut rng(seed + round));
            claimed(view)
        };
        let expected = place(&mut other, &mut Placer::default(), how, same_group);
        let remembering = Placement { reuse: true, ..how };
        let found = place(&mut world.view, &mut remembers, remembering, group);
        assert_eq!(found, expected, "seed {seed}, round {round}, {search:?}");
        if world.dice.chance(70) {
            place(&mut world.view, &mut remembers, remembering, group);
        }
        match world.dice.below(4) {
            0 => world.churn(),
            1 => world.change_a_machine(),
            _ => {}
        }
    }
}

/// A score whose preference depends on the job.
struct ByJob;

impl MachineScore for ByJob {
    fn name(&self) -> &'static str {
        "by_job"
    }

    fn score(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
        (tasks.job.name.len() * 7919 + machine.id().slot as usize * 31) as i32 % 5000
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_placer_that_remembers_places_as_one_that_does_not(
        seed in 0u64..1 << 60, machines in 1usize..400, profile in 0..PROFILES.len() + 2,
    ) {
        check_reuse(seed, machines, profile);
    }

    #[test]
    fn a_batch_is_placed_as_its_tasks_would_be_one_by_one(
        seed in any::<u64>(), machines in 1usize..300, count in 1u32..80,
    ) {
        check_batch(seed, machines, count);
    }

    #[test]
    fn what_is_proposed_under_rules_is_taken(seed in any::<u64>(), machines in 1usize..90) {
        check_rules(seed, machines);
    }

    #[test]
    fn every_search_finds_what_is_feasible(seed in any::<u64>(), machines in 1usize..400) {
        check_searches(seed, machines);
    }

    #[test]
    fn the_same_seed_gives_the_same_claims(
        seed in any::<u64>(), machines in 1usize..300, near_best in 1u32..20,
    ) {
        check_seeds(seed, machines, near_best);
    }
}

#[test]
fn no_tasks_need_no_machine() {
    let mut world = World::new(1, 10);
    let mut group = world.random_group();
    group.request = Amounts::zero();
    let group = world.submit(group);
    let profile = &Profile::batch();
    let wanted = GroupPlacement { profile, placement: how(Search::Full), group };
    let placed = Placer::default().place(&mut world.view, wanted, &[], &mut rng(1));
    assert_eq!((placed, world.view.open_claims()), (0, 0));
}

/// (f) A scan of more than 1,024 blocks by several threads gives the same result as a scan by one thread.
#[test]
fn a_very_large_cell_is_scanned_as_by_one_thread() {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    let machine =
        |i: u64| Machine::new(format!("m{i}"), Amounts::new([i * 7919 % 64_000, 1 << 30]));
    for i in 0..70_000 {
        small::add_machine(&cell, machine(i));
    }
    let group = TaskGroup::new(1, Amounts::new([40_000]));
    let id = small::submit(&cell, omega_core::Job::batch("j", group));
    let job = cell.read(|cell| cell.job(id).unwrap().clone());
    let mut view = View::new(SchedulerId(0), 0);
    view.sync(&cell).unwrap();
    let profile = Profile::service();
    profile.prepare(&mut view);
    let group = view.compile(JobId(0), &job, 0);
    let mut scan = |search_kind, threads: usize| -> Vec<Candidate> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let home = Home { index: 2, of: 5 };
        let request = Request {
            evaluator: profile.evaluator(),
            group,
            search: search_kind,
            tasks: 1,
            home,
            near_best: 1,
        };
        let mut found = Candidates::default();
        pool.install(|| search(&mut view, request, &mut rng(7), &mut found));
        found.found
    };
    let expected = scan(Search::Indexed { feasible: u32::MAX }, 1);
    assert!(expected.len() > 20_000);
    for threads in [1, 2, 5] {
        assert!(scan(Search::Full, threads) == expected, "with {threads} threads");
    }
}
