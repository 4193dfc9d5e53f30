//! Open offers, indexed by number, machine, framework and expiry.
//!
//! Invariant: the sums kept for each machine and for each tenant equal the amounts in the open offers. At most one
//! offer of a machine has its devices.

use super::messages::{FrameworkId, Offer, OfferId};
use crate::queue::Nanos;
use crate::queue::dominant::{Sums, count};
use foldhash::fast::FixedState;
use omega_core::{Amounts, Text};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An open offer, with the keys by which it is indexed.
#[derive(Debug)]
struct Out {
    offer: Offer,
    tenant: Text,
    late_at: Option<Nanos>,
}

/// Open offers of one machine.
#[derive(Debug, Default)]
pub(super) struct OnMachine {
    /// The offers, the oldest first.
    pub(super) offers: SmallVec<[OfferId; 2]>,
    /// Sum of the amounts in the open offers, by kind.
    pub(super) held: SmallVec<[i64; 4]>,
    /// Offer that has the machine's devices.
    pub(super) devices: Option<OfferId>,
}

/// The open offers of a frontend, with their indexes.
#[derive(Debug, Default)]
pub(super) struct OpenOffers {
    out: BTreeMap<OfferId, Out>,
    on: HashMap<u32, OnMachine, FixedState>,
    of: BTreeMap<FrameworkId, BTreeSet<OfferId>>,
    late: BTreeSet<(Nanos, OfferId)>,
    tenants: BTreeMap<Text, Sums>,
    next: u64,
}

fn signed(amounts: &Amounts) -> SmallVec<[i64; 4]> {
    amounts.as_slice().iter().map(|amount| *amount as i64).collect()
}

impl OpenOffers {
    /// Returns a new number for the next offer.
    pub(super) fn next_id(&mut self) -> OfferId {
        self.next += 1;
        OfferId(self.next - 1)
    }

    /// Adds an open offer.
    pub(super) fn insert(&mut self, offer: Offer, tenant: &Text, late_at: Option<Nanos>) {
        let amounts = signed(&offer.amounts);
        let on = self.on.entry(offer.machine.slot).or_default();
        on.offers.push(offer.id);
        if on.held.len() < amounts.len() {
            on.held.resize(amounts.len(), 0);
        }
        on.held.iter_mut().zip(&amounts).for_each(|(held, amount)| *held += amount);
        if offer.devices.is_some() {
            debug_assert_eq!(on.devices, None, "the devices of a machine are in one offer");
            on.devices = Some(offer.id);
        }
        self.of.entry(offer.framework).or_default().insert(offer.id);
        self.late.extend(late_at.map(|late_at| (late_at, offer.id)));
        count(self.tenants.entry(tenant.clone()).or_default(), &amounts, 1);
        self.out.insert(offer.id, Out { offer, tenant: tenant.clone(), late_at });
    }

    /// Removes an offer.
    pub(super) fn remove(&mut self, id: OfferId) -> Option<Offer> {
        let Out { offer, tenant, late_at } = self.out.remove(&id)?;
        let amounts = signed(&offer.amounts);
        if let Some(on) = self.on.get_mut(&offer.machine.slot) {
            on.offers.retain(|other| *other != id);
            on.held.iter_mut().zip(&amounts).for_each(|(held, amount)| *held -= amount);
            on.devices = on.devices.filter(|holder| *holder != id);
            if on.offers.is_empty() {
                self.on.remove(&offer.machine.slot);
            }
        }
        if let Some(of) = self.of.get_mut(&offer.framework) {
            of.remove(&id);
        }
        if let Some(late_at) = late_at {
            self.late.remove(&(late_at, id));
        }
        if let Some(sums) = self.tenants.get_mut(&tenant) {
            count(sums, &amounts, -1);
            if sums.iter().all(|sum| *sum == 0) {
                self.tenants.remove(&tenant);
            }
        }
        Some(offer)
    }

    /// The open offer of this number.
    pub(super) fn get(&self, id: OfferId) -> Option<&Offer> {
        self.out.get(&id).map(|out| &out.offer)
    }

    /// All open offers, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Offer> {
        self.out.values().map(|out| &out.offer)
    }

    /// The offers of a framework.
    pub(super) fn of(&self, framework: FrameworkId) -> impl Iterator<Item = OfferId> + '_ {
        self.of.get(&framework).into_iter().flatten().copied()
    }

    /// Number of open offers of a framework.
    pub(super) fn count_of(&self, framework: FrameworkId) -> usize {
        self.of.get(&framework).map_or(0, BTreeSet::len)
    }

    /// Open offers of a machine.
    pub(super) fn on(&self, slot: u32) -> Option<&OnMachine> {
        self.on.get(&slot)
    }

    /// The rows with offers, ascending.
    pub(super) fn slots(&self) -> BTreeSet<u32> {
        self.on.keys().copied().collect()
    }

    /// Sums of the resources that are offered to a tenant's frameworks.
    pub(super) fn offered_to(&self, tenant: &str) -> Option<&Sums> {
        self.tenants.get(tenant)
    }

    /// Returns the offer that expires first, if it has expired at `now`.
    pub(super) fn late_by(&self, now: Nanos) -> Option<OfferId> {
        self.late.first().filter(|(late_at, _)| *late_at <= now).map(|(_, id)| *id)
    }
}
