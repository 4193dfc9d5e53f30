//! Placement rules of a task group.

use crate::machine::{Toleration, TopologyLevel};
use crate::selector::{MachineSelector, TaskSelector};
use crate::text::Text;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

/// Placement rules of a group: requirements and preferences.
///
/// All rules are *hard* except preferences and spreads with [`WhenUnsatisfiable::ScheduleAnyway`]: the cell rejects
/// every claim that breaks a hard rule, whichever scheduler submits it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlacementRules {
    /// Name of the only machine that may run the tasks, if any. (Kubernetes' `nodeName`.)
    pub machine: Option<Text>,
    /// Required and preferred machines.
    pub affinity: Affinity,
    /// Tolerated taints.
    pub tolerations: Vec<Toleration>,
    /// Rules about other tasks.
    pub tasks: Vec<TaskRule>,
    /// Ports of the machine that each task uses exclusively.
    pub ports: Vec<Port>,
}

/// Required and preferred machines of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affinity {
    /// Selectors of required machines. If there are any, the machine must match at least one.
    pub required: Option<Vec<MachineSelector>>,
    /// Selectors of preferred machines.
    pub preferred: Vec<Preferred>,
}

/// A preference for machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preferred {
    /// Weight of a match, 1 to 100.
    pub weight: u32,
    /// Selector of the machines.
    pub machines: MachineSelector,
}

/// Rule that relates a task to other tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskRule {
    /// No selected task may be in the task's domain, whether placed before or after it.
    AntiAffinity {
        /// Selector of the tasks to avoid.
        from: TaskSelector,
        /// Level of the domains.
        level: TopologyLevel,
    },
    /// For each term, the task's domain already has a task that *all* terms select.
    ///
    /// The rule is also met if all terms select this task itself, and no task that they all select is placed anywhere.
    /// (Kubernetes: required pod affinity. The terms of one rule belong together; two separate rules are evaluated
    /// independently.)
    Affinity(Vec<Near>),
    /// Domains with more selected tasks are preferred. With a negative weight, domains with fewer selected tasks are
    /// preferred.
    Prefer {
        /// The selected tasks, and the level of the domains.
        near: Near,
        /// Weight of each selected task in the domain, from -100 to 100.
        weight: i32,
    },
    /// A domain may have at most `count` selected tasks, including this one.
    MaxPerDomain {
        /// Selector of the counted tasks.
        of: TaskSelector,
        /// Level of the domains.
        level: TopologyLevel,
        /// Maximum number of tasks.
        count: u32,
    },
    /// A domain may have at most this share of the group's tasks, but always at least one task.
    MaxShare {
        /// Level of the domains.
        level: TopologyLevel,
        /// Maximum share in percent of the group's count, rounded down.
        percent: u8,
    },
    /// The selected tasks are spread evenly over the domains.
    Spread(Spread),
    /// In a domain with a task of this group, at most `count` selected tasks may be placed. The order in which tasks
    /// are placed does not matter.
    ///
    /// This task counts if it is selected. A count of 0 is rejected; use [`TaskRule::AntiAffinity`] instead.
    MaxColocated {
        /// Selector of the counted tasks.
        of: TaskSelector,
        /// Level of the domains.
        level: TopologyLevel,
        /// Maximum number of tasks, at least 1.
        count: u32,
    },
    /// As long as this task is placed, another selected task must be in its domain.
    ///
    /// The cell rejects a placement in a domain without such a task. It also rejects releases and evictions that would
    /// leave this task in the domain without such a task. The selected tasks may still end, fail, be killed, or be lost
    /// with their machine.
    RuntimeAffinity(Near),
}

impl TaskRule {
    /// The rule's selectors of tasks, each with its topology level.
    #[must_use]
    pub fn terms(&self) -> SmallVec<[(&TaskSelector, &TopologyLevel); 2]> {
        match self {
            TaskRule::AntiAffinity { from: tasks, level }
            | TaskRule::MaxPerDomain { of: tasks, level, .. }
            | TaskRule::MaxColocated { of: tasks, level, .. } => smallvec![(tasks, level)],
            TaskRule::Affinity(terms) => {
                terms.iter().map(|near| (&near.tasks, &near.level)).collect()
            }
            TaskRule::Prefer { near, .. } | TaskRule::RuntimeAffinity(near) => {
                smallvec![(&near.tasks, &near.level)]
            }
            TaskRule::Spread(spread) => smallvec![(&spread.of, &spread.level)],
            TaskRule::MaxShare { level, .. } => smallvec![(&TaskSelector::SameGroup, level)],
        }
    }
}

/// A selector of tasks, and a topology level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Near {
    /// Selector of the tasks.
    pub tasks: TaskSelector,
    /// Topology level of the domain.
    pub level: TopologyLevel,
}

/// An even spread of tasks over domains. (Kubernetes: topology spread constraint.)
///
/// The spread considers only machines that the fields below do not exclude, and that have a domain at the level of each
/// of the group's hard spreads (for a hard spread) or soft spreads (for a soft spread). Other machines, with their
/// domains and tasks, are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spread {
    /// Selector of the counted tasks.
    pub of: TaskSelector,
    /// Level of the domains.
    pub level: TopologyLevel,
    /// Maximum skew: how many more selected tasks a domain may have than the domain with the fewest. The task to be
    /// placed counts.
    pub skew_max: u32,
    /// Minimum number of domains. If there are fewer domains, the domain with the fewest tasks is taken to have 0
    /// tasks. The values 0 and 1 have no effect.
    pub domains_min: u32,
    /// Whether the spread is hard or soft.
    pub when: WhenUnsatisfiable,
    /// Whether the task to be placed counts as a selected task, because the selector matches it.
    pub counts_itself: bool,
    /// Whether machines that do not meet the group's required affinity are ignored.
    pub honors_affinity: bool,
    /// Whether machines with taints that the group does not tolerate are ignored.
    pub honors_taints: bool,
}

impl Spread {
    /// Returns a hard spread with a maximum skew, over the machines that meet the group's required affinity. Use it
    /// only for a group whose own tasks match the selector `of`.
    #[must_use]
    pub fn new(of: TaskSelector, level: TopologyLevel, skew_max: u32) -> Spread {
        Spread {
            of,
            level,
            skew_max,
            domains_min: 0,
            when: WhenUnsatisfiable::DoNotSchedule,
            counts_itself: true,
            honors_affinity: true,
            honors_taints: false,
        }
    }
}

/// Treatment of a task whose placement would violate a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnsatisfiable {
    /// The task stays pending.
    DoNotSchedule,
    /// The task is placed where it violates the spread least.
    ScheduleAnyway,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of a machine that one task uses exclusively.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// Address of the port; `None` means every address of the machine.
    pub address: Option<Text>,
    /// The protocol.
    pub protocol: Protocol,
    /// Number of the port.
    pub number: u16,
}

impl Port {
    /// The TCP port with this number on every address.
    #[must_use]
    pub fn tcp(number: u16) -> Port {
        Port { address: None, protocol: Protocol::Tcp, number }
    }

    /// Whether the ports collide. Tasks with colliding ports cannot share a machine.
    #[must_use]
    pub fn collides(&self, other: &Port) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address.is_none() || other.address.is_none() || self.address == other.address)
    }
}
