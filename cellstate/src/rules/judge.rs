//! Evaluation of the rules about other tasks, for one machine or for a block of 64.

use super::RuleBook;
use super::bound::Asked;
use super::group::{GroupRules, RuleFamily};
use crate::index::sets::MachineSets;
use omega_core::Reason;

impl RuleBook {
    /// Checks whether a task with these rules may run on the machine in a row.
    pub fn judge(&self, rules: &GroupRules, row: usize, sets: &MachineSets) -> Result<(), Reason> {
        self.try_bounds((rules, Asked::All), sets, |bound| bound.judge(row))
    }

    /// Checks one family of rules, like [`RuleBook::judge`].
    pub fn judge_family(
        &self,
        (rules, family): (&GroupRules, RuleFamily),
        row: usize,
        sets: &MachineSets,
    ) -> Result<(), Reason> {
        self.try_bounds((rules, Asked::Family(family)), sets, |bound| bound.judge(row))
    }

    /// The machines on which a task with these rules may run. `block` is a block's number and the bits of the machines
    /// to check.
    pub fn sift(&self, rules: &GroupRules, block: (usize, u64), sets: &MachineSets) -> u64 {
        self.sift_by((rules, Asked::All), block, sets)
    }

    /// Applies one family of rules, like [`RuleBook::sift`].
    pub fn sift_family(
        &self,
        (rules, family): (&GroupRules, RuleFamily),
        block: (usize, u64),
        sets: &MachineSets,
    ) -> u64 {
        self.sift_by((rules, Asked::Family(family)), block, sets)
    }

    /// The machines on which the required affinities to other tasks are met. `block` is a block's number and the bits
    /// of the machines to check.
    pub fn affinity_met(&self, rules: &GroupRules, block: (usize, u64), sets: &MachineSets) -> u64 {
        self.sift_by((rules, Asked::Affinity), block, sets)
    }

    fn sift_by(
        &self,
        asked: (&GroupRules, Asked),
        (block, among): (usize, u64),
        sets: &MachineSets,
    ) -> u64 {
        let mut word = among;
        // The error only ends the evaluation early, once no machine is left.
        let _ = self.try_bounds(asked, sets, |bound| {
            word &= bound.sift(block);
            if word == 0 { Err(()) } else { Ok(()) }
        });
        word
    }

    /// Whether the rules of a family could reject these tasks on some machine.
    pub fn concerns(&self, rules: &GroupRules, family: RuleFamily) -> bool {
        let mut trackers = rules.matched.iter().filter_map(|id| self.trackers.get(id));
        rules.checks.iter().any(|check| check.family() == family)
            || trackers.any(|tracker| tracker.held_family() == Some(family))
    }
}
