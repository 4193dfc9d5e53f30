//! Objectives of a pass: weighted costs, in integers, which depend on the machines on which tasks run.
//!
//! Amounts of different kinds are compared in parts of a *mean machine*: a million parts are the mean amount of the
//! kind, over the machines that have any. So a cost of one million means "one machine" for every kind, weights have the
//! same meaning in every cell, and sums do not depend on their order.
//!
//! | term | cost |
//! |---|---|
//! | misplaced | a million for each task on a machine that would not accept it now, even with enough room |
//! | load, of each kind | the claimed amount of a machine above its safety level |
//! | balance | the free amount of one kind without an equal part of another on the same machine |
//! | fragments | machines that are neither full nor empty: 4 f (1 - f) million for a claimed part f, a million if it is half |
//! | crowding | ten thousand for each pair of tasks of one job in one domain |
//! | moves | ten thousand for each moved task, and its largest part of a mean machine |
//! | job moves | ten thousand for each moved task of the job with the most |
//!
//! Load, balance and the two costs of moves are those of the machine reassignment problem (ROADEF/EURO challenge 2012).
//! All but the last three are sums over machines, and each summand depends on one machine alone, so a move changes two
//! summands. For a machine that is draining or removed, only misplaced tasks are counted.

use omega_core::limits::KINDS_MAX;
use omega_core::{KindId, Kinds, TopologyLevel};
use serde::Serialize;
use std::collections::BTreeMap;

/// Number of parts of a mean machine.
pub const MACHINE: i64 = 1_000_000;

/// Cost of each pair of tasks of one job in one domain.
pub const PAIR: i64 = 10_000;

/// Cost of each moved task, added to its part of a mean machine. Also the cost of each moved task of the job with the
/// most moves.
pub const MOVE: i64 = 10_000;

/// The largest weight. With it, the cost of a machine stays below 2^60.
pub const WEIGHT_MAX: u32 = 10_000;

/// Upper bound of an amount in parts, a million machines; larger amounts count as this.
pub const PARTS_MAX: u64 = 1 << 40;

/// A summand of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Tasks on machines that would not accept them now.
    Misplaced,
    /// Claimed amount of a kind above the safety level.
    Load(KindId),
    /// Free amounts of one kind without enough of another on the same machine.
    Balance,
    /// Machines that are neither full nor empty.
    Fragments,
    /// Tasks of one job in one domain.
    Crowding,
    /// Moved tasks.
    Moves,
    /// Moved tasks of the job with the most moves.
    JobMoves,
}

impl Term {
    /// Name of the term, for users and programs.
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
    /// Percentage of the claimable amount up to which use costs nothing.
    pub percent: u32,
    /// Weight of use above the safety level.
    pub weight: u32,
}

/// A balance between two kinds: for a free amount of one kind, some amount of the other should be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The kind of which an amount is free.
    pub free: KindId,
    /// The kind of which a matching amount should be free on the same machine.
    pub beside: KindId,
    /// Desired free amount of the second kind, as a percentage of the free amount of the first. Both are measured in
    /// parts of a mean machine.
    pub percent: u32,
}

/// Objectives of a pass: a weight for each term. The weight 0 ignores the term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objectives {
    /// Weight of tasks on machines that would not accept them now.
    pub misplaced: u32,
    /// Safety level and weight of kinds that `loads` does not name.
    pub load: Safety,
    /// Safety levels and weights by kind.
    pub loads: BTreeMap<KindId, Safety>,
    /// Weight of unbalanced free amounts.
    pub balance: u32,
    /// The balances between kinds.
    pub pairs: Vec<Pair>,
    /// Weight of machines that are neither full nor empty.
    pub fragments: u32,
    /// Weight of tasks of one job in one domain.
    pub crowding: u32,
    /// Domains of crowding: machines, or the values of a label.
    pub level: TopologyLevel,
    /// Weight of each move.
    pub moves: u32,
    /// Weight of the moves of the job with the most.
    pub job_moves: u32,
}

impl Objectives {
    /// Objectives that move tasks off machines that are draining, or whose labels or taints have changed, and move no
    /// other tasks.
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

    /// Objectives that reduce load above 80 % of any kind, and balance free amounts.
    #[must_use]
    pub fn balance() -> Objectives {
        Objectives { load: Safety { percent: 80, weight: 10 }, balance: 1, ..Objectives::drain() }
    }

    /// Objectives that make machines either full or empty.
    #[must_use]
    pub fn defragment() -> Objectives {
        Objectives { fragments: 10, ..Objectives::drain() }
    }

    /// Objectives that separate tasks of one job, by machine unless another level is named, without filling machines
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

/// The cost of each term, without weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Load by kind.
    pub load: Vec<i128>,
    /// Misplaced tasks.
    pub misplaced: i128,
    /// Unbalanced free amounts.
    pub balance: i128,
    /// Machines that are neither full nor empty.
    pub fragments: i128,
    /// Pairs of tasks of a job in one domain.
    pub crowding: i128,
    /// Moved tasks.
    pub moves: i128,
    /// Moved tasks of the job with the most moves.
    pub job_moves: i128,
}

impl Costs {
    /// Costs of zero, for this number of kinds.
    #[must_use]
    pub fn none(kinds: usize) -> Costs {
        Costs { load: vec![0; kinds], ..Costs::default() }
    }

    /// All terms with their costs.
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

    /// The weighted sum, which a pass minimises.
    #[must_use]
    pub fn total(&self, objectives: &Objectives) -> i128 {
        self.terms().map(|(term, cost)| cost * i128::from(objectives.weight(term))).sum()
    }

    /// Adds the cost of a machine, or subtracts it if `sign` is -1.
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

/// A machine in the objective: the claimable and the free amount of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) capacity: &'a [i64],
    pub(super) free: &'a [i64],
}

/// The objectives, prepared for the machines of a cell.
#[derive(Clone, Debug)]
pub(super) struct Objective {
    pub(super) objectives: Objectives,
    /// The mean amount of each kind, over the machines that have any.
    means: Vec<u64>,
    safety: Vec<Safety>,
    pub(super) kinds: usize,
}

/// An amount in parts of the amount `of`.
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
    /// Prepares objectives for machines with these claimable amounts. `capacity` has all kinds of the first machine,
    /// then those of the next.
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

    /// An amount in parts of a mean machine's amount of the kind.
    fn parts(&self, kind: usize, amount: i64) -> i64 {
        parts(amount, self.means[kind])
    }

    /// Calls `tell` with the cost of each term of a machine.
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

    /// The mean amount of each kind, over the machines that have any.
    pub(super) fn means(&self) -> &[u64] {
        &self.means
    }

    /// The part of a capacity that is above the safety level.
    pub(super) fn unsafe_part(&self, kind: usize, capacity: i64) -> i64 {
        capacity - safe(capacity, self.safety[kind])
    }

    /// Whether the use of a kind is above the safety level.
    pub(super) fn is_above(&self, kind: usize, capacity: i64, used: i64) -> bool {
        used > safe(capacity, self.safety[kind]).max(0)
    }

    /// The weighted cost of a machine.
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

    /// The cost of moving a task with this request, without weights.
    pub(super) fn of_move(&self, request: &[i64]) -> i64 {
        let parts = request.iter().enumerate().map(|(kind, amount)| self.parts(kind, *amount));
        MOVE + parts.max().unwrap_or(0)
    }

    /// Upper bound of the weighted decrease of a machine's cost when a task with this request arrives. The task uses at
    /// most its request of an unbalanced free kind, and may fill a half-empty machine.
    pub(super) fn arrival_gain_max(&self, request: &[i64]) -> i64 {
        let mut most = MACHINE * i64::from(self.objectives.fragments);
        if self.objectives.balance > 0 {
            for pair in self.objectives.pairs.iter().filter(|pair| pair.free.index() < self.kinds) {
                let kind = pair.free.index();
                // Parts are rounded, so the task may use one part more.
                let taken = (self.parts(kind, request[kind]) + 1) * i64::from(pair.percent) / 100;
                most += (taken + 1) * i64::from(self.objectives.balance);
            }
        }
        most
    }
}

/// The part of a capacity that is within the safety level.
fn safe(capacity: i64, safety: Safety) -> i64 {
    // A capacity is at most 2^50 x 10, so the product does not overflow.
    (i128::from(capacity) * i128::from(safety.percent) / 100) as i64
}

/// Cost of a machine for being neither full nor empty, by the kind with the largest claimed part.
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
