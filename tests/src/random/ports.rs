//! Machines with small ranges of ports, and groups with ports that the cell chooses.

use super::Generator;
use omega_core::{Machine, PortRange, TaskGroup};

impl Generator {
    /// Gives most machines a small range, which often contains the ports that groups request.
    pub(super) fn give_range(&mut self, machine: &mut Machine) {
        let dice = &mut self.ports;
        let range = |first, last| PortRange { first, last };
        let ranges = [range(79, 82), range(80, 80), range(440, 443), range(65_534, 65_535)];
        machine.ports = match dice.below(20) {
            0 => PortRange::default(),
            1 => PortRange::NONE,
            2 => *dice.pick(&[range(0, 1), range(9, 8), range(1, 65_535)]),
            _ => *dice.pick(&ranges),
        };
    }

    /// Occasionally gives a group ports that the cell chooses.
    pub(super) fn need_any_ports(&mut self, group: &mut TaskGroup) {
        let dice = &mut self.ports;
        if dice.chance(15) {
            let names: &[&str] = match dice.below(20) {
                0 => &["web", "WEB"],
                1 => &["a b"],
                _ => &["web", "admin-1", "x_y"][..1 + dice.below(3)],
            };
            group.any_ports = names.iter().map(|name| (*name).into()).collect();
        }
    }
}
