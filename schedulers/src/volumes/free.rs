//! The free volumes of one class, indexed by the machines that reach them.
//!
//! A class of local disks has a volume for each machine, so scanning all volumes for each machine would be quadratic.
//! To avoid this, volumes whose reachability requires certain values of a label are indexed by this label. Only the
//! other volumes are scanned.

use super::objects::{Reach, VolumeClaim};
use omega_core::{Machine, Operator, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Names of volumes by size in bytes.
type BySize = BTreeMap<u64, BTreeSet<Text>>;

/// The free volumes of a class, indexed by the machines that reach them.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// Volumes by key and value of a label. A volume is listed under one key, with all values that the label may have
    /// on machines that reach the volume.
    by_label: BTreeMap<Text, BTreeMap<Text, BySize>>,
    others: BySize,
}

/// Returns the key of a label that every machine in `reach` has, and the values that it may have; `None` if there is no
/// such label.
fn anchor(reach: &Reach) -> Option<(&Text, &[Text])> {
    let Reach::Matching(any) = reach else { return None };
    let [only] = &any[..] else { return None };
    let named = only.labels.iter().find(|label| label.operator == Operator::In)?;
    Some((&named.key, &named.values))
}

fn insert(into: &mut BySize, bytes: u64, name: &Text) {
    into.entry(bytes).or_default().insert(name.clone());
}

fn remove(from: &mut BySize, bytes: u64, name: &Text) {
    if let Some(names) = from.get_mut(&bytes) {
        names.remove(name);
        if names.is_empty() {
            from.remove(&bytes);
        }
    }
}

impl Free {
    pub(super) fn insert(&mut self, name: &Text, bytes: u64, reach: &Reach) {
        let Some((key, values)) = anchor(reach) else {
            return insert(&mut self.others, bytes, name);
        };
        let by_value = self.by_label.entry(key.clone()).or_default();
        for value in values {
            insert(by_value.entry(value.clone()).or_default(), bytes, name);
        }
    }

    pub(super) fn remove(&mut self, name: &Text, bytes: u64, reach: &Reach) {
        let Some((key, values)) = anchor(reach) else {
            return remove(&mut self.others, bytes, name);
        };
        let Some(by_value) = self.by_label.get_mut(key) else { return };
        for value in values {
            if let Some(by_size) = by_value.get_mut(value) {
                remove(by_size, bytes, name);
                if by_size.is_empty() {
                    by_value.remove(value);
                }
            }
        }
        if by_value.is_empty() {
            self.by_label.remove(key);
        }
    }

    /// Returns the smallest volume that is large enough for a claim, could be reached from a machine, and satisfies
    /// `suits`. Of equally small volumes, returns the first by name.
    pub(super) fn smallest<'a>(
        &'a self,
        claim: &VolumeClaim,
        machine: &Machine,
        suits: impl Fn(&Text) -> bool,
    ) -> Option<&'a Text> {
        let near = self.by_label.iter().filter_map(|(key, by_value)| {
            machine.labels.get(key).and_then(|value| by_value.get(value))
        });
        let first = |by_size: &'a BySize| {
            let large = by_size.range(claim.bytes..);
            let mut large = large.flat_map(|(bytes, names)| names.iter().map(move |n| (*bytes, n)));
            large.find(|(_, name)| suits(name))
        };
        let best = near.chain([&self.others]).filter_map(first).min();
        best.map(|(_, name)| name)
    }
}
