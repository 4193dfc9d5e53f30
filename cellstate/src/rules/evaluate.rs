//! Evaluation of the rules about other tasks, for one machine or for a block of 64.

use super::RuleIndex;
use super::bound::RuleScope;
use super::group::{GroupRules, RuleFamily};
use crate::index::sets::{Lanes, MachineSets};
use omega_core::Reason;

impl RuleIndex {
    /// Checks whether a task with these rules may run on the machine in a row.
    pub fn check(&self, rules: &GroupRules, row: usize, sets: &MachineSets) -> Result<(), Reason> {
        self.try_bounds(rules, RuleScope::All, sets, |bound| bound.check(row))
    }

    /// Checks one family of rules, like [`RuleIndex::check`].
    pub fn check_family(
        &self,
        rules: &GroupRules,
        family: RuleFamily,
        row: usize,
        sets: &MachineSets,
    ) -> Result<(), Reason> {
        self.try_bounds(rules, RuleScope::Family(family), sets, |bound| bound.check(row))
    }

    /// The machines among `lanes` on which a task with these rules may run.
    pub fn filter(&self, rules: &GroupRules, lanes: Lanes, sets: &MachineSets) -> u64 {
        self.filter_by(rules, RuleScope::All, lanes, sets)
    }

    /// Applies one family of rules, like [`RuleIndex::filter`].
    pub fn filter_family(
        &self,
        rules: &GroupRules,
        family: RuleFamily,
        lanes: Lanes,
        sets: &MachineSets,
    ) -> u64 {
        self.filter_by(rules, RuleScope::Family(family), lanes, sets)
    }

    /// The machines among `lanes` on which the required affinities to other tasks are met.
    pub fn affinity_met(&self, rules: &GroupRules, lanes: Lanes, sets: &MachineSets) -> u64 {
        self.filter_by(rules, RuleScope::Affinity, lanes, sets)
    }

    fn filter_by(
        &self,
        rules: &GroupRules,
        scope: RuleScope,
        lanes: Lanes,
        sets: &MachineSets,
    ) -> u64 {
        let mut word = lanes.among;
        // The error only ends the evaluation early, once no machine is left.
        let _ = self.try_bounds(rules, scope, sets, |bound| {
            word &= bound.filter(lanes.block);
            if word == 0 { Err(()) } else { Ok(()) }
        });
        word
    }

    /// Whether the rules of a family could reject these tasks on some machine.
    pub fn concerns(&self, rules: &GroupRules, family: RuleFamily) -> bool {
        let mut trackers = rules.matched.iter().filter_map(|id| self.trackers.get(id));
        rules.checks.iter().any(|check| check.family() == family)
            || trackers.any(|tracker| tracker.restricting_family() == Some(family))
    }
}
