//! One group's rules about other tasks, compiled to trackers.

use super::TrackerId;

/// One condition that a claim must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// No matched task is in the domain.
    AntiAffinity(TrackerId),
    /// No matched task is on the machine. If one is, the claim is rejected with the reason `PORT_TAKEN`.
    Port(TrackerId),
    /// A matched task is in the domain of each tracker. A task that its own rule matches also passes if no matched task
    /// is placed anywhere.
    Affinity { trackers: Vec<TrackerId>, matches_self: bool },
    /// At most `count` matched tasks are in the domain, including the task of the claim.
    Max { tracker: TrackerId, count: u32 },
    /// At most `most` matched tasks are in the domain, if the machine has a domain.
    MaxColocated { tracker: TrackerId, most: u32 },
    /// A matched task is in the domain.
    RuntimeAffinity(TrackerId),
    /// The domain has at most `skew_max` more matched tasks than the domain with the fewest.
    Skew { tracker: TrackerId, skew_max: u32, domains_min: u32, adds: u32 },
}

/// Families of rules about other tasks, which schedulers can evaluate separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleFamily {
    /// Host ports.
    Ports,
    /// Topology spreads.
    Spread,
    /// Affinity and anti-affinity to tasks, and runtime affinity.
    Neighbours,
    /// Limits: on the tasks in a domain, on the share of a group in a domain, and on the tasks that share a domain with
    /// some other task.
    Limits,
}

impl Check {
    /// The trackers that the check reads.
    pub fn trackers(&self) -> &[TrackerId] {
        match self {
            Check::AntiAffinity(id) | Check::Port(id) | Check::RuntimeAffinity(id) => {
                std::slice::from_ref(id)
            }
            Check::Max { tracker, .. }
            | Check::MaxColocated { tracker, .. }
            | Check::Skew { tracker, .. } => std::slice::from_ref(tracker),
            Check::Affinity { trackers, .. } => trackers,
        }
    }

    pub(super) fn family(&self) -> RuleFamily {
        match self {
            Check::Port(_) => RuleFamily::Ports,
            Check::Skew { .. } => RuleFamily::Spread,
            Check::AntiAffinity(_) | Check::Affinity { .. } | Check::RuntimeAffinity(_) => {
                RuleFamily::Neighbours
            }
            Check::Max { .. } | Check::MaxColocated { .. } => RuleFamily::Limits,
        }
    }
}

/// A soft spread of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftSpread {
    pub(crate) tracker: TrackerId,
    /// Number of tasks by which a domain may exceed the emptiest domain before the domain's score falls.
    pub skew_max: u32,
    /// Whether each machine is a domain of its own.
    pub by_machine: bool,
}

/// A preference for domains with matched tasks. If the weight is negative, a preference for domains without matched
/// tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    pub tracker: TrackerId,
    pub weight: i32,
}

/// The compiled rules of one group. Empty for most groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRules {
    /// Conditions on a claim.
    pub checks: Vec<Check>,
    /// Trackers that count the tasks of this group.
    pub matched: Vec<TrackerId>,
    /// Trackers of the rules by which this group's tasks keep other tasks away, or limit their number.
    pub restricting: Vec<TrackerId>,
    /// For each term of a required affinity, the tracker of the tasks that the term selects.
    pub sought: Vec<TrackerId>,
    /// Preferences for or against domains with certain tasks.
    pub pulls: Vec<Pull>,
    /// Soft spreads.
    pub soft_spreads: Vec<SoftSpread>,
}

impl GroupRules {
    /// Whether no rule concerns this group.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
            && self.matched.is_empty()
            && self.pulls.is_empty()
            && self.soft_spreads.is_empty()
    }

    /// The trackers that the group's own rules use. A tracker that was acquired several times occurs as often.
    pub fn used(&self) -> impl Iterator<Item = TrackerId> + '_ {
        let checks = self.checks.iter().flat_map(|check| check.trackers());
        let soft_spreads = self.soft_spreads.iter().map(|soft_spread| soft_spread.tracker);
        let pulls = self.pulls.iter().map(|pull| pull.tracker);
        checks.chain(&self.sought).copied().chain(soft_spreads).chain(pulls)
    }

    /// The trackers whose counts change when a task of the group is placed.
    pub fn counted(&self) -> impl Iterator<Item = TrackerId> + '_ {
        let pulls = self.pulls.iter().map(|pull| pull.tracker);
        self.matched.iter().chain(&self.restricting).chain(&self.sought).copied().chain(pulls)
    }
}
