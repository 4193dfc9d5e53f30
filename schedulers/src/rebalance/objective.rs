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
//! | balance | the free amount of one kind without an equal part, or a fixed ratio, of another on the same machine |
//! | fragments | machines neither full nor empty: 4 f (1 - f) million for a claimed part f, so a million for a half |
//! | crowding | ten thousand for each pair of tasks of one job in one domain |
//! | in use | a million, or the machine's own cost, for each machine on which something is claimed |
//! | moves | for each moved task, ten thousand plus its size: the largest of its requests in parts of a mean machine |
//! | job moves | ten thousand for each moved task of the job with the most moved tasks |
//! | machine moves | for each move, the cost that is given for its two machines |
//!
//! Load, balance and the costs of moves correspond to those of the machine reassignment problem (ROADEF/EURO challenge
//! 2012). Each term except crowding and the costs of moves is a sum over machines, whose summands depend on one machine
//! alone, so a move changes two summands. For a machine that is draining or removed, only misplaced tasks are counted.

use super::aims::curve::Curve;
use super::aims::demand::Demand;
use super::aims::machines::MachineAims;
use super::aims::move_costs::MoveCosts;
use super::aims::rules::Rule;
use omega_core::{KindId, Kinds, TopologyLevel};
use serde::Serialize;
use std::collections::BTreeMap;

/// Number of parts into which a mean machine is divided.
pub const MACHINE: i64 = 1_000_000;

/// Cost of each pair of tasks of one job in one domain.
pub const PAIR: i64 = 10_000;

/// Fixed cost of each moved task, in millionths of a mean machine. The size of the task is added to this cost. The term
/// "job moves" has the same cost for each moved task of the job with the most moved tasks.
pub const MOVE: i64 = 10_000;

/// The largest weight. With no larger weights, the weighted cost of a machine stays below 2^60.
pub const WEIGHT_MAX: u32 = 10_000;

/// Upper bound of an amount, in parts of a mean machine. It is about the amount of a million mean machines. Larger
/// amounts are reduced to this bound.
pub const PARTS_MAX: u64 = 1 << 40;

/// A summand of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Tasks on machines that would not accept them now.
    Misplaced,
    /// Claimed amount of a kind above the safety level.
    Load(KindId),
    /// Free amounts of one kind for which too little of another kind is free on the same machine.
    Balance,
    /// Machines that are neither full nor empty.
    Fragments,
    /// Machines on which something is claimed.
    InUse,
    /// Pairs of tasks of one job in one domain.
    Crowding,
    /// Moved tasks.
    Moves,
    /// Moved tasks of the job with the most moved tasks.
    JobMoves,
    /// Moves, by the costs of their pairs of machines.
    MachineMoves,
}

impl Term {
    /// Name of the term in output, for people and programs.
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
            Term::InUse => "in use".into(),
            Term::Crowding => "crowding".into(),
            Term::Moves => "moves".into(),
            Term::JobMoves => "job moves".into(),
            Term::MachineMoves => "machine moves".into(),
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

/// A balance between two kinds: for the free amount of one kind, a proportional amount of the other kind should be
/// free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The kind whose free amount determines how much of `beside` should be free.
    pub free: KindId,
    /// The kind that should be free on each machine in proportion to the free amount of `free`.
    pub beside: KindId,
    /// The desired proportion.
    pub ratio: Ratio,
}

/// Desired free amount of one kind in proportion to the free amount of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratio {
    /// A percentage, of amounts in parts of a mean machine: 100 means equal parts of both kinds.
    Percent(u32),
    /// A ratio of amounts in the kinds' own units.
    Amounts {
        /// Desired free units for every `per` free units of the other kind.
        want: u64,
        /// Free units of the other kind to which `want` refers; at least 1.
        per: u64,
    },
}

/// Objectives of a pass: a weight for each term. The weight 0 ignores the term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objectives {
    /// Weight of tasks on machines that would not accept them now.
    pub misplaced: u32,
    /// Safety level and weight of kinds that are not in `loads`.
    pub load: Safety,
    /// Safety levels and weights by kind.
    pub loads: BTreeMap<KindId, Safety>,
    /// Weight of unbalanced free amounts.
    pub balance: u32,
    /// The balances between kinds.
    pub pairs: Vec<Pair>,
    /// Weight of machines that are neither full nor empty.
    pub fragments: u32,
    /// Weight of machines in use.
    pub in_use: u32,
    /// Weight of pairs of tasks of one job in one domain.
    pub crowding: u32,
    /// Domains of crowding: machines, or the values of a label.
    pub level: TopologyLevel,
    /// Weight of each move.
    pub moves: u32,
    /// Weight of the moves of the job with the most moves.
    pub job_moves: u32,
    /// Weight of the costs of moves by pairs of machines.
    pub machine_moves: u32,
    /// Objectives for sets of machines. If several sets include a machine, the last value given for a kind, or for the
    /// cost in use, counts.
    pub machines: Vec<MachineAims>,
    /// Curves of load by use, in place of the safety level, by kind.
    pub curves: BTreeMap<KindId, Curve>,
    /// Demand profiles of jobs by kind. Load is the mean over the points of these profiles.
    pub demand: BTreeMap<KindId, Demand>,
    /// Costs of moves by machines and jobs.
    pub move_costs: MoveCosts,
    /// Rules that no move may break.
    pub rules: Vec<Rule>,
}

impl Objectives {
    /// Objectives under which only misplaced tasks move: tasks on machines that are draining, or whose labels or taints
    /// have changed.
    #[must_use]
    pub fn drain() -> Objectives {
        let none = Safety { percent: 80, weight: 0 };
        let both = |(free, beside)| Pair { free, beside, ratio: Ratio::Percent(100) };
        let pairs = [(KindId::CPU, KindId::MEMORY), (KindId::MEMORY, KindId::CPU)];
        Objectives {
            misplaced: 1000,
            load: none,
            loads: BTreeMap::new(),
            balance: 0,
            pairs: pairs.map(both).into(),
            fragments: 0,
            in_use: 0,
            crowding: 0,
            level: TopologyLevel::Machine,
            moves: 1,
            job_moves: 1,
            machine_moves: 1,
            machines: Vec::new(),
            curves: BTreeMap::new(),
            demand: BTreeMap::new(),
            move_costs: MoveCosts::default(),
            rules: Vec::new(),
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

    /// Objectives that separate tasks of one job without filling machines above 80 %. Tasks are separated by machine,
    /// unless `level` is set to another level.
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
            Term::InUse => self.in_use,
            Term::Crowding => self.crowding,
            Term::Moves => self.moves,
            Term::JobMoves => self.job_moves,
            Term::MachineMoves => self.machine_moves,
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
    /// Machines in use.
    pub in_use: i128,
    /// Pairs of tasks of a job in one domain.
    pub crowding: i128,
    /// Moved tasks, each with a fixed cost plus its size.
    pub moves: i128,
    /// Moved tasks of the job with the most moved tasks.
    pub job_moves: i128,
    /// Sum of the costs of all moves. The cost of a move is given for its two machines.
    pub machine_moves: i128,
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
            (Term::InUse, self.in_use),
            (Term::Crowding, self.crowding),
            (Term::Moves, self.moves),
            (Term::JobMoves, self.job_moves),
            (Term::MachineMoves, self.machine_moves),
        ];
        std::iter::once((Term::Misplaced, self.misplaced)).chain(load).chain(others)
    }

    /// The weighted sum, which a pass minimises.
    #[must_use]
    pub fn total(&self, objectives: &Objectives) -> i128 {
        self.terms().map(|(term, cost)| cost * i128::from(objectives.weight(term))).sum()
    }
}
