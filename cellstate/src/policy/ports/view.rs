//! Ports in a view.

use super::need::PortNeed;
use crate::index::need::Need;
use crate::view::{BLOCK, Block, View};
use omega_core::Reason;

impl View {
    /// Whether some machine may lack ports for tasks with this need, even without conflicts among requested ports.
    #[must_use]
    pub fn any_ports_concern(&self, need: &Need) -> bool {
        let any_given = || self.mirrors().ports.rows.values().any(|row| !row.given.is_empty());
        need.ports.as_ref().is_some_and(|ports| ports.any > 0 || any_given())
    }

    /// Checks that the machine in a row has enough free ports for the cell to choose from, and that the cell gave none
    /// of the requested ports to another task there.
    ///
    /// # Errors
    /// The reason against the placement.
    pub fn judge_any_ports(&self, need: &Need, row: usize) -> Result<(), Reason> {
        need.ports.as_ref().map_or(Ok(()), |ports| self.judge_ports(ports, row))
    }

    fn judge_ports(&self, ports: &PortNeed, row: usize) -> Result<(), Reason> {
        self.mirrors().ports.judge(row, ports, self.facts())
    }
}

impl Block<'_> {
    /// The machines in `among` that pass [`View::judge_any_ports`].
    #[must_use]
    pub fn any_ports_fit(&self, need: &Need, among: u64) -> u64 {
        let Some(ports) = &need.ports else { return among };
        let first = self.index() * BLOCK;
        let fits = |lane: &usize| {
            among >> lane & 1 == 1 && self.view().judge_ports(ports, first + lane).is_ok()
        };
        (0..BLOCK).filter(fits).fold(0, |word, lane| word | 1 << lane)
    }
}
