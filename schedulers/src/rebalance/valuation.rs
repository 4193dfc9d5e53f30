//! Valuation: the objectives, compiled for the kinds of a cell, and the cost of one machine from its free amounts.

use super::aims::curve::Curve;
use super::aims::demand::{Change, Swings};
use super::objective::{Costs, MACHINE, MOVE, Objectives, PARTS_MAX, Pair, Ratio, Term};
use omega_core::limits::KINDS_MAX;
use omega_core::{KindId, Machine};

/// Data of a machine from which its cost is computed: its row, and for each kind the claimable amount, the free amount,
/// and the amount up to the safety level.
///
/// `in_use` is the cost of the machine while something is claimed on it. `swings` gives the use of its tasks over time.
/// `changes` are arrivals and departures that are included in the free amounts, but not in `swings`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) row: usize,
    pub(super) capacity: &'a [i64],
    pub(super) free: &'a [i64],
    pub(super) safe: &'a [i64],
    pub(super) in_use: i64,
    pub(super) swings: &'a Swings,
    pub(super) changes: &'a [Change<'a>],
}

/// Objectives, compiled for the kinds of a cell.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    pub(super) objectives: Objectives,
    /// Weight of each kind's load.
    loads: Vec<u32>,
    /// Curve of load by use, for the kinds that have one.
    curves: Vec<Option<Curve>>,
    pub(super) kinds: usize,
}

/// Objectives, with the amounts of a mean machine, in which costs are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objective<'a> {
    pub(super) weights: &'a Weights,
    /// The mean amount of each kind, over the machines that have any of it.
    pub(super) means: &'a [u64],
}

/// Returns an amount in millionths of the amount `of`.
fn parts(amount: i64, of: u64) -> i64 {
    let amount = amount.max(0).unsigned_abs();
    let parts = match amount.checked_mul(MACHINE.unsigned_abs()) {
        Some(product) => product / of,
        None => {
            let parts = u128::from(amount) * u128::from(MACHINE.unsigned_abs()) / u128::from(of);
            u64::try_from(parts).unwrap_or(PARTS_MAX)
        }
    };
    parts.min(PARTS_MAX) as i64
}

impl Weights {
    /// Compiles objectives for a cell with this number of kinds.
    pub(super) fn new(objectives: &Objectives, kinds: usize) -> Weights {
        let each = (0..kinds as u8).map(KindId);
        Weights {
            objectives: objectives.clone(),
            loads: each.clone().map(|kind| objectives.safety(kind).weight).collect(),
            curves: each.map(|kind| objectives.curves.get(&kind).cloned()).collect(),
            kinds,
        }
    }

    /// Writes the amounts of a machine up to its safety levels to `safe`. Returns the cost of the machine while it is
    /// in use.
    pub(super) fn levels(
        &self,
        machine: Option<&Machine>,
        capacity: &[i64],
        safe: &mut [i64],
    ) -> i64 {
        let mut levels = [0; KINDS_MAX];
        for (kind, level) in (0..).map(KindId).zip(&mut levels[..self.kinds]) {
            *level = self.objectives.safety(kind).percent;
        }
        let mut in_use = 100;
        for aims in &self.objectives.machines {
            if !machine.is_some_and(|machine| aims.of.includes(machine)) {
                continue;
            }
            for (kind, percent) in aims.safety.iter().filter(|(kind, _)| kind.index() < self.kinds)
            {
                levels[kind.index()] = *percent;
            }
            in_use = aims.in_use.unwrap_or(in_use);
        }
        for ((safe, amount), level) in safe.iter_mut().zip(capacity).zip(levels) {
            *safe = below(*amount, level);
        }
        i64::from(in_use) * MACHINE / 100
    }
}

impl Objective<'_> {
    /// Returns an amount of a kind in parts of a mean machine.
    fn parts(&self, kind: usize, amount: i64) -> i64 {
        parts(amount, self.means[kind])
    }

    /// Adds the cost of a machine to the costs, or subtracts it if `sign` is -1.
    pub(super) fn count(&self, spot: Spot<'_>, sign: i128, costs: &mut Costs) {
        self.each(spot, |term, cost| {
            let cost = i128::from(cost) * sign;
            match term {
                Term::Load(kind) => costs.load[kind.index()] += cost,
                Term::Balance => costs.balance += cost,
                Term::InUse => costs.in_use += cost,
                _ => costs.fragments += cost,
            }
        });
    }

    /// Calls `add` with each term that depends on the machine alone, and the cost of the term.
    #[inline]
    pub(super) fn each(&self, spot: Spot<'_>, mut add: impl FnMut(Term, i64)) {
        let Spot { row, capacity, free, swings, changes, .. } = spot;
        for (kind, _) in self.weights.loads.iter().enumerate().filter(|(_, weight)| **weight > 0) {
            let (capacity, used) = (capacity[kind], capacity[kind] - free[kind]);
            let load = match swings.of(kind) {
                None => self.load(spot, kind, capacity, used),
                Some(swing) => {
                    let at = |point| used + swing.at(row, point, changes);
                    let loads =
                        (0..swing.points).map(|point| self.load(spot, kind, capacity, at(point)));
                    loads.sum::<i64>() / swing.points as i64
                }
            };
            if load > 0 {
                add(Term::Load(KindId(kind as u8)), load);
            }
        }
        if self.weights.objectives.balance > 0 {
            for pair in &self.weights.objectives.pairs {
                let (one, other) = (pair.free.index(), pair.beside.index());
                if one < self.weights.kinds && other < self.weights.kinds {
                    let wanted = self.wanted(pair, free[one]);
                    add(Term::Balance, (wanted - self.parts(other, free[other])).max(0));
                }
            }
        }
        if self.weights.objectives.fragments > 0 {
            add(Term::Fragments, fragments(spot));
        }
        if self.weights.objectives.in_use > 0
            && capacity.iter().zip(free).any(|(all, free)| all > free)
        {
            add(Term::InUse, spot.in_use);
        }
    }

    /// Returns the load cost of the amount `used` of a kind on a machine.
    #[inline]
    fn load(&self, spot: Spot<'_>, kind: usize, capacity: i64, used: i64) -> i64 {
        let above = match &self.weights.curves[kind] {
            None => used - spot.safe[kind],
            Some(curve) => curve.cost(capacity, used),
        };
        if above > 0 { self.parts(kind, above) } else { 0 }
    }

    /// Returns how much of the kind `beside` a balance desires for the free amount of the other kind, in parts of a
    /// mean machine.
    fn wanted(&self, pair: &Pair, free: i64) -> i64 {
        match pair.ratio {
            Ratio::Percent(percent) => {
                self.parts(pair.free.index(), free) * i64::from(percent) / 100
            }
            Ratio::Amounts { want, per } => {
                let amount = i128::from(free.max(0)) * i128::from(want) / i128::from(per.max(1));
                let amount = i64::try_from(amount).unwrap_or(i64::MAX);
                self.parts(pair.beside.index(), amount)
            }
        }
    }

    /// The weighted cost of a machine.
    #[inline]
    pub(super) fn value(&self, spot: Spot<'_>) -> i64 {
        let mut value = 0;
        self.each(spot, |term, cost| {
            let weight = match term {
                Term::Load(kind) => self.weights.loads[kind.index()],
                Term::Balance => self.weights.objectives.balance,
                Term::InUse => self.weights.objectives.in_use,
                _ => self.weights.objectives.fragments,
            };
            value += cost * i64::from(weight);
        });
        value
    }

    /// The cost of moving a task with this request, without weights.
    pub(super) fn of_move(&self, request: &[i64]) -> i64 {
        let parts = request.iter().enumerate().map(|(kind, amount)| self.parts(kind, *amount));
        MOVE + parts.max().unwrap_or(0)
    }

    /// Returns an upper bound of how much the weighted cost of a machine can fall when a task with this request
    /// arrives.
    ///
    /// The cost can fall for two reasons: the task may fill a half-empty machine, and it takes away free amounts that
    /// were out of balance, at most its request.
    pub(super) fn arrival_gain_max(&self, request: &[i64]) -> i64 {
        MACHINE * i64::from(self.weights.objectives.fragments) + self.balance_gain_max(request)
    }

    /// Returns an upper bound of how much the weighted cost of balance can fall when a task with this request arrives.
    fn balance_gain_max(&self, request: &[i64]) -> i64 {
        let Weights { objectives, kinds, .. } = self.weights;
        let mut most = 0;
        if objectives.balance > 0 {
            for pair in objectives.pairs.iter().filter(|pair| pair.free.index() < *kinds) {
                // Parts are rounded, so the difference may be two parts larger.
                let taken = match pair.ratio {
                    Ratio::Amounts { .. } if pair.beside.index() >= *kinds => 0,
                    Ratio::Amounts { .. } => self.wanted(pair, request[pair.free.index()]),
                    Ratio::Percent(percent) => {
                        let part = self.parts(pair.free.index(), request[pair.free.index()]);
                        (part + 1) * i64::from(percent) / 100
                    }
                };
                most += (taken + 2) * i64::from(objectives.balance);
            }
        }
        most
    }

    /// Returns by how much the weighted cost of load, balance and fragments usually falls and rises at most when a task
    /// with this request arrives at a machine. Fragments may change more on machines with less than half the capacity
    /// of a mean machine.
    pub(super) fn arrival_bounds(&self, request: &[i64]) -> (i64, i64) {
        let Weights { objectives, loads, curves, kinds } = self.weights;
        let parts = |kind: usize| self.parts(kind, request.get(kind).copied().unwrap_or(0));
        let largest = (0..*kinds).map(parts).max().unwrap_or(0);
        // The cost 4 f (1 - f) rises or falls by at most four times the change of f.
        let fragments = largest.saturating_mul(8).min(MACHINE) * i64::from(objectives.fragments);
        let mut loss = fragments;
        for (kind, (weight, curve)) in loads.iter().zip(curves).enumerate() {
            let steepest = curve.as_ref().map_or(100, Curve::steepest_percent);
            let load = (parts(kind) + 1).saturating_mul(steepest) / 100;
            loss = loss.saturating_add(load.saturating_mul(i64::from(*weight)));
        }
        for pair in objectives.pairs.iter().filter(|pair| pair.beside.index() < *kinds) {
            let load = (parts(pair.beside.index()) + 2) * i64::from(objectives.balance);
            loss = loss.saturating_add(load);
        }
        (self.balance_gain_max(request) + fragments, loss.min(1 << 60))
    }
}

/// Returns the part of a capacity that is below a safety level in percent.
fn below(capacity: i64, percent: u32) -> i64 {
    // A capacity is at most 2^50 x 10, so the product does not overflow.
    (i128::from(capacity) * i128::from(percent) / 100) as i64
}

/// Returns how far a machine is from both full and empty, by its kind with the largest claimed part: a million if half
/// of that kind is claimed.
fn fragments(spot: Spot<'_>) -> i64 {
    let kinds = spot.capacity.iter().zip(spot.free).filter(|(capacity, _)| **capacity > 0);
    let used = kinds.map(|(capacity, free)| parts(capacity - free, capacity.unsigned_abs()));
    let used = used.max().unwrap_or(0).min(MACHINE);
    4 * used * (MACHINE - used) / MACHINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::aims::curve::Point;
    use crate::rebalance::aims::machines::{MachineAims, MachineSet};
    use crate::rebalance::objective::{Costs, Safety};
    use omega_core::Amounts;

    /// A mean machine has 1000 of the first kind and 100 of the second.
    const MEANS: [u64; 2] = [1000, 100];

    fn costs(objectives: &Objectives, capacity: [i64; 2], free: [i64; 2]) -> Costs {
        let mut costs = Costs::none(2);
        let swings = Swings::default();
        let weights = Weights::new(objectives, 2);
        let objective = Objective { weights: &weights, means: &MEANS };
        let machine = Machine::new("m", Amounts::new([1, 1]));
        let mut safe = [0; 2];
        let in_use = weights.levels(Some(&machine), &capacity, &mut safe);
        let (capacity, free, safe) = (&capacity, &free, &safe);
        let spot = Spot { row: 0, capacity, free, safe, in_use, swings: &swings, changes: &[] };
        objective.count(spot, 1, &mut costs);
        let weighed = costs.total(objectives);
        assert_eq!(weighed, i128::from(objective.value(spot)), "one sum, two ways");
        costs
    }

    #[test]
    fn load_costs_what_lies_above_the_safety_level() {
        let mut objectives = Objectives { balance: 0, ..Objectives::balance() };
        assert_eq!(costs(&objectives, [2000, 100], [400, 20]).load, [0, 0]);
        assert_eq!(costs(&objectives, [2000, 100], [300, 20]).load, [100_000, 0]);
        assert_eq!(costs(&objectives, [2000, 100], [-100, 0]).load, [500_000, 200_000]);
        objectives.loads.insert(KindId::CPU, Safety { percent: 50, weight: 1 });
        let costs = costs(&objectives, [2000, 100], [300, 0]);
        assert_eq!(costs.load, [700_000, 200_000]);
        assert_eq!(costs.total(&objectives), 700_000 + 10 * 200_000);
    }

    #[test]
    fn balance_costs_what_is_free_of_one_kind_alone() {
        let objectives =
            Objectives { load: Safety { percent: 80, weight: 0 }, ..Objectives::balance() };
        assert_eq!(costs(&objectives, [2000, 100], [1000, 100]).balance, 0);
        assert_eq!(costs(&objectives, [2000, 100], [1000, 40]).balance, 600_000);
        assert_eq!(costs(&objectives, [2000, 100], [0, 40]).balance, 400_000);
        let pairs =
            vec![Pair { free: KindId::CPU, beside: KindId::MEMORY, ratio: Ratio::Percent(50) }];
        let objectives = Objectives { pairs, ..objectives };
        assert_eq!(costs(&objectives, [2000, 100], [1000, 40]).balance, 100_000);
        let ratio = Ratio::Amounts { want: 7, per: 90 };
        let pairs = vec![Pair { free: KindId::CPU, beside: KindId::MEMORY, ratio }];
        let objectives = Objectives { pairs, ..objectives };
        assert_eq!(costs(&objectives, [2000, 100], [1000, 40]).balance, 370_000, "77 less 40");
    }

    #[test]
    fn a_machine_may_have_its_own_levels_and_its_own_cost() {
        let aims = MachineAims {
            of: MachineSet { names: vec!["m".into()], ..MachineSet::default() },
            safety: [(KindId::CPU, 50)].into(),
            in_use: Some(30),
        };
        let other = MachineAims {
            of: MachineSet { names: vec!["other".into()], ..MachineSet::default() },
            safety: [(KindId::CPU, 10)].into(),
            in_use: None,
        };
        let objectives = Objectives {
            balance: 0,
            in_use: 2,
            machines: vec![aims, other],
            ..Objectives::balance()
        };
        let used = costs(&objectives, [2000, 100], [300, 20]);
        assert_eq!((&used.load[..], used.in_use), (&[700_000, 0][..], 300_000));
        assert_eq!(costs(&objectives, [2000, 100], [2000, 100]).in_use, 0, "empty");
    }

    #[test]
    fn load_may_follow_a_curve() {
        let points = [(50, 0), (100, 100)].map(|(used, cost)| Point { used, cost });
        let curves = [(KindId::CPU, Curve::new(points.into()).unwrap())].into();
        let objectives = Objectives { balance: 0, curves, ..Objectives::balance() };
        assert_eq!(costs(&objectives, [2000, 100], [500, 20]).load, [1_000_000, 0]);
    }

    #[test]
    fn half_full_machines_are_fragments() {
        let objectives = Objectives::defragment();
        let fragments = |cpu, memory| costs(&objectives, [1000, 100], [cpu, memory]).fragments;
        assert_eq!(fragments(1000, 100), 0, "empty");
        assert_eq!(fragments(0, 60), 0, "full of one kind");
        assert_eq!(fragments(500, 60), 1_000_000);
        assert_eq!(fragments(900, 75), 750_000);
        assert_eq!(fragments(-5, 60), 0, "more than full");
    }

    #[test]
    fn no_amount_is_too_large() {
        assert_eq!(parts(i64::MAX, 1), PARTS_MAX as i64);
        assert_eq!(parts(1 << 50, 1 << 50), MACHINE);
        assert_eq!(parts(-1, 7), 0);
        let request = Amounts::new([250, 90]);
        let request: Vec<i64> = request.as_slice().iter().map(|amount| *amount as i64).collect();
        let weights = Weights::new(&Objectives::drain(), 2);
        let objective = Objective { weights: &weights, means: &MEANS };
        assert_eq!(objective.of_move(&request), MOVE + 900_000);
    }
}
