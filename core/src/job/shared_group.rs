//! A task group that jobs with equal groups share.

use crate::job::group::TaskGroup;
use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A task group that clones share until one of them changes it.
///
/// Most jobs have groups equal to those of other jobs, so a cell keeps equal groups once. Reading is as cheap as with a
/// reference. Before a shared group is changed, it is copied.
///
/// ```
/// use omega_core::{Amounts, SharedGroup, TaskGroup};
///
/// let mut group: SharedGroup = TaskGroup::new(3, Amounts::zero()).into();
/// let before = group.clone();
/// group.count = 4;
/// assert_eq!((before.count, group.count), (3, 4));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharedGroup(Arc<TaskGroup>);

/// The groups of a job. A single group, which most jobs have, is stored in the job itself.
pub type Groups = SmallVec<[SharedGroup; 1]>;

/// Reads groups through a `Vec`. A `SmallVec` would reserve memory for whatever length untrusted bytes claim.
pub(crate) fn read_groups<'de, D: Deserializer<'de>>(from: D) -> Result<Groups, D::Error> {
    Vec::deserialize(from).map(Groups::from_vec)
}

impl SharedGroup {
    /// Whether both are the same group in memory, and so equal.
    #[inline]
    #[must_use]
    pub fn is_same(&self, other: &SharedGroup) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<TaskGroup> for SharedGroup {
    fn from(group: TaskGroup) -> SharedGroup {
        SharedGroup(Arc::new(group))
    }
}

impl From<SharedGroup> for TaskGroup {
    fn from(group: SharedGroup) -> TaskGroup {
        Arc::unwrap_or_clone(group.0)
    }
}

impl Deref for SharedGroup {
    type Target = TaskGroup;

    #[inline]
    fn deref(&self) -> &TaskGroup {
        &self.0
    }
}

impl DerefMut for SharedGroup {
    fn deref_mut(&mut self) -> &mut TaskGroup {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Debug for SharedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for SharedGroup {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedGroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SharedGroup, D::Error> {
        TaskGroup::deserialize(deserializer).map(SharedGroup::from)
    }
}
