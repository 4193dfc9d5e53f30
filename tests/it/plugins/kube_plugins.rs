//! The plugins of kube-scheduler against their formulas, on random cells.

use crate::plugins::kube_naive as naive;
use crate::plugins::kube_world::{World, kinds, random_group};
use omega_core::{TaskGroup, TaskRule, WhenUnsatisfiable};
use omega_schedulers::appraise::appraise_score;
use omega_schedulers::plugins::{
    BalancedAllocation, FitArgs, NodeResourcesFit, ShapePoint, Strategy,
};
use omega_schedulers::{Appraisal, Profile, appraise};
use proptest::prelude::*;

/// Raw values and scores of a plugin by its name; `None` if it did not apply.
fn columns<'a>(appraisal: &'a Appraisal, name: &str) -> Option<(&'a [i64], Vec<i64>)> {
    let account = appraisal.scores.iter().find(|score| score.name == name).unwrap();
    let columns = account.columns.as_ref()?;
    assert!(columns.scores.iter().all(|score| score % 100 == 0 && (0..=10_000).contains(score)));
    Some((&columns.raw, columns.scores.iter().map(|score| score / 100).collect()))
}

/// Scores from raw values, in proportion to the largest value.
fn by_most(raw: &[i64]) -> Vec<i64> {
    let most = raw.iter().copied().max().unwrap_or(0);
    raw.iter().map(|raw| if most == 0 { 0 } else { 100 * raw / most }).collect()
}

fn check_filters(world: &World, group: &TaskGroup, appraisal: &Appraisal, seed: u64) {
    for row in 0..world.machines.len() {
        let ours = appraisal.refused.iter().find(|refusal| refusal.row as usize == row);
        let ours = ours.map(|refusal| (refusal.filter, refusal.curable));
        let context = format!("seed {seed} row {row} {group:?} {:?}", world.machines[row]);
        assert_eq!(ours, naive::refusal(world, group, row), "{context}");
        assert_eq!(ours.is_none(), appraisal.feasible.contains(&(row as u32)));
    }
}

fn check_relative(world: &World, group: &TaskGroup, appraisal: &Appraisal) {
    let rows = || appraisal.feasible.iter().map(|row| *row as usize);
    let raw: Vec<i64> = rows().map(|row| naive::tainted(world, group, row)).collect();
    let points: Vec<i64> = by_most(&raw).iter().map(|points| 100 - points).collect();
    assert_eq!(columns(appraisal, "taint_toleration"), Some((&*raw, points)));

    let raw: Vec<i64> = rows().map(|row| naive::preferred(world, group, row)).collect();
    let wishes = !group.rules.affinity.preferred.is_empty();
    assert_eq!(columns(appraisal, "node_affinity"), wishes.then(|| (&*raw, by_most(&raw))));

    let raw: Vec<i64> = rows().map(|row| naive::drawn(world, group, row)).collect();
    let (least, most) = (raw.iter().min(), raw.iter().max());
    let ours = columns(appraisal, "inter_pod_affinity");
    assert!(ours.is_some() || raw.iter().all(|raw| *raw == 0));
    if let (Some((ours, points)), Some((least, most))) = (ours, least.zip(most)) {
        assert_eq!(ours, raw);
        let range = (most - least).max(1) as f64;
        let of = |raw: &i64| (100.0 * ((raw - least) as f64 / range)) as i64;
        assert_eq!(points, raw.iter().map(of).collect::<Vec<_>>());
    }
}

fn check_spread(world: &World, group: &TaskGroup, appraisal: &Appraisal) {
    let wished = |rule: &TaskRule| match rule {
        TaskRule::Spread(spread) => spread.when == WhenUnsatisfiable::ScheduleAnyway,
        _ => false,
    };
    let ours = columns(appraisal, "pod_topology_spread");
    let Some((ours, points)) = ours else {
        assert!(!group.rules.tasks.iter().any(wished));
        return;
    };
    let rows = appraisal.feasible.iter();
    let raw: Vec<Option<i64>> =
        rows.map(|row| naive::spread(world, group, &appraisal.feasible, *row as usize)).collect();
    assert_eq!(ours, raw.iter().map(|raw| raw.unwrap_or(0)).collect::<Vec<_>>());
    let least = raw.iter().flatten().min().copied().unwrap_or(0);
    let most = raw.iter().flatten().max().copied().unwrap_or(0);
    let of = |raw: &Option<i64>| match (raw, most) {
        (None, _) => 0,
        (Some(_), 0) => 100,
        (Some(raw), most) => 100 * (most + least - raw) / most,
    };
    assert_eq!(points, raw.iter().map(of).collect::<Vec<_>>());
}

fn average(parts: &[(i64, i64)]) -> i64 {
    let weights: i64 = parts.iter().map(|(_, weight)| weight).sum();
    parts.iter().map(|(points, weight)| points * weight).sum::<i64>() / weights.max(1)
}

fn left(used: i64, capacity: i64) -> i64 {
    if used > capacity { 0 } else { (capacity - used) * 100 / capacity }
}

fn check_local(world: &World, group: &TaskGroup, appraisal: &Appraisal) {
    let rows = || appraisal.feasible.iter().map(|row| *row as usize);
    let fit = |row| average(&naive::fit(world, group, row, left, [1, 1, 0]));
    let expected: Vec<i64> = rows().map(fit).collect();
    assert_eq!(columns(appraisal, "node_resources_fit").unwrap().1, expected);

    let balanced = |row| naive::balanced(world, group, row, &["cpu", "memory"]);
    let asks = ["cpu", "memory"]
        .iter()
        .any(|kind| crate::plugins::kube_world::of(&group.request, kind) > 0);
    let expected = asks.then(|| rows().map(balanced).collect::<Vec<i64>>());
    assert_eq!(columns(appraisal, "balanced_allocation").map(|(_, points)| points), expected);

    match columns(appraisal, "image_locality") {
        None => {
            assert!(group.images.is_empty() || rows().all(|r| naive::images(world, group, r) == 0))
        }
        Some((_, points)) => {
            let expected: Vec<i64> = rows().map(|row| naive::images(world, group, row)).collect();
            assert_eq!(points, expected);
        }
    }
}

/// Checks arguments other than the defaults on all machines, including overfull ones.
fn check_arguments(world: &mut World, group: &TaskGroup) {
    let weights = [3, 1, 5];
    let resources = ["cpu", "memory", "example.com/fpga"];
    let named = || resources.iter().zip(weights).map(|(name, w)| ((*name).to_owned(), w as u32));
    let shape = [(0, 0), (40, 3), (100, 10)];
    let points = shape.map(|(percent, score)| ShapePoint { percent, score }).to_vec();
    let strategies = [
        Strategy::LeastAllocated,
        Strategy::MostAllocated,
        Strategy::RequestedToCapacityRatio(points),
    ];
    let rows: Vec<u32> = (0..world.machines.len() as u32).collect();
    let compiled = world.compile(group);
    let used = |used: i64, capacity: i64| used.min(capacity) * 100 / capacity;
    let worth = |used_: i64, capacity: i64| match used(used_, capacity) {
        percent @ 0..=40 => 30 * percent / 40,
        percent => 30 + 70 * (percent - 40) / 60,
    };
    for strategy in strategies {
        let args = FitArgs {
            strategy: strategy.clone(),
            resources: named().collect(),
            ..FitArgs::default()
        };
        let fit = NodeResourcesFit::new(&args, &kinds());
        omega_schedulers::Score::keep(&fit, &mut world.view);
        let ours = appraise_score(&world.view, &fit, compiled, &rows).unwrap().scores;
        let expected = rows.iter().map(|row| {
            let row = *row as usize;
            let of =
                |points: &dyn Fn(i64, i64) -> i64| naive::fit(world, group, row, points, weights);
            match &strategy {
                Strategy::LeastAllocated => average(&of(&left)),
                Strategy::MostAllocated => average(&of(&used)),
                Strategy::RequestedToCapacityRatio(_) => {
                    let parts: Vec<_> = of(&worth).into_iter().filter(|part| part.0 > 0).collect();
                    let sum: i64 = parts.iter().map(|(points, weight)| points * weight).sum();
                    let weights: i64 = parts.iter().map(|(_, weight)| weight).sum();
                    (sum as f64 / weights.max(1) as f64).round() as i64
                }
            }
        });
        let expected: Vec<i64> = expected.map(|points| points * 100).collect();
        assert_eq!(ours, expected, "{strategy:?}");
    }
    for count in 1..=3 {
        let score = BalancedAllocation::new(&resources[..count], &kinds());
        omega_schedulers::Score::keep(&score, &mut world.view);
        let Some(ours) = appraise_score(&world.view, &score, compiled, &rows) else { continue };
        let expected = rows
            .iter()
            .map(|row| 100 * naive::balanced(world, group, *row as usize, &resources[..count]));
        assert_eq!(ours.scores, expected.collect::<Vec<_>>(), "{count} kinds");
    }
}

fn check(seed: u64, machines: usize, tasks: usize) {
    let profile = Profile::kube(&kinds());
    let mut world = World::new(seed, machines, &profile);
    (0..tasks).for_each(|_| world.step());
    for _ in 0..6 {
        let group = random_group(&mut world.dice, machines);
        let compiled = world.compile(&group);
        let appraisal = appraise(&world.view, &profile, compiled);
        check_filters(&world, &group, &appraisal, seed);
        check_relative(&world, &group, &appraisal);
        check_spread(&world, &group, &appraisal);
        check_local(&world, &group, &appraisal);
        check_arguments(&mut world, &group);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_plugins_of_kubernetes_answer_by_their_formulas(
        seed in any::<u64>(), machines in 1usize..100, tasks in 0usize..60,
    ) {
        check(seed, machines, tasks);
    }
}
