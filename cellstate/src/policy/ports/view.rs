//! Ports in a view.

use super::need::PortNeed;
use crate::index::need::Need;
use crate::view::{BLOCK, Block, View};
use omega_core::Reason;

impl View {
    /// Whether some machine may lack ports for tasks with this need, even without conflicts among requested ports.
    #[must_use]
    pub fn any_ports_concern(&self, need: &Need) -> bool {
        let any_chosen = || self.mirrors().ports.rows.values().any(|row| !row.chosen.is_empty());
        need.ports.as_ref().is_some_and(|ports| ports.any > 0 || any_chosen())
    }

    /// Checks that the machine in a row has enough free ports for the cell to choose from, and that the cell gave none
    /// of the requested ports to another task there.
    ///
    /// # Errors
    /// The reason against the placement.
    pub fn check_any_ports(&self, need: &Need, row: usize) -> Result<(), Reason> {
        need.ports.as_ref().map_or(Ok(()), |ports| self.check_ports(ports, row))
    }

    fn check_ports(&self, ports: &PortNeed, row: usize) -> Result<(), Reason> {
        self.mirrors().ports.check_need(row, ports, self.machine_index())
    }
}

impl Block<'_> {
    /// The machines in `among` that pass [`View::check_any_ports`].
    #[must_use]
    pub fn any_ports_fit(&self, need: &Need, among: u64) -> u64 {
        let Some(ports) = &need.ports else { return among };
        let first = self.index() * BLOCK;
        let fits = |lane: &usize| {
            among >> lane & 1 == 1 && self.view().check_ports(ports, first + lane).is_ok()
        };
        (0..BLOCK).filter(fits).fold(0, |word, lane| word | 1 << lane)
    }
}
