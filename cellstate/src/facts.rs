//! What is known of the machines beyond amounts, in the form that decisions need.
//!
//! The master has one `Facts`, every view its own: descriptions, sets of machines, and rule
//! counters. Both compile a task group into a [`Need`] and hand it to the same judge.

use crate::rules::{Check, GroupRules, Member, RuleBook, TrackerId, TrackerKey};
use crate::sets::{MachineSets, SetId, SetKey};
use omega_core::{
    CardRequest, Job, JobId, Machine, Spread, TaskGroup, TaskRule, TaskSelector, WhenUnsatisfiable,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// What one task of a group needs, in numbers: compiled once for each group.
#[derive(Clone, Debug)]
pub struct Need {
    /// What it claims of each kind, in the order of the cell's kinds.
    pub request: SmallVec<[i64; 4]>,
    /// Cards that it needs.
    pub cards: Option<CardRequest>,
    /// Machines that meet its required affinity; `None` if it requires nothing.
    pub affinity: Option<SetId>,
    /// Machines whose taints it tolerates.
    pub tolerated: SetId,
    /// Machines that it would rather have, each set with its weight. In views only.
    pub preferred: SmallVec<[(u32, SetId); 2]>,
    /// Machines without a taint that it would rather avoid. In views only.
    pub unmarked: Option<SetId>,
    /// What the rules ask; `None` for a group that no rule concerns.
    pub(crate) rules: Option<Box<GroupRules>>,
}

impl Need {
    /// Whether a rule about other tasks concerns these: then a claim for one of them may change
    /// what the next may do elsewhere.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether it wishes to be spread.
    #[must_use]
    pub fn has_wishes(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| !rules.wishes.is_empty())
    }
}

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) machines: Vec<Option<Arc<Machine>>>,
    pub(crate) sets: MachineSets,
    pub(crate) rules: RuleBook,
}

/// Who numbers trackers: the master makes them, a view finds those that came with the delta.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trackers {
    Make,
    Find,
}

impl Facts {
    /// Notes that a machine came, changed or went.
    pub(crate) fn set_machine(&mut self, slot: usize, machine: Option<Arc<Machine>>) {
        if self.machines.len() <= slot {
            self.machines.resize(slot + 1, None);
        }
        self.sets.set_machine(slot, machine.as_deref());
        self.rules.set_machine(slot, machine.as_deref());
        self.machines[slot] = machine;
    }

    /// Compiles a group of a job. Each call needs one [`Facts::release`]. With it come the
    /// trackers that had to be made: other groups may match them too.
    pub(crate) fn compile(
        &mut self,
        (id, job): (JobId, &Job),
        group_index: usize,
        kinds: usize,
        trackers: Trackers,
    ) -> (Need, Vec<TrackerId>) {
        let group = &job.groups[group_index];
        let affinity = group.rules.affinity.required.clone();
        let affinity = affinity.map(|s| self.sets.acquire(SetKey::Match(s), &self.machines));
        let mut tolerations = group.rules.tolerations.clone();
        tolerations.sort();
        let mut preferred = SmallVec::new();
        let mut unmarked = None;
        if trackers == Trackers::Find {
            for wish in &group.rules.affinity.preferred {
                let key = SetKey::Match(vec![wish.machines.clone()]);
                preferred.push((wish.weight, self.sets.acquire(key, &self.machines)));
            }
            let key = SetKey::Unmarked(tolerations.clone());
            unmarked = Some(self.sets.acquire(key, &self.machines));
        }
        let tolerated = self.sets.acquire(SetKey::Tolerated(tolerations), &self.machines);
        let mut request: SmallVec<[i64; 4]> =
            group.request.as_slice().iter().map(|amount| *amount as i64).collect();
        request.resize(kinds, 0);
        let member = member(id, job, group_index);
        let mut made = Vec::new();
        let mut rules = self.compile_rules(member, group, affinity, (trackers, &mut made));
        rules.matched = self.rules.matching(member);
        let rules = (!rules.is_empty()).then(|| Box::new(rules));
        let cards = group.cards;
        (Need { request, cards, affinity, tolerated, preferred, unmarked, rules }, made)
    }

    fn compile_rules(
        &mut self,
        member: Member<'_>,
        group: &TaskGroup,
        affinity: Option<SetId>,
        (mode, made): (Trackers, &mut Vec<TrackerId>),
    ) -> GroupRules {
        let mut rules = GroupRules::default();
        let mut tracker = |facts: &mut Facts, key: TrackerKey| {
            if mode == Trackers::Find {
                return facts.rules.find(&key);
            }
            let (id, new) = facts.rules.acquire(key, &facts.machines);
            made.extend(new.then_some(id));
            Some(id)
        };
        for port in &group.rules.ports {
            let Some(id) = tracker(self, TrackerKey::of_port(port)) else { continue };
            rules.checks.push(Check::Port(id));
            rules.held.push(id);
        }
        for rule in &group.rules.tasks {
            let Some((selector, level)) = selector_and_level(rule) else { continue };
            let key = TrackerKey::of(member, selector, level);
            let matches_self = key.matches(member);
            let Some(id) = tracker(self, key) else { continue };
            match rule {
                TaskRule::AntiAffinity { .. } => {
                    rules.checks.push(Check::AntiAffinity(id));
                    rules.held.push(id);
                }
                TaskRule::Affinity { .. } => {
                    rules.checks.push(Check::Affinity { tracker: id, matches_self });
                }
                TaskRule::MaxPerDomain { count, .. } => {
                    rules.checks.push(Check::Max { tracker: id, count: *count });
                }
                TaskRule::MaxShare { percent, .. } => {
                    let share = u64::from(group.count) * u64::from(*percent) / 100;
                    let count = share.max(1) as u32;
                    rules.checks.push(Check::Max { tracker: id, count });
                }
                TaskRule::Spread(spread) if spread.when == WhenUnsatisfiable::ScheduleAnyway => {
                    rules.wishes.push(id);
                }
                TaskRule::Spread(spread) => {
                    self.rules.watch_domains(level, affinity);
                    rules.checks.push(skew(spread, id, matches_self, affinity));
                }
                _ => {}
            }
        }
        rules.held.sort_unstable();
        rules.held.dedup();
        rules
    }

    /// Gives back what [`Facts::compile`] took. The answer is the trackers that are forgotten.
    pub(crate) fn release(
        &mut self,
        need: &Need,
        trackers: Trackers,
    ) -> Vec<(TrackerId, TrackerKey)> {
        let preferred = need.preferred.iter().map(|(_, set)| *set);
        let sets = need.affinity.into_iter().chain([need.tolerated]).chain(need.unmarked);
        for set in sets.chain(preferred) {
            if let Some(forgotten) = self.sets.release(set) {
                self.rules.forget_set(forgotten);
            }
        }
        let Some(rules) = need.rules.as_ref().filter(|_| trackers == Trackers::Make) else {
            return Vec::new();
        };
        let used = rules.checks.iter().map(Check::tracker).chain(rules.wishes.iter().copied());
        used.filter_map(|id| Some((id, self.rules.release(id)?))).collect()
    }
}

fn skew(spread: &Spread, tracker: TrackerId, matches_self: bool, set: Option<SetId>) -> Check {
    Check::Skew {
        tracker,
        skew_max: spread.skew_max,
        domains_min: spread.domains_min,
        adds: u32::from(matches_self),
        eligible: set,
    }
}

/// The tasks and the level that a rule looks at.
fn selector_and_level(rule: &TaskRule) -> Option<(&TaskSelector, &omega_core::TopologyLevel)> {
    match rule {
        TaskRule::AntiAffinity { from, level } => Some((from, level)),
        TaskRule::Affinity { with, level } => Some((with, level)),
        TaskRule::MaxPerDomain { of, level, .. } => Some((of, level)),
        TaskRule::MaxShare { level, .. } => Some((&TaskSelector::SameGroup, level)),
        TaskRule::Spread(spread) => Some((&spread.of, &spread.level)),
        _ => None,
    }
}

/// A group as trackers look at it.
pub(crate) fn member(id: JobId, job: &Job, group_index: usize) -> Member<'_> {
    let group = &job.groups[group_index];
    Member {
        job: id,
        group: group_index as u16,
        tenant: &job.tenant,
        labels: &group.labels,
        ports: &group.rules.ports,
    }
}
