//! The table of leases: a plain state machine that gets the time as an argument.
//!
//! Only a leader has a table, filled from the renewals that it received. A leader that is new or was paused may have
//! missed renewals. It cannot distinguish dead owners from live ones, so it gives each owner a full lease.

use omega_core::{HolderId, Lease, Text};
use omega_store::log::Term;
use std::collections::BTreeMap;

/// Interval at which leadership is checked, in milliseconds: a fifth of the shortest election timeout.
pub(super) const CHECK_MS: u64 = 100;

/// Time without a check after which this replica is considered to have been paused: ten missed checks.
const STOPPED_MS: u64 = 10 * CHECK_MS;

/// Last renewals by owner, at the leader.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// The term in which this replica leads.
    term: Option<Term>,
    /// Start of the leadership, or end of the last pause. Leases run from here at the earliest.
    began_ms: u64,
    checked_ms: u64,
    contacts: BTreeMap<HolderId, Contact>,
}

#[derive(Clone, Debug)]
struct Contact {
    at_ms: u64,
    process: Text,
}

impl Table {
    /// Records the term in which this replica leads; `None` if it does not lead.
    pub(super) fn check_leadership(&mut self, term: Option<Term>, now_ms: u64) {
        if self.term != term {
            self.term = term;
            self.contacts.clear();
            self.began_ms = now_ms;
        }
        if now_ms - self.checked_ms > STOPPED_MS {
            self.began_ms = now_ms;
        }
        self.checked_ms = now_ms;
    }

    /// Records that an owner has just registered or renewed its lease.
    pub(super) fn record_contact(&mut self, holder: HolderId, process: Text, now_ms: u64) {
        self.contacts.insert(holder, Contact { at_ms: now_ms, process });
    }

    /// Keeps only the owners for which `holds` is true, so that the number of names bounds the table.
    pub(super) fn retain(&mut self, holds: impl Fn(HolderId) -> bool) {
        self.contacts.retain(|holder, _| holds(*holder));
    }

    /// Number of known owners.
    pub(super) fn len(&self) -> usize {
        self.contacts.len()
    }

    /// Remaining time of a lease; 0 if it has expired.
    pub(super) fn remaining_ms(&self, lease: Lease, now_ms: u64) -> u64 {
        let contact_ms = self.contacts.get(&lease.holder).map_or(0, |contact| contact.at_ms);
        let since_ms = contact_ms.max(self.began_ms);
        (since_ms + u64::from(lease.lease_ms)).saturating_sub(now_ms)
    }

    /// Description of an owner's process, if it has sent one.
    pub(super) fn process(&self, holder: HolderId) -> Option<&Text> {
        self.contacts.get(&holder).map(|contact| &contact.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Pass(u64),
        Check(Option<u64>),
        Contact(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..1500_u64).prop_map(Event::Pass),
            (0..3000_u64).prop_map(Event::Pass),
            proptest::option::weighted(0.8, 1..3_u64).prop_map(Event::Check),
            (0..3_u64).prop_map(Event::Contact),
        ]
    }

    /// The expected remaining time, computed from all events: a lease expires after its full length without renewal,
    /// provided that this replica led in one term during this time and missed no checks.
    fn remaining_of(past: &[(u64, Event)], lease: Lease, now_ms: u64) -> u64 {
        let mut since_ms = 0;
        let (mut term, mut checked_ms) = (None, 0);
        for (at_ms, event) in past {
            match event {
                Event::Check(new) => {
                    if *new != term || at_ms - checked_ms > STOPPED_MS {
                        since_ms = *at_ms;
                    }
                    (term, checked_ms) = (*new, *at_ms);
                }
                Event::Contact(holder) if *holder == lease.holder.0 => since_ms = *at_ms,
                _ => {}
            }
        }
        u64::from(lease.lease_ms).saturating_sub(now_ms - since_ms)
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
                    Event::Check(term) => table.check_leadership(term.map(Term), now_ms),
                    Event::Contact(holder) => table.record_contact(HolderId(holder), "p".into(), now_ms),
                }
                past.push((now_ms, event));
                for holder in (0..3).map(HolderId) {
                    let lease = Lease { holder, lease_ms };
                    prop_assert_eq!(table.remaining_ms(lease, now_ms), remaining_of(&past, lease, now_ms));
                }
            }
        }
    }

    #[test]
    fn what_is_not_held_is_forgotten() {
        let mut table = Table::default();
        (0..5).for_each(|holder| table.record_contact(HolderId(holder), "p".into(), 0));
        table.retain(|holder| holder.0 % 2 == 0);
        assert_eq!(table.len(), 3);
        assert!(table.process(HolderId(1)).is_none() && table.process(HolderId(2)).is_some());
    }
}
