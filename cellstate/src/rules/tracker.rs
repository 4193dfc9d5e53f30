//! A tracker's state: its key and its counts by domain.

use super::counts::{Count, Counts, Step};
use super::key::TrackerKey;
use super::level::{Domain, LevelId};
use crate::index::sets::SetId;
use crate::state::attributes::Attribute;
use std::sync::OnceLock;

/// The sum of a tracker's counts over all domains.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) matched: u64,
    pub(super) holders: u64,
    pub(super) seekers: u64,
    pub(super) pullers: u64,
}

impl Total {
    fn replace(&mut self, old: Count, new: Count) {
        let replace = |total: &mut u64, old: u32, new: u32| {
            *total = *total + u64::from(new) - u64::from(old);
        };
        replace(&mut self.matched, old.matched, new.matched);
        replace(&mut self.holders, old.holders, new.holders);
        replace(&mut self.seekers, old.seekers, new.seekers);
        replace(&mut self.pullers, old.pullers, new.pullers);
    }
}

/// The domains of the machines on which a tracker counts, and the lowest number of matched tasks in any of them.
///
/// Finding this minimum takes a scan of all domains. Each change of a count updates the minimum, so a new scan is
/// needed only when the last domain at the minimum gets one more task.
#[derive(Clone, Debug)]
pub(super) struct Emptiest {
    pub(super) domains: Box<[Domain]>,
    pub(super) fewest: u32,
    /// Number of domains with the minimum; 0 if unknown.
    with_fewest: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Tracker {
    pub(super) key: TrackerKey,
    /// The set of machines that `key.among` selects.
    pub(super) among: Option<SetId>,
    /// The level of the domains; `None` if each machine is a domain.
    pub(super) level: Option<LevelId>,
    pub(super) users: u32,
    /// The attributes by which the rule index lists the tracker; empty if it does not list the tracker by attributes.
    pub(super) listed_by: Vec<Attribute>,
    counts: Counts,
    total: Total,
    /// The minimum over all domains. It is computed at the first use, and again after a machine was added, changed or
    /// removed.
    emptiest: OnceLock<Emptiest>,
}

impl Tracker {
    pub(super) fn new(key: TrackerKey, among: Option<SetId>, level: Option<LevelId>) -> Tracker {
        Tracker {
            key,
            among,
            level,
            users: 1,
            listed_by: Vec::new(),
            counts: Counts::default(),
            total: Total::default(),
            emptiest: OnceLock::new(),
        }
    }

    pub(super) fn total(&self) -> Total {
        self.total
    }

    pub(super) fn count(&self, domain: Domain) -> Count {
        self.counts.get(domain)
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn set(&mut self, domain: Domain, count: Count) {
        let old = self.counts.get(domain);
        self.counts.set(domain, count);
        self.total.replace(old, count);
        self.note(old.matched, count.matched);
    }

    pub(super) fn add(&mut self, domain: Domain, step: Step) {
        let mut count = self.counts.get(domain);
        count += step;
        self.set(domain, count);
    }

    /// Updates the minimum after the number of matched tasks in one domain changed from `old` to `new`.
    fn note(&mut self, old: u32, new: u32) {
        let Some(emptiest) = self.emptiest.get_mut().filter(|e| e.with_fewest > 0) else { return };
        match emptiest.fewest {
            fewest if new < fewest => (emptiest.fewest, emptiest.with_fewest) = (new, 1),
            fewest if old == fewest && new > fewest => emptiest.with_fewest -= 1,
            fewest if old > fewest && new == fewest => emptiest.with_fewest += 1,
            _ => {}
        }
        if emptiest.with_fewest == 0 {
            let domains = std::mem::take(&mut emptiest.domains);
            self.emptiest = OnceLock::from(self.find_fewest(domains));
        }
    }

    fn find_fewest(&self, domains: Box<[Domain]>) -> Emptiest {
        let counts = || domains.iter().map(|domain| self.count(*domain).matched);
        let fewest = counts().min().unwrap_or(0);
        let with_fewest = counts().filter(|count| *count == fewest).count() as u32;
        Emptiest { domains, fewest, with_fewest }
    }

    /// Discards the list of domains.
    pub(super) fn forget_domains(&mut self) {
        self.emptiest = OnceLock::new();
    }

    /// The minimum over all domains. If it must be computed, `domains` is called to list the domains.
    pub(super) fn emptiest(&self, domains: impl FnOnce() -> Box<[Domain]>) -> &Emptiest {
        self.emptiest.get_or_init(|| self.find_fewest(domains()))
    }
}
