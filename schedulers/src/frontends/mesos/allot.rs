//! Allocation of offers, in turns, to the framework with the lowest share.
//!
//! A turn goes to the framework with the lowest share among those that accept more offers. The turn scans all machines
//! once, starting where the framework's last scan ended, and takes the first machines that no filter excludes. If the
//! scan finds no machine, the framework gets no more turns in this step, because free resources only shrink.

use super::OFFERS_PER_MACHINE_MAX;
use super::frontend::{Frontend, Member};
use super::messages::{Event, FrameworkId, Happened, Offer, Portion};
use crate::queue::Nanos;
use omega_cellstate::{BLOCK, View};
use omega_core::Amounts;
use std::collections::BTreeSet;

impl Frontend {
    /// Offers free resources until no framework accepts more offers.
    pub(super) fn make_offers(&mut self, now: Nanos) {
        let optional =
            |(id, member): (&FrameworkId, &Member)| (!member.is_suppressed).then_some(*id);
        let mut hungry: BTreeSet<FrameworkId> = self.members.iter().filter_map(optional).collect();
        while let Some(id) = self.next_of(&hungry) {
            if !self.offer_to(id, now) {
                hungry.remove(&id);
            }
        }
    }

    /// Returns the framework that has the next turn, of the frameworks in `hungry`.
    fn next_of(&self, hungry: &BTreeSet<FrameworkId>) -> Option<FrameworkId> {
        if hungry.len() <= 1 {
            return hungry.first().copied();
        }
        let key = |id: &&FrameworkId| {
            let member = &self.members[*id];
            (self.share_of(&member.framework), member.served, **id)
        };
        hungry.iter().min_by_key(key).copied()
    }

    /// Makes the offers of one turn to a framework. Returns false if no machine was found for it.
    fn offer_to(&mut self, id: FrameworkId, now: Nanos) -> bool {
        let room = self.settings.offers_max.saturating_sub(self.open_offers.count_of(id));
        let most = room.min(self.settings.machines_at_once.max(1));
        let found = if most == 0 { Vec::new() } else { self.find(id, most, now) };
        self.turns += u64::from(!found.is_empty());
        let served = self.turns;
        let Some(member) = self.members.get_mut(&id) else { return false };
        if found.is_empty() {
            return false;
        }
        member.served = served;
        let tenant = member.framework.tenant.clone();
        let late_at = self.settings.answer_within.map(|within| now.saturating_add(within));
        self.counters.offered += found.len() as u64;
        for (row, amounts) in found {
            let view = &self.session.view;
            let Some(description) = view.machine(row).cloned() else { continue };
            let held_by_another =
                self.open_offers.on(row as u32).is_some_and(|on| on.devices.is_some());
            let devices = view.devices(row).filter(|_| !held_by_another).copied();
            let machine = view.machine_id(row);
            let number = self.open_offers.next_id();
            let offer = Offer { id: number, framework: id, machine, description, amounts, devices };
            let happened = Happened::Offered(offer.clone());
            self.events.push(Event { framework: id, happened });
            self.open_offers.insert(offer, &tenant, late_at);
        }
        true
    }

    /// The next machines to offer to a framework, at most `most`, with the amounts to offer.
    fn find(&mut self, id: FrameworkId, most: usize, now: Nanos) -> Vec<(usize, Amounts)> {
        let view = &self.session.view;
        let (rows, mut found) = (view.rows(), Vec::new());
        let Some(member) = self.members.get_mut(&id) else { return found };
        if rows == 0 {
            return found;
        }
        let from = member.from % rows;
        let mut row = from;
        for looked in 0..rows {
            row = (from + looked) % rows;
            let word = view.block(row / BLOCK).schedulable() >> (row % BLOCK);
            if word & 1 == 0 {
                continue;
            }
            let Some(amounts) = self.open_offers.available(view, row, &self.settings.portion)
            else {
                continue;
            };
            let is_useful = member.framework.least.fits_in(&amounts);
            if is_useful && !member.filters.refuse(view.machine_id(row), &amounts, now) {
                found.push((row, amounts));
                if found.len() == most {
                    break;
                }
            }
        }
        member.from = (row + 1) % rows;
        found
    }
}

impl super::open_offers::OpenOffers {
    /// Returns the resources of a machine that can be offered; `None` if nothing is free, or if the machine has too
    /// many open offers.
    fn available(&self, view: &View, row: usize, portion: &Portion) -> Option<Amounts> {
        let on = self.on(row as u32);
        if on.is_some_and(|on| on.offers.len() >= OFFERS_PER_MACHINE_MAX) {
            return None;
        }
        let left = view.kinds().iter().map(|(kind, _)| {
            let held = on.and_then(|on| on.held.get(kind.index()).copied()).unwrap_or(0);
            let left = (view.free(row, kind) - held).max(0) as u64;
            match portion {
                Portion::Whole => left,
                Portion::AtMost(most) => left.min(most.get(kind)),
            }
        });
        let amounts = Amounts::new(left);
        (!amounts.is_zero()).then_some(amounts)
    }
}
