//! Requests of an application for containers of one group at one priority: the total, and the preferred locations. The
//! total and each location have a line.
//!
//! A container is subtracted from each line that it matches. A container on a requested machine is subtracted from the
//! lines of the machine, its rack and the total; a container in a requested rack from the lines of the rack and the
//! total.
//!
//! For each container, the frontend keeps the list of these lines until it reports the container. So if the claim is
//! rejected, the container is requested again. And if the application sends a request before it is informed of the
//! container, the container is not counted twice.

use super::messages::{Locality, Place, Relax, Settings};
use crate::queue::Nanos;
use omega_core::Text;
use std::collections::BTreeMap;

/// The lines from which a container was subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    machine: bool,
    rack: bool,
    total: bool,
}

/// Name of a machine, and its rack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) machine: &'a Text,
    pub(super) rack: Option<&'a Text>,
}

/// Requests of an application for containers of one group at one priority.
///
/// Invariant: the count in a machine's line is above 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    total: u32,
    total_relax: Relax,
    has_total: bool,
    machines: BTreeMap<Text, u32>,
    racks: BTreeMap<Text, (u32, Relax)>,
    /// Number of rounds that skipped machines which had room but were not requested.
    pub(super) passed_up: u32,
    /// Time at which the total was last raised from 0.
    pub(super) since: Nanos,
}

impl Table {
    /// Sets the line of a location. `count` replaces the previous count.
    pub(super) fn set(&mut self, at: &Place, count: u32, relax: Relax, now: Nanos) {
        match at {
            Place::Machine(name) if count == 0 => drop(self.machines.remove(name)),
            Place::Machine(name) => drop(self.machines.insert(name.clone(), count)),
            Place::Rack(name) if count == 0 && relax == Relax::Allowed => {
                self.racks.remove(name);
            }
            Place::Rack(name) => drop(self.racks.insert(name.clone(), (count, relax))),
            Place::Anywhere => {
                if self.total == 0 {
                    (self.since, self.passed_up) = (now, 0);
                }
                (self.total, self.total_relax, self.has_total) = (count, relax, true);
            }
        }
    }

    /// Total number of requested containers.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Whether machines or racks are requested without a total.
    pub(super) fn lacks_total(&self) -> bool {
        let is_asked = self.machines.values().any(|count| *count > 0)
            || self.racks.values().any(|(count, _)| *count > 0);
        !self.has_total && is_asked
    }

    /// Number of lines in the table.
    pub(super) fn lines(&self) -> usize {
        self.machines.len() + self.racks.len() + 1
    }

    /// Names of the machines with requests.
    pub(super) fn machines(&self) -> impl Iterator<Item = &Text> {
        self.machines.keys()
    }

    /// Racks with requests that accept all machines of the rack, not only requested ones.
    pub(super) fn racks(&self) -> impl Iterator<Item = &Text> {
        let may =
            |(_, (count, relax)): &(&Text, &(u32, Relax))| *count > 0 && *relax == Relax::Allowed;
        self.racks.iter().filter(may).map(|(name, _)| name)
    }

    /// Number of skipped rounds after which any machine of a requested rack is accepted.
    fn rack_after(&self, settings: &Settings) -> u32 {
        if self.machines().next().is_some() { settings.machine_delay } else { 0 }
    }

    /// Whether any machine of a requested rack is accepted now.
    pub(super) fn takes_rack(&self, settings: &Settings) -> bool {
        self.passed_up >= self.rack_after(settings)
    }

    /// Whether any machine is accepted now.
    pub(super) fn takes_any(&self, settings: &Settings) -> bool {
        let asks_racks = self.racks.values().any(|(count, _)| *count > 0);
        let more = if asks_racks { settings.rack_delay } else { 0 };
        let after = self.rack_after(settings).saturating_add(more);
        self.total_relax == Relax::Allowed && self.passed_up >= after
    }

    /// Whether machines farther away are accepted after a wait.
    pub(super) fn may_relax(&self) -> bool {
        self.total_relax == Relax::Allowed || self.racks().next().is_some()
    }

    /// Subtracts a container from the lines that match it. Returns these lines.
    pub(super) fn take(&mut self, spot: Spot<'_>, locality: Locality) -> Lines {
        let mut lines = Lines::default();
        if locality == Locality::Machine
            && let Some(count) = self.machines.get_mut(spot.machine)
        {
            *count -= 1;
            lines.machine = true;
            if *count == 0 {
                self.machines.remove(spot.machine);
            }
        }
        if locality <= Locality::Rack
            && let Some(rack) = spot.rack
            && let Some((count, relax)) = self.racks.get_mut(rack)
            && *count > 0
        {
            *count -= 1;
            lines.rack = true;
            if *count == 0 && *relax == Relax::Allowed {
                self.racks.remove(rack);
            }
        }
        lines.total = self.total > 0;
        self.total = self.total.saturating_sub(1);
        lines
    }

    /// Adds a container to the lines from which it was subtracted before.
    pub(super) fn give_back(&mut self, spot: Spot<'_>, lines: Lines) {
        if lines.machine {
            *self.machines.entry(spot.machine.clone()).or_default() += 1;
        }
        if lines.rack
            && let Some(rack) = spot.rack
        {
            self.racks.entry(rack.clone()).or_default().0 += 1;
        }
        self.total = self.total.saturating_add(u32::from(lines.total));
        self.has_total = true;
    }

    /// Whether there are no requests.
    pub(super) fn is_empty(&self) -> bool {
        self.total == 0 && self.machines.is_empty() && self.racks.is_empty()
    }

    /// Records an allocated container. If it is on a requested machine or rack, the wait restarts. Other claims of the
    /// same round were decided before, so they are not affected.
    pub(super) fn served(&mut self, locality: Locality) {
        // A container elsewhere does not restart the wait. The requested locations have little room, so each further
        // container would have to wait again.
        if locality != Locality::Elsewhere {
            self.passed_up = 0;
        }
    }
}

impl Lines {
    /// Whether a container on this machine was subtracted from the line of a location.
    pub(super) fn meet(self, spot: Spot<'_>, at: &Place) -> bool {
        match at {
            Place::Machine(name) => self.machine && spot.machine == name,
            Place::Rack(name) => self.rack && spot.rack == Some(name),
            Place::Anywhere => self.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[(Place, u32)]) -> Table {
        let mut table = Table::default();
        for (at, count) in lines {
            table.set(at, *count, Relax::Allowed, 5);
        }
        table
    }

    #[test]
    fn a_container_counts_against_each_line_that_it_meets() {
        let (machine, rack, other) = (Text::from("m"), Text::from("r"), Text::from("n"));
        let lines = [
            (Place::Machine(machine.clone()), 1),
            (Place::Rack(rack.clone()), 2),
            (Place::Anywhere, 3),
        ];
        let mut table = table(&lines);
        let near = Spot { machine: &machine, rack: Some(&rack) };
        let beside = Spot { machine: &other, rack: Some(&rack) };
        let first = table.take(near, Locality::Machine);
        assert_eq!((table.total(), table.machines().count(), table.racks().count()), (2, 0, 1));
        table.take(beside, Locality::Rack);
        assert_eq!((table.total(), table.racks().count()), (1, 0));
        assert!(!table.take(beside, Locality::Elsewhere).rack);
        assert_eq!(table.total(), 0);
        table.give_back(near, first);
        assert_eq!((table.total(), table.machines().count(), table.racks().count()), (1, 1, 1));
    }

    #[test]
    fn each_level_that_was_asked_for_is_waited_for() {
        let settings = Settings { machine_delay: 2, rack_delay: 3, ..Settings::new("front") };
        let takes = |table: &Table| (table.takes_rack(&settings), table.takes_any(&settings));
        let mut near = table(&[
            (Place::Machine("m".into()), 1),
            (Place::Rack("r".into()), 1),
            (Place::Anywhere, 1),
        ]);
        let waits: Vec<(bool, bool)> = (0..6)
            .map(|rounds| {
                near.passed_up = rounds;
                takes(&near)
            })
            .collect();
        let [no, rack, any] = [(false, false), (true, false), (true, true)];
        assert_eq!(waits, [no, no, rack, rack, rack, any]);
        assert_eq!(takes(&table(&[(Place::Anywhere, 1)])), any, "nothing is waited for");
        assert_eq!(takes(&table(&[(Place::Rack("r".into()), 1), (Place::Anywhere, 1)])), rack);
    }

    #[test]
    fn what_forbids_it_is_never_relaxed() {
        let settings = Settings { machine_delay: 0, rack_delay: 0, ..Settings::new("front") };
        let mut table = table(&[(Place::Machine("m".into()), 1)]);
        assert!(table.lacks_total());
        table.set(&Place::Rack("r".into()), 1, Relax::Forbidden, 5);
        table.set(&Place::Anywhere, 1, Relax::Forbidden, 5);
        assert!(!table.takes_any(&settings) && !table.may_relax() && !table.lacks_total());
        assert_eq!(table.racks().count(), 0);
    }
}
