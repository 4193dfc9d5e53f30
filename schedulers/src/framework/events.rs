//! Events of a cell after which a plugin may accept a task that it rejected.
//!
//! Each attempt to place a job costs a search. So a rejection names the events that could change it, and the job sleeps
//! until one of these events occurs. If the rejection names too many events, searches are wasted. If it names too few,
//! a job sleeps although it would fit.

use crate::framework::reads::Reads;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of kinds of events.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Events(u32);

impl Events {
    /// No event: the job is retried only after the long delay in [`Backoff`](crate::queue::Backoff).
    pub const NONE: Events = Events(0);
    /// A machine was added.
    pub const MACHINE_ADDED: Events = Events(1);
    /// A machine's description changed (labels, taints, capacity, images), or it began or ended
    /// draining.
    pub const MACHINE_CHANGED: Events = Events(1 << 1);
    /// A machine was removed.
    pub const MACHINE_REMOVED: Events = Events(1 << 2);
    /// Resources of a machine were freed: its capacity grew, or a task left it.
    pub const ROOM_FREED: Events = Events(1 << 3);
    /// Free resources of a machine changed and may have shrunk. Only plugins that reject machines with too much free
    /// room depend on this event.
    pub const ROOM_TAKEN: Events = Events(1 << 4);
    /// A task of a followed job was placed. A scheduler follows its own jobs; if it preempts, it follows all jobs.
    pub const TASK_PLACED: Events = Events(1 << 5);
    /// A task of a followed job ended or lost its machine.
    pub const TASK_ENDED: Events = Events(1 << 6);
    /// A followed job was submitted, resized or ended.
    pub const JOB_CHANGED: Events = Events(1 << 7);
    /// A tenant's quota changed, or a tenant with a quota now claims less.
    pub const QUOTA_CHANGED: Events = Events(1 << 8);
    /// A machine reported a changed load.
    pub const LOAD_REPORTED: Events = Events(1 << 9);
    /// The task counts of placement rules changed: a task that a rule selects started or left its machine.
    pub const RULES_CHANGED: Events = Events(1 << 10);
    /// Time passed: the job is retried after its backoff.
    pub const TIME: Events = Events(1 << 11);
    /// An event outside the cell, which a plugin raises by [`Waiting::raise`](crate::Waiting::raise).
    pub const EXTERNAL: Events = Events(1 << 12);
    /// Volumes, claims or storage classes changed, or tasks that use volumes started or ended: see
    /// [`Volumes`](crate::Volumes).
    pub const VOLUMES_CHANGED: Events = Events(1 << 13);
    /// The eviction limit allows more evictions, or the precedence bands changed.
    pub const EVICTIONS_REFILLED: Events = Events(1 << 14);
    /// A reservation was created or ended.
    pub const RESERVATIONS_CHANGED: Events = Events(1 << 15);
    /// A cluster resource was freed: a task that had claimed some of it left, or its capacity grew.
    pub const CELL_FREED: Events = Events(1 << 16);
    /// A peak calendar was set, changed or removed, or a peak began or ended.
    pub const PEAKS_CHANGED: Events = Events(1 << 17);
    /// A backfill plan keeps less room on some machine, or keeps it for another time: see
    /// [`Backfill`](crate::Backfill).
    pub const PLANS_CHANGED: Events = Events(1 << 18);
    /// All events.
    pub const ALL: Events = Events((1 << Events::COUNT) - 1);

    /// Number of kinds of events.
    pub(crate) const COUNT: usize = 19;

    /// Events about particular machines.
    pub(crate) const OF_MACHINES: Events = Events(
        Events::MACHINE_ADDED.0
            | Events::MACHINE_CHANGED.0
            | Events::ROOM_FREED.0
            | Events::ROOM_TAKEN.0
            | Events::LOAD_REPORTED.0,
    );

    /// Returns the events that may change the result of a plugin with these inputs. Does not include
    /// [`Events::ROOM_TAKEN`]: a plugin that rejects machines with too much free room must add this event.
    #[must_use]
    pub fn of(reads: Reads) -> Events {
        let mut events = Events::MACHINE_ADDED;
        let mut add = |facts, more| {
            if reads.includes(facts) {
                events |= more;
            }
        };
        add(Reads::DESCRIPTION, Events::MACHINE_CHANGED);
        add(Reads::AMOUNTS, Events::ROOM_FREED);
        add(Reads::LOAD, Events::LOAD_REPORTED);
        // A new or removed machine may create or remove domains of a rule.
        let elsewhere = Events::MACHINE_CHANGED | Events::MACHINE_REMOVED | Events::RULES_CHANGED;
        add(Reads::OTHER_MACHINES, elsewhere | Events::TASK_PLACED | Events::TASK_ENDED);
        events
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Events that are in both sets.
    #[must_use]
    pub fn and(self, other: Events) -> Events {
        Events(self.0 & other.0)
    }

    /// Events that are not in `other`.
    #[must_use]
    pub fn without(self, other: Events) -> Events {
        Events(self.0 & !other.0)
    }

    /// Whether some event is in both sets.
    #[must_use]
    pub fn meets(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the bit numbers of the events in the set, ascending.
    pub(crate) fn kinds(self) -> impl Iterator<Item = usize> {
        (0..Events::COUNT).filter(move |kind| self.0 >> kind & 1 == 1)
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Events) {
        self.0 |= other.0;
    }
}

/// The names of the kinds, in the order of their bits.
const NAMES: [&str; Events::COUNT] = [
    "machine added",
    "machine changed",
    "machine removed",
    "room freed",
    "room taken",
    "task placed",
    "task ended",
    "job changed",
    "quota changed",
    "load reported",
    "rules changed",
    "time",
    "external",
    "volumes changed",
    "evictions refilled",
    "reservations changed",
    "cell freed",
    "peaks changed",
    "plans changed",
];

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds().map(|kind| NAMES[kind])).finish()
    }
}

/// Last occurrence of each kind of event, as the number of the `note` call that recorded it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    count: u64,
    last: [u64; Events::COUNT],
}

impl EventLog {
    /// Records events.
    pub(crate) fn note(&mut self, events: Events) {
        self.count += 1;
        for kind in events.kinds() {
            self.last[kind] = self.count;
        }
    }

    /// Returns the number of `note` calls so far. Events that are recorded later get a higher number.
    pub(crate) fn now(&self) -> u64 {
        self.count
    }

    /// Whether one of these events was recorded after the `note` call with number `count`.
    pub(crate) fn any_since(&self, events: Events, count: u64) -> bool {
        events.kinds().any(|kind| self.last[kind] > count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_print_the_names_of_what_is_in_them() {
        let events = Events::MACHINE_ADDED | Events::EXTERNAL;
        assert_eq!(format!("{events:?}"), r#"{"machine added", "external"}"#);
        assert_eq!(Events::ALL.kinds().count(), NAMES.len());
        assert_eq!(Events::of(Reads::AMOUNTS), Events::MACHINE_ADDED | Events::ROOM_FREED);
    }

    #[test]
    fn an_event_is_news_until_it_was_counted() {
        let mut log = EventLog::default();
        log.note(Events::TIME);
        let now = log.now();
        assert!(!log.any_since(Events::ALL, now));
        log.note(Events::EXTERNAL | Events::TIME);
        assert!(log.any_since(Events::EXTERNAL, now) && !log.any_since(Events::ROOM_FREED, now));
    }
}
