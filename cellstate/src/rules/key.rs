//! What a tracker counts, and where.

use crate::sets::CountingMachines;
use omega_core::{
    JobId, LabelSelector, Labels, Near, Port, TaskSelector, Tenants, Text, TopologyLevel,
};

/// Which tasks a tracker counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tracked {
    /// Those of one group of a job.
    Group(JobId, u16),
    /// Those of a job.
    Job(JobId),
    /// Those with labels; of any tenant if none is named.
    Labels(Option<Vec<Text>>, LabelSelector),
    /// Those whose ports collide with this one.
    Port(Port),
    /// Those that all of these mean.
    All(Vec<Tracked>),
}

impl Tracked {
    /// The tasks that a selector in a rule of this member means.
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

    /// The job whose tasks alone are counted, if it is so.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Tracked::Group(job, _) | Tracked::Job(job) => Some(*job),
            Tracked::Labels(..) | Tracked::Port(_) => None,
            Tracked::All(all) => all.iter().find_map(Tracked::job),
        }
    }

    /// Whether a member's tasks are counted.
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

/// What must hold of the counted tasks in a domain that holds a task whose rule says so. Without it
/// a rule that holds a tracker lets none of them come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beside {
    /// At most so many run there.
    AtMost(u32),
    /// None of them leaves if fewer than this would stay.
    AtLeast(u32),
}

/// A selection of tasks at a level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackerKey {
    /// Which tasks.
    pub tracked: Tracked,
    /// What a domain is.
    pub level: TopologyLevel,
    /// Only tasks on these machines are counted; `None` is every machine.
    pub among: Option<CountingMachines>,
    /// What the rules that hold the tracker ask for: it is part of the key, so that all of them ask for
    /// the same.
    pub beside: Option<Beside>,
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
        let tracked = Tracked::of(member, tasks);
        TrackerKey { tracked, level: level.clone(), among: None, beside: None }
    }

    /// The key of a rule of this member that allows at most so many beside it.
    pub(crate) fn of_beside(
        member: Member<'_>,
        near: (&TaskSelector, &TopologyLevel),
        most: u32,
    ) -> Self {
        let beside = Some(Beside::AtMost(most));
        TrackerKey { beside, ..TrackerKey::of(member, near.0, near.1) }
    }

    /// The key of the runtime affinity that a rule of this member asks for: one task, and itself where it is
    /// counted.
    pub(crate) fn of_runtime_affinity(member: Member<'_>, near: &Near) -> Self {
        let key = TrackerKey::of(member, &near.tasks, &near.level);
        let least = 1 + u32::from(key.matches(member));
        TrackerKey { beside: Some(Beside::AtLeast(least)), ..key }
    }

    /// The key of the tasks that all terms mean, at the level of one of them.
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

    /// How many counted tasks a task that holds the tracker needs in its domain, if it needs any.
    pub(crate) fn least(&self) -> Option<u32> {
        match self.beside {
            Some(Beside::AtLeast(least)) => Some(least),
            Some(Beside::AtMost(_)) | None => None,
        }
    }

    /// Whether the tracker counts this member's tasks.
    pub(crate) fn matches(&self, member: Member<'_>) -> bool {
        self.tracked.matches(member)
    }
}
