//! The key of a tracker, which defines the tasks that it counts, and the domains by which it counts them.

use crate::attributes::Attribute;
use crate::sets::CountingMachines;
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
    /// Tasks that each of these selects.
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

    /// The job to which all counted tasks belong, if there is one.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Tracked::Group(job, _) | Tracked::Job(job) => Some(*job),
            Tracked::Labels(..) | Tracked::Port(_) => None,
            Tracked::All(all) => all.iter().find_map(Tracked::job),
        }
    }

    /// Sets of attributes: each counted task has at least one attribute of each set. Empty if the tasks can only be
    /// found by comparing all of them.
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

/// Condition on the counted tasks that may share a domain with a holder, a task that holds the tracker. Without a
/// condition, a holder excludes all counted tasks from its domain (anti-affinity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beside {
    /// At most this many counted tasks are in the domain of a holder.
    AtMost(u32),
    /// At least this many counted tasks must be in the domain of a holder, and none may leave if fewer would stay.
    AtLeast(u32),
}

/// A selection of tasks at a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackerKey {
    /// The tasks that are counted.
    pub tracked: Tracked,
    /// The level of the domains by which they are counted.
    pub level: TopologyLevel,
    /// The machines whose tasks are counted; `None` means all machines.
    pub among: Option<CountingMachines>,
    /// Condition of the rules that hold the tracker. It is part of the key, so that all holders have an equal one.
    pub beside: Option<Beside>,
}

/// The group that a rule belongs to, with its attributes that trackers match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) job: JobId,
    pub(crate) group: u16,
    pub(crate) tenant: &'a Text,
    pub(crate) labels: &'a Labels,
    pub(crate) ports: &'a [Port],
}

impl Member<'_> {
    /// The attributes of the group's tasks.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = Attribute> + '_ {
        Attribute::of(self.labels, self.ports)
    }
}

impl TrackerKey {
    /// The key of a rule of this group about some tasks.
    pub(crate) fn of(member: Member<'_>, tasks: &TaskSelector, level: &TopologyLevel) -> Self {
        let tracked = Tracked::of(member, tasks);
        TrackerKey { tracked, level: level.clone(), among: None, beside: None }
    }

    /// The key of a rule of this group that allows at most `most` matched tasks in its domain.
    pub(crate) fn of_beside(
        member: Member<'_>,
        near: (&TaskSelector, &TopologyLevel),
        most: u32,
    ) -> Self {
        let beside = Some(Beside::AtMost(most));
        TrackerKey { beside, ..TrackerKey::of(member, near.0, near.1) }
    }

    /// The key of a runtime affinity of this group. It requires one matched task, and a second one if the task matches
    /// itself.
    pub(crate) fn of_runtime_affinity(member: Member<'_>, near: &Near) -> Self {
        let key = TrackerKey::of(member, &near.tasks, &near.level);
        let least = 1 + u32::from(key.matches(member));
        TrackerKey { beside: Some(Beside::AtLeast(least)), ..key }
    }

    /// The key for the tasks that all terms select, at one term's level.
    pub(crate) fn of_all(member: Member<'_>, terms: &[Near], level: &TopologyLevel) -> Self {
        let tracked = match terms {
            [term] => Tracked::of(member, &term.tasks),
            terms => {
                Tracked::All(terms.iter().map(|term| Tracked::of(member, &term.tasks)).collect())
            }
        };
        TrackerKey { tracked, level: level.clone(), among: None, beside: None }
    }

    /// The key for tasks that use a port.
    pub(crate) fn of_port(port: &Port) -> Self {
        let tracked = Tracked::Port(port.clone());
        TrackerKey { tracked, level: TopologyLevel::Machine, among: None, beside: None }
    }

    /// The number of counted tasks that a holder needs in its domain, if it needs any.
    pub(crate) fn least(&self) -> Option<u32> {
        match self.beside {
            Some(Beside::AtLeast(least)) => Some(least),
            Some(Beside::AtMost(_)) | None => None,
        }
    }

    /// Whether the tracker counts this group's tasks.
    pub(crate) fn matches(&self, member: Member<'_>) -> bool {
        self.tracked.matches(member)
    }
}
