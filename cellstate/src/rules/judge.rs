//! Whether the rules about other tasks let a task run on a machine.

use super::group::{Check, GroupRules, RuleFamily};
use super::key::Tracked;
use super::level::Domain;
use super::tracker::{Count, Tracker};
use super::{RuleBook, TrackerId};
use crate::sets::MachineSets;
use omega_core::Reason;

fn refuse(refused: bool, reason: Reason) -> Result<(), Reason> {
    if refused { Err(reason) } else { Ok(()) }
}

impl RuleBook {
    /// Whether a task with these rules may run on the machine in a row.
    pub(crate) fn judge(
        &self,
        rules: &GroupRules,
        slot: usize,
        sets: &MachineSets,
    ) -> Result<(), Reason> {
        for check in &rules.checks {
            self.judge_check(check, slot, sets)?;
        }
        self.judge_holders(rules, slot, |_| true)
    }

    /// The same, for one family of rules.
    pub(crate) fn judge_family(
        &self,
        (rules, family): (&GroupRules, RuleFamily),
        slot: usize,
        sets: &MachineSets,
    ) -> Result<(), Reason> {
        for check in rules.checks.iter().filter(|check| check.family() == family) {
            self.judge_check(check, slot, sets)?;
        }
        match family {
            RuleFamily::Ports => self.judge_holders(rules, slot, is_port),
            RuleFamily::Neighbours => self.judge_holders(rules, slot, |key| !is_port(key)),
            RuleFamily::Spread | RuleFamily::Limits => Ok(()),
        }
    }

    /// Whether the rules of a family could forbid these tasks any machine.
    pub(crate) fn concerns(&self, rules: &GroupRules, family: RuleFamily) -> bool {
        let ports = match family {
            RuleFamily::Ports => Some(true),
            RuleFamily::Neighbours => Some(false),
            RuleFamily::Spread | RuleFamily::Limits => None,
        };
        let holds = |tracker: &Tracker| {
            tracker.total().holders > 0 && ports == Some(is_port(&tracker.key.tracked))
        };
        let mut trackers = rules.matched.iter().filter_map(|id| self.trackers.get(id));
        rules.checks.iter().any(|check| check.family() == family) || trackers.any(holds)
    }

    /// Whether the tasks' required affinities to other tasks are met on the machine in a row.
    pub(crate) fn affinity_met(&self, rules: &GroupRules, slot: usize) -> bool {
        rules.checks.iter().all(|check| match check {
            Check::Affinity { trackers, matches_self } => {
                self.judge_affinity(trackers, *matches_self, slot).is_ok()
            }
            _ => true,
        })
    }

    /// Whether a task that runs keeps these away.
    fn judge_holders(
        &self,
        rules: &GroupRules,
        slot: usize,
        concerns: impl Fn(&Tracked) -> bool,
    ) -> Result<(), Reason> {
        for id in &rules.matched {
            let Some(tracker) = self.trackers.get(id) else { continue };
            let tracked = &tracker.key.tracked;
            if tracker.total().holders == 0 || !concerns(tracked) {
                continue;
            }
            let reason = if is_port(tracked) { Reason::PortTaken } else { Reason::AntiAffinity };
            refuse(self.count_in(tracker, slot).holders > 0, reason)?;
        }
        Ok(())
    }

    fn judge_check(&self, check: &Check, slot: usize, sets: &MachineSets) -> Result<(), Reason> {
        match check {
            Check::AntiAffinity(id) => {
                refuse(self.count(*id, slot).matched > 0, Reason::AntiAffinity)
            }
            Check::Port(id) => refuse(self.count(*id, slot).matched > 0, Reason::PortTaken),
            Check::Affinity { trackers, matches_self } => {
                self.judge_affinity(trackers, *matches_self, slot)
            }
            Check::Max { tracker, count } => {
                let (_, here) = self.here(*tracker, slot)?;
                refuse(here.matched >= *count, Reason::DomainFull)
            }
            Check::Skew { tracker, skew_max, domains_min, adds } => {
                let (tracker, here) = self.here(*tracker, slot)?;
                let here = here.matched + adds;
                if here <= *skew_max {
                    return Ok(());
                }
                let emptiest = tracker.emptiest(|| self.domains(tracker, sets));
                let enough = emptiest.domains.len() >= *domains_min as usize;
                let fewest = if enough { emptiest.fewest } else { 0 };
                refuse(here - fewest.min(here) > *skew_max, Reason::Skew)
            }
        }
    }

    fn judge_affinity(
        &self,
        trackers: &[TrackerId],
        matches_self: bool,
        slot: usize,
    ) -> Result<(), Reason> {
        let mut near = true;
        let mut anywhere = false;
        for id in trackers {
            let (tracker, here) = self.here(*id, slot)?;
            near &= here.matched > 0;
            anywhere |= tracker.total().matched > 0;
        }
        refuse(!near && (anywhere || !matches_self), Reason::TaskAffinityUnmet)
    }

    /// A tracker, and its count in the domain of a machine, which must have one.
    fn here(&self, id: TrackerId, slot: usize) -> Result<(&Tracker, Count), Reason> {
        let tracker = self.trackers.get(&id).ok_or(Reason::NoDomain)?;
        let domain = self.domain(&tracker.key.level, slot).ok_or(Reason::NoDomain)?;
        Ok((tracker, tracker.count(domain)))
    }

    /// The domains in which a tracker may count, ascending.
    fn domains(&self, tracker: &Tracker, sets: &MachineSets) -> Box<[Domain]> {
        let counts = |slot: &usize| tracker.among.is_none_or(|set| sets.contains(set, *slot));
        let domain = |slot| self.domain(&tracker.key.level, slot);
        let mut domains: Vec<Domain> = sets.present().filter(counts).filter_map(domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.into()
    }
}

fn is_port(tracked: &Tracked) -> bool {
    matches!(tracked, Tracked::Port(_))
}
