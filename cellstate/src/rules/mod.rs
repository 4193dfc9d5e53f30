//! Rules about other tasks: counters by rule and domain.
//!
//! Anti-affinity, affinity, preferences, spread, shares and exclusive ports all depend on one number: how many tasks of
//! a selection run in a domain. So one mechanism serves all these rules. A *tracker* is a selection of tasks at a
//! topology level. For each domain it counts:
//!
//! - `matched`: placed tasks that the tracker selects;
//! - `holders`: placed tasks whose rules keep the selected tasks away or limit their number. With this count, the rules
//!   of placed tasks also apply to new tasks;
//! - `seekers`: placed tasks that require the selected tasks near them;
//! - `pull`: the sum of the weights of placed tasks' preferences for the selected tasks; a negative weight is a
//!   preference against these tasks.
//!
//! For a port there is a tracker at the machine level, in which each task with the port is both matched and a holder.
//!
//! The cell and every view have a `RuleIndex` each. A view gets its counters by deltas, and adds its own claims.
//!
//! In reading order: `key`, `level`, `counts`, `tracker`, `group`, this file, `bound`, `evaluate`, `runtime_affinity`.

mod bound;
mod counts;
mod evaluate;
mod group;
mod key;
mod level;
mod runtime_affinity;
mod tracker;

pub use counts::Count;
pub use counts::Step;
pub use group::{Check, GroupRules, Pull};
pub use group::{RuleFamily, SoftSpread};
pub use key::Member;
pub use key::{ColocationBound, Tracked, TrackerKey};
pub use level::DomainName;
pub use level::{Domain, Level as Values};
pub use runtime_affinity::Unmet;

use crate::index::sets::{MachineSets, SetId};
use crate::state::attributes::ByAttribute;
use crate::state::map::FastMap;
use counts::Page;
use level::{Level, Levels, NOWHERE, PAGE};
use omega_core::{JobId, Machine, Text, TopologyLevel};
use std::sync::Arc;
use tracker::Tracker;

/// Id of a tracker, assigned by the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackerId(pub u64);

/// The trackers in use with their counters.
#[derive(Clone, Debug, Default)]
pub struct RuleIndex {
    levels: Levels,
    trackers: FastMap<TrackerId, Tracker>,
    by_key: FastMap<TrackerKey, TrackerId>,
    /// The trackers that count only tasks of one job, by job.
    of_job: FastMap<JobId, Vec<TrackerId>>,
    /// The trackers that count only tasks with one of a few attributes, by attribute.
    of_attribute: ByAttribute<TrackerId>,
    /// All other trackers.
    of_any: Vec<TrackerId>,
    /// The number of trackers of runtime affinity.
    runtime_affinities: usize,
    next: u64,
    /// Number that rises whenever a tracker is added or removed. Then groups must be matched with the trackers again.
    generation: u64,
}

/// A tracker with its level. See [`RuleIndex::counter`].
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    tracker: &'a Tracker,
    /// `None` if each machine is a domain.
    level: Option<&'a Level>,
}

impl Counter<'_> {
    /// The domain of the machine in a row.
    pub fn domain(&self, row: usize) -> Option<Domain> {
        self.level.map_or(Some(row as Domain), |level| level.of_slot(row))
    }

    pub fn count(&self, domain: Domain) -> Count {
        self.tracker.count(domain)
    }

    /// The rows of a block whose machines have a domain.
    pub fn placed(&self, block: usize) -> u64 {
        let Some(level) = self.level else { return u64::MAX };
        word_of(level.of_block(block), |domain| domain != NOWHERE)
    }

    /// The rows of a block whose domain's count passes a test. Rows without a domain pass if `unplaced` is true.
    pub(super) fn filter(&self, block: usize, unplaced: bool, test: impl Fn(Count) -> bool) -> u64 {
        let none = test(Count::default());
        let counts = self.tracker.counts();
        let passed = |page: Option<&Page>| {
            let all = if none { u64::MAX } else { 0 };
            let counted = page.into_iter().flat_map(Page::iter);
            counted
                .filter(|(_, count)| test(*count) != none)
                .fold(all, |word, (bit, _)| word ^ 1 << bit)
        };
        let Some(level) = self.level else { return passed(counts.page(block as u32)) };
        let domains = level.of_block(block);
        let word = if level.is_small() {
            let passed = passed(counts.page(0));
            word_of(domains, |domain| passed >> (domain % PAGE as u32) & 1 == 1)
        } else {
            word_of(domains, |domain| test(counts.get(domain)))
        };
        let placed = word_of(domains, |domain| domain != NOWHERE);
        if unplaced { word | !placed } else { word & placed }
    }

    /// A number for each row of a block, computed from the count of its domain; 0 for machines without a domain.
    #[inline]
    pub fn column<T: Copy + Default>(&self, block: usize, of: impl Fn(Count) -> T) -> [T; PAGE] {
        let counts = self.tracker.counts();
        let column = |page: Option<&Page>| {
            let mut column = [T::default(); PAGE];
            let counted = page.into_iter().flat_map(Page::iter);
            counted.for_each(|(bit, count)| column[bit] = of(count));
            column
        };
        let Some(level) = self.level else { return column(counts.page(block as u32)) };
        let domains = level.of_block(block);
        if !level.is_small() {
            return domains.map(|domain| of(counts.get(domain)));
        }
        let numbers = column(counts.page(0));
        domains.map(|domain| {
            let number = numbers[domain as usize % PAGE];
            if domain == NOWHERE { T::default() } else { number }
        })
    }
}

/// A word with one bit for each machine of a block, set if its domain passes a test.
#[inline]
fn word_of(domains: &[Domain; PAGE], test: impl Fn(Domain) -> bool) -> u64 {
    let bits = domains.iter().enumerate();
    bits.fold(0, |word, (lane, domain)| word | u64::from(test(*domain)) << lane)
}

/// The positions of the set bits of a word, ascending.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(bit)
    })
}

impl RuleIndex {
    /// Whether no rule about other tasks is in use.
    pub fn is_empty(&self) -> bool {
        self.trackers.is_empty()
    }

    /// The number of trackers.
    pub fn len(&self) -> usize {
        self.trackers.len()
    }

    /// The number of label levels of all trackers, and of levels that were kept.
    pub fn level_count(&self) -> usize {
        self.levels.count()
    }

    /// The number of those levels whose label no machine has.
    pub fn levels_without_machines(&self) -> usize {
        self.levels.count_without_machines()
    }

    /// The number of times that a tracker was added or removed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The tracker of a key, if it exists.
    pub fn find(&self, key: &TrackerKey) -> Option<TrackerId> {
        self.by_key.get(key).copied()
    }

    /// Returns the tracker of a key, if it exists, and adds one user to it. Each call that returns a tracker must be
    /// followed by one [`RuleIndex::release`].
    pub fn acquire(&mut self, key: &TrackerKey) -> Option<TrackerId> {
        let id = self.find(key)?;
        self.trackers.get_mut(&id)?.users += 1;
        Some(id)
    }

    /// The id of the next tracker.
    pub fn next_id(&self) -> TrackerId {
        TrackerId(self.next)
    }

    /// Adds a tracker with one user. If a set is given, only tasks on its machines are counted.
    pub fn insert(
        &mut self,
        id: TrackerId,
        key: TrackerKey,
        among: Option<SetId>,
        machines: &[Option<Arc<Machine>>],
    ) {
        let level = match &key.level {
            TopologyLevel::Machine => None,
            TopologyLevel::Label(label) => Some(self.levels.acquire(label, machines)),
        };
        self.next = self.next.max(id.0 + 1);
        self.generation += 1;
        self.by_key.insert(key.clone(), id);
        self.runtime_affinities += usize::from(key.least().is_some());
        let mut tracker = Tracker::new(key, among, level);
        self.list(id, &mut tracker);
        self.trackers.insert(id, tracker);
    }

    /// Adds a new tracker to one of the indexes that [`RuleIndex::matching`] reads: by job, by attribute, or of all
    /// other trackers.
    fn list(&mut self, id: TrackerId, tracker: &mut Tracker) {
        let tracked = &tracker.key.tracked;
        if let Some(job) = tracked.job() {
            self.of_job.entry(job).or_default().push(id);
        } else if let Some(attributes) = self.of_attribute.rarest(tracked.attributes()) {
            for attribute in &attributes {
                self.of_attribute.add(attribute.clone(), id);
            }
            tracker.listed_by = attributes;
        } else {
            self.of_any.push(id);
        }
    }

    /// Removes a tracker from its index.
    fn unlist(&mut self, id: TrackerId, tracker: &Tracker) {
        if let Some(job) = tracker.key.tracked.job() {
            let others = self.of_job.entry(job).or_default();
            others.retain(|other| *other != id);
            if others.is_empty() {
                self.of_job.remove(&job);
            }
        } else if tracker.listed_by.is_empty() {
            self.of_any.retain(|other| *other != id);
        }
        for attribute in &tracker.listed_by {
            self.of_attribute.remove(attribute, id);
        }
    }

    /// Removes one user of a tracker. Returns whether the tracker has no user left; if so, the caller must remove it.
    pub fn release(&mut self, id: TrackerId) -> bool {
        let Some(tracker) = self.trackers.get_mut(&id) else { return false };
        tracker.users -= 1;
        tracker.users == 0
    }

    /// Removes a tracker. Returns its key, and the machine set that the caller must release.
    pub fn remove(&mut self, id: TrackerId) -> Option<(TrackerKey, Option<SetId>)> {
        let tracker = self.trackers.remove(&id)?;
        tracker.level.into_iter().for_each(|level| self.levels.release(level));
        self.by_key.remove(&tracker.key);
        self.runtime_affinities -= usize::from(tracker.key.least().is_some());
        self.unlist(id, &tracker);
        self.generation += 1;
        Some((tracker.key, tracker.among))
    }

    /// The trackers that count a group's tasks, in ascending order.
    pub fn matching(&self, member: Member<'_>) -> Vec<TrackerId> {
        if self.trackers.is_empty() {
            return Vec::new();
        }
        let own = self.of_job.get(&member.job);
        let mut ids: Vec<_> = own.into_iter().flatten().chain(&self.of_any).copied().collect();
        for attribute in member.attributes() {
            ids.extend(self.of_attribute.with(&attribute));
        }
        ids.retain(|id| self.key(*id).is_some_and(|key| key.matches(member)));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The key of a tracker.
    pub fn key(&self, id: TrackerId) -> Option<&TrackerKey> {
        self.trackers.get(&id).map(|tracker| &tracker.key)
    }

    /// Every tracker, in ascending order.
    pub fn ids(&self) -> Vec<TrackerId> {
        let mut ids: Vec<_> = self.trackers.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Updates the levels for a machine that was added, changed or removed.
    pub fn set_machine(&mut self, slot: usize, machine: Option<&Machine>) {
        self.levels.set_machine(slot, machine);
        self.trackers.values_mut().for_each(Tracker::forget_domains);
    }

    /// Makes the values of a label available to [`RuleIndex::values`], even if no rule uses the label.
    pub fn keep_level(&mut self, key: &Text, machines: &[Option<Arc<Machine>>]) {
        self.levels.keep(key, machines);
    }

    /// Each machine's value of a label. `None` if no tracker has this level, and `keep_level` was not called for it.
    pub fn values(&self, key: &str) -> Option<&Level> {
        self.levels.find(key)
    }

    /// The level of a tracker; `None` if each machine is a domain.
    fn level(&self, tracker: &Tracker) -> Option<&Level> {
        tracker.level.and_then(|id| self.levels.get(id))
    }

    /// The domain of a row at a tracker's level, even if the tracker does not count tasks on the machine.
    fn domain(&self, tracker: &Tracker, slot: usize) -> Option<Domain> {
        self.level(tracker).map_or(Some(slot as Domain), |level| level.of_slot(slot))
    }

    /// A tracker prepared for evaluation on many machines; `None` if it does not exist.
    pub fn counter(&self, id: TrackerId) -> Option<Counter<'_>> {
        let tracker = self.trackers.get(&id)?;
        Some(Counter { tracker, level: self.level(tracker) })
    }

    /// Whether a placed task has an affinity to the tasks of a tracker, or a preference about them.
    pub fn draws(&self, id: TrackerId) -> bool {
        let total = self.trackers.get(&id).map(Tracker::total).unwrap_or_default();
        total.seekers + total.pullers > 0
    }

    /// Whether a placed task has a preference about the tasks of a tracker.
    pub fn pulls(&self, id: TrackerId) -> bool {
        self.trackers.get(&id).is_some_and(|tracker| tracker.total().pullers > 0)
    }

    /// Whether a tracker selects any placed task.
    pub fn matches_any(&self, id: TrackerId) -> bool {
        self.trackers.get(&id).is_some_and(|tracker| tracker.total().matched > 0)
    }

    /// Every count of a tracker, by domain name, in no particular order.
    pub fn counts(&self, id: TrackerId) -> impl Iterator<Item = (DomainName, Count)> + '_ {
        let tracker = self.trackers.get(&id);
        tracker.into_iter().flat_map(move |tracker| {
            tracker.counts().iter().map(move |(domain, count)| (self.name(tracker, domain), count))
        })
    }

    /// Every count of a tracker by domain, in no particular order, for the audit.
    pub fn raw_counts(&self, id: TrackerId) -> Vec<(Domain, Count)> {
        self.trackers.get(&id).map_or(Vec::new(), |tracker| tracker.counts().iter().collect())
    }

    fn name(&self, tracker: &Tracker, domain: Domain) -> DomainName {
        match self.level(tracker) {
            None => DomainName::Row(domain),
            Some(level) => DomainName::Value(level.name(domain).cloned().unwrap_or_default()),
        }
    }

    /// The domain in which a tracker counts a machine's tasks; `None` if it does not count them.
    pub fn domain_of(&self, id: TrackerId, slot: usize, sets: &MachineSets) -> Option<Domain> {
        let tracker = self.trackers.get(&id)?;
        if tracker.among.is_some_and(|set| !sets.contains(set, slot)) {
            return None;
        }
        self.domain(tracker, slot)
    }

    /// For each tracker whose level is a label, in ascending order, the domain of a row.
    pub fn label_domains(&self, slot: usize) -> Vec<(TrackerId, Domain)> {
        let labelled = |tracker: &Tracker| tracker.level.is_some();
        let trackers = self.trackers.iter().filter(|(_, tracker)| labelled(tracker));
        let domain =
            |(id, tracker): (&TrackerId, &Tracker)| Some((*id, self.domain(tracker, slot)?));
        let mut domains: Vec<_> = trackers.filter_map(domain).collect();
        domains.sort_unstable();
        domains
    }

    /// The count of a tracker in a domain, with the domain's name, for a delta.
    pub fn named_count(&self, id: TrackerId, domain: Domain) -> Option<(DomainName, Count)> {
        let tracker = self.trackers.get(&id)?;
        Some((self.name(tracker, domain), tracker.count(domain)))
    }

    /// Sets a count from a delta.
    pub fn set_count(&mut self, id: TrackerId, domain: &DomainName, count: Count) {
        let Some(tracker) = self.trackers.get_mut(&id) else { return };
        let domain = match (domain, tracker.level) {
            (DomainName::Row(slot), None) => *slot,
            (DomainName::Value(value), Some(level)) => match self.levels.get_mut(level) {
                Some(level) => level.domain(value),
                None => return,
            },
            _ => return,
        };
        tracker.set(domain, count);
    }

    /// Counts a placed task in its trackers if `sign` is 1; subtracts a task that left if `sign` is -1.
    pub fn count_task(&mut self, rules: &GroupRules, slot: usize, sign: i32, sets: &MachineSets) {
        for id in &rules.matched {
            self.add(*id, slot, Step { matched: sign, ..Step::default() }, sets);
        }
        for id in &rules.restricting {
            self.add(*id, slot, Step { holders: sign, ..Step::default() }, sets);
        }
        for id in &rules.sought {
            self.add(*id, slot, Step { seekers: sign, ..Step::default() }, sets);
        }
        for Pull { tracker, weight } in &rules.pulls {
            let pull = i64::from(sign * weight);
            self.add(*tracker, slot, Step { pullers: sign, pull, ..Step::default() }, sets);
        }
    }

    /// Changes a tracker's count in the domain of a machine.
    pub fn add(&mut self, id: TrackerId, slot: usize, step: Step, sets: &MachineSets) {
        let Some(tracker) = self.trackers.get_mut(&id) else { return };
        if tracker.among.is_some_and(|set| !sets.contains(set, slot)) {
            return;
        }
        let domain = match tracker.level {
            None => Some(slot as Domain),
            Some(level) => self.levels.get(level).and_then(|level| level.of_slot(slot)),
        };
        domain.into_iter().for_each(|domain| tracker.add(domain, step));
    }
}
