//! Bounds on counts: a group's rules, prepared for evaluation on many machines.
//!
//! Every rule consists of bounds: the count in the machine's domain must be within a range. Some rules also require
//! that the machine has a domain. Data that is equal for all machines is looked up once: the tracker, its level, and
//! the minimum over all domains.

use super::counts::Count;
use super::group::{Check, GroupRules, RuleFamily};
use super::key::ColocationBound;
use super::level::Domain;
use super::tracker::Tracker;
use super::{Counter, RuleIndex, TrackerId};
use crate::index::sets::MachineSets;
use omega_core::Reason;
use std::ops::RangeInclusive;

/// The field of a [`Count`] that a bound compares.
#[derive(Clone, Copy, Debug)]
enum Of {
    Matched,
    Holders,
    /// The matched tasks, in domains with a holder (a placed task whose rule limits them). A domain without a holder
    /// satisfies the bound.
    MatchedBesideHolders,
}

/// A bound on the count in a machine's domain.
#[derive(Clone, Debug)]
pub(super) struct Bound<'a> {
    /// `None` if the tracker does not exist. All its counts are then zero.
    counter: Option<Counter<'a>>,
    of: Of,
    allowed: RangeInclusive<i64>,
    /// Whether machines without a domain are rejected.
    needs_place: bool,
    reason: Reason,
}

/// The range that allows every count.
const ANY: RangeInclusive<i64> = 0..=i64::MAX;

impl Bound<'_> {
    fn allows(&self, count: Count) -> bool {
        let count = match self.of {
            Of::Matched => count.matched,
            Of::Holders => count.holders,
            Of::MatchedBesideHolders if count.holders == 0 => return true,
            Of::MatchedBesideHolders => count.matched,
        };
        self.allowed.contains(&i64::from(count))
    }

    /// Checks the machine in a row.
    pub(super) fn check(&self, row: usize) -> Result<(), Reason> {
        let domain = self.counter.and_then(|counter| Some((counter, counter.domain(row)?)));
        match domain {
            Some((counter, domain)) if !self.allows(counter.count(domain)) => Err(self.reason),
            None if self.needs_place => Err(Reason::NoDomain),
            _ => Ok(()),
        }
    }

    /// The rows of a block that satisfy the bound.
    pub(super) fn filter(&self, block: usize) -> u64 {
        match self.counter {
            Some(counter) => counter.filter(block, !self.needs_place, |count| self.allows(count)),
            None if self.needs_place => 0,
            None => u64::MAX,
        }
    }
}

/// Selection of the rules to evaluate.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleScope {
    All,
    Family(RuleFamily),
    /// Only required affinities.
    Affinity,
}

impl RuleScope {
    fn has(self, check: &Check) -> bool {
        match self {
            RuleScope::All => true,
            RuleScope::Family(family) => check.family() == family,
            RuleScope::Affinity => {
                matches!(check, Check::Affinity { .. } | Check::RuntimeAffinity(_))
            }
        }
    }

    /// Whether the selection includes the rules of this family by which placed tasks restrict new tasks.
    fn has_restricting(self, of: RuleFamily) -> bool {
        match self {
            RuleScope::All => true,
            RuleScope::Family(family) => family == of,
            RuleScope::Affinity => false,
        }
    }
}

impl Tracker {
    /// The family of the rule by which placed tasks restrict new tasks that match. `None` if no placed task has such a
    /// rule.
    pub(super) fn restricting_family(&self) -> Option<RuleFamily> {
        match self.key.colocation {
            _ if self.total().holders == 0 => None,
            Some(ColocationBound::AtLeast(_)) => None,
            Some(ColocationBound::AtMost(_)) => Some(RuleFamily::Limits),
            None if self.key.tracked.is_port() => Some(RuleFamily::Ports),
            None => Some(RuleFamily::Neighbours),
        }
    }
}

impl RuleIndex {
    /// Calls `each` with every bound of a group's rules until a call fails. The order determines the reason that a
    /// conflict gets.
    ///
    /// # Errors
    /// The error of the call that failed.
    pub(super) fn try_bounds<'a, E>(
        &'a self,
        rules: &GroupRules,
        scope: RuleScope,
        sets: &MachineSets,
        mut each: impl FnMut(Bound<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        for check in rules.checks.iter().filter(|check| scope.has(check)) {
            match check {
                Check::Affinity { trackers, matches_self } => {
                    self.affinity(trackers, *matches_self, &mut each)?;
                }
                check => each(self.bound(check, sets))?,
            }
        }
        self.try_restricting(rules, scope, &mut each)
    }

    /// Calls `each` with the bounds that rules of placed tasks set for new tasks: anti-affinity first, then limits.
    ///
    /// Trackers are visited by number, which depends on the cell's history, but the reason must not depend on it. In
    /// the first pass only `AntiAffinity` can be the reason: ports collide in both directions, so the group's own check
    /// has already found any port conflict.
    fn try_restricting<'a, E>(
        &'a self,
        rules: &GroupRules,
        scope: RuleScope,
        each: &mut impl FnMut(Bound<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut limited = false;
        for id in &rules.matched {
            let Some(counter) = self.counter(*id) else { continue };
            let Some(family) = counter.tracker.restricting_family() else { continue };
            limited |= family == RuleFamily::Limits;
            if family != RuleFamily::Limits && scope.has_restricting(family) {
                let is_port = family == RuleFamily::Ports;
                let reason = if is_port { Reason::PortTaken } else { Reason::AntiAffinity };
                let (counter, of) = (Some(counter), Of::Holders);
                each(Bound { counter, of, allowed: 0..=0, needs_place: false, reason })?;
            }
        }
        if !limited || !scope.has_restricting(RuleFamily::Limits) {
            return Ok(());
        }
        for counter in rules.matched.iter().filter_map(|id| self.counter(*id)) {
            if let Some(ColocationBound::AtMost(most)) = counter.tracker.key.colocation {
                let (reason, of) = (Reason::DomainFull, Of::MatchedBesideHolders);
                let (counter, allowed) = (Some(counter), 0..=i64::from(most) - 1);
                each(Bound { counter, of, allowed, needs_place: false, reason })?;
            }
        }
        Ok(())
    }

    /// The bound of a check. Affinity has several bounds, and must not be passed here.
    fn bound(&self, check: &Check, sets: &MachineSets) -> Bound<'_> {
        let matched = |id: TrackerId, allowed, needs_place, reason| Bound {
            counter: self.counter(id),
            of: Of::Matched,
            allowed,
            needs_place,
            reason,
        };
        match check {
            Check::AntiAffinity(id) => matched(*id, 0..=0, false, Reason::AntiAffinity),
            Check::Port(id) => matched(*id, 0..=0, false, Reason::PortTaken),
            Check::Max { tracker, count } => {
                matched(*tracker, 0..=i64::from(*count) - 1, true, Reason::DomainFull)
            }
            Check::Skew { tracker, skew_max, domains_min, adds } => {
                let free = i64::from(*skew_max) - i64::from(*adds);
                let most = self.fewest(*tracker, free, *domains_min, sets) + free;
                matched(*tracker, 0..=most, true, Reason::Skew)
            }
            Check::MaxColocated { tracker, most } => {
                matched(*tracker, 0..=i64::from(*most), false, Reason::DomainFull)
            }
            Check::RuntimeAffinity(id) => {
                matched(*id, 1..=i64::MAX, true, Reason::TaskAffinityUnmet)
            }
            Check::Affinity { .. } => unreachable!("affinity has several bounds"),
        }
    }

    /// The lowest number of matched tasks over all domains; 0 if there are fewer than `domains_min` domains. If all
    /// domains together have at most `free` matched tasks, returns 0 without a search: no domain can then exceed the
    /// lowest number by more than `free`.
    fn fewest(&self, id: TrackerId, free: i64, domains_min: u32, sets: &MachineSets) -> i64 {
        let Some(tracker) = self.trackers.get(&id) else { return 0 };
        if tracker.total().matched as i64 <= free {
            return 0;
        }
        let emptiest = tracker.emptiest(|| self.domains(tracker, sets));
        let enough = emptiest.domains.len() >= domains_min as usize;
        if enough { i64::from(emptiest.fewest) } else { 0 }
    }

    /// Calls `each` with the bounds of a required affinity: at every level, the machine has a domain, and a matching
    /// task is in it. If the group's tasks match themselves and no matching task is placed, it is enough that the
    /// machine has the domains.
    fn affinity<'a, E>(
        &'a self,
        trackers: &[TrackerId],
        matches_self: bool,
        each: &mut impl FnMut(Bound<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let reason = Reason::TaskAffinityUnmet;
        let bound = |counter, allowed| Bound {
            counter,
            of: Of::Matched,
            allowed,
            needs_place: true,
            reason,
        };
        let runs = |counter: Counter<'_>| counter.tracker.total().matched > 0;
        let anywhere = trackers.iter().any(|id| self.counter(*id).is_some_and(runs));
        let first = matches_self && !anywhere;
        if first || trackers.len() > 1 {
            trackers.iter().try_for_each(|id| each(bound(self.counter(*id), ANY)))?;
        }
        if !first {
            let near = 1..=i64::MAX;
            trackers.iter().try_for_each(|id| each(bound(self.counter(*id), near.clone())))?;
        }
        Ok(())
    }

    /// The domains of the machines on which a tracker counts, in ascending order.
    fn domains(&self, tracker: &Tracker, sets: &MachineSets) -> Box<[Domain]> {
        let counts = |slot: &usize| tracker.among.is_none_or(|set| sets.contains(set, *slot));
        let domain = |slot| self.domain(tracker, slot);
        let mut domains: Vec<Domain> = sets.present().filter(counts).filter_map(domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.into()
    }
}
