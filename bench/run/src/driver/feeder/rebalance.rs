//! Moves of the rebalancer: a moved batch task starts over, and a moved service keeps the time of its end.

use super::Feeder;
use crate::RunError;
use crate::driver::ends::Ending;
use omega_cellstate::Cell;
use omega_core::JobKind;

impl Feeder {
    /// Lets the rebalancer move tasks if a pass is due.
    pub(super) fn rebalance(&mut self, at_ms: u64) -> Result<(), RunError> {
        let Some(mut passes) = self.passes.take_if(|passes| passes.is_due(at_ms)) else {
            return Ok(());
        };
        self.drain()?;
        let moves = passes.pass(&self.cell, at_ms);
        self.passes = Some(passes);
        let mut moves = moves?;
        let now_ms = self.agenda.now_ms();
        moves.iter().for_each(|m| self.write_placed(m.version, now_ms, &[(m.task, m.to)]));
        moves.sort_by_key(|m| m.task);
        let version = self.cell.read(Cell::version);
        let mut restarted = Ending::new();
        for m in &moves {
            let kind = self.cell.read(|cell| cell.job(m.task.job).map(|job| job.kind));
            if kind == Some(JobKind::Service) {
                self.counts.evictions.moved(m.task, m.version, m.to);
            } else {
                self.counts.evictions.restarted(m.task, m.version);
                restarted.push((m.task, m.to));
            }
        }
        if !moves.is_empty() {
            self.agenda.schedule_ends(now_ms, (version, restarted), &self.cell);
            self.watch.tasks_changed(moves.len() as u64);
            self.watch.stir();
        }
        Ok(())
    }
}
