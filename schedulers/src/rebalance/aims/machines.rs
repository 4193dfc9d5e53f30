//! Aims for single machines: safety levels, and the cost of a machine in use.

use omega_core::{KindId, Machine, Text};
use std::collections::BTreeMap;

/// Set of machines, by names and labels; all that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSet {
    /// Names; none for all.
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

/// Aims for some machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineAims {
    /// The machines.
    pub of: MachineSet,
    /// Safety level of kinds in percent, in place of the general one.
    pub safety: BTreeMap<KindId, u32>,
    /// Cost of such a machine in use, in percent of a mean machine: 100 if not given.
    pub in_use: Option<u32>,
}
