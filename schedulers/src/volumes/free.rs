//! The free volumes of one class, indexed by the machines that reach them.
//!
//! A class of local disks has a volume for each machine, so scanning all volumes for each machine would be quadratic.
//! The reachability of most volumes names a label and its values; these volumes are indexed by the label, and the
//! others are scanned.

use super::objects::{Reach, VolumeClaim};
use omega_core::{Machine, Operator, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Names of volumes by their bytes.
type BySize = BTreeMap<u64, BTreeSet<Text>>;

/// The free volumes of a class; see the head of the file.
#[derive(Debug, Default)]
pub(super) struct Free {
    /// Volumes by a label that all machines that reach them have, and by its value.
    by_label: BTreeMap<Text, BTreeMap<Text, BySize>>,
    others: BySize,
}

/// A label that all machines in `reach` have, and its possible values.
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

    /// The smallest volume that is large enough for a claim and that `suits`; among equals, the first by name.
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
