//! Objectives for single machines: safety levels, and the cost of a machine in use.

use omega_core::{KindId, Machine, Text};
use std::collections::BTreeMap;

/// Set of machines, given by names and labels. A machine is in the set if it has one of the names and all of the
/// labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSet {
    /// Names of machines; an empty list does not restrict the set.
    pub names: Vec<Text>,
    /// Labels and their values.
    pub labels: Vec<(Text, Text)>,
}

impl MachineSet {
    /// Whether a machine is in the set.
    #[must_use]
    pub fn includes(&self, machine: &Machine) -> bool {
        (self.names.is_empty() || self.names.contains(&machine.name))
            && self.labels.iter().all(|(key, value)| machine.labels.get(key) == Some(value))
    }
}

/// Objectives for a set of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineAims {
    /// The machines.
    pub of: MachineSet,
    /// Safety levels by kind, in percent, in place of the general levels.
    pub safety: BTreeMap<KindId, u32>,
    /// Cost of each of these machines while in use, in percent of a mean machine; `None` means 100.
    pub in_use: Option<u32>,
}
