//! Active queue: the jobs that may be tried now, in the order of their turns.
//!
//! By default, jobs of higher precedence go first, then older jobs. Jobs are mostly added at the end and removed from
//! the front. So each precedence has a list, in which both operations are cheap; a job that becomes active again is
//! inserted at its place by age. For the order of a plugin, a tree is used.

use crate::framework::points::Order;
use crate::queue::place_in_order::{Place, remove_place};
use crate::queue::shares::Shares;
use omega_core::{Job, JobId, Precedence};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Jobs in the order of their turns.
#[derive(Debug)]
pub(crate) enum ActiveQueue {
    /// By precedence, then by age.
    Lines(Lines),
    /// Jobs in the order of a plugin, then by age.
    Tree(Tree),
    /// By the shares of their tenants, then in the order of a plugin, then by age.
    Fair(Shares),
}

impl ActiveQueue {
    /// An empty queue, with the order of a plugin or the default order.
    pub(crate) fn new(order: Option<Arc<dyn Order>>) -> ActiveQueue {
        match order {
            Some(order) if order.between_tenants() => ActiveQueue::Fair(Shares::new(order)),
            order => ActiveQueue::of_one_tenant(order),
        }
    }

    /// An empty queue for jobs of one tenant.
    pub(crate) fn of_one_tenant(order: Option<Arc<dyn Order>>) -> ActiveQueue {
        match order {
            None => ActiveQueue::Lines(Lines::default()),
            Some(order) => ActiveQueue::Tree(Tree { order, places: BTreeSet::new() }),
        }
    }

    /// Shares of tenants, if the order uses them.
    pub(crate) fn shares(&mut self) -> Option<&mut Shares> {
        match self {
            ActiveQueue::Lines(_) | ActiveQueue::Tree(_) => None,
            ActiveQueue::Fair(shares) => Some(shares),
        }
    }

    /// Number of jobs.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            ActiveQueue::Lines(lines) => lines.jobs,
            ActiveQueue::Tree(tree) => tree.places.len(),
            ActiveQueue::Fair(shares) => shares.len(),
        }
    }

    /// Whether the queue is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The job with the next turn.
    #[inline]
    pub(crate) fn first(&self) -> Option<JobId> {
        match self {
            ActiveQueue::Lines(lines) => lines.first(),
            ActiveQueue::Tree(tree) => tree.places.first().map(|place| place.id),
            ActiveQueue::Fair(shares) => shares.first(),
        }
    }

    /// Jobs of a queue of one tenant, in the order of their turns.
    pub(crate) fn ids(&self) -> Box<dyn Iterator<Item = JobId> + '_> {
        match self {
            ActiveQueue::Lines(lines) => Box::new(lines.lines.values().flatten().copied()),
            ActiveQueue::Tree(tree) => Box::new(tree.places.iter().map(|place| place.id)),
            ActiveQueue::Fair(_) => Box::new(std::iter::empty()),
        }
    }

    /// Adds a job that is not in the queue.
    #[inline]
    pub(crate) fn insert(&mut self, job: &Arc<Job>, id: JobId) {
        match self {
            ActiveQueue::Lines(lines) => lines.insert(job.precedence, id),
            ActiveQueue::Tree(tree) => drop(tree.places.insert(Place::new(&tree.order, job, id))),
            ActiveQueue::Fair(shares) => shares.insert(job, id),
        }
    }

    /// Removes a job if the queue has it. `job` must be the description with which the job was added.
    #[inline]
    pub(crate) fn remove(&mut self, job: &Arc<Job>, id: JobId) {
        match self {
            ActiveQueue::Lines(lines) => lines.remove(job.precedence, id),
            ActiveQueue::Tree(tree) => {
                remove_place(&mut tree.places, &Place::new(&tree.order, job, id));
            }
            ActiveQueue::Fair(shares) => shares.remove(job, id),
        }
    }
}

/// Jobs in the order of a plugin.
#[derive(Debug)]
pub(crate) struct Tree {
    order: Arc<dyn Order>,
    places: BTreeSet<Place>,
}

impl fmt::Debug for dyn Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Jobs by precedence, then by age.
///
/// Invariant: no list is empty, and each is strictly ascending by job.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: BTreeMap<Reverse<Precedence>, VecDeque<JobId>>,
    jobs: usize,
}

impl Lines {
    fn first(&self) -> Option<JobId> {
        self.lines.values().next()?.front().copied()
    }

    fn insert(&mut self, precedence: Precedence, id: JobId) {
        let line = self.lines.entry(Reverse(precedence)).or_default();
        match line.back() {
            Some(last) if *last >= id => match line.binary_search(&id) {
                Ok(_) => return,
                Err(at) => line.insert(at, id),
            },
            _ => line.push_back(id),
        }
        self.jobs += 1;
    }

    fn remove(&mut self, precedence: Precedence, id: JobId) {
        let Some(line) = self.lines.get_mut(&Reverse(precedence)) else { return };
        if line.front() == Some(&id) {
            line.pop_front();
        } else if let Ok(at) = line.binary_search(&id) {
            line.remove(at);
        } else {
            return;
        }
        self.jobs -= 1;
        if line.is_empty() {
            self.lines.remove(&Reverse(precedence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framework::points::Queued;
    use omega_core::{Amounts, TaskGroup};
    use proptest::prelude::*;
    use std::cmp::Ordering;

    /// The default order, as a plugin.
    struct Usual;

    impl Order for Usual {
        fn name(&self) -> &'static str {
            "usual"
        }

        fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
            b.job.precedence.cmp(&a.job.precedence)
        }
    }

    fn job(precedence: i32) -> Arc<Job> {
        let mut job = Job::batch("job", TaskGroup::new(1, Amounts::zero()));
        job.precedence = Precedence(precedence);
        Arc::new(job)
    }

    proptest! {
        /// Lists and tree agree with a sorted list under random changes.
        #[test]
        fn precedence_goes_before_age_and_age_before_arrival(
            steps in prop::collection::vec((any::<bool>(), 0u64..20), 0..200)
        ) {
            let (mut lines, mut tree) = (ActiveQueue::new(None), ActiveQueue::new(Some(Arc::new(Usual))));
            let mut naive: Vec<(Reverse<i32>, u64)> = Vec::new();
            for (comes, id) in steps {
                let precedence = (id % 3) as i32;
                let known = naive.iter().position(|entry| entry.1 == id);
                for queue in [&mut lines, &mut tree] {
                    if comes { queue.insert(&job(precedence), JobId(id)) } else { queue.remove(&job(precedence), JobId(id)) }
                }
                match known {
                    None if comes => naive.push((Reverse(precedence), id)),
                    Some(at) if !comes => drop(naive.remove(at)),
                    _ => {}
                }
                naive.sort_unstable();
                let first = naive.first().map(|entry| JobId(entry.1));
                for queue in [&lines, &tree] {
                    prop_assert_eq!(queue.first(), first);
                    prop_assert_eq!(queue.len(), naive.len());
                    prop_assert_eq!(queue.is_empty(), naive.is_empty());
                }
            }
        }
    }
}
