//! The table of leases: a plain state machine that gets the time as an argument.
//!
//! Only a leader has a table, filled from the renewals that it received. A leader that is new or was paused may have
//! missed renewals. It cannot distinguish dead owners from live ones, so it gives each owner a full lease.

use omega_core::{Hold, HolderId, Text};
use omega_store::log::Term;
use std::collections::BTreeMap;

/// Interval at which leadership is checked, in milliseconds: a fifth of the shortest election timeout.
pub(super) const LOOK_MS: u64 = 100;

/// Time without a check after which this replica is considered to have been paused: ten missed checks.
const STOPPED_MS: u64 = 10 * LOOK_MS;

/// Last renewals by owner, at the leader.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The term in which this replica leads.
    term: Option<Term>,
    /// Start of the leadership, or end of the last pause. Leases run from here at the earliest.
    began_ms: u64,
    looked_ms: u64,
    heard: BTreeMap<HolderId, Heard>,
}

#[derive(Clone, Debug)]
struct Heard {
    at_ms: u64,
    process: Text,
}

impl Table {
    /// Records the term in which this replica leads; `None` if it does not lead.
    pub(super) fn look(&mut self, term: Option<Term>, now_ms: u64) {
        if self.term != term {
            self.term = term;
            self.heard.clear();
            self.began_ms = now_ms;
        }
        if now_ms - self.looked_ms > STOPPED_MS {
            self.began_ms = now_ms;
        }
        self.looked_ms = now_ms;
    }

    /// Records that an owner has just registered or renewed its lease.
    pub(super) fn hear(&mut self, holder: HolderId, process: Text, now_ms: u64) {
        self.heard.insert(holder, Heard { at_ms: now_ms, process });
    }

    /// Keeps only the owners for which `holds` is true, so that the number of names bounds the table.
    pub(super) fn keep(&mut self, holds: impl Fn(HolderId) -> bool) {
        self.heard.retain(|holder, _| holds(*holder));
    }

    /// Number of known owners.
    pub(super) fn len(&self) -> usize {
        self.heard.len()
    }

    /// Remaining time of a lease; 0 if it has expired.
    pub(super) fn left_ms(&self, hold: Hold, now_ms: u64) -> u64 {
        let heard_ms = self.heard.get(&hold.holder).map_or(0, |heard| heard.at_ms);
        let since_ms = heard_ms.max(self.began_ms);
        (since_ms + u64::from(hold.lease_ms)).saturating_sub(now_ms)
    }

    /// Description of an owner's process, if it has sent one.
    pub(super) fn process(&self, holder: HolderId) -> Option<&Text> {
        self.heard.get(&holder).map(|heard| &heard.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Pass(u64),
        Look(Option<u64>),
        Hear(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..1500_u64).prop_map(Event::Pass),
            (0..3000_u64).prop_map(Event::Pass),
            proptest::option::weighted(0.8, 1..3_u64).prop_map(Event::Look),
            (0..3_u64).prop_map(Event::Hear),
        ]
    }

    /// The expected remaining time, computed from all events: a lease expires after its full length without renewal,
    /// provided that this replica led in one term during this time and missed no checks.
    fn left_of(past: &[(u64, Event)], hold: Hold, now_ms: u64) -> u64 {
        let mut since_ms = 0;
        let (mut term, mut looked_ms) = (None, 0);
        for (at_ms, event) in past {
            match event {
                Event::Look(new) => {
                    if *new != term || at_ms - looked_ms > STOPPED_MS {
                        since_ms = *at_ms;
                    }
                    (term, looked_ms) = (*new, *at_ms);
                }
                Event::Hear(holder) if *holder == hold.holder.0 => since_ms = *at_ms,
                _ => {}
            }
        }
        u64::from(hold.lease_ms).saturating_sub(now_ms - since_ms)
    }

    proptest! {
        #[test]
        fn a_lease_runs_from_when_its_holder_was_or_could_be_heard(
            events in proptest::collection::vec(event(), 0..60),
            lease_ms in 1000..10_000_u32,
        ) {
            let mut table = Table::default();
            let mut past = Vec::new();
            let mut now_ms = 0;
            for event in events {
                match event {
                    Event::Pass(ms) => now_ms += ms,
                    Event::Look(term) => table.look(term.map(Term), now_ms),
                    Event::Hear(holder) => table.hear(HolderId(holder), "p".into(), now_ms),
                }
                past.push((now_ms, event));
                for holder in (0..3).map(HolderId) {
                    let hold = Hold { holder, lease_ms };
                    prop_assert_eq!(table.left_ms(hold, now_ms), left_of(&past, hold, now_ms));
                }
            }
        }
    }

    #[test]
    fn what_is_not_held_is_forgotten() {
        let mut table = Table::default();
        (0..5).for_each(|holder| table.hear(HolderId(holder), "p".into(), 0));
        table.keep(|holder| holder.0 % 2 == 0);
        assert_eq!(table.len(), 3);
        assert!(table.process(HolderId(1)).is_none() && table.process(HolderId(2)).is_some());
    }
}
