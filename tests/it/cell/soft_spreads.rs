//! Counters of a view, for scores and for families of rules, compared with a scan of all tasks.

use crate::cell::histories::seeds;
use crate::cell::views::World;
use omega_cellstate::{BLOCK, GroupRef, Need, RuleFamily, SoftSpread, View};
use omega_core::{JobId, Spread, TaskRule, WhenUnsatisfiable};

const FAMILIES: [RuleFamily; 4] =
    [RuleFamily::Ports, RuleFamily::Spread, RuleFamily::Neighbours, RuleFamily::Limits];

/// The soft spreads of a group, as its description has them.
fn written(view: &View, group: GroupRef) -> Vec<Spread> {
    let (job, index) = view.job(group);
    let wished = job.groups[index].rules.tasks.iter().filter_map(|rule| match rule {
        TaskRule::Spread(spread) if spread.when == WhenUnsatisfiable::ScheduleAnyway => {
            Some(spread.clone())
        }
        _ => None,
    });
    wished.collect()
}

/// Attraction to the machine in a row. The required affinities of other tasks are weighted with zero, and then with
/// seven.
pub(crate) fn draw(view: &View, need: &Need, row: usize) -> [i64; 2] {
    let draws = view.draws(need);
    [0, 7].map(|required| draws.of_block(view.block(row / BLOCK), required)[row % BLOCK])
}

fn assert_draws(world: &World, view: &View, group: GroupRef, id: (JobId, usize)) {
    let need = view.need(group);
    for row in 0..view.rows() {
        let (own, others, seekers) = world.reference.draw(id.0, id.1, row);
        let context = format!("seed {} group {id:?} row {row}", world.seed);
        let expected = [own + others, own + others + 7 * seekers as i64];
        assert_eq!(draw(view, need, row), expected, "{context}");
        let drawn = (own, others, seekers) != (0, 0, 0);
        assert!(!view.draws(need).is_empty() || !drawn, "{context}");
    }
}

fn assert_wish(
    world: &World,
    view: &View,
    (id, wish): ((JobId, usize), &SoftSpread),
    written: &Spread,
) {
    let place = |row| world.reference.spread_place(id, written, row);
    assert_eq!(wish.skew_max, written.skew_max);
    for row in (0..view.rows()).filter(|row| view.machine(*row).is_some()) {
        let context = format!("seed {} group {id:?} row {row}", world.seed);
        let expected = place(row).map(|(_, count)| count as u32);
        let counts = view.soft_spread(wish).unwrap();
        let (block, lane) = (view.block(row / BLOCK), row % BLOCK);
        let count = |_| counts.of_block(block)[lane];
        assert_eq!(counts.domain(row).map(count), expected, "{context}");
        assert_eq!(counts.placed(block, u64::MAX) >> lane & 1 == 1, expected.is_some());
        for other in (0..row).filter(|row| view.machine(*row).is_some()) {
            let (ours, theirs) = (counts.domain(row), counts.domain(other));
            let together = place(row).zip(place(other)).map(|(a, b)| a.0 == b.0);
            assert_eq!(ours.zip(theirs).map(|(a, b)| a == b), together, "{context}, {other}");
        }
    }
}

/// Checks that the families of rules together agree with all rules.
fn assert_families(world: &World, view: &View, group: GroupRef) {
    let need = view.need(group);
    for index in 0..view.blocks() {
        let block = view.block(index);
        let among = block.schedulable();
        let words = FAMILIES.map(|family| block.family_allows(need, family, among));
        let all = words.into_iter().fold(among, |all, word| all & word);
        assert_eq!(all, block.rules_allow(need, among), "seed {}", world.seed);
        for row in (index * BLOCK..view.rows()).take(BLOCK) {
            for (family, word) in FAMILIES.iter().zip(words) {
                let judged = view.check_rules(need, *family, row).is_ok();
                let asked = among >> (row % BLOCK) & 1 == 1;
                assert_eq!(word >> (row % BLOCK) & 1 == 1, judged && asked);
            }
        }
    }
}

#[test]
fn a_view_counts_what_tasks_wish_of_each_other() {
    for seed in seeds(250) {
        let mut world = World::new(seed);
        let mut view = world.fresh_view();
        for _ in 0..60 {
            world.step();
            if !world.dice.chance(15) {
                continue;
            }
            view.sync(&world.cell).unwrap();
            for id in world.groups() {
                let group = world.compile(&mut view, id);
                assert_draws(&world, &view, group, id);
                assert_families(&world, &view, group);
                let written = written(&view, group);
                let wishes = view.need(group).soft_spreads();
                assert_eq!(wishes.len(), written.len());
                for (wish, written) in wishes.iter().zip(&written) {
                    assert_wish(&world, &view, (id, wish), written);
                }
            }
        }
    }
}
