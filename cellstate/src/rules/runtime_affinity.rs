//! Runtime affinity: a search for placed tasks whose domain lacks a task on which they depend.

use super::group::GroupRules;
use super::level::Domain;
use super::{RuleIndex, TrackerId};
use crate::index::sets::MachineSets;

/// A domain with a placed task whose runtime affinity is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// Tracker of the tasks that the affinity requires. The domain has too few of them.
    pub tracker: TrackerId,
    /// The domain.
    pub domain: Domain,
    /// Number of such tasks that the domain lacks.
    pub missing: u32,
}

impl RuleIndex {
    /// Whether any rule is a runtime affinity.
    pub fn any_runtime_affinity(&self) -> bool {
        self.runtime_affinities > 0
    }

    /// Whether the runtime affinity of some task may select a task with these rules.
    pub fn may_be_runtime_affinity(&self, rules: &GroupRules) -> bool {
        let least = |id: &TrackerId| self.key(*id).is_some_and(|key| key.least().is_some());
        self.any_runtime_affinity() && rules.matched.iter().any(least)
    }

    /// The domains of a row in which the runtime affinity of a placed task is not met, and a task with these rules
    /// would help to meet it.
    pub fn unmet_without<'a>(
        &'a self,
        rules: &'a GroupRules,
        row: usize,
        sets: &'a MachineSets,
    ) -> impl Iterator<Item = Unmet> + 'a {
        let matched: &[TrackerId] = if self.any_runtime_affinity() { &rules.matched } else { &[] };
        matched.iter().filter_map(move |id| {
            let tracker = self.trackers.get(id)?;
            let least = tracker.key.least()?;
            let domain = self.domain_of(*id, row, sets)?;
            let count = tracker.count(domain);
            let missing = least.saturating_sub(count.matched);
            let unmet = count.holders > 0 && missing > 0;
            unmet.then_some(Unmet { tracker: *id, domain, missing })
        })
    }

    /// Whether a task with these rules in this row would be one of the tasks that the domain lacks.
    pub fn is_counted(
        &self,
        rules: &GroupRules,
        row: usize,
        unmet: Unmet,
        sets: &MachineSets,
    ) -> bool {
        rules.matched.contains(&unmet.tracker)
            && self.domain_of(unmet.tracker, row, sets) == Some(unmet.domain)
    }
}
