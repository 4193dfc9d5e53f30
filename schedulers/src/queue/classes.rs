//! Classes of equal rejected jobs: one job of a class is retried, and the others wait for it.
//!
//! If no machine accepts a job's tasks, no machine accepts the tasks of an equal job. So of the equal rejected jobs,
//! only the first in the queue's order has a backoff and waits for events: the *representative*. The others are its
//! *followers*.
//!
//! ```text
//!   representative: in backoff or asleep ─ an event ─▶ active ─ all tasks found machines ─▶ the first follower
//!        ▲                                               │                    becomes the representative, and active
//!        └────────────────── no machine ─────────────────┘
//! ```
//!
//! So an event costs one attempt for each job that finds room, and one more for the class, however many jobs wait.
//! Equal jobs are placed in order: if an event may help the representative, a newer equal job does not go first. After
//! a long time without an event, the followers are tried too.

use crate::framework::points::Queued;
use crate::placing::class::ClassRef;
use crate::queue::Queue;
use crate::queue::active::ActiveQueue;
use crate::queue::entry::JobState;
use foldhash::fast::FixedState;
use omega_core::{Job, JobId};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A job, as a key that is equal for all jobs of a class.
#[derive(Debug)]
struct Key(Arc<Job>);

impl Key {
    /// The key of a job; `None` if its tasks depend on each other or on their own machines, so that equal jobs may have
    /// other results.
    fn of(job: &Arc<Job>) -> Option<Key> {
        let [group] = &job.groups[..] else { return None };
        let alone = job.gang_min.is_none() && !group.per_machine && group.optional.is_none();
        alone.then(|| Key(job.clone()))
    }

    fn class(&self) -> ClassRef<'_> {
        ClassRef::new(&self.0.groups[0], self.0.kind, None)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.class().hash_code(), &self.0.tenant, self.0.precedence).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        // Tenant, precedence and preemption decide which quotas apply, and which other tasks may be preempted.
        let rank = |job: &Job| (job.precedence, job.preemption);
        rank(&self.0) == rank(&other.0)
            && self.0.tenant == other.0.tenant
            && self.class().is_alike(other.class())
    }
}

impl Eq for Key {}

/// A class.
#[derive(Debug)]
struct Class {
    representative: JobId,
    followers: ActiveQueue,
}

/// All classes with a rejected job.
///
/// Invariant: the representatives are those of the classes. The jobs in state [`JobState::Following`] are the
/// followers.
#[derive(Debug, Default)]
pub(super) struct Classes {
    by_key: HashMap<Key, Class, FixedState>,
    representatives: HashSet<JobId, FixedState>,
}

impl Classes {
    /// Adds a follower to its class.
    pub(super) fn insert(&mut self, job: &Arc<Job>, id: JobId) {
        let class = Key::of(job).and_then(|key| self.by_key.get_mut(&key));
        debug_assert!(class.is_some(), "only jobs of a class follow");
        if let Some(class) = class {
            class.followers.insert(job, id);
        }
    }

    /// Removes a follower from its class.
    pub(super) fn remove(&mut self, job: &Arc<Job>, id: JobId) {
        if let Some(class) = Key::of(job).and_then(|key| self.by_key.get_mut(&key)) {
            class.followers.remove(job, id);
        }
    }

    /// Whether no class has a rejected job.
    #[inline]
    fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn set_representative(&mut self, key: &Key, id: JobId) {
        if let Some(class) = self.by_key.get_mut(key) {
            self.representatives.remove(&class.representative);
            self.representatives.insert(id);
            class.representative = id;
        }
    }
}

impl Queue {
    /// Adds a rejected job to its class. Returns whether the job follows another one; otherwise the job itself is to be
    /// retried.
    pub(super) fn follows(&mut self, id: JobId) -> bool {
        let Some(key) = self.jobs.get(&id).and_then(|entry| Key::of(&entry.job)) else {
            return false;
        };
        let Some(class) = self.classes.by_key.get(&key) else {
            let followers = ActiveQueue::of_one_tenant(self.order.clone());
            self.classes.by_key.insert(key, Class { representative: id, followers });
            self.classes.representatives.insert(id);
            return false;
        };
        let first = class.representative;
        if first == id {
            return false;
        }
        let is_refused = self.jobs.get(&first).is_some_and(|entry| entry.state.is_of_refused());
        if is_refused && self.precedes(first, id) {
            return true;
        }
        self.classes.set_representative(&key, id);
        if is_refused {
            self.set_state(first, JobState::Following);
        }
        false
    }

    /// Makes the first follower of a representative the representative, and active. Does nothing if the job is no
    /// representative. To be called when the job has found machines for its tasks, or needs none any more.
    pub(crate) fn pass_on(&mut self, id: JobId) {
        if !self.classes.representatives.contains(&id) {
            return;
        }
        let Some(key) = self.jobs.get(&id).and_then(|entry| Key::of(&entry.job)) else { return };
        match self.classes.by_key.get(&key).and_then(|class| class.followers.first()) {
            Some(next) => {
                self.classes.set_representative(&key, next);
                self.set_state(next, JobState::Active);
            }
            None => {
                self.classes.by_key.remove(&key);
                self.classes.representatives.remove(&id);
            }
        }
    }

    /// Makes all followers of a representative active.
    pub(super) fn wake_followers(&mut self, id: JobId) {
        if !self.classes.representatives.contains(&id) {
            return;
        }
        let Some(key) = self.jobs.get(&id).and_then(|entry| Key::of(&entry.job)) else { return };
        let Some(class) = self.classes.by_key.get(&key) else { return };
        let followers: Vec<JobId> = class.followers.ids().collect();
        followers.into_iter().for_each(|id| self.set_state(id, JobState::Active));
    }

    /// Makes the representative of an active job's class active, if it precedes the job and an event may have helped
    /// it.
    pub(super) fn wake_predecessor(&mut self, id: JobId) {
        if self.classes.is_empty()
            || self.cooling.is_empty()
            || self.classes.representatives.contains(&id)
        {
            return;
        }
        let Some(key) = self.jobs.get(&id).and_then(|entry| Key::of(&entry.job)) else { return };
        let Some(class) = self.classes.by_key.get(&key) else { return };
        let first = class.representative;
        // The passing of time is no reason to end a backoff early.
        if self.is_owed(first) && self.precedes(first, id) {
            self.set_state(first, JobState::Active);
        }
    }

    /// Whether an equal job has its turn before another one.
    fn precedes(&self, first: JobId, second: JobId) -> bool {
        let by_plugin = self.order.as_ref().map_or(Ordering::Equal, |order| {
            let (Some(one), Some(other)) = (self.jobs.get(&first), self.jobs.get(&second)) else {
                return Ordering::Equal;
            };
            let queued = |id, job| Queued { id, job };
            order.compare(queued(first, &one.job), queued(second, &other.job))
        });
        by_plugin.then(first.cmp(&second)).is_lt()
    }

    /// All followers, in no particular order.
    pub(super) fn followers(&self) -> impl Iterator<Item = JobId> {
        self.classes.by_key.values().flat_map(|class| class.followers.ids())
    }
}
