//! The machines of a trace: their number, their most frequent sizes, and their capacity over time.

use super::info::{MachinesInfo, SizeInfo};
use super::load::{Load, Mean};
use omega_core::{Amounts, KindId, Kinds, Machine, Text};
use omega_workload::MachineChange;
use omega_workload::kube::kinds::is_nominal;
use std::collections::HashMap;

/// Maximum number of machine sizes that are counted separately; traces have about a dozen.
const SIZES_MAX: usize = 1024;

/// The present machines, and their total capacity over time.
pub(super) struct Machines {
    info: MachinesInfo,
    sizes: HashMap<Amounts, u64>,
    /// Capacity of each present machine, by name.
    there: HashMap<Text, Amounts>,
    capacity: Vec<Load>,
    /// Present capacity of each kind.
    now: Vec<u128>,
}

impl Machines {
    /// Counts the machines at the start.
    pub(super) fn new(machines: &[Machine], kinds: &Kinds) -> Machines {
        let mut counted = Machines {
            info: MachinesInfo::default(),
            sizes: HashMap::new(),
            there: HashMap::new(),
            capacity: vec![Load::default(); kinds.count()],
            now: vec![0; kinds.count()],
        };
        for machine in machines {
            counted.start(machine, kinds);
        }
        counted
    }

    /// Advances the time.
    pub(super) fn advance(&mut self, now_ms: u64) {
        for load in &mut self.capacity {
            load.advance(now_ms);
        }
    }

    /// Counts a change of the machines.
    pub(super) fn change(&mut self, at_ms: u64, change: &MachineChange) {
        match change {
            MachineChange::Add(machine) => {
                self.info.added += 1;
                self.set(at_ms, machine);
            }
            MachineChange::Remove(name) => {
                self.info.removed += 1;
                self.unset(at_ms, name);
            }
        }
    }

    /// Whether the machines at the start have some of a resource kind.
    pub(super) fn had_at_start(&self, kind: &str) -> bool {
        self.info.capacity.contains_key(kind)
    }

    /// Present capacity of each kind.
    pub(super) fn capacity_now(&self) -> &[u128] {
        &self.now
    }

    /// Mean capacity of a kind over time.
    pub(super) fn capacity_means(&self, kind: KindId, end_ms: u64) -> Vec<Mean> {
        self.capacity[kind.index()].means(end_ms)
    }

    /// Returns the statistics, with the most frequent sizes.
    pub(super) fn finish(mut self, kinds: &Kinds) -> MachinesInfo {
        let mut sizes: Vec<(Amounts, u64)> = self.sizes.into_iter().collect();
        sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.as_slice().cmp(b.0.as_slice())));
        self.info.size_count = sizes.len() as u64;
        sizes.truncate(5);
        let size = |(amounts, count): (Amounts, u64)| SizeInfo {
            count,
            has: kinds
                .iter()
                .filter(|(kind, named)| amounts.get(*kind) > 0 && !is_nominal(&named.name))
                .map(|(kind, named)| (named.name.clone(), kinds.display(kind, amounts.get(kind))))
                .collect(),
        };
        self.info.sizes = sizes.into_iter().map(size).collect();
        self.info
    }

    fn start(&mut self, machine: &Machine, kinds: &Kinds) {
        self.info.count += 1;
        for (kind, named) in kinds.iter() {
            let amount = machine.capacity.get(kind);
            if amount > 0 && !is_nominal(&named.name) {
                *self.info.capacity.entry(named.name.clone()).or_default() += u128::from(amount);
            }
        }
        if self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&machine.capacity) {
            *self.sizes.entry(machine.capacity.clone()).or_default() += 1;
        }
        self.set(0, machine);
    }

    fn set(&mut self, at_ms: u64, machine: &Machine) {
        self.unset(at_ms, &machine.name);
        for (kind, amount) in machine.capacity.iter() {
            if let Some(load) = self.capacity.get_mut(kind.index()) {
                load.change(at_ms, i128::from(amount));
                self.now[kind.index()] += u128::from(amount);
            }
        }
        self.there.insert(machine.name.clone(), machine.capacity.clone());
    }

    fn unset(&mut self, at_ms: u64, name: &Text) {
        let Some(had) = self.there.remove(name) else { return };
        for (kind, amount) in had.iter() {
            if let Some(load) = self.capacity.get_mut(kind.index()) {
                load.change(at_ms, -i128::from(amount));
                self.now[kind.index()] -= u128::from(amount);
            }
        }
    }
}
