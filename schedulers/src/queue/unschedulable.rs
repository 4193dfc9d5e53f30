//! Unschedulable queue: sleeping jobs by the events that wake them.
//!
//! There are few different sets of events, and maybe very many jobs. So jobs with the same set of events are kept
//! together, and the cost of an event depends on the number of jobs that it wakes.

use crate::framework::events::Events;
use crate::queue::Nanos;
use omega_core::JobId;
use std::collections::{BTreeMap, BTreeSet};

/// Sleeping jobs.
///
/// Invariant: each job is in one set of `by_events`, and once in `by_time`. No set is empty.
#[derive(Debug, Default)]
pub(crate) struct UnschedulableQueue {
    by_events: BTreeMap<Events, BTreeSet<JobId>>,
    by_time: BTreeSet<(Nanos, JobId)>,
}

impl UnschedulableQueue {
    /// Adds a job that wakes on one of these events, or at the latest at this time.
    pub(crate) fn insert(&mut self, id: JobId, events: Events, until: Nanos) {
        self.by_events.entry(events).or_default().insert(id);
        self.by_time.insert((until, id));
    }

    /// Removes a job that was added with these arguments.
    pub(crate) fn remove(&mut self, id: JobId, events: Events, until: Nanos) {
        self.by_time.remove(&(until, id));
        let Some(jobs) = self.by_events.get_mut(&events) else { return };
        jobs.remove(&id);
        if jobs.is_empty() {
            self.by_events.remove(&events);
        }
    }

    /// Jobs that wake on one of these events.
    pub(crate) fn listening(&self, events: Events) -> Vec<JobId> {
        let listening = self.by_events.iter().filter(|(listens, _)| listens.meets(events));
        listening.flat_map(|(_, jobs)| jobs).copied().collect()
    }

    /// Whether no job sleeps.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }

    /// A job whose sleep has ended.
    #[inline]
    pub(crate) fn due(&self, now: Nanos) -> Option<JobId> {
        self.by_time.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }

    /// Time at which the next job wakes if there is no event.
    pub(crate) fn first(&self) -> Option<Nanos> {
        self.by_time.first().map(|(until, _)| *until)
    }

    /// All sleeping jobs, in no particular order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.by_time.iter().map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_finds_those_that_listen_to_it() {
        let mut unschedulable = UnschedulableQueue::default();
        let both = Events::TIME | Events::EXTERNAL;
        for (id, events, until) in [(1, Events::TIME, 9), (2, both, 5), (3, Events::NONE, 7)] {
            unschedulable.insert(JobId(id), events, until);
        }
        assert_eq!(unschedulable.listening(Events::EXTERNAL), [JobId(2)]);
        assert_eq!(unschedulable.listening(Events::TIME), [JobId(1), JobId(2)]);
        assert_eq!((unschedulable.due(4), unschedulable.due(5)), (None, Some(JobId(2))));
        unschedulable.remove(JobId(2), both, 5);
        unschedulable.remove(JobId(3), Events::NONE, 7);
        assert_eq!(unschedulable.ids().collect::<Vec<_>>(), [JobId(1)]);
        assert_eq!(unschedulable.listening(Events::ALL), [JobId(1)]);
        assert_eq!(unschedulable.by_events.len(), 1, "no set is empty");
    }
}
