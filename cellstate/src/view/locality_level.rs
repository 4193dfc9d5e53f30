//! The reach of a group: the machines that the group may use at present under delay scheduling.
//!
//! A job may wait for its preferred machines. Its scheduler then records the present restriction in the compiled group,
//! where filters and explanations read it. The placement check ignores the restriction.

use std::sync::Arc;

/// The machines that a group may use at present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalityLevel {
    /// All machines.
    #[default]
    Anywhere,
    /// Machines that one of the group's preferences selects.
    Preferred {
        /// Remaining time of the restriction, in nanoseconds.
        left: u64,
    },
    /// Machines that share a label's value with a preferred machine.
    Near {
        /// The numbers of the label's values ([`Level::of`](super::Level::of)) on preferred machines, ascending.
        values: Arc<[u32]>,
        /// Remaining time of the restriction, in nanoseconds.
        left: u64,
    },
}

impl LocalityLevel {
    /// Remaining time of the restriction, in nanoseconds; `None` if there is no restriction.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match self {
            LocalityLevel::Anywhere => None,
            LocalityLevel::Preferred { left } | LocalityLevel::Near { left, .. } => Some(*left),
        }
    }
}
