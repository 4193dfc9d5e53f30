//! Costs of moves by pairs of machines, and by job.
//!
//! The cost of a move between two machines is the sum of all entries that match the two machines. Costs are multiples
//! of [`MOVE`](crate::rebalance::objective::MOVE), which is the cost of a hundredth of a mean machine.

use super::machines::MachineSet;
use omega_cellstate::View;
use omega_core::{Text, TopologyLevel};
use std::collections::{BTreeMap, HashMap};

/// Largest cost of an entry.
pub const COST_MAX: u32 = 10_000;

/// Maximum number of entries in [`MoveCosts::entries`].
pub const ENTRIES_MAX: usize = 64;

/// Maximum number of pairs in [`MoveCosts::table`].
pub const PAIRS_MAX: usize = 1 << 20;

/// Cost of a move from one set of machines to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveCost {
    /// Machines that the task leaves.
    pub from: MachineSet,
    /// Machines to which it moves.
    pub to: MachineSet,
    /// If given, only moves from one domain of this level to another have the cost. A machine without the label is in
    /// no domain, so every move to or from such a machine has the cost.
    pub across: Option<TopologyLevel>,
    /// The cost.
    pub cost: u32,
}

/// All costs of moves that depend on machines or jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveCosts {
    /// Costs of moves between sets of machines.
    pub entries: Vec<MoveCost>,
    /// Costs between two machines, by their names.
    pub table: BTreeMap<(Text, Text), u32>,
    /// Additional cost of moving a task of a job, by the job's name.
    pub jobs: BTreeMap<Text, u32>,
}

impl MoveCosts {
    /// Whether there are costs by pairs of machines.
    #[must_use]
    pub fn has_machines(&self) -> bool {
        !self.entries.is_empty() || !self.table.is_empty()
    }
}

/// Costs of moves between machines, compiled for the rows of a view.
#[derive(Debug, Default)]
pub(in crate::rebalance) struct Between {
    entries: Vec<Entry>,
    table: HashMap<(u32, u32), u32, foldhash::fast::FixedState>,
}

/// An entry of [`MoveCosts::entries`], compiled for the rows of a view.
#[derive(Debug)]
struct Entry {
    from: Vec<bool>,
    to: Vec<bool>,
    /// Number of each row's domain; empty if the entry has no level. Each row without a domain has a number of its own.
    domain: Vec<u32>,
    cost: u32,
}

impl Between {
    /// Costs for the rows of a view.
    pub(in crate::rebalance) fn new(costs: &MoveCosts, view: &View) -> Between {
        let rows = || (0..view.rows()).map(|row| view.machine(row));
        let includes = |set: &MachineSet| {
            rows().map(|machine| machine.is_some_and(|machine| set.includes(machine))).collect()
        };
        let entry = |entry: &MoveCost| Entry {
            from: includes(&entry.from),
            to: includes(&entry.to),
            domain: entry.across.as_ref().map_or_else(Vec::new, |level| domains(view, level)),
            cost: entry.cost,
        };
        let mut table = HashMap::default();
        if !costs.table.is_empty() {
            let names: HashMap<&str, u32, foldhash::fast::FixedState> =
                rows().zip(0..).filter_map(|(m, row)| Some((&*m?.name, row))).collect();
            for ((from, to), cost) in &costs.table {
                if let (Some(from), Some(to)) = (names.get(&**from), names.get(&**to)) {
                    table.insert((*from, *to), *cost);
                }
            }
        }
        Between { entries: costs.entries.iter().map(entry).collect(), table }
    }

    /// Returns the cost of a move between two rows, as a multiple of [`MOVE`](crate::rebalance::objective::MOVE).
    pub(in crate::rebalance) fn cost(&self, from: usize, to: usize) -> i64 {
        let matches = |entry: &&Entry| {
            entry.from[from]
                && entry.to[to]
                && (entry.domain.is_empty() || entry.domain[from] != entry.domain[to])
        };
        let entries: i64 =
            self.entries.iter().filter(matches).map(|entry| i64::from(entry.cost)).sum();
        let pair = self.table.get(&(from as u32, to as u32)).copied().unwrap_or(0);
        entries + i64::from(pair)
    }
}

/// Returns the number of each row's domain. Each row without a domain gets a number of its own.
fn domains(view: &View, level: &TopologyLevel) -> Vec<u32> {
    let mut numbers = BTreeMap::new();
    let mut next = 0;
    let mut number = |row: usize| {
        let domain = view.machine(row).and_then(|machine| machine.domain(level));
        let known = domain.and_then(|domain| numbers.get(domain).copied());
        known.unwrap_or_else(|| {
            domain.map(|domain| numbers.insert(domain.clone(), next));
            next += 1;
            next - 1
        })
    };
    (0..view.rows()).map(&mut number).collect()
}
