//! Owners of scheduler names.

use super::{Reference, Scheduler, validate};
use omega_core::{HolderId, Outcome, Rejection, SchedulerId, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Number of transaction numbers that are skipped when a name changes owners.
const SKIPPED: u64 = 4_294_967_296;

impl Reference {
    pub(super) fn register_scheduler(&mut self, name: Text) -> Result<Outcome, Rejection> {
        validate::name(&name)?;
        self.free_of_others(&name, None)?;
        let index = self.index_of(&name);
        if index == self.schedulers.len() {
            self.done();
            self.add_scheduler(name);
        }
        Ok(self.registered(index))
    }

    pub(super) fn grant_lease(
        &mut self,
        name: Text,
        holder: HolderId,
        lease_ms: u32,
    ) -> Result<Outcome, Rejection> {
        validate::name(&name)?;
        if !(1000..=60_000).contains(&lease_ms) {
            return Err(Rejection::BadLease { given: lease_ms });
        }
        self.free_of_others(&name, Some(holder))?;
        let index = self.index_of(&name);
        if index == self.schedulers.len() {
            self.add_scheduler(name);
        }
        if self.schedulers[index].holder.is_none() {
            self.change_hands(index, Some(holder));
            self.done();
        }
        Ok(self.registered(index))
    }

    pub(super) fn revoke_leases(&mut self, holder: HolderId) -> Outcome {
        let all = 0..self.schedulers.len();
        let held: Vec<_> = all.filter(|i| self.schedulers[*i].holder == Some(holder)).collect();
        if held.is_empty() {
            return Outcome::Done(self.version);
        }
        held.into_iter().for_each(|index| self.change_hands(index, None));
        self.done()
    }

    fn free_of_others(&self, name: &Text, me: Option<HolderId>) -> Result<(), Rejection> {
        let known = self.schedulers.iter().find(|scheduler| scheduler.name == *name);
        match known.and_then(|scheduler| scheduler.holder) {
            Some(holder) if me != Some(holder) => {
                Err(Rejection::NameHeld { name: name.clone(), holder })
            }
            _ => Ok(()),
        }
    }

    fn change_hands(&mut self, index: usize, holder: Option<HolderId>) {
        let scheduler = &mut self.schedulers[index];
        scheduler.holder = holder;
        let next = u128::from(scheduler.next) + u128::from(SKIPPED);
        scheduler.next = u64::try_from(next).unwrap_or(u64::MAX);
        scheduler.left_behind = scheduler.next;
    }

    /// Index of a scheduler with this name, or the index that a new scheduler would get.
    fn index_of(&self, name: &Text) -> usize {
        let known = self.schedulers.iter().position(|scheduler| scheduler.name == *name);
        known.unwrap_or(self.schedulers.len())
    }

    fn add_scheduler(&mut self, name: Text) {
        let answers = BTreeMap::new();
        let (forgotten, holder) = (BTreeSet::new(), None);
        self.schedulers.push(Scheduler {
            name,
            holder,
            answers,
            forgotten,
            next: 0,
            left_behind: 0,
        });
    }

    fn registered(&self, index: usize) -> Outcome {
        let next_transaction = self.schedulers[index].next;
        Outcome::Scheduler { id: SchedulerId(index as u32), next_transaction }
    }
}
