//! Victims of preemption, compared with trials in cells from which the victims were removed.

use crate::cell::histories::seeds;
use crate::cell::views::{World, assert_equal_views};
use omega_cellstate::{Cell, CellHandle, GroupRef, PlacedTask, SharedCell, TaskSet, View};
use omega_core::{
    Item, JobId, LabelSelector, Reason, Requirement, SchedulerId, TaskGroup, TaskId, Transaction,
};
use omega_schedulers::preemption::{Budget, Candidate, Preemptor, best};
use omega_schedulers::{Profile, appraise};
use omega_tests::random::Dice;
use std::cmp::Reverse;
use std::collections::BTreeSet;

fn budget(dice: &mut Dice) -> Budget {
    let requirements = if dice.chance(15) {
        Vec::new()
    } else {
        vec![Requirement::equals("app", *dice.pick(&["web", "db"]))]
    };
    Budget {
        tasks: TaskSet {
            tenant: (*dice.pick(&["red", "blue"])).into(),
            tasks: LabelSelector { requirements },
        },
        allowed: dice.below(3) as u32,
    }
}

/// Whether a task of a group fits on the machine in this row without these tasks, as far as a view can check.
fn fits_without(
    world: &World,
    before: &View,
    id: (JobId, usize),
    row: usize,
    gone: &[PlacedTask],
) -> bool {
    let mut view = world.without(gone.iter().map(|task| task.id));
    let group = world.compile(&mut view, id);
    let checked = view.check_fit(row, group);
    (checked.is_ok() || checked == Err(Reason::NoPorts))
        && ports_fit_without(world, before, id, row, gone)
        && view.quota_room(group, 1) > 0
}

/// Whether a task of a group gets its ports if these tasks are removed. A view does not contain the owners of the ports
/// that the cell chose. So a removed task frees as many ports of the range as it has, but no particular port that
/// another task requests.
fn ports_fit_without(
    world: &World,
    before: &View,
    id: (JobId, usize),
    row: usize,
    gone: &[PlacedTask],
) -> bool {
    let group_of = |(job, group): (JobId, usize)| &world.reference.jobs()[&job].spec.groups[group];
    let fixed = |group: &TaskGroup| -> BTreeSet<u16> {
        group.rules.ports.iter().map(|port| port.number).collect()
    };
    let Some(machine) = before.machine(row) else { return true };
    let group = group_of(id);
    let own = fixed(group);
    let (mut given, mut taken, mut freed) = (BTreeSet::new(), own.clone(), 0);
    for task in before.tasks_on(row) {
        given.extend(world.cell.read(|cell| cell.task_ports(task.id).to_vec()));
        let theirs = group_of((task.id.job, task.group.into()));
        if gone.iter().any(|one| one.id == task.id) {
            freed += theirs.any_ports.len();
        } else {
            taken.extend(fixed(theirs));
        }
    }
    let has_own = own.is_disjoint(&given);
    taken.extend(given);
    let taken = taken.iter().filter(|port| machine.ports.contains(**port)).count();
    let free = machine.ports.count() as usize + freed;
    has_own && (group.any_ports.is_empty() || free >= taken + group.any_ports.len())
}

/// Whether a task of a group fits in a row now, within its tenant's limits.
fn fits_now(view: &View, row: usize, group: GroupRef) -> bool {
    view.check_fit(row, group).is_ok() && view.quota_room(group, 1) > 0
}

/// Whether the eviction of the last of these tasks, after the others, violates a budget.
fn breaks(world: &World, budgets: &[Budget], order: &[PlacedTask]) -> bool {
    let Some(last) = order.last() else { return false };
    let protects = |budget: &Budget, task: &PlacedTask| {
        let job = &world.reference.jobs()[&task.id.job].spec;
        let labels = &job.groups[usize::from(task.group)].labels;
        budget.tasks.tenant == job.tenant
            && !labels.is_empty()
            && !budget.tasks.tasks.requirements.is_empty()
            && budget.tasks.tasks.matches(labels)
    };
    budgets.iter().any(|budget| {
        let before = order.iter().filter(|task| protects(budget, task)).count();
        protects(budget, last) && before > budget.allowed as usize
    })
}

fn naive(
    world: &World,
    view: &View,
    id: (JobId, usize),
    (row, budgets): (usize, &[Budget]),
) -> Option<Candidate> {
    let precedence = world.reference.jobs()[&id.0].spec.precedence;
    let bands = &world.reference.policy().bands;
    let share_a_band = |other| bands.iter().any(|b| b.includes(other) && b.includes(precedence));
    let may_go =
        |task: &&PlacedTask| task.precedence < precedence && !share_a_band(task.precedence);
    let mut lower: Vec<PlacedTask> = view.tasks_on(row).iter().filter(may_go).copied().collect();
    lower.sort_by_key(|task| (Reverse(task.precedence), task.id));
    let stays = needed(world, &lower);
    lower.retain(|task| !stays.contains(&task.id));
    if lower.is_empty() || !fits_without(world, view, id, row, &lower) {
        return None;
    }
    let breaking: Vec<bool> =
        (0..lower.len()).map(|i| breaks(world, budgets, &lower[..=i])).collect();
    let mut gone = lower.clone();
    let mut violations = 0;
    for wanted in [true, false] {
        for (task, _) in lower.iter().zip(&breaking).filter(|(_, breaks)| **breaks == wanted) {
            let without: Vec<_> = gone.iter().filter(|t| t.id != task.id).copied().collect();
            if fits_without(world, view, id, row, &without) {
                gone = without
            } else {
                violations += usize::from(wanted)
            }
        }
    }
    if !needed(world, &gone).is_empty() {
        violations = breaking.iter().filter(|breaks| **breaks).count();
        gone = lower;
    }
    (!gone.is_empty()).then_some(Candidate { row, victims: gone.into(), violations })
}

/// Tasks of `gone` whose eviction the cell rejects, because other tasks have runtime affinity to them. If only some of
/// the tasks must stay, the cell keeps the most important ones.
fn needed(world: &World, gone: &[PlacedTask]) -> Vec<TaskId> {
    if gone.is_empty() {
        return Vec::new();
    }
    let copy = SharedCell::new(world.cell.read(Cell::clone));
    let (id, number) = copy.register("naive".into()).unwrap();
    let mut view = View::new(id, number);
    view.sync(&copy).unwrap();
    let releases = gone.iter().rev().map(|task| task.id).collect();
    let txn = Transaction { releases, ..view.take_transaction() };
    let commit = copy.commit(&txn).unwrap();
    assert!(
        commit.conflicts.iter().all(|conflict| conflict.reason == Reason::RuntimeAffinityNeeded)
    );
    let taken = |i: &u32| commit.conflict_of(Item::Release(*i)).is_none();
    let stays = (0..txn.releases.len() as u32).filter(|i| !taken(i));
    stays.map(|i| txn.releases[i as usize]).collect()
}

#[test]
fn victims_are_those_of_trying_it() {
    let (mut found, mut with_violations) = (0, 0);
    for seed in seeds(4800) {
        let mut world = World::new(seed);
        (0..70).for_each(|_| world.step());
        let budgets: Vec<Budget> =
            (0..world.dice.below(3)).map(|_| budget(&mut world.dice)).collect();
        let mut view = View::new(SchedulerId(0), 0).with_placements();
        view.sync(&world.cell).unwrap();
        let profile = Profile::first_fit();
        for id in world.groups() {
            let group = world.compile(&mut view, id);
            let preemptor = Preemptor {
                evaluator: profile.evaluator(),
                group,
                budgets: &budgets,
                expected: &[],
            };
            for row in 0..view.rows() {
                let fits = fits_now(&view, row, group);
                assert_eq!(preemptor.fits(&mut view, row), fits, "seed {seed}");
                if fits {
                    continue;
                }
                let ours = preemptor.candidate(&mut view, row);
                let expected = naive(&world, &view, id, (row, &budgets));
                assert_eq!(ours, expected, "seed {seed} group {id:?} row {row}");
                found += usize::from(ours.is_some());
                with_violations += usize::from(ours.is_some_and(|c| c.violations > 0));
            }
            let all = preemptor.candidates(&mut view, world.dice.below(70), usize::MAX);
            let curable = appraise(&view, &profile, group).refused.into_iter();
            let mut rows: Vec<usize> =
                curable.filter(|refusal| refusal.curable).map(|r| r.row as usize).collect();
            rows.retain(|row| preemptor.candidate(&mut view, *row).is_some());
            let mut listed: Vec<usize> = all.iter().map(|candidate| candidate.row).collect();
            listed.sort_unstable();
            assert_eq!(listed, rows, "seed {seed} group {id:?}");
        }
        assert_equal_views(&world, &mut view);
    }
    assert!(found > 100 && with_violations > 5, "the test must test something: {found}");
}

#[test]
fn the_candidate_that_hurts_least_is_chosen() {
    let task = |precedence, number| PlacedTask {
        id: omega_core::TaskId { job: JobId(number), index: 0 },
        group: 0,
        precedence: omega_core::Precedence(precedence),
        devices: Default::default(),
        placed_ms: 0,
    };
    let candidate = |row, victims: &[(i32, u64)], violations| {
        let victims = victims.iter().map(|(precedence, number)| task(*precedence, *number));
        Candidate { row, victims: victims.collect(), violations }
    };
    // Each candidate is better than all before it. The criteria are, in order: violated budgets, highest precedence,
    // sum of precedences, number, and age of the victims.
    let candidates = [
        candidate(0, &[(1, 1)], 1),
        candidate(1, &[(5, 2)], 0),
        candidate(2, &[(4, 3), (4, 4)], 0),
        candidate(3, &[(4, 5), (3, 6)], 0),
        candidate(4, &[(4, 7)], 0),
        candidate(5, &[(4, 8)], 0),
    ];
    for count in 1..=candidates.len() {
        let chosen = best(&candidates[..count]).map(|candidate| candidate.row);
        assert_eq!(chosen, Some(count - 1), "of the first {count}");
    }
    // Of equal candidates, the first is chosen.
    let equal = [candidate(7, &[(4, 8)], 0), candidate(8, &[(4, 8)], 0)];
    assert_eq!(best(&equal).map(|candidate| candidate.row), Some(7));
    assert_eq!(best(&[]), None);
}
