//! The start of a run: what is there already, and on which machines it runs.

use super::RunError;
use super::feeder::Feeder;
use omega_cellstate::{Cell, CellHandle};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{
    CardSet, Claim, MachineId, SchedulerId, SequenceNumber, TaskId, Transaction, TransactionId,
};
use std::ops::RangeFrom;

impl Feeder {
    /// Submits what is there at the start, and claims the machines of what runs already.
    pub(super) fn begin(&mut self, machines: &[MachineId]) -> Result<(), RunError> {
        let (id, number) = self
            .cell
            .register("start".into())
            .map_err(|why| RunError::Scheduler { name: "start".into(), why })?;
        let mut numbers = number..;
        let mut claims = Vec::new();
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.at_ms == 0) {
            let placed = arrival.placed.clone();
            let job = self.submit(arrival)?;
            claims.extend(placed.into_iter().map(|(index, machine)| Claim {
                task: TaskId { job, index },
                machine: machines[machine as usize],
                seen: SequenceNumber(0),
                cards: CardSet::default(),
            }));
        }
        // A task may need another one near it that comes later in the list: claim again what was
        // refused, as long as that gets anywhere.
        let mut left = usize::MAX;
        while claims.len() < left {
            left = claims.len();
            claims = self.claim(id, &mut numbers, claims)?;
        }
        if left > 0 {
            let tasks = if left == 1 { "task that ran" } else { "tasks that ran" };
            self.notes.push(format!(
                "{left} {tasks} at the start may not be there by the cell's rules: placed anew"
            ));
        }
        Ok(())
    }

    /// Claims machines for what runs at the start. The answer is the claims that were refused.
    fn claim(
        &mut self,
        scheduler: SchedulerId,
        numbers: &mut RangeFrom<u64>,
        claims: Vec<Claim>,
    ) -> Result<Vec<Claim>, RunError> {
        let mut refused = Vec::new();
        for part in claims.chunks(TRANSACTION_ITEMS_MAX) {
            let number = numbers.next().unwrap_or_default();
            let id = TransactionId { scheduler, number };
            let txn = Transaction::new(id, self.cell.read(Cell::version), part.to_vec());
            let commit = self
                .cell
                .commit(&txn)
                .map_err(|why| RunError::Scheduler { name: "start".into(), why })?;
            let mut placed = Vec::with_capacity(part.len());
            for (claim, index) in part.iter().zip(0..) {
                match commit.conflict_of_claim(index) {
                    None => placed.push((claim.task, claim.machine)),
                    Some(_) => refused.push(*claim),
                }
            }
            self.placed_at_start += placed.len();
            self.schedule_ends(placed);
        }
        Ok(refused)
    }
}
