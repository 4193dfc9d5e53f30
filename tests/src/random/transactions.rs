//! Random transactions: fresh, stale, repeated and invalid.

use super::Generator;
use crate::reference::Reference;
use omega_core::{
    Claim, ConflictCheck, DeviceSet, Granularity, MachineId, SchedulerId, SequenceNumber, TaskId,
    TaskState, Transaction, TransactionId, Version,
};

impl Generator {
    /// A transaction for the state of a reference model.
    pub fn transaction(&mut self, reference: &Reference) -> Transaction {
        if !self.sent.is_empty() && self.dice.chance(8) {
            return self.sent_before();
        }
        let scheduler = SchedulerId(self.dice.below(reference.schedulers()) as u32);
        let unknown = self.dice.chance(2) || self.reserved.contains(&scheduler);
        let scheduler = if unknown { SchedulerId(99) } else { scheduler };
        let mut txn =
            Transaction::new(self.transaction_id(reference, scheduler), Version(0), Vec::new());
        txn.base = self.base(reference);
        if self.dice.chance(40) {
            txn.granularity = Granularity::AllOrNothing;
        }
        if self.dice.chance(40) {
            txn.check = ConflictCheck::SequenceNumber;
        }
        if self.dice.chance(20) {
            txn.releases = (0..self.dice.below(3)).map(|_| self.placed_task(reference)).collect();
        }
        txn.claims = self.claims(reference, &txn.releases);
        if self.dice.chance(30) {
            txn.evictions = self.evictions(reference, &txn.claims);
        }
        self.change_allocations(reference, &mut txn);
        self.keep_cores(reference, &mut txn);
        self.sent.push(txn.clone());
        txn
    }

    /// A transaction that was sent before, unchanged or with other content.
    fn sent_before(&mut self) -> Transaction {
        let mut txn = self.dice.pick(&self.sent).clone();
        if self.dice.chance(30) {
            txn.granularity = match txn.granularity {
                Granularity::Incremental => Granularity::AllOrNothing,
                Granularity::AllOrNothing => Granularity::Incremental,
            };
        }
        self.change_allocations_again(&mut txn);
        txn
    }

    fn transaction_id(&mut self, reference: &Reference, scheduler: SchedulerId) -> TransactionId {
        let start = self.start_of(reference, scheduler);
        let next = self.numbers.entry(scheduler).or_default();
        *next = start.max(*next);
        // A number may be skipped, and the skipped one may be used later.
        let number = *next + u64::from(self.dice.chance(5));
        *next = number + 1;
        let number = match self.dice.below(300) {
            0 => number.saturating_sub(2),
            1 => number + 1500,
            2 => number + (1 << 40),
            _ => number,
        };
        TransactionId { scheduler, number }
    }

    fn base(&mut self, reference: &Reference) -> Version {
        let now = reference.version().0;
        Version(match self.dice.below(30) {
            0 => now + 1,
            1..10 => now.saturating_sub(self.dice.below(5) as u64),
            _ => now,
        })
    }

    fn claims(&mut self, reference: &Reference, released: &[TaskId]) -> Vec<Claim> {
        let mut tasks: Vec<TaskId> = reference
            .tasks()
            .filter(|(.., task)| task.state == TaskState::Pending)
            .map(|(id, ..)| id)
            .chain(released.iter().copied())
            .collect();
        // Half of the time, the claims are for whole gangs in order; otherwise for any tasks in any order.
        let start = if tasks.is_empty() { 0 } else { self.dice.below(tasks.len()) };
        tasks.rotate_left(start);
        tasks.truncate(if self.dice.chance(2) { 0 } else { 1 + self.dice.below(5) });
        if self.dice.chance(20) {
            tasks.push(self.some_task(reference));
        }
        if self.dice.chance(6)
            && let Some(first) = tasks.first().copied()
        {
            tasks.push(first);
        }
        let home = self.some_machine(reference);
        let stays = self.dice.chance(40);
        let mut claim = |task| {
            let machine = if stays { home } else { self.some_machine(reference) };
            let claim = Claim::new(task, machine, self.seen(reference, machine));
            Claim { devices: self.wanted_devices(), ..claim }
        };
        tasks.into_iter().map(&mut claim).collect()
    }

    fn seen(&mut self, reference: &Reference, machine: MachineId) -> SequenceNumber {
        let now = reference.rows().get(machine.row()).map_or(0, |row| row.sequence.0);
        SequenceNumber(match self.dice.below(12) {
            0 => now.saturating_sub(1),
            1 => now + 1,
            _ => now,
        })
    }

    fn wanted_devices(&mut self) -> DeviceSet {
        if self.dice.chance(10) {
            DeviceSet(self.dice.below(16) as u32)
        } else {
            DeviceSet::default()
        }
    }

    /// Evictions, mostly of tasks on the claimed machines.
    fn evictions(&mut self, reference: &Reference, claims: &[Claim]) -> Vec<TaskId> {
        let targets: Vec<usize> = claims.iter().map(|claim| claim.machine.row()).collect();
        let near: Vec<TaskId> = reference
            .placed()
            .filter(|(.., row)| targets.contains(row))
            .map(|(id, ..)| id)
            .collect();
        let mut victims: Vec<TaskId> = near.into_iter().filter(|_| self.dice.chance(50)).collect();
        if self.dice.chance(20) {
            victims.push(self.placed_task(reference));
        }
        victims
    }
}
