//! Tasks with optional resources, claims with optional resources, and resizes.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::{
    Amounts, DeviceRequest, KindId, OptionalResources, Resize, Take, TaskGroup, TaskId, Transaction,
};

impl Generator {
    /// Occasionally adds optional resources to a group.
    pub(super) fn want(&mut self, group: &mut TaskGroup) {
        let kinds = self.kinds.count();
        let Some(dice) = self.allocations.as_mut() else { return };
        if !dice.chance(40) {
            return;
        }
        let optional_devices = dice.chance(30) && (group.devices.is_none() || dice.chance(10));
        let milli_each = *dice.pick(&[1000, 500]);
        let devices = optional_devices.then_some(DeviceRequest { count: 1, milli_each });
        group.optional = Some(OptionalResources { amounts: amounts(dice, kinds, 2), devices });
    }

    /// Occasionally adds optional resources to claims, and resizes tasks.
    pub(super) fn change_allocations(&mut self, reference: &Reference, txn: &mut Transaction) {
        let kinds = self.kinds.count();
        let placed: Vec<TaskId> = reference.placed().map(|(id, ..)| id).collect();
        let Some(dice) = self.allocations.as_mut() else { return };
        for claim in txn.claims.iter_mut().filter(|_| dice.chance(50)) {
            claim.take = Take::WithOptional;
        }
        for _ in 0..dice.below(4) {
            let task = match dice.below(10) {
                // The task has lost its machine, or gets one only in this transaction.
                0 if !txn.claims.is_empty() => dice.pick(&txn.claims).task,
                0 => TaskId::default(),
                1 if !txn.releases.is_empty() => *dice.pick(&txn.releases),
                _ if placed.is_empty() => continue,
                _ => *dice.pick(&placed),
            };
            txn.resizes.push(Resize { task, to: amounts(dice, kinds, 5) });
        }
    }

    /// Occasionally changes the allocations in a transaction that was sent before.
    pub(super) fn change_allocations_again(&mut self, txn: &mut Transaction) {
        let Some(dice) = self.allocations.as_mut() else { return };
        if dice.chance(20) {
            txn.resizes.pop();
        }
        if dice.chance(20)
            && let Some(claim) = txn.claims.first_mut()
        {
            claim.take = Take::WithOptional;
        }
    }
}

/// Random amounts up to `most` of each kind; occasionally of an unknown kind.
fn amounts(dice: &mut Dice, kinds: usize, most: usize) -> Amounts {
    let mut amounts = Amounts::zero();
    for kind in 0..kinds + usize::from(dice.chance(1)) {
        amounts.set(KindId(kind as u8), dice.below(most + 1) as u64);
    }
    amounts
}
