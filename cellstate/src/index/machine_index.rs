//! The machine index: descriptions of machines, machine sets and rule counters.
//!
//! The cell has one [`MachineIndex`], and each view has its own. The cell and the views compile a task group into a
//! [`Need`] and check it with the function `check_fit`.

use crate::index::need::{Need, WithOptional};
use crate::index::sets::{CountingMachines, Differences, MachineSets, SetId, SetKey};
use crate::index::shapes::{Shape, Shapes};
use crate::policy::PolicySet;
use crate::policy::ports::PortNeed;
use crate::rules::{Check, GroupRules, Member, Pull, RuleIndex, SoftSpread, TrackerId, TrackerKey};
use crate::state::allocation_overrides::values_of;
use crate::state::demand_profiles::DemandProfiles;
use omega_core::{
    Job, JobId, Machine, MachineSelector, Near, Requirement, Spread, TaskGroup, TaskRule,
    TaskSelector, Text, TopologyLevel, WhenUnsatisfiable,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The machine index. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct MachineIndex {
    pub machines: Vec<Option<Arc<Machine>>>,
    pub sets: MachineSets,
    pub rules: RuleIndex,
    pub shapes: Shapes,
}

/// Treatment of a missing tracker. The cell creates it. A view ignores it, because a view gets trackers by deltas.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trackers {
    Make,
    Find,
}

/// A group of a job, by its position in the job.
#[derive(Clone, Copy)]
pub struct JobGroup<'a> {
    pub id: JobId,
    pub job: &'a Arc<Job>,
    pub index: usize,
}

/// A rule of a task group, with its group.
struct RuleOf<'a> {
    member: Member<'a>,
    group: &'a TaskGroup,
    rule: &'a TaskRule,
}

impl MachineIndex {
    /// Updates a row whose machine was added, changed or removed.
    pub fn set_machine(&mut self, slot: usize, machine: Option<Arc<Machine>>) {
        if self.machines.len() <= slot {
            self.machines.resize(slot + 1, None);
        }
        let new = machine.as_deref();
        let differences = Differences::between(self.machines[slot].as_deref(), new);
        if differences.any() {
            self.sets.set_machine(slot, new, differences);
            self.rules.set_machine(slot, new);
        }
        self.machines[slot] = machine;
    }

    /// Compiles a group of a job as [`MachineIndex::compile`] does, or shares the needs of an equal group. In both
    /// cases one call of [`MachineIndex::release`] must follow.
    pub fn compile_shared(
        &mut self,
        group: JobGroup<'_>,
        kinds: usize,
        trackers: Trackers,
    ) -> (Arc<Need>, Vec<TrackerId>) {
        let JobGroup { job, index, .. } = group;
        if self.rules.is_empty()
            && let Some(need) = self.shapes.find(job, index)
        {
            self.sets.acquire_again(need.sets());
            return (need.clone(), Vec::new());
        }
        let (need, made) = self.compile(group, kinds, trackers);
        let need = Arc::new(need);
        if self.rules.is_empty() {
            self.sets.acquire_again(need.sets());
            let shape = Shape { job: job.clone(), index, need: need.clone() };
            if let Some(before) = self.shapes.add(shape) {
                before.sets().for_each(|set| self.sets.release(set));
            }
        }
        (need, made)
    }

    /// Compiles a group of a job. Each call must be followed by one [`MachineIndex::release`] when the group is no
    /// longer needed. Also returns the trackers that were created, because other groups may match them.
    pub fn compile(
        &mut self,
        job_group: JobGroup<'_>,
        kinds: usize,
        trackers: Trackers,
    ) -> (Need, Vec<TrackerId>) {
        let JobGroup { job, index, .. } = job_group;
        let group = &job.groups[index];
        let machine = group.rules.machine.as_ref().map(|name| self.set_of_name(name));
        let affinity = group.rules.affinity.required.clone();
        let affinity = affinity.map(|s| self.sets.acquire(SetKey::Match(s), &self.machines));
        let mut tolerations = group.rules.tolerations.clone();
        tolerations.sort();
        let mut preferred = SmallVec::new();
        let mut unmarked = None;
        if trackers == Trackers::Find {
            for soft_spread in &group.rules.affinity.preferred {
                let key = SetKey::Match(vec![soft_spread.machines.clone()]);
                preferred.push((soft_spread.weight, self.sets.acquire(key, &self.machines)));
            }
            let key = SetKey::Unmarked(tolerations.clone());
            unmarked = Some(self.sets.acquire(key, &self.machines));
        }
        let tolerated = self.sets.acquire(SetKey::Tolerated(tolerations), &self.machines);
        let request = values_of(&group.request, kinds);
        let with_optional = |with: TaskGroup| {
            Box::new(WithOptional {
                request: values_of(&with.request, kinds),
                devices: with.devices,
            })
        };
        let optional = group.with_optional().map(with_optional);
        let mut made = Vec::new();
        let rules = self.rules_of(job_group, trackers, &mut made);
        let (devices, cores) = (group.devices, group.cores);
        let demand_profiles = DemandProfiles::of(&group.demand_profiles, &request);
        let of_cell = &group.cluster_request;
        let cluster_request = (!of_cell.is_zero()).then(|| Box::new(of_cell.clone()));
        let need = Need {
            request,
            demand_profiles,
            devices,
            cores,
            optional,
            cluster_request,
            machine,
            affinity,
            tolerated,
            preferred,
            unmarked,
            rules,
            ports: PortNeed::of(group),
            policies: PolicySet::concerning(job, group),
        };
        (need, made)
    }

    /// Compiles the rules of a group with existing trackers only. No release is needed.
    pub fn find_rules(&mut self, group: JobGroup<'_>) -> Option<Box<GroupRules>> {
        self.rules_of(group, Trackers::Find, &mut Vec::new())
    }

    fn rules_of(
        &mut self,
        JobGroup { id, job, index }: JobGroup<'_>,
        trackers: Trackers,
        made: &mut Vec<TrackerId>,
    ) -> Option<Box<GroupRules>> {
        let member = member(id, job, index);
        let group = &job.groups[index];
        let mut rules = self.compile_rules(member, group, trackers, made);
        rules.matched = self.rules.matching(member);
        (!rules.is_empty()).then(|| Box::new(rules))
    }

    fn set_of_name(&mut self, name: &Text) -> SetId {
        let names = vec![Requirement::equals("", name.clone())];
        let key = SetKey::Match(vec![MachineSelector { labels: Vec::new(), names }]);
        self.sets.acquire(key, &self.machines)
    }

    fn compile_rules(
        &mut self,
        member: Member<'_>,
        group: &TaskGroup,
        mode: Trackers,
        made: &mut Vec<TrackerId>,
    ) -> GroupRules {
        let mut rules = GroupRules::default();
        for port in &group.rules.ports {
            let key = TrackerKey::of_port(port);
            let Some(id) = self.tracker(key, mode, made) else { continue };
            rules.checks.push(Check::Port(id));
            rules.restricting.push(id);
        }
        for rule in &group.rules.tasks {
            self.compile_rule(RuleOf { member, group, rule }, mode, made, &mut rules);
        }
        rules.restricting.sort_unstable();
        rules.restricting.dedup();
        rules
    }

    fn compile_rule(
        &mut self,
        RuleOf { member, group, rule }: RuleOf<'_>,
        mode: Trackers,
        made: &mut Vec<TrackerId>,
        into: &mut GroupRules,
    ) {
        let mut tracker = |key| self.tracker(key, mode, made);
        match rule {
            TaskRule::AntiAffinity { from, level } => {
                let Some(id) = tracker(TrackerKey::of(member, from, level)) else { return };
                into.checks.push(Check::AntiAffinity(id));
                into.restricting.push(id);
            }
            TaskRule::Affinity(terms) => {
                let key = |term: &Near| TrackerKey::of_all(member, terms, &term.level);
                let matches_self = terms.iter().all(|term| key(term).matches(member));
                let trackers = terms.iter().filter_map(|term| tracker(key(term))).collect();
                into.checks.push(Check::Affinity { trackers, matches_self });
                let key = |term: &Near| TrackerKey::of(member, &term.tasks, &term.level);
                into.sought.extend(terms.iter().filter_map(|term| tracker(key(term))));
            }
            TaskRule::Prefer { near, weight } => {
                let key = TrackerKey::of(member, &near.tasks, &near.level);
                let Some(id) = tracker(key) else { return };
                into.pulls.push(Pull { tracker: id, weight: *weight });
            }
            TaskRule::MaxPerDomain { of, level, count } => {
                let Some(id) = tracker(TrackerKey::of(member, of, level)) else { return };
                into.checks.push(Check::Max { tracker: id, count: *count });
            }
            TaskRule::MaxShare { level, percent } => {
                let key = TrackerKey::of(member, &TaskSelector::SameGroup, level);
                let Some(id) = tracker(key) else { return };
                let share = u64::from(group.count) * u64::from(*percent) / 100;
                into.checks.push(Check::Max { tracker: id, count: share.max(1) as u32 });
            }
            TaskRule::MaxColocated { of, level, count } => {
                let key = TrackerKey::of_max_colocated(member, of, level, *count);
                let most = count.saturating_sub(u32::from(key.matches(member)));
                let Some(id) = tracker(key) else { return };
                into.checks.push(Check::MaxColocated { tracker: id, most });
                into.restricting.push(id);
            }
            TaskRule::RuntimeAffinity(near) => {
                let Some(id) = tracker(TrackerKey::of_runtime_affinity(member, near)) else {
                    return;
                };
                into.checks.push(Check::RuntimeAffinity(id));
                into.restricting.push(id);
            }
            TaskRule::Spread(spread) => {
                let among = counting(group, spread);
                let key = TrackerKey { among, ..TrackerKey::of(member, &spread.of, &spread.level) };
                let Some(id) = tracker(key) else { return };
                add_spread(spread, id, into);
            }
            other => unreachable!("every rule of this version is handled above, not {other:?}"),
        }
    }

    /// The tracker of a key. If there is none, the cell creates it together with the set of machines whose tasks it
    /// counts.
    fn tracker(
        &mut self,
        key: TrackerKey,
        mode: Trackers,
        made: &mut Vec<TrackerId>,
    ) -> Option<TrackerId> {
        if mode == Trackers::Find {
            return self.rules.find(&key);
        }
        Some(self.rules.acquire(&key).unwrap_or_else(|| {
            let id = self.rules.next_id();
            self.insert_tracker(id, key);
            made.push(id);
            id
        }))
    }

    /// Adds a tracker.
    pub fn insert_tracker(&mut self, id: TrackerId, key: TrackerKey) {
        let among = key.among.clone().map(SetKey::Counting);
        let among = among.map(|key| self.sets.acquire(key, &self.machines));
        self.rules.insert(id, key, among, &self.machines);
    }

    /// Removes a tracker and returns its key.
    pub fn remove_tracker(&mut self, id: TrackerId) -> Option<TrackerKey> {
        let (key, among) = self.rules.remove(id)?;
        among.into_iter().for_each(|set| self.sets.release(set));
        Some(key)
    }

    /// Releases a compiled group, and returns the trackers that were removed.
    pub fn release(&mut self, need: &Need, trackers: Trackers) -> Vec<(TrackerId, TrackerKey)> {
        need.sets().for_each(|set| self.sets.release(set));
        let Some(rules) = need.rules.as_ref().filter(|_| trackers == Trackers::Make) else {
            return Vec::new();
        };
        let unused: Vec<_> = rules.used().filter(|id| self.rules.release(*id)).collect();
        unused.into_iter().filter_map(|id| Some((id, self.remove_tracker(id)?))).collect()
    }
}

/// The machines whose tasks a spread of a group counts; `None` means all machines.
fn counting(group: &TaskGroup, spread: &Spread) -> Option<CountingMachines> {
    if spread.when == WhenUnsatisfiable::ScheduleAnyway && is_machine(&spread.level) {
        // No filter is needed: each machine is its own domain, and a soft spread rejects no machine.
        return None;
    }
    let rules = &group.rules;
    let mut keys = Vec::new();
    for rule in &rules.tasks {
        if let TaskRule::Spread(other) = rule
            && other.when == spread.when
            && let TopologyLevel::Label(key) = &other.level
        {
            keys.push(key.clone());
        }
    }
    keys.sort_unstable();
    keys.dedup();
    let affinity = rules.affinity.required.clone().filter(|_| spread.honors_affinity);
    let mut tolerations = spread.honors_taints.then(|| rules.tolerations.clone());
    tolerations.iter_mut().for_each(|tolerations| tolerations.sort());
    let own = match &spread.level {
        TopologyLevel::Label(key) => Some(key),
        TopologyLevel::Machine => None,
    };
    if keys.iter().all(|key| Some(key) == own) && affinity.is_none() && tolerations.is_none() {
        // No filter is needed: the only requirement is the label of the spread's level, and a machine without this
        // label is never counted.
        return None;
    }
    Some(CountingMachines { keys, affinity, tolerations })
}

fn add_spread(spread: &Spread, tracker: TrackerId, rules: &mut GroupRules) {
    let Spread { skew_max, domains_min, .. } = *spread;
    match spread.when {
        WhenUnsatisfiable::ScheduleAnyway => {
            let by_machine = is_machine(&spread.level);
            rules.soft_spreads.push(SoftSpread { tracker, skew_max, by_machine });
        }
        WhenUnsatisfiable::DoNotSchedule => {
            let adds = u32::from(spread.counts_itself);
            rules.checks.push(Check::Skew { tracker, skew_max, domains_min, adds });
        }
    }
}

fn is_machine(level: &TopologyLevel) -> bool {
    matches!(level, TopologyLevel::Machine)
}

/// The trackers that the rules and ports of a job need. If they are more than `max`, the rest is left out.
pub fn trackers_of(job: &Job, max: usize) -> RuleIndex {
    let mut index = MachineIndex::default();
    for (position, group) in job.groups.iter().enumerate() {
        let member = member(JobId(0), job, position);
        index.compile_rules(member, group, Trackers::Make, &mut Vec::new());
        if index.rules.len() > max {
            break;
        }
    }
    index.rules
}

/// The attributes of a group that trackers compare to decide whether they count its tasks.
pub fn member(id: JobId, job: &Job, group_index: usize) -> Member<'_> {
    let group = &job.groups[group_index];
    Member {
        job: id,
        group: group_index as u16,
        tenant: &job.tenant,
        labels: &group.labels,
        ports: &group.rules.ports,
    }
}
