//! State that the adapter shares with schedulers, explanations and the search for victims.

use omega_cellstate::SharedCell;
use omega_core::JobId;
use omega_schedulers::Volumes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of objects that a message names.
const NAMED_MAX: usize = 3;

/// State that schedulers share with the adapter. Clones refer to the same state.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The cell.
    pub cell: SharedCell,
    /// The volumes.
    pub volumes: Volumes,
    /// The objects that close nodes.
    pub closers: Closers,
    /// The start of bound pods.
    pub starts: Starts,
}

/// The objects that close nodes, for messages about pods that fit on no node. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Closers(Arc<Mutex<BTreeSet<String>>>);

impl Closers {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeSet<String>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add(&self, object: String) {
        self.with(|closers| closers.insert(object));
    }

    pub(super) fn remove(&self, object: &str) {
        self.with(|closers| closers.remove(object));
    }

    /// Returns the objects as text, such as `pod t/a, node n1 and 2 more`.
    #[must_use]
    pub fn text(&self) -> String {
        self.with(|closers| {
            let named: Vec<&str> = closers.iter().take(NAMED_MAX).map(String::as_str).collect();
            let named = named.join(", ");
            match closers.len().saturating_sub(NAMED_MAX) {
                0 => named,
                more => format!("{named} and {more} more"),
            }
        })
    }
}

/// The start of the pod of each job. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Starts(Arc<Mutex<BTreeMap<JobId, u64>>>);

impl Starts {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<JobId, u64>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a number that is larger for a later start. A pod that has not started has the largest number.
    #[must_use]
    pub fn of(&self, job: JobId) -> u64 {
        self.with(|starts| starts.get(&job).copied().unwrap_or(u64::MAX))
    }

    pub(super) fn forget(&self, job: JobId) {
        self.with(|starts| starts.remove(&job));
    }

    pub(super) fn set(&self, job: JobId, started: u64) {
        self.with(|starts| starts.insert(job, started));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_few_of_many_objects() {
        let closers = Closers::default();
        assert_eq!(closers.text(), "");
        ["node n1", "pod t/a"].iter().for_each(|name| closers.add((*name).to_owned()));
        assert_eq!(closers.text(), "node n1, pod t/a");
        ["node n2", "pod t/b"].iter().for_each(|name| closers.add((*name).to_owned()));
        assert_eq!(closers.text(), "node n1, node n2, pod t/a and 1 more");
        closers.remove("node n1");
        assert_eq!(closers.text(), "node n2, pod t/a, pod t/b");
    }
}
