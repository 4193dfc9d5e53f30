//! Random objectives, including objectives for single machines, load, moves and rules.

use omega_core::{KindId, Text, TopologyLevel};
use omega_schedulers::rebalance::aims::curve::{Curve, Point};
use omega_schedulers::rebalance::aims::demand::Demand;
use omega_schedulers::rebalance::aims::machines::{MachineAims, MachineSet};
use omega_schedulers::rebalance::aims::move_costs::{MoveCost, MoveCosts};
use omega_schedulers::rebalance::aims::rules::{Limit, Rule};
use omega_schedulers::rebalance::{Objectives, Pair, Ratio, Safety};
use omega_tests::random::Dice;

/// A set of machines: those of a random zone, or of two names.
fn machine_set(dice: &mut Dice) -> MachineSet {
    match dice.below(3) {
        0 => MachineSet::default(),
        1 => {
            let zone = (["zone", &format!("z{}", dice.below(3))]).map(Into::into);
            MachineSet { labels: vec![zone.into()], ..MachineSet::default() }
        }
        _ => {
            let names = [dice.below(10), dice.below(10)].map(|row| format!("m{row}").into());
            MachineSet { names: names.into(), ..MachineSet::default() }
        }
    }
}

fn machine_aims(dice: &mut Dice) -> MachineAims {
    let safety = (0..dice.below(3)).map(|_| (KindId(dice.below(4) as u8), dice.below(120) as u32));
    MachineAims {
        safety: safety.collect(),
        in_use: dice.chance(50).then(|| dice.below(300) as u32),
        of: machine_set(dice),
    }
}

/// A curve through two to six random points.
fn curve(dice: &mut Dice) -> Curve {
    let (mut used, mut cost, mut slope) = (dice.below(60) as u32, dice.below(2) as u32, 0);
    let mut points = vec![Point { used, cost }];
    for _ in 0..1 + dice.below(5) {
        let run = 1 + dice.below(30) as u32;
        slope += dice.below(3) as u32;
        (used, cost) = (used + run, cost + slope * run);
        points.push(Point { used, cost });
    }
    Curve::new(points).unwrap()
}

fn move_costs(dice: &mut Dice) -> MoveCosts {
    let entry = |dice: &mut Dice| MoveCost {
        from: machine_set(dice),
        to: machine_set(dice),
        across: dice.chance(50).then(|| TopologyLevel::Label("zone".into())),
        cost: dice.below(20) as u32,
    };
    let pair = |dice: &mut Dice| {
        let [from, to] = [dice.below(10), dice.below(10)].map(|row| format!("m{row}").into());
        ((from, to), dice.below(50) as u32)
    };
    MoveCosts {
        entries: (0..dice.below(3)).map(|_| entry(dice)).collect(),
        table: (0..dice.below(20)).map(|_| pair(dice)).collect(),
        jobs: (0..dice.below(3)).map(|_| (format!("j{}", dice.below(8)).into(), 7)).collect(),
    }
}

/// Objectives with random weights.
pub(crate) fn objectives(dice: &mut Dice) -> Objectives {
    let weight = |dice: &mut Dice| [0, 0, 1, 3, 100][dice.below(5)];
    let safety = |dice: &mut Dice| Safety {
        percent: dice.below(120) as u32,
        weight: [0, 1, 10][dice.below(3)],
    };
    let kind = |dice: &mut Dice| KindId(dice.below(4) as u8);
    let pair = |dice: &mut Dice| Pair {
        free: kind(dice),
        beside: kind(dice),
        ratio: if dice.chance(50) {
            Ratio::Percent(dice.below(200) as u32)
        } else {
            Ratio::Amounts { want: dice.below(9) as u64, per: 1 + dice.below(9) as u64 }
        },
    };
    let levels = [TopologyLevel::Machine, TopologyLevel::Label("zone".into())];
    Objectives {
        misplaced: [0, 1000][dice.below(2)],
        load: safety(dice),
        loads: (0..dice.below(3)).map(|_| (kind(dice), safety(dice))).collect(),
        balance: weight(dice),
        pairs: (0..dice.below(3)).map(|_| pair(dice)).collect(),
        fragments: weight(dice),
        crowding: weight(dice),
        level: dice.pick(&levels).clone(),
        moves: dice.below(2) as u32,
        job_moves: dice.below(3) as u32,
        in_use: weight(dice),
        machine_moves: dice.below(3) as u32,
        machines: (0..dice.below(3)).map(|_| machine_aims(dice)).collect(),
        curves: (0..dice.below(2)).map(|_| (kind(dice), curve(dice))).collect(),
        demand: (0..dice.below(2)).map(|_| (kind(dice), demand(dice))).collect(),
        move_costs: move_costs(dice),
        rules: (0..[0, 0, 4, 12][dice.below(4)]).map(|_| rule(dice)).collect(),
    }
}

fn demand(dice: &mut Dice) -> Demand {
    let points = 1 + dice.below(7);
    let mut demand = Demand::default();
    for job in 0..1 + dice.below(8) {
        let percent = (0..points).map(|_| dice.below(180) as u16).collect();
        demand.add(format!("j{job}").into(), percent).unwrap();
    }
    demand
}

fn rule(dice: &mut Dice) -> Rule {
    let job = |dice: &mut Dice| Text::from(format!("j{}", dice.below(8)));
    let levels = [TopologyLevel::Machine, TopologyLevel::Label("zone".into())];
    let limit = match dice.below(3) {
        0 => Limit::Domains(1 + dice.below(4) as u32),
        1 => Limit::Needs(job(dice)),
        _ => Limit::MaxColocated { other: job(dice), count: dice.below(3) as u32 },
    };
    Rule { job: job(dice), level: dice.pick(&levels).clone(), limit }
}
