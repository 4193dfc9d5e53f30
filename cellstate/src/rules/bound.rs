//! What the rules ask of the counts in a machine's domains, ready to be asked about many machines.
//!
//! Every rule comes down to bounds: a count in the machine's domain must lie in a range, and it
//! may be that the machine must have a domain at all. What does not depend on the machine is
//! looked up once: the tracker, its level, the emptiest domain.

use super::group::{Check, GroupRules, RuleFamily};
use super::level::Domain;
use super::tracker::{Count, Tracker};
use super::{Counter, RuleBook, TrackerId, is_port};
use crate::sets::MachineSets;
use omega_core::Reason;
use std::ops::RangeInclusive;

/// Which tasks of a [`Count`] a bound is about.
#[derive(Clone, Copy, Debug)]
enum Of {
    Matched,
    Holders,
}

/// One bound.
#[derive(Clone, Debug)]
pub(super) struct Bound<'a> {
    /// `None` if nothing was ever counted.
    counter: Option<Counter<'a>>,
    of: Of,
    allowed: RangeInclusive<i64>,
    /// Whether a machine without a domain is refused.
    needs_place: bool,
    reason: Reason,
}

/// A range that any count is in.
const ANY: RangeInclusive<i64> = 0..=i64::MAX;

impl Bound<'_> {
    fn allows(&self, count: Count) -> bool {
        let count = match self.of {
            Of::Matched => count.matched,
            Of::Holders => count.holders,
        };
        self.allowed.contains(&i64::from(count))
    }

    /// Whether it allows the machine in a row.
    pub(super) fn judge(&self, row: usize) -> Result<(), Reason> {
        let domain = self.counter.and_then(|counter| Some((counter, counter.domain(row)?)));
        match domain {
            Some((counter, domain)) if !self.allows(counter.count(domain)) => Err(self.reason),
            None if self.needs_place => Err(Reason::NoDomain),
            _ => Ok(()),
        }
    }

    /// Of the rows of a block, those that it allows.
    pub(super) fn sift(&self, block: usize) -> u64 {
        match self.counter {
            Some(counter) => counter.sift(block, !self.needs_place, |count| self.allows(count)),
            None if self.needs_place => 0,
            None => u64::MAX,
        }
    }
}

/// Which rules are asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    All,
    Family(RuleFamily),
    /// Required affinities alone.
    Affinity,
}

impl Asked {
    fn has(self, check: &Check) -> bool {
        match self {
            Asked::All => true,
            Asked::Family(family) => check.family() == family,
            Asked::Affinity => matches!(check, Check::Affinity { .. }),
        }
    }

    /// Whether it includes what tasks that run hold: ports, or that others keep away.
    fn has_holders(self, of_port: bool) -> bool {
        match self {
            Asked::All => true,
            Asked::Family(RuleFamily::Ports) => of_port,
            Asked::Family(RuleFamily::Neighbours) => !of_port,
            Asked::Family(RuleFamily::Spread | RuleFamily::Limits) | Asked::Affinity => false,
        }
    }
}

impl RuleBook {
    /// Calls `each` with every bound of a group's rules, in the order of their reasons, until one
    /// call fails.
    ///
    /// # Errors
    /// That of the call.
    pub(super) fn try_bounds<'a, E>(
        &'a self,
        (rules, asked): (&GroupRules, Asked),
        sets: &MachineSets,
        mut each: impl FnMut(Bound<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        for check in rules.checks.iter().filter(|check| asked.has(check)) {
            match check {
                Check::Affinity { trackers, matches_self } => {
                    self.affinity(trackers, *matches_self, &mut each)?;
                }
                check => each(self.bound(check, sets))?,
            }
        }
        // In the order of numbers, which depend on history; the reason does not. Of what is asked
        // here only `AntiAffinity` can come: a taken port was refused above by the group's own
        // check, because ports collide both ways.
        for id in &rules.matched {
            let Some(counter) = self.counter(*id) else { continue };
            let is_port = is_port(&counter.tracker.key.tracked);
            if counter.tracker.total().holders > 0 && asked.has_holders(is_port) {
                let reason = if is_port { Reason::PortTaken } else { Reason::AntiAffinity };
                let (counter, of) = (Some(counter), Of::Holders);
                each(Bound { counter, of, allowed: 0..=0, needs_place: false, reason })?;
            }
        }
        Ok(())
    }

    /// The bound of a check that has one.
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
            Check::Affinity { .. } => unreachable!("affinity has several bounds"),
        }
    }

    /// The fewest matched tasks in a domain; not looked for where no domain can exceed `free`.
    fn fewest(&self, id: TrackerId, free: i64, domains_min: u32, sets: &MachineSets) -> i64 {
        let Some(tracker) = self.trackers.get(&id) else { return 0 };
        if tracker.total().matched as i64 <= free {
            return 0;
        }
        let emptiest = tracker.emptiest(|| self.domains(tracker, sets));
        let enough = emptiest.domains.len() >= domains_min as usize;
        if enough { i64::from(emptiest.fewest) } else { 0 }
    }

    /// The bounds of a required affinity: a place at every level first, then a task near, unless
    /// there is none anywhere and the first of them may be anywhere.
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

    /// The domains in which a tracker may count, ascending.
    fn domains(&self, tracker: &Tracker, sets: &MachineSets) -> Box<[Domain]> {
        let counts = |slot: &usize| tracker.among.is_none_or(|set| sets.contains(set, *slot));
        let domain = |slot| self.domain(tracker, slot);
        let mut domains: Vec<Domain> = sets.present().filter(counts).filter_map(domain).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.into()
    }
}
