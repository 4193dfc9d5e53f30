//! Index of machines by name and by rack. Requests give the names of machines, but a view finds machines only by
//! row. Each sync updates the index.

use foldhash::fast::FixedState;
use omega_cellstate::Delta;
use omega_core::Text;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A machine's name and its rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) machine: Text,
    pub(super) rack: Option<Text>,
}

/// Index of machines by name and by rack.
#[derive(Debug, Default)]
pub(super) struct Places {
    rows: Vec<Option<Location>>,
    names: HashMap<Text, u32, FixedState>,
    racks: BTreeMap<Text, BTreeSet<u32>>,
}

impl Places {
    /// Applies the delta of a sync. `label` is the key of the label whose value is the rack.
    pub(super) fn apply(&mut self, delta: &Delta, label: &str) {
        if delta.full {
            *self = Places::default();
        }
        for change in &delta.machines {
            self.clear(change.slot);
            if let Some(machine) = &change.machine {
                let rack = machine.labels.get(label).cloned();
                self.set(change.slot, Location { machine: machine.name.clone(), rack });
            }
        }
    }

    fn clear(&mut self, slot: u32) {
        let Some(location) = self.rows.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        // By now, the name may belong to the machine of another row.
        if self.names.get(&location.machine) == Some(&slot) {
            self.names.remove(&location.machine);
        }
        let Some(rack) = location.rack else { return };
        if let Some(rows) = self.racks.get_mut(&rack) {
            rows.remove(&slot);
            if rows.is_empty() {
                self.racks.remove(&rack);
            }
        }
    }

    fn set(&mut self, slot: u32, location: Location) {
        if self.rows.len() <= slot as usize {
            self.rows.resize(slot as usize + 1, None);
        }
        self.names.insert(location.machine.clone(), slot);
        if let Some(rack) = &location.rack {
            self.racks.entry(rack.clone()).or_default().insert(slot);
        }
        self.rows[slot as usize] = Some(location);
    }

    /// The row of the machine with this name.
    pub(super) fn row(&self, name: &str) -> Option<usize> {
        self.names.get(name).map(|slot| *slot as usize)
    }

    /// The rows of a rack, ascending.
    pub(super) fn rack(&self, name: &str) -> impl Iterator<Item = usize> + '_ {
        self.racks.get(name).into_iter().flatten().map(|slot| *slot as usize)
    }

    /// The name and the rack of the machine in a row.
    pub(super) fn location(&self, row: usize) -> Option<&Location> {
        self.rows.get(row)?.as_ref()
    }
}
