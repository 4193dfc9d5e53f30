//! Objectives of a pass: weighted costs of where tasks run, in integers.
//!
//! Amounts of different kinds are compared as parts of a *mean machine*: what the machines that have any of
//! a kind have of it on average is 1,000,000 parts. So a cost of one million is "one machine" whatever the
//! kind, weights mean the same in every cell, and a sum does not depend on its order.
//!
//! | term | what it costs |
//! |---|---|
//! | misplaced | each task on a machine that would not take it now for what the machine is: a million |
//! | load, of each kind | what is claimed of a machine above its safety level |
//! | balance | what is free of one kind without as much of another beside it |
//! | fragments | machines that are neither full nor empty: a million for one that is half full, 4 f (1 - f) |
//! | crowding | each pair of tasks of one job in one domain: ten thousand |
//! | moves | each moved task: ten thousand, and its largest part of a mean machine |
//! | job moves | the most tasks that any job has moved: ten thousand each |
//!
//! Load, balance and the two costs of moving are those of the machine reassignment problem (ROADEF/EURO
//! challenge 2012). All but the last three are sums over machines that depend on one machine alone, so a move
//! changes two summands. A machine that drains, or is not there, costs only what is misplaced on it.

use omega_core::limits::KINDS_MAX;
use omega_core::{KindId, Kinds, TopologyLevel};
use serde::Serialize;
use std::collections::BTreeMap;

/// Parts of a mean machine that are one machine.
pub const MACHINE: i64 = 1_000_000;

/// Cost of each pair of tasks of one job in one domain.
pub const PAIR: i64 = 10_000;

/// Cost of each moved task, beside its part of a mean machine; and each task of the job that moves most.
pub const MOVE: i64 = 10_000;

/// The largest weight: with it the costs of a machine stay below 2^60.
pub const WEIGHT_MAX: u32 = 10_000;

/// More parts than these are not told apart: a million machines.
pub const PARTS_MAX: u64 = 1 << 40;

/// One summand of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Tasks on machines that would not take them now.
    Misplaced,
    /// Claimed amount of a kind above the safety level.
    Load(KindId),
    /// Free amount of one kind without another beside it.
    Balance,
    /// Machines that are neither full nor empty.
    Fragments,
    /// Tasks of one job that are close together.
    Crowding,
    /// Its cost to move tasks.
    Moves,
    /// The most tasks that any job has moved.
    JobMoves,
}

impl Term {
    /// Its name, for people and programs.
    #[must_use]
    pub fn name(self, kinds: &Kinds) -> String {
        match self {
            Term::Misplaced => "misplaced".into(),
            Term::Load(kind) => {
                let name = kinds.get(kind).map_or("?", |kind| kind.name.as_str());
                format!("load {name}")
            }
            Term::Balance => "balance".into(),
            Term::Fragments => "fragments".into(),
            Term::Crowding => "crowding".into(),
            Term::Moves => "moves".into(),
            Term::JobMoves => "job moves".into(),
        }
    }
}

/// Safety level of a kind on one machine, and the weight of usage above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safety {
    /// Up to this part of what may be claimed, nothing.
    pub percent: u32,
    /// Weight of usage above it.
    pub weight: u32,
}

/// For so much of one kind that is free, so much of another is to be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The kind that is free.
    pub free: KindId,
    /// The kind that is to be free beside it.
    pub beside: KindId,
    /// Amount of it, as parts of a mean machine: 100 is as large a part.
    pub percent: u32,
}

/// Objectives of a pass: a weight for each term, 0 for what does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objectives {
    /// Of tasks on machines that would not take them now.
    pub misplaced: u32,
    /// Of load, where `loads` does not name the kind.
    pub load: Safety,
    /// Of load, by kind.
    pub loads: BTreeMap<KindId, Safety>,
    /// Of what is free without something else beside it.
    pub balance: u32,
    /// Pairs of resources that are to be free together.
    pub pairs: Vec<Pair>,
    /// Of machines that are neither full nor empty.
    pub fragments: u32,
    /// Of tasks of one job in one domain.
    pub crowding: u32,
    /// Which domains: machines, or those that a label names.
    pub level: TopologyLevel,
    /// Of each move.
    pub moves: u32,
    /// Of the most moves of any job.
    pub job_moves: u32,
}

impl Objectives {
    /// Takes tasks off machines that drain, or whose labels or taints have changed, and does nothing else.
    #[must_use]
    pub fn drain() -> Objectives {
        let none = Safety { percent: 80, weight: 0 };
        let both = |(free, beside)| Pair { free, beside, percent: 100 };
        let pairs = [(KindId::CPU, KindId::MEMORY), (KindId::MEMORY, KindId::CPU)];
        Objectives {
            misplaced: 1000,
            load: none,
            loads: BTreeMap::new(),
            balance: 0,
            pairs: pairs.map(both).into(),
            fragments: 0,
            crowding: 0,
            level: TopologyLevel::Machine,
            moves: 1,
            job_moves: 1,
        }
    }

    /// Takes load off machines that have more than 80 % of a kind claimed, and levels what is free.
    #[must_use]
    pub fn balance() -> Objectives {
        Objectives { load: Safety { percent: 80, weight: 10 }, balance: 1, ..Objectives::drain() }
    }

    /// Makes machines full or empty.
    #[must_use]
    pub fn defragment() -> Objectives {
        Objectives { fragments: 10, ..Objectives::drain() }
    }

    /// Brings tasks of one job apart, over machines unless another level is named, and does not fill machines
    /// above 80 %.
    #[must_use]
    pub fn spread() -> Objectives {
        Objectives {
            crowding: 100,
            load: Safety { percent: 80, weight: 10 },
            ..Objectives::drain()
        }
    }

    /// Safety level of a kind.
    #[must_use]
    pub fn safety(&self, kind: KindId) -> Safety {
        self.loads.get(&kind).copied().unwrap_or(self.load)
    }

    /// The weight of a term.
    #[must_use]
    pub fn weight(&self, term: Term) -> u32 {
        match term {
            Term::Misplaced => self.misplaced,
            Term::Load(kind) => self.safety(kind).weight,
            Term::Balance => self.balance,
            Term::Fragments => self.fragments,
            Term::Crowding => self.crowding,
            Term::Moves => self.moves,
            Term::JobMoves => self.job_moves,
        }
    }
}

/// Cost of each term, before it is weighed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Load, in the order of the kinds.
    pub load: Vec<i128>,
    /// The other terms; see the head of the file.
    pub misplaced: i128,
    /// Free without another kind beside it.
    pub balance: i128,
    /// Neither full nor empty.
    pub fragments: i128,
    /// Pairs of a job in one domain.
    pub crowding: i128,
    /// Moved tasks.
    pub moves: i128,
    /// Those of the job that moves most.
    pub job_moves: i128,
}

impl Costs {
    /// Nothing costs anything yet.
    #[must_use]
    pub fn none(kinds: usize) -> Costs {
        Costs { load: vec![0; kinds], ..Costs::default() }
    }

    /// Each term with its cost.
    pub fn terms(&self) -> impl Iterator<Item = (Term, i128)> + '_ {
        let load = (0..).map(KindId).map(Term::Load).zip(self.load.iter().copied());
        let others = [
            (Term::Balance, self.balance),
            (Term::Fragments, self.fragments),
            (Term::Crowding, self.crowding),
            (Term::Moves, self.moves),
            (Term::JobMoves, self.job_moves),
        ];
        std::iter::once((Term::Misplaced, self.misplaced)).chain(load).chain(others)
    }

    /// The weighted sum: what a pass makes smaller.
    #[must_use]
    pub fn total(&self, objectives: &Objectives) -> i128 {
        self.terms().map(|(term, cost)| cost * i128::from(objectives.weight(term))).sum()
    }

    /// Adds what a machine costs, or with `sign` -1 takes it away.
    pub(super) fn count(&mut self, objective: &Objective, spot: Spot<'_>, sign: i128) {
        objective.each(spot, |term, cost| {
            let cost = i128::from(cost) * sign;
            match term {
                Term::Load(kind) => self.load[kind.index()] += cost,
                Term::Balance => self.balance += cost,
                _ => self.fragments += cost,
            }
        });
    }
}

/// A machine in the objective: what may be claimed of each kind, and what is free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) capacity: &'a [i64],
    pub(super) free: &'a [i64],
}

/// The objectives, ready for the machines of a cell.
#[derive(Clone, Debug)]
pub(super) struct Objective {
    pub(super) objectives: Objectives,
    /// By kind: what the machines that have any have on average.
    means: Vec<u64>,
    safety: Vec<Safety>,
    pub(super) kinds: usize,
}

/// An amount in parts of another one.
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

impl Objective {
    /// The objectives for machines on which this may be claimed: of each machine every kind, in order.
    pub(super) fn new(objectives: &Objectives, capacity: &[i64], kinds: usize) -> Objective {
        let mut sums = [(0u128, 0u128); KINDS_MAX];
        for machine in capacity.chunks(kinds) {
            for (amount, (sum, count)) in machine.iter().zip(&mut sums) {
                *sum += u128::from(amount.unsigned_abs());
                *count += u128::from(*amount > 0);
            }
        }
        let mean = |(sum, count): &(u128, u128)| match sum.checked_div(*count) {
            Some(mean) => u64::try_from(mean).unwrap_or(u64::MAX).max(1),
            None => 1,
        };
        Objective {
            objectives: objectives.clone(),
            means: sums[..kinds].iter().map(mean).collect(),
            safety: (0..kinds as u8).map(|kind| objectives.safety(KindId(kind))).collect(),
            kinds,
        }
    }

    /// An amount in parts of what a mean machine has of the kind.
    fn parts(&self, kind: usize, amount: i64) -> i64 {
        parts(amount, self.means[kind])
    }

    /// Tells what a machine costs, term by term, of those that count.
    #[inline]
    fn each(&self, spot: Spot<'_>, mut tell: impl FnMut(Term, i64)) {
        let Spot { capacity, free } = spot;
        for (kind, safety) in self.safety.iter().enumerate().filter(|(_, s)| s.weight > 0) {
            let above = capacity[kind] - free[kind] - safe(capacity[kind], *safety);
            if above > 0 {
                tell(Term::Load(KindId(kind as u8)), self.parts(kind, above));
            }
        }
        if self.objectives.balance > 0 {
            for pair in &self.objectives.pairs {
                let (one, other) = (pair.free.index(), pair.beside.index());
                if one < self.kinds && other < self.kinds {
                    let wanted = self.parts(one, free[one]) * i64::from(pair.percent) / 100;
                    tell(Term::Balance, (wanted - self.parts(other, free[other])).max(0));
                }
            }
        }
        if self.objectives.fragments > 0 {
            tell(Term::Fragments, fragments(spot));
        }
    }

    /// By kind: what the machines that have any have on average.
    pub(super) fn means(&self) -> &[u64] {
        &self.means
    }

    /// Part of a capacity above the safety level.
    pub(super) fn unsafe_part(&self, kind: usize, capacity: i64) -> i64 {
        capacity - safe(capacity, self.safety[kind])
    }

    /// Whether so much of a kind is more than is safe.
    pub(super) fn is_above(&self, kind: usize, capacity: i64, used: i64) -> bool {
        used > safe(capacity, self.safety[kind]).max(0)
    }

    /// Cost of a machine, weighed.
    #[inline]
    pub(super) fn value(&self, spot: Spot<'_>) -> i64 {
        let mut value = 0;
        self.each(spot, |term, cost| {
            let weight = match term {
                Term::Load(kind) => self.safety[kind.index()].weight,
                Term::Balance => self.objectives.balance,
                _ => self.objectives.fragments,
            };
            value += cost * i64::from(weight);
        });
        value
    }

    /// Its cost to move a task with this request, not weighed.
    pub(super) fn of_move(&self, request: &[i64]) -> i64 {
        let parts = request.iter().enumerate().map(|(kind, amount)| self.parts(kind, *amount));
        MOVE + parts.max().unwrap_or(0)
    }

    /// More than this no machine becomes cheaper by a task with this request that comes to it, weighed: of what is
    /// free of one kind alone it takes what it claims, and a half full machine it fills.
    pub(super) fn arrival_gain_max(&self, request: &[i64]) -> i64 {
        let mut most = MACHINE * i64::from(self.objectives.fragments);
        if self.objectives.balance > 0 {
            for pair in self.objectives.pairs.iter().filter(|pair| pair.free.index() < self.kinds) {
                let kind = pair.free.index();
                // Whole parts are counted: one more may be lost on the way.
                let taken = (self.parts(kind, request[kind]) + 1) * i64::from(pair.percent) / 100;
                most += (taken + 1) * i64::from(self.objectives.balance);
            }
        }
        most
    }
}

/// Part of a capacity that is safe.
fn safe(capacity: i64, safety: Safety) -> i64 {
    // A capacity is at most 2^50 x 10.
    (i128::from(capacity) * i128::from(safety.percent) / 100) as i64
}

/// Distance of a machine from full and from empty: by the kind of which the largest part is claimed.
fn fragments(spot: Spot<'_>) -> i64 {
    let kinds = spot.capacity.iter().zip(spot.free).filter(|(capacity, _)| **capacity > 0);
    let used = kinds.map(|(capacity, free)| parts(capacity - free, capacity.unsigned_abs()));
    let used = used.max().unwrap_or(0).min(MACHINE);
    4 * used * (MACHINE - used) / MACHINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::Amounts;

    fn objective(objectives: &Objectives) -> Objective {
        let safety = (0..2).map(|kind| objectives.safety(KindId(kind))).collect();
        Objective { objectives: objectives.clone(), means: vec![1000, 100], safety, kinds: 2 }
    }

    fn costs(objectives: &Objectives, capacity: [i64; 2], free: [i64; 2]) -> Costs {
        let mut costs = Costs::none(2);
        let spot = Spot { capacity: &capacity, free: &free };
        costs.count(&objective(objectives), spot, 1);
        let weighed = costs.total(objectives);
        assert_eq!(weighed, i128::from(objective(objectives).value(spot)), "one sum, two ways");
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
        let pairs = vec![Pair { free: KindId::CPU, beside: KindId::MEMORY, percent: 50 }];
        let objectives = Objectives { pairs, ..objectives };
        assert_eq!(costs(&objectives, [2000, 100], [1000, 40]).balance, 100_000);
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
        assert_eq!(objective(&Objectives::drain()).of_move(&request), MOVE + 900_000);
    }
}
