//! The ports of one machine that its tasks have.

use super::need::PortNeed;
use omega_core::PortRange;

/// The ports of the tasks on one machine. Both lists ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowPorts {
    /// Numbers that tasks request. A number occurs once for each port that has it: ports of different protocols or
    /// addresses may share a number.
    pub(super) fixed: Vec<u16>,
    /// Numbers that the cell chose.
    pub(super) chosen: Vec<u16>,
    /// In a view, the number of ports that the cell will choose for the view's own claims. Negative if the view's
    /// evictions free more ports than its claims need. Always 0 in a cell.
    pub(super) unknown: i64,
}

impl RowPorts {
    pub(super) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.chosen.is_empty() && self.unknown == 0
    }

    /// The number of all ports.
    pub(super) fn count(&self) -> usize {
        self.fixed.len() + self.chosen.len()
    }

    /// Whether no task has this port.
    fn is_free(&self, port: u16) -> bool {
        self.chosen.binary_search(&port).is_err() && self.fixed.binary_search(&port).is_err()
    }

    /// Whether the cell gave another task a port that this task requests.
    pub(super) fn takes_fixed_of(&self, need: &PortNeed) -> bool {
        !self.chosen.is_empty()
            && need.fixed.iter().any(|port| self.chosen.binary_search(port).is_ok())
    }

    /// The number of free ports of a range that the cell may choose for a task. A task's own requested ports are not
    /// free.
    pub(super) fn free(&self, range: PortRange, need: &PortNeed) -> i64 {
        let mut taken: Vec<u16> =
            [&self.fixed, &self.chosen, &need.fixed].into_iter().flatten().copied().collect();
        taken.retain(|port| range.contains(*port));
        taken.sort_unstable();
        taken.dedup();
        i64::from(range.count()) - taken.len() as i64 - self.unknown
    }

    /// The first free ports of a range from a position on, as many as the task needs; fewer if the range has too few.
    pub(super) fn choose(&self, range: PortRange, need: &PortNeed, position: u64) -> Vec<u16> {
        let is_free = |port: &u16| self.is_free(*port) && need.fixed.binary_search(port).is_err();
        range.from_position(position).filter(is_free).take(need.any).collect()
    }

    /// Counts the ports of a task if `sign` is 1, or of a task that left if it is -1.
    pub(super) fn add(&mut self, need: &PortNeed, chosen: &[u16], sign: i64) {
        let change = if sign > 0 { insert } else { remove };
        need.fixed.iter().for_each(|port| change(&mut self.fixed, *port));
        chosen.iter().for_each(|port| change(&mut self.chosen, *port));
        self.unknown += sign * (need.any as i64 - chosen.len() as i64);
    }
}

fn insert(ports: &mut Vec<u16>, port: u16) {
    let at = ports.partition_point(|known| *known < port);
    ports.insert(at, port);
}

fn remove(ports: &mut Vec<u16>, port: u16) {
    let at = ports.binary_search(&port);
    debug_assert!(at.is_ok(), "the port of a task that leaves was counted");
    at.into_iter().for_each(|at| _ = ports.remove(at));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_inverses() {
        let range = PortRange { first: 8, last: 12 };
        let need = PortNeed { fixed: vec![9, 9, 80], any: 2 };
        let mut row = RowPorts::default();
        assert_eq!((row.free(range, &need), row.choose(range, &need, 1)), (4, vec![10, 11]));
        row.add(&need, &[10, 11], 1);
        let other = PortNeed { fixed: vec![12], any: 1 };
        assert_eq!((row.free(range, &other), row.choose(range, &other, 4)), (1, vec![8]));
        row.add(&other, &[], 1);
        assert_eq!((row.free(range, &PortNeed::default()), row.unknown), (0, 1));
        assert!(row.takes_fixed_of(&PortNeed { fixed: vec![11], any: 0 }));
        assert!(!row.takes_fixed_of(&PortNeed { fixed: vec![9, 80], any: 0 }));
        row.add(&other, &[], -1);
        row.add(&need, &[10, 11], -1);
        assert!(row.is_empty());
    }
}
