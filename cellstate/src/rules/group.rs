//! What the rules ask of one group's tasks, in trackers.

use super::TrackerId;

/// One condition that a claim must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// No matched task in the domain.
    AntiAffinity(TrackerId),
    /// No matched task on the machine; the reason names the port.
    Port(TrackerId),
    /// A matched task in the domain of each; or none anywhere, if the claimed task matches itself.
    Affinity { trackers: Vec<TrackerId>, matches_self: bool },
    /// At most so many matched tasks in the domain, this one included.
    Max { tracker: TrackerId, count: u32 },
    /// At most so many matched tasks in the domain, if there is one.
    Beside { tracker: TrackerId, most: u32 },
    /// A matched task in the domain.
    RuntimeAffinity(TrackerId),
    /// At most `skew_max` more than in the emptiest domain.
    Skew { tracker: TrackerId, skew_max: u32, domains_min: u32, adds: u32 },
}

/// The rules about other tasks come in families, which schedulers may ask for one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleFamily {
    /// Ports of the machine.
    Ports,
    /// Spreads.
    Spread,
    /// Affinity and anti-affinity to tasks, and runtime affinity.
    Neighbours,
    /// At most so many tasks, or such a share, in a domain, or beside a task.
    Limits,
}

impl Check {
    /// The trackers that it looks at.
    pub(crate) fn trackers(&self) -> &[TrackerId] {
        match self {
            Check::AntiAffinity(id) | Check::Port(id) | Check::RuntimeAffinity(id) => {
                std::slice::from_ref(id)
            }
            Check::Max { tracker, .. }
            | Check::Beside { tracker, .. }
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
            Check::Max { .. } | Check::Beside { .. } => RuleFamily::Limits,
        }
    }
}

/// A spread that tasks wish for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadWish {
    pub(crate) tracker: TrackerId,
    /// By how much a domain may exceed the emptiest without harm.
    pub skew_max: u32,
    /// Whether each machine is a domain of its own.
    pub by_machine: bool,
}

/// A preference for domains with, or with a negative weight without, matched tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pull {
    pub(crate) tracker: TrackerId,
    pub(crate) weight: i32,
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
    /// Trackers of the tasks that each term of a required affinity means.
    pub(crate) sought: Vec<TrackerId>,
    /// Preferences.
    pub(crate) pulls: Vec<Pull>,
    /// Spreads that these tasks would rather have.
    pub(crate) wishes: Vec<SpreadWish>,
}

impl GroupRules {
    /// Whether no rule concerns these tasks.
    pub(crate) fn is_empty(&self) -> bool {
        self.checks.is_empty()
            && self.matched.is_empty()
            && self.pulls.is_empty()
            && self.wishes.is_empty()
    }

    /// The trackers that the group's own rules use, each as often as it was acquired.
    pub(crate) fn used(&self) -> impl Iterator<Item = TrackerId> + '_ {
        let checks = self.checks.iter().flat_map(|check| check.trackers());
        let wishes = self.wishes.iter().map(|wish| wish.tracker);
        let pulls = self.pulls.iter().map(|pull| pull.tracker);
        checks.chain(&self.sought).copied().chain(wishes).chain(pulls)
    }

    /// The trackers whose counts a placed task changes.
    pub(crate) fn counted(&self) -> impl Iterator<Item = TrackerId> + '_ {
        let pulls = self.pulls.iter().map(|pull| pull.tracker);
        self.matched.iter().chain(&self.held).chain(&self.sought).copied().chain(pulls)
    }
}
