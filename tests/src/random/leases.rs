//! Processes that become and cease to be owners of scheduler names.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use omega_core::{Command, HolderId, SchedulerId, Transaction};

impl Generator {
    /// Occasionally makes a command about an owner.
    pub(super) fn change_hands(&mut self, reference: &Reference) -> Option<Command> {
        let dice = self.holders.as_mut()?;
        match dice.below(24) {
            0 => Some(hold(dice)),
            1 => Some(Command::RevokeLeases { holder: some_holder(dice, reference) }),
            2 => Some(Command::Commit(self.left_behind()?)),
            _ => None,
        }
    }

    /// Next transaction number of a scheduler, whose process may not have noticed that the name has a new owner.
    pub(super) fn start_of(&mut self, reference: &Reference, scheduler: SchedulerId) -> u64 {
        let next = reference.next_transaction(scheduler);
        // A replaced owner notices the replacement only after some time.
        let notices = self.holders.as_mut().is_some_and(|dice| dice.chance(70));
        if notices && next > u64::from(u32::MAX) { next } else { 0 }
    }

    /// A transaction that was sent before, with a number that was skipped.
    fn left_behind(&mut self) -> Option<Transaction> {
        let dice = self.holders.as_mut()?;
        let mut txn = (!self.sent.is_empty()).then(|| dice.pick(&self.sent).clone())?;
        match dice.below(3) {
            0 => {}
            1 => txn.id.number = txn.id.number.saturating_add(dice.below(2000) as u64),
            _ => txn.id.number = txn.id.number.saturating_add(1 << 31),
        }
        Some(txn)
    }
}

fn hold(dice: &mut Dice) -> Command {
    let lease_ms = match dice.below(20) {
        0 => *dice.pick(&[0, LEASE_MS_MIN - 1, LEASE_MS_MAX + 1]),
        _ => *dice.pick(&[LEASE_MS_MIN, 10_000, LEASE_MS_MAX]),
    };
    let name = (*dice.pick(&["first", "second", "third", "first", ""])).into();
    Command::GrantLease { name, holder: HolderId(dice.below(4) as u64), lease_ms }
}

fn some_holder(dice: &mut Dice, reference: &Reference) -> HolderId {
    let all: Vec<HolderId> = reference.holders().collect();
    if all.is_empty() || dice.chance(20) {
        HolderId(dice.below(5) as u64)
    } else {
        *dice.pick(&all)
    }
}
