//! Which tasks stand alone once others have left: the rule of runtime affinity, asked of a domain as it now is.

use super::group::GroupRules;
use super::level::Domain;
use super::{RuleBook, TrackerId};
use crate::sets::MachineSets;

/// A domain that lacks runtime affinity for tasks that are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alone {
    /// Of which tasks.
    pub(crate) tracker: TrackerId,
    /// Where.
    pub(crate) domain: Domain,
    /// How many there are too few.
    pub(crate) missing: u32,
}

impl RuleBook {
    /// Whether some rule says who must not be left alone.
    pub(crate) fn any_runtime_affinity(&self) -> bool {
        self.companies > 0
    }

    /// Whether some task may need a task with these rules near it.
    pub(crate) fn may_be_runtime_affinity(&self, rules: &GroupRules) -> bool {
        let least = |id: &TrackerId| self.key(*id).is_some_and(|key| key.least().is_some());
        self.any_runtime_affinity() && rules.matched.iter().any(least)
    }

    /// In the domains of a row, who lacks runtime affinity that a task with these rules would be.
    pub(crate) fn alone_without<'a>(
        &'a self,
        rules: &'a GroupRules,
        row: usize,
        sets: &'a MachineSets,
    ) -> impl Iterator<Item = Alone> + 'a {
        let matched: &[TrackerId] = if self.any_runtime_affinity() { &rules.matched } else { &[] };
        matched.iter().filter_map(move |id| {
            let tracker = self.trackers.get(id)?;
            let least = tracker.key.least()?;
            let domain = self.domain_of(*id, row, sets)?;
            let count = tracker.count(domain);
            let missing = least.saturating_sub(count.matched);
            let alone = count.holders > 0 && missing > 0;
            alone.then_some(Alone { tracker: *id, domain, missing })
        })
    }

    /// Whether tasks with these rules count where runtime affinity is concerned, in the domain of a row.
    pub(crate) fn is_counted(
        &self,
        (rules, row): (&GroupRules, usize),
        alone: Alone,
        sets: &MachineSets,
    ) -> bool {
        rules.matched.contains(&alone.tracker)
            && self.domain_of(alone.tracker, row, sets) == Some(alone.domain)
    }
}
