//! The reach of a group: the machines that it may use at present, by delay scheduling.
//!
//! A scheduler that lets a job wait for its preferred machines records that with the compiled group, where filters and
//! explanations read it. The placement check ignores it.

use std::sync::Arc;

/// The machines that a group may use at present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// All machines.
    #[default]
    Anywhere,
    /// Machines that one of its preferences selects.
    Preferred {
        /// The remaining time in nanoseconds.
        left: u64,
    },
    /// Machines that share a label's value with a preferred machine.
    Near {
        /// The values, as numbered by [`Level::of`](super::Level::of), ascending.
        values: Arc<[u32]>,
        /// The remaining time in nanoseconds.
        left: u64,
    },
}

impl Reach {
    /// The remaining time in nanoseconds; `None` without a restriction.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match self {
            Reach::Anywhere => None,
            Reach::Preferred { left } | Reach::Near { left, .. } => Some(*left),
        }
    }
}
