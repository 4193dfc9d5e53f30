//! The ports that the tasks of a group need.

use omega_core::TaskGroup;

/// The ports that a task needs.
#[derive(Clone, Debug, Default)]
pub struct PortNeed {
    /// Requested numbers, ascending. A number occurs once for each port that has it.
    pub(super) fixed: Vec<u16>,
    /// Number of ports that the cell chooses.
    pub any: usize,
}

impl PortNeed {
    /// The ports that a group needs; `None` for nearly all groups.
    pub fn of(group: &TaskGroup) -> Option<Box<PortNeed>> {
        if !has_ports(group) {
            return None;
        }
        let mut fixed: Vec<u16> = group.rules.ports.iter().map(|port| port.number).collect();
        fixed.sort_unstable();
        Some(Box::new(PortNeed { fixed, any: group.any_ports.len() }))
    }
}

pub(super) fn has_ports(group: &TaskGroup) -> bool {
    !group.any_ports.is_empty() || !group.rules.ports.is_empty()
}
