//! How far from the machines that its tasks would rather have a group goes for now.
//!
//! A scheduler that has a job wait for its preferred machines notes it here, with the group that it compiled:
//! then filters and explanations know it, and nothing else has to be passed along. The judge knows nothing of it.

use super::{GroupRef, View};
use std::sync::Arc;

/// See the head of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// To every machine.
    #[default]
    Anywhere,
    /// To machines that one of its preferences names.
    Preferred {
        /// For how many nanoseconds more.
        left: u64,
    },
    /// To machines that have a label's value in common with such a machine.
    Near {
        /// These values, as [`Level::of`](super::Level::of) numbers them, ascending.
        values: Arc<[u32]>,
        /// For how many nanoseconds more.
        left: u64,
    },
}

impl Reach {
    /// For how many nanoseconds more it is bounded; `None` if it is not.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match self {
            Reach::Anywhere => None,
            Reach::Preferred { left } | Reach::Near { left, .. } => Some(*left),
        }
    }
}

impl View {
    /// How far a compiled group goes for now.
    ///
    /// # Panics
    /// If the group was forgotten.
    #[must_use]
    pub fn reach(&self, group: GroupRef) -> &Reach {
        &self.compiled(group).reach
    }

    /// Notes how far it goes.
    ///
    /// # Panics
    /// If the group was forgotten.
    pub fn set_reach(&mut self, group: GroupRef, reach: Reach) {
        let compiled = self.groups[group.0 as usize].as_mut();
        compiled.expect("a group is used until its job is forgotten").reach = reach;
    }
}
