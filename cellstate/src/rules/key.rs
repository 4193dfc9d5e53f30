//! The key of a tracker. It defines which tasks the tracker counts, and at which topology level.

use crate::index::sets::CountingMachines;
use crate::state::attributes::Attribute;
use omega_core::{
    JobId, LabelSelector, Labels, Near, Port, TaskSelector, Tenants, Text, TopologyLevel,
};

/// The tasks that a tracker counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tracked {
    /// Tasks of one group of a job.
    Group(JobId, u16),
    /// Tasks of a job.
    Job(JobId),
    /// Tasks with matching labels, of the named tenants or of any tenant.
    Labels(Option<Vec<Text>>, LabelSelector),
    /// Tasks with a port that collides with this one.
    Port(Port),
    /// Tasks that all of these selections contain.
    All(Vec<Tracked>),
}

impl Tracked {
    /// Whether these are the tasks with a port.
    pub(super) fn is_port(&self) -> bool {
        matches!(self, Tracked::Port(_))
    }

    /// The tasks that a selector in a rule of this group selects.
    fn of(member: Member<'_>, tasks: &TaskSelector) -> Tracked {
        match tasks {
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
        }
    }

    /// The job to which all counted tasks belong; `None` if they may belong to several.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Tracked::Group(job, _) | Tracked::Job(job) => Some(*job),
            Tracked::Labels(..) | Tracked::Port(_) => None,
            Tracked::All(all) => all.iter().find_map(Tracked::job),
        }
    }

    /// Sets of attributes: each counted task has at least one attribute of each set. Empty if attributes do not narrow
    /// the search for the tasks.
    pub(crate) fn attributes(&self) -> Vec<Vec<Attribute>> {
        match self {
            Tracked::Group(..) | Tracked::Job(_) => Vec::new(),
            Tracked::Labels(_, labels) => {
                labels.requirements.iter().filter_map(Attribute::any_of).collect()
            }
            Tracked::Port(port) => vec![vec![Attribute::Port(port.number)]],
            Tracked::All(all) => all.iter().flat_map(Tracked::attributes).collect(),
        }
    }

    /// Whether the tasks of a group are counted.
    fn matches(&self, member: Member<'_>) -> bool {
        match self {
            Tracked::Group(job, group) => (*job, *group) == (member.job, member.group),
            Tracked::Job(job) => *job == member.job,
            Tracked::Labels(tenants, labels) => {
                tenants.as_ref().is_none_or(|names| names.contains(member.tenant))
                    && labels.matches(member.labels)
            }
            Tracked::Port(port) => member.ports.iter().any(|own| own.collides(port)),
            Tracked::All(all) => all.iter().all(|tracked| tracked.matches(member)),
        }
    }
}

/// Condition on the counted tasks in the domain of a holder, which is a task whose rule uses this tracker. Without a
/// condition, a holder excludes all counted tasks from its domain (anti-affinity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColocationBound {
    /// At most this many counted tasks are in the domain of a holder.
    AtMost(u32),
    /// At least this many counted tasks must be in the domain of a holder. No counted task may leave if fewer would
    /// stay.
    AtLeast(u32),
}

/// A selection of tasks, and the topology level by whose domains they are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackerKey {
    /// The tasks that are counted.
    pub tracked: Tracked,
    /// The topology level whose domains the counts belong to.
    pub level: TopologyLevel,
    /// The machines whose tasks are counted; `None` means all machines.
    pub among: Option<CountingMachines>,
    /// Condition on the counted tasks near a holder. The condition is part of the key, so all holders of a tracker have
    /// the same condition.
    pub colocation: Option<ColocationBound>,
}

/// A group, with its attributes that trackers compare.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub job: JobId,
    pub group: u16,
    pub tenant: &'a Text,
    pub labels: &'a Labels,
    pub ports: &'a [Port],
}

impl Member<'_> {
    /// The attributes of the group's tasks.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute> + '_ {
        Attribute::of(self.labels, self.ports)
    }
}

impl TrackerKey {
    /// The key of a rule of this group about the tasks that a selector selects.
    pub(crate) fn of(member: Member<'_>, tasks: &TaskSelector, level: &TopologyLevel) -> Self {
        let tracked = Tracked::of(member, tasks);
        TrackerKey { tracked, level: level.clone(), among: None, colocation: None }
    }

    /// The key of a rule of this group that allows at most `most` matched tasks in its domain.
    pub(crate) fn of_max_colocated(
        member: Member<'_>,
        tasks: &TaskSelector,
        level: &TopologyLevel,
        most: u32,
    ) -> Self {
        let colocation = Some(ColocationBound::AtMost(most));
        TrackerKey { colocation, ..TrackerKey::of(member, tasks, level) }
    }

    /// The key of a runtime affinity of this group. A holder needs one matched task in its domain. If the rule also
    /// matches the holder itself, the holder needs two, because it is counted, too.
    pub(crate) fn of_runtime_affinity(member: Member<'_>, near: &Near) -> Self {
        let key = TrackerKey::of(member, &near.tasks, &near.level);
        let least = 1 + u32::from(key.matches(member));
        TrackerKey { colocation: Some(ColocationBound::AtLeast(least)), ..key }
    }

    /// The key for the tasks that every one of the terms selects, at the level of one term.
    pub(crate) fn of_all(member: Member<'_>, terms: &[Near], level: &TopologyLevel) -> Self {
        let tracked = match terms {
            [term] => Tracked::of(member, &term.tasks),
            terms => {
                Tracked::All(terms.iter().map(|term| Tracked::of(member, &term.tasks)).collect())
            }
        };
        TrackerKey { tracked, level: level.clone(), among: None, colocation: None }
    }

    /// The key for tasks that use a port.
    pub(crate) fn of_port(port: &Port) -> Self {
        let tracked = Tracked::Port(port.clone());
        TrackerKey { tracked, level: TopologyLevel::Machine, among: None, colocation: None }
    }

    /// The number of counted tasks that must be in the domain of a holder; `None` if it needs none.
    pub(crate) fn least(&self) -> Option<u32> {
        match self.colocation {
            Some(ColocationBound::AtLeast(least)) => Some(least),
            Some(ColocationBound::AtMost(_)) | None => None,
        }
    }

    /// Whether the tracker counts this group's tasks.
    pub(crate) fn matches(&self, member: Member<'_>) -> bool {
        self.tracked.matches(member)
    }
}
