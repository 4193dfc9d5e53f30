//! The key of a tracker: the tasks that it counts, and the domains.

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
    /// Tasks with labels, of the named tenants or of any.
    Labels(Option<Vec<Text>>, LabelSelector),
    /// Tasks whose ports collide with this one.
    Port(Port),
    /// Tasks that all of these select.
    All(Vec<Tracked>),
}

impl Tracked {
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

    /// The job whose tasks alone are counted, if there is one.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Tracked::Group(job, _) | Tracked::Job(job) => Some(*job),
            Tracked::Labels(..) | Tracked::Port(_) => None,
            Tracked::All(all) => all.iter().find_map(Tracked::job),
        }
    }

    /// Whether a group's tasks are counted.
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

/// The condition on counted tasks that share a domain with a *holder*, a task that has the rule. If a rule has no such
/// condition, a holder excludes all counted tasks from its domain (anti-affinity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beside {
    /// At most this many run there.
    AtMost(u32),
    /// No counted task leaves if fewer than this many would stay.
    AtLeast(u32),
}

/// A selection of tasks at a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackerKey {
    /// The tasks.
    pub tracked: Tracked,
    /// The level, which defines the domains.
    pub level: TopologyLevel,
    /// The machines on which tasks are counted; `None` for all machines.
    pub among: Option<CountingMachines>,
    /// The condition of the rules that hold the tracker. It is part of the key, so that all holders have the same.
    pub beside: Option<Beside>,
}

/// The group of tasks that a rule belongs to, with the attributes that trackers match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) job: JobId,
    pub(crate) group: u16,
    pub(crate) tenant: &'a Text,
    pub(crate) labels: &'a Labels,
    pub(crate) ports: &'a [Port],
}

impl TrackerKey {
    /// The key of a rule of this group.
    pub(crate) fn of(member: Member<'_>, tasks: &TaskSelector, level: &TopologyLevel) -> Self {
        let tracked = Tracked::of(member, tasks);
        TrackerKey { tracked, level: level.clone(), among: None, beside: None }
    }

    /// The key of a rule of this group that allows at most `most` matched tasks beside it.
    pub(crate) fn of_beside(
        member: Member<'_>,
        near: (&TaskSelector, &TopologyLevel),
        most: u32,
    ) -> Self {
        let beside = Some(Beside::AtMost(most));
        TrackerKey { beside, ..TrackerKey::of(member, near.0, near.1) }
    }

    /// The key of a runtime affinity of this group: at least one matched task, plus the task itself where it matches.
    pub(crate) fn of_runtime_affinity(member: Member<'_>, near: &Near) -> Self {
        let key = TrackerKey::of(member, &near.tasks, &near.level);
        let least = 1 + u32::from(key.matches(member));
        TrackerKey { beside: Some(Beside::AtLeast(least)), ..key }
    }

    /// The key of the tasks that all terms select, at the level of one of them.
    pub(crate) fn of_all(member: Member<'_>, terms: &[Near], level: &TopologyLevel) -> Self {
        let tracked = match terms {
            [term] => Tracked::of(member, &term.tasks),
            terms => {
                Tracked::All(terms.iter().map(|term| Tracked::of(member, &term.tasks)).collect())
            }
        };
        TrackerKey { tracked, level: level.clone(), among: None, beside: None }
    }

    /// The key of a port.
    pub(crate) fn of_port(port: &Port) -> Self {
        let tracked = Tracked::Port(port.clone());
        TrackerKey { tracked, level: TopologyLevel::Machine, among: None, beside: None }
    }

    /// The number of counted tasks that a holder needs in its domain, if any.
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
