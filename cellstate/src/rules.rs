//! How tasks stand to each other: counters by rule and domain.
//!
//! Anti-affinity, affinity, spread, shares and exclusive ports all ask the same question: how many
//! tasks of some kind run in a domain? So there is one mechanism. A *tracker* is a selection of
//! tasks at a level of the topology; for each domain it counts the placed tasks that it selects
//! (`matched`) and the placed tasks that keep away from those (`holders`, which makes
//! anti-affinity hold in both directions). A port is a tracker at the level of machines whose
//! tasks both match and hold it.
//!
//! The master and every view keep one `RuleBook`. A view's counters come with the delta; what it
//! adds on its own are the claims that it has not yet sent.

use crate::map::FastMap;
use omega_core::{
    JobId, LabelSelector, Labels, Machine, Port, Reason, TaskSelector, Tenants, Text, TopologyLevel,
};
use std::sync::{Arc, OnceLock};

use crate::sets::{MachineSets, SetId};

/// A tracker, numbered by the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TrackerId(pub(crate) u64);

/// A domain of a level: the machine's row, or the number of the label's value.
pub(crate) type Domain = u32;

/// Which tasks a tracker counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tracked {
    /// Those of one group of a job.
    Group(JobId, u16),
    /// Those of a job.
    Job(JobId),
    /// Those with labels; of any tenant if none is named.
    Labels(Option<Vec<Text>>, LabelSelector),
    /// Those whose ports collide with this one.
    Port(Port),
}

impl Tracked {
    /// The job whose tasks alone are counted, if it is so.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Tracked::Group(job, _) | Tracked::Job(job) => Some(*job),
            Tracked::Labels(..) | Tracked::Port(_) => None,
        }
    }
}

/// A selection of tasks at a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TrackerKey {
    /// Which tasks.
    pub(crate) tracked: Tracked,
    /// What a domain is.
    pub(crate) level: TopologyLevel,
}

/// How many tasks a tracker counts in one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Placed tasks that it selects.
    pub(crate) matched: u32,
    /// Placed tasks that must have none of them in their domain.
    pub(crate) holders: u32,
}

/// The group of tasks that a rule is about, as far as trackers look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) job: JobId,
    pub(crate) group: u16,
    pub(crate) tenant: &'a Text,
    pub(crate) labels: &'a Labels,
    pub(crate) ports: &'a [Port],
}

impl TrackerKey {
    /// The key that a rule of this member means.
    pub(crate) fn of(member: Member<'_>, tasks: &TaskSelector, level: &TopologyLevel) -> Self {
        let tracked = match tasks {
            TaskSelector::SameGroup => Tracked::Group(member.job, member.group),
            TaskSelector::SameJob => Tracked::Job(member.job),
            TaskSelector::Labels { tenants, labels } => {
                let tenants = match tenants {
                    Tenants::Own => Some(vec![member.tenant.clone()]),
                    Tenants::Any => None,
                    Tenants::Named(names) => Some(names.clone()),
                };
                Tracked::Labels(tenants, labels.clone())
            }
        };
        TrackerKey { tracked, level: level.clone() }
    }

    /// The key of a port.
    pub(crate) fn of_port(port: &Port) -> Self {
        TrackerKey { tracked: Tracked::Port(port.clone()), level: TopologyLevel::Machine }
    }

    /// Whether the tracker counts this member's tasks.
    pub(crate) fn matches(&self, member: Member<'_>) -> bool {
        match &self.tracked {
            Tracked::Group(job, group) => (*job, *group) == (member.job, member.group),
            Tracked::Job(job) => *job == member.job,
            Tracked::Labels(tenants, labels) => {
                tenants.as_ref().is_none_or(|names| names.contains(member.tenant))
                    && labels.matches(member.labels)
            }
            Tracked::Port(port) => member.ports.iter().any(|own| own.collides(port)),
        }
    }
}

/// One condition that a claim must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// No matched task in the domain.
    AntiAffinity(TrackerId),
    /// No matched task on the machine; the reason names the port.
    Port(TrackerId),
    /// A matched task in the domain; or none anywhere, if the claimed task matches itself.
    Affinity { tracker: TrackerId, matches_self: bool },
    /// At most so many matched tasks in the domain, this one included.
    Max { tracker: TrackerId, count: u32 },
    /// At most `skew_max` more than in the emptiest domain.
    Skew { tracker: TrackerId, skew_max: u32, domains_min: u32, adds: u32, eligible: Option<SetId> },
}

impl Check {
    /// The tracker that it looks at.
    pub(crate) fn tracker(&self) -> TrackerId {
        match self {
            Check::AntiAffinity(id) | Check::Port(id) => *id,
            Check::Affinity { tracker, .. }
            | Check::Max { tracker, .. }
            | Check::Skew { tracker, .. } => *tracker,
        }
    }
}

/// What the rules ask of one group's tasks. Empty for most groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupRules {
    /// What a claim must meet.
    pub(crate) checks: Vec<Check>,
    /// Trackers that count these tasks.
    pub(crate) matched: Vec<TrackerId>,
    /// Trackers that these tasks hold.
    pub(crate) held: Vec<TrackerId>,
    /// Trackers over whose domains these tasks would rather be spread.
    pub(crate) wishes: Vec<TrackerId>,
}

impl GroupRules {
    /// Whether no rule concerns these tasks.
    pub(crate) fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.matched.is_empty() && self.wishes.is_empty()
    }
}

/// Domains that are found when first asked for.
type Domains = OnceLock<Box<[Domain]>>;

/// One level of the topology and where each machine is in it.
#[derive(Clone, Debug, Default)]
struct Level {
    ids: FastMap<Text, Domain>,
    names: Vec<Text>,
    of_slot: Vec<Option<Domain>>,
}

impl Level {
    fn set_machine(&mut self, slot: usize, value: Option<&Text>) {
        if self.of_slot.len() <= slot {
            self.of_slot.resize(slot + 1, None);
        }
        self.of_slot[slot] = value.map(|value| self.domain(value));
    }

    fn domain(&mut self, value: &Text) -> Domain {
        if let Some(domain) = self.ids.get(value) {
            return *domain;
        }
        let domain = self.names.len() as Domain;
        self.names.push(value.clone());
        self.ids.insert(value.clone(), domain);
        domain
    }
}

#[derive(Clone, Debug)]
struct Tracker {
    key: TrackerKey,
    users: u32,
    counts: FastMap<Domain, Count>,
    matched: u64,
    holders: u64,
}

/// A domain by a name that means the same to the master and to every view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DomainName {
    /// The machine in this row.
    Row(u32),
    /// The value of the level's label.
    Value(Text),
}

/// The trackers in use with their counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleBook {
    levels: FastMap<Text, Level>,
    trackers: FastMap<TrackerId, Tracker>,
    by_key: FastMap<TrackerKey, TrackerId>,
    /// Trackers of one job's tasks by job, and all others: what a group may match.
    of_job: FastMap<JobId, Vec<TrackerId>>,
    of_any: Vec<TrackerId>,
    /// The domains that a spread looks at: those of a level with a machine of a set. Found when
    /// first asked for, and again after a machine came, changed or went.
    eligible: FastMap<(TopologyLevel, Option<SetId>), Domains>,
    next: u64,
    /// Rises whenever a tracker comes or goes: then what a group matches must be found anew.
    generation: u64,
}

impl RuleBook {
    /// See the field.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The tracker of a key, if there is one.
    pub(crate) fn find(&self, key: &TrackerKey) -> Option<TrackerId> {
        self.by_key.get(key).copied()
    }

    /// The tracker of a key, made if it is new (then the answer's second part is true). Each call
    /// needs one [`RuleBook::release`].
    pub(crate) fn acquire(
        &mut self,
        key: TrackerKey,
        machines: &[Option<Arc<Machine>>],
    ) -> (TrackerId, bool) {
        if let Some(id) = self.find(&key) {
            if let Some(tracker) = self.trackers.get_mut(&id) {
                tracker.users += 1;
            }
            return (id, false);
        }
        let id = TrackerId(self.next);
        self.insert(id, key, machines);
        (id, true)
    }

    /// Adds a tracker under an id: the next one in the master, the master's in a view.
    pub(crate) fn insert(
        &mut self,
        id: TrackerId,
        key: TrackerKey,
        machines: &[Option<Arc<Machine>>],
    ) {
        self.add_level(&key.level, machines);
        self.next = self.next.max(id.0 + 1);
        self.generation += 1;
        self.by_key.insert(key.clone(), id);
        match key.tracked.job() {
            Some(job) => self.of_job.entry(job).or_default().push(id),
            None => self.of_any.push(id),
        }
        let counts = FastMap::default();
        self.trackers.insert(id, Tracker { key, users: 1, counts, matched: 0, holders: 0 });
    }

    /// Gives a tracker back. Without users it is forgotten, and the answer is what it was.
    pub(crate) fn release(&mut self, id: TrackerId) -> Option<TrackerKey> {
        let tracker = self.trackers.get_mut(&id)?;
        tracker.users -= 1;
        if tracker.users == 0 { self.remove(id) } else { None }
    }

    /// Forgets a tracker.
    pub(crate) fn remove(&mut self, id: TrackerId) -> Option<TrackerKey> {
        let tracker = self.trackers.remove(&id)?;
        self.by_key.remove(&tracker.key);
        match tracker.key.tracked.job() {
            Some(job) => {
                let others = self.of_job.entry(job).or_default();
                others.retain(|other| *other != id);
                if others.is_empty() {
                    self.of_job.remove(&job);
                }
            }
            None => self.of_any.retain(|other| *other != id),
        }
        self.generation += 1;
        Some(tracker.key)
    }

    /// The trackers that count a member's tasks, ascending.
    pub(crate) fn matching(&self, member: Member<'_>) -> Vec<TrackerId> {
        let own = self.of_job.get(&member.job);
        let candidates = own.into_iter().flatten().chain(&self.of_any).copied();
        let matches = |id: &TrackerId| self.key(*id).is_some_and(|key| key.matches(member));
        let mut ids: Vec<_> = candidates.filter(matches).collect();
        ids.sort_unstable();
        ids
    }

    /// The key of a tracker.
    pub(crate) fn key(&self, id: TrackerId) -> Option<&TrackerKey> {
        self.trackers.get(&id).map(|tracker| &tracker.key)
    }

    /// Every tracker, ascending by id.
    pub(crate) fn ids(&self) -> Vec<TrackerId> {
        let mut ids: Vec<_> = self.trackers.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Notes that a machine came, changed its place or went.
    pub(crate) fn set_machine(&mut self, slot: usize, machine: Option<&Machine>) {
        for (key, level) in &mut self.levels {
            level.set_machine(slot, machine.and_then(|machine| machine.labels.get(key)));
        }
        for domains in self.eligible.values_mut() {
            *domains = OnceLock::new();
        }
    }

    /// Notes that a spread looks at the domains of a level with a machine of a set.
    pub(crate) fn watch_domains(&mut self, level: &TopologyLevel, set: Option<SetId>) {
        self.eligible.insert((level.clone(), set), OnceLock::new());
    }

    /// Notes that a set is forgotten: its id may come to mean another one.
    pub(crate) fn forget_set(&mut self, set: SetId) {
        self.eligible.retain(|(_, eligible), _| *eligible != Some(set));
    }

    fn add_level(&mut self, level: &TopologyLevel, machines: &[Option<Arc<Machine>>]) {
        let TopologyLevel::Label(key) = level else { return };
        if self.levels.contains_key(key) {
            return;
        }
        let mut table = Level::default();
        for (slot, machine) in machines.iter().enumerate() {
            table.set_machine(slot, machine.as_ref().and_then(|m| m.labels.get(key)));
        }
        self.levels.insert(key.clone(), table);
    }

    /// The domain that a machine's row has at a level.
    pub(crate) fn domain(&self, level: &TopologyLevel, slot: usize) -> Option<Domain> {
        match level {
            TopologyLevel::Machine => Some(slot as Domain),
            TopologyLevel::Label(key) => *self.levels.get(key)?.of_slot.get(slot)?,
        }
    }

    /// The count of a tracker in the domain of a machine.
    pub(crate) fn count(&self, id: TrackerId, slot: usize) -> Count {
        let Some(tracker) = self.trackers.get(&id) else { return Count::default() };
        let domain = self.domain(&tracker.key.level, slot);
        domain.and_then(|domain| tracker.counts.get(&domain)).copied().unwrap_or_default()
    }

    /// Every count of a tracker, by domain name, in no order.
    pub(crate) fn counts(&self, id: TrackerId) -> impl Iterator<Item = (DomainName, Count)> + '_ {
        let tracker = self.trackers.get(&id);
        tracker.into_iter().flat_map(move |tracker| {
            let named = |(domain, count): (&Domain, &Count)| {
                (self.name(&tracker.key.level, *domain), *count)
            };
            tracker.counts.iter().map(named)
        })
    }

    /// Every count of a tracker by domain, in no order, for the audit.
    pub(crate) fn raw_counts(&self, id: TrackerId) -> Vec<(Domain, Count)> {
        let tracker = self.trackers.get(&id);
        tracker.map_or(Vec::new(), |t| t.counts.iter().map(|(d, c)| (*d, *c)).collect())
    }

    fn name(&self, level: &TopologyLevel, domain: Domain) -> DomainName {
        match level {
            TopologyLevel::Machine => DomainName::Row(domain),
            TopologyLevel::Label(key) => {
                let names = self.levels.get(key).map(|level| &level.names);
                DomainName::Value(
                    names.and_then(|n| n.get(domain as usize)).cloned().unwrap_or_default(),
                )
            }
        }
    }

    /// The domain in which a tracker counts a machine's tasks.
    pub(crate) fn domain_of(&self, id: TrackerId, slot: usize) -> Option<Domain> {
        self.domain(&self.trackers.get(&id)?.key.level, slot)
    }

    /// The domain of a row for each tracker at a level that a label names, ascending.
    pub(crate) fn label_domains(&self, slot: usize) -> Vec<(TrackerId, Domain)> {
        let labelled = |tracker: &Tracker| tracker.key.level != TopologyLevel::Machine;
        let trackers = self.trackers.iter().filter(|(_, tracker)| labelled(tracker));
        let mut domains: Vec<_> =
            trackers.filter_map(|(id, _)| Some((*id, self.domain_of(*id, slot)?))).collect();
        domains.sort_unstable();
        domains
    }

    /// The count of a tracker in a domain, with the domain's name, for a delta.
    pub(crate) fn named_count(&self, id: TrackerId, domain: Domain) -> Option<(DomainName, Count)> {
        let tracker = self.trackers.get(&id)?;
        let count = tracker.counts.get(&domain).copied().unwrap_or_default();
        Some((self.name(&tracker.key.level, domain), count))
    }

    /// Sets a count that came in a delta.
    pub(crate) fn set_count(&mut self, id: TrackerId, domain: &DomainName, count: Count) {
        let Some(tracker) = self.trackers.get_mut(&id) else { return };
        let domain = match (domain, &tracker.key.level) {
            (DomainName::Row(slot), TopologyLevel::Machine) => *slot,
            (DomainName::Value(value), TopologyLevel::Label(key)) => {
                self.levels.entry(key.clone()).or_default().domain(value)
            }
            _ => return,
        };
        let old = tracker.counts.insert(domain, count).unwrap_or_default();
        tracker.matched = tracker.matched + u64::from(count.matched) - u64::from(old.matched);
        tracker.holders = tracker.holders + u64::from(count.holders) - u64::from(old.holders);
        if count == Count::default() {
            tracker.counts.remove(&domain);
        }
    }

    /// Counts a task that is placed on a machine, or with `sign` -1 one that leaves it.
    pub(crate) fn count_task(&mut self, rules: &GroupRules, slot: usize, sign: i32) {
        for id in &rules.matched {
            self.add(*id, slot, sign, 0);
        }
        for id in &rules.held {
            self.add(*id, slot, 0, sign);
        }
    }

    /// Adds to one tracker's counters in a machine's domain.
    pub(crate) fn add(&mut self, id: TrackerId, slot: usize, matched: i32, holders: i32) {
        let Some(level) = self.trackers.get(&id).map(|tracker| &tracker.key.level) else { return };
        let Some(domain) = self.domain(level, slot) else { return };
        let Some(tracker) = self.trackers.get_mut(&id) else { return };
        let count = tracker.counts.entry(domain).or_default();
        count.matched = count.matched.checked_add_signed(matched).expect("counts equal a recount");
        count.holders = count.holders.checked_add_signed(holders).expect("counts equal a recount");
        tracker.matched = tracker.matched.wrapping_add_signed(i64::from(matched));
        tracker.holders = tracker.holders.wrapping_add_signed(i64::from(holders));
        if *count == Count::default() {
            tracker.counts.remove(&domain);
        }
    }

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
        for id in &rules.matched {
            let Some(tracker) = self.trackers.get(id) else { continue };
            if tracker.holders > 0 && self.count(*id, slot).holders > 0 {
                return Err(match tracker.key.tracked {
                    Tracked::Port(_) => Reason::PortTaken,
                    _ => Reason::AntiAffinity,
                });
            }
        }
        Ok(())
    }

    fn judge_check(&self, check: &Check, slot: usize, sets: &MachineSets) -> Result<(), Reason> {
        let refuse = |refused: bool, reason| if refused { Err(reason) } else { Ok(()) };
        match check {
            Check::AntiAffinity(id) => {
                refuse(self.count(*id, slot).matched > 0, Reason::AntiAffinity)
            }
            Check::Port(id) => refuse(self.count(*id, slot).matched > 0, Reason::PortTaken),
            Check::Affinity { tracker, matches_self } => {
                let (domain, total) = self.domain_and_total(*tracker, slot);
                let first = total == 0 && *matches_self;
                match domain {
                    None => Err(Reason::NoDomain),
                    Some(_) => {
                        let near = self.count(*tracker, slot).matched > 0;
                        refuse(!near && !first, Reason::TaskAffinityUnmet)
                    }
                }
            }
            Check::Max { tracker, count } => {
                let (domain, _) = self.domain_and_total(*tracker, slot);
                refuse(domain.is_none(), Reason::NoDomain)?;
                refuse(self.count(*tracker, slot).matched >= *count, Reason::DomainFull)
            }
            Check::Skew { tracker, skew_max, adds, .. } => {
                let (domain, _) = self.domain_and_total(*tracker, slot);
                refuse(domain.is_none(), Reason::NoDomain)?;
                let here = self.count(*tracker, slot).matched + adds;
                if here <= *skew_max {
                    return Ok(());
                }
                let emptiest = self.emptiest(check, sets);
                refuse(here - emptiest.min(here) > *skew_max, Reason::Skew)
            }
        }
    }

    fn domain_and_total(&self, id: TrackerId, slot: usize) -> (Option<Domain>, u64) {
        match self.trackers.get(&id) {
            Some(tracker) => (self.domain(&tracker.key.level, slot), tracker.matched),
            None => (None, 0),
        }
    }

    /// The lowest count over the domains that a spread looks at; 0 if there are too few.
    fn emptiest(&self, check: &Check, sets: &MachineSets) -> u32 {
        let Check::Skew { tracker, domains_min, eligible, .. } = check else { return 0 };
        let Some(tracker) = self.trackers.get(tracker) else { return 0 };
        let Some(domains) = self.eligible.get(&(tracker.key.level.clone(), *eligible)) else {
            return 0;
        };
        let domains = domains.get_or_init(|| self.domains(&tracker.key.level, *eligible, sets));
        // More domains than counters: one of them has no task.
        if domains.len() < *domains_min as usize || domains.len() > tracker.counts.len() {
            return 0;
        }
        let count = |domain| tracker.counts.get(domain).map_or(0, |count| count.matched);
        domains.iter().map(count).min().unwrap_or(0)
    }

    /// The domains of a level in which an eligible machine is, ascending.
    fn domains(
        &self,
        level: &TopologyLevel,
        eligible: Option<SetId>,
        sets: &MachineSets,
    ) -> Box<[Domain]> {
        let rows =
            sets.present().filter(|slot| eligible.is_none_or(|set| sets.contains(set, *slot)));
        let mut domains: Vec<Domain> = rows.filter_map(|slot| self.domain(level, slot)).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.into()
    }
}
