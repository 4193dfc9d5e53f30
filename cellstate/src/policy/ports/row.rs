//! The ports of one machine that its tasks have.

use super::need::PortNeed;
use super::port_set::PortSet;
use omega_core::PortRange;

/// The ports of the tasks on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowPorts {
    /// Numbers that tasks request, ascending. A number occurs once for each port that has it: ports of different
    /// protocols or addresses may share a number.
    pub(super) fixed: Vec<u16>,
    /// Numbers that the cell chose.
    pub(super) chosen: PortSet,
    /// The numbers in `fixed` and `chosen`.
    taken: PortSet,
    /// In a view, the number of ports that the cell will choose for the view's own claims. Negative if the view's
    /// evictions free more ports than its claims need. Always 0 in a cell.
    pub(super) unknown: i64,
}

impl RowPorts {
    pub(super) const EMPTY: RowPorts =
        RowPorts { fixed: Vec::new(), chosen: PortSet::EMPTY, taken: PortSet::EMPTY, unknown: 0 };

    /// The row with these requested ports, ascending, and ports that the cell chose.
    pub(super) fn of(fixed: &[u16], chosen: &[u16]) -> RowPorts {
        RowPorts {
            fixed: fixed.to_vec(),
            chosen: chosen.iter().copied().collect(),
            taken: fixed.iter().chain(chosen).copied().collect(),
            unknown: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.chosen.is_empty() && self.unknown == 0
    }

    /// The number of all ports.
    pub(super) fn count(&self) -> usize {
        self.fixed.len() + self.chosen.len()
    }

    /// Whether the cell gave another task a port that this task requests.
    pub(super) fn takes_fixed_of(&self, need: &PortNeed) -> bool {
        !self.chosen.is_empty() && need.fixed.iter().any(|port| self.chosen.contains(*port))
    }

    /// The number of free ports of a range that the cell may choose for a task. A task's own requested ports are not
    /// free.
    pub(super) fn free(&self, range: PortRange, need: &PortNeed) -> i64 {
        let different = need.fixed.chunk_by(|one, next| one == next).map(|equal| equal[0]);
        let own = different.filter(|port| range.contains(*port) && !self.taken.contains(*port));
        let taken = self.taken.count_in(range) + own.count();
        i64::from(range.count()) - taken as i64 - self.unknown
    }

    /// The first free ports of a range from a position on, as many as the task needs; fewer if the range has too few.
    /// The port at position 0 follows the last port.
    pub(super) fn choose(&self, range: PortRange, need: &PortNeed, position: u64) -> Vec<u16> {
        if range.count() == 0 {
            return Vec::new();
        }
        let start = range.first + (position % u64::from(range.count())) as u16;
        let before = (start > range.first).then(|| self.taken.missing(range.first, start - 1));
        let free = self.taken.missing(start, range.last).chain(before.into_iter().flatten());
        free.filter(|port| need.fixed.binary_search(port).is_err()).take(need.any).collect()
    }

    /// Counts the ports of a task if `sign` is 1, or of a task that left if it is -1.
    pub(super) fn add(&mut self, need: &PortNeed, chosen: &[u16], sign: i64) {
        for port in need.fixed.iter().copied() {
            let at = self.fixed.binary_search(&port);
            match (sign > 0, at) {
                (true, Ok(at) | Err(at)) => self.fixed.insert(at, port),
                (false, Ok(at)) => _ = self.fixed.remove(at),
                (false, Err(_)) => {
                    debug_assert!(false, "the port of a task that leaves was counted")
                }
            }
            self.update_taken(port);
        }
        for port in chosen.iter().copied() {
            debug_assert!(sign > 0 || self.chosen.contains(port), "{port} was counted");
            if sign > 0 {
                self.chosen.insert(port)
            } else {
                self.chosen.remove(port)
            }
            self.update_taken(port);
        }
        self.unknown += sign * (need.any as i64 - chosen.len() as i64);
    }

    /// Updates whether a port is taken after it was added to, or removed from, the ports of tasks.
    fn update_taken(&mut self, port: u16) {
        if self.chosen.contains(port) || self.fixed.binary_search(&port).is_ok() {
            self.taken.insert(port);
        } else {
            self.taken.remove(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The ports of a range that none of these tasks has, from a position on.
    fn free(
        range: PortRange,
        need: &PortNeed,
        tasks: &[(PortNeed, Vec<u16>)],
        position: u64,
    ) -> Vec<u16> {
        let of_tasks = tasks.iter().flat_map(|(need, chosen)| need.fixed.iter().chain(chosen));
        let taken: BTreeSet<&u16> = of_tasks.chain(&need.fixed).collect();
        let mut all: Vec<u16> = (range.first.max(1)..=range.last).collect();
        if !all.is_empty() {
            let start = position as usize % all.len();
            all.rotate_left(start);
        }
        all.retain(|port| !taken.contains(port));
        all
    }

    proptest! {
        /// Places and removes random tasks, and compares the chosen ports and numbers of free ports with a search of
        /// the whole range.
        #[test]
        fn ports_are_chosen_as_by_a_search_of_the_whole_range(
            first in prop::sample::select(vec![0u16, 1, 64, 20_000, 64_900]),
            width in prop::sample::select(vec![0u16, 63, 600, 2000]),
            steps in prop::collection::vec((any::<bool>(), 0..65usize, any::<u64>()), 1..60),
        ) {
            let last = if first == 0 { 0 } else { first.saturating_add(width) };
            let range = PortRange { first, last };
            let mut row = RowPorts::default();
            let mut tasks: Vec<(PortNeed, Vec<u16>)> = Vec::new();
            for (leaves, any, position) in steps {
                if leaves && !tasks.is_empty() {
                    let (need, chosen) = tasks.swap_remove(position as usize % tasks.len());
                    row.add(&need, &chosen, -1);
                    continue;
                }
                let near = first.wrapping_add((position % 700) as u16);
                let mut fixed = if position % 3 == 0 { vec![near, near, 7] } else { Vec::new() };
                fixed.sort_unstable();
                let need = PortNeed { fixed, any };
                let free = free(range, &need, &tasks, position);
                prop_assert_eq!(row.free(range, &need), free.len() as i64);
                let chosen = row.choose(range, &need, position);
                prop_assert_eq!(&chosen[..], &free[..any.min(free.len())]);
                if chosen.len() == any && !row.takes_fixed_of(&need) {
                    row.add(&need, &chosen, 1);
                    tasks.push((need, chosen));
                }
            }
            let again = RowPorts::of(&row.fixed, &row.chosen.iter().collect::<Vec<_>>());
            prop_assert_eq!(&again, &row);
            tasks.iter().for_each(|(need, chosen)| row.add(need, chosen, -1));
            prop_assert_eq!(row, RowPorts::EMPTY);
        }
    }

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
