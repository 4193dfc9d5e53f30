//! Ports that the cell chooses: the first free ones of the machine's range, from a position that depends on the task.

use super::Reference;
use super::fit::Member;
use omega_core::{Reason, TaskId};
use std::collections::BTreeSet;

impl Reference {
    /// The ports that the cell chose for tasks on the machine in a row.
    fn given(&self, row: usize) -> BTreeSet<u16> {
        let here = self.placed().filter(|(.., at)| *at == row);
        here.flat_map(|(_, _, task, _)| task.ports.iter().copied()).collect()
    }

    /// Checks that no port which this task requests is a port that the cell chose for another task on the machine.
    pub(super) fn check_chosen_ports(&self, of: Member<'_>, row: usize) -> Result<(), Reason> {
        let given = self.given(row);
        let mut own = of.job.spec.groups[of.group].rules.ports.iter();
        if own.any(|port| given.contains(&port.number)) { Err(Reason::PortTaken) } else { Ok(()) }
    }

    /// Chooses the ports of a task one by one. Each is the first port that neither a task on the machine nor the task's
    /// own group has or requests.
    pub(super) fn choose_ports(&self, id: TaskId, row: usize) -> Result<Vec<u16>, Reason> {
        let Some((job, task)) = self.task(id) else { return Ok(Vec::new()) };
        let group = &job.spec.groups[task.group];
        if group.any_ports.is_empty() {
            return Ok(Vec::new());
        }
        let requested =
            self.placed().filter(|(.., at)| *at == row).flat_map(|(_, job, task, _)| {
                job.spec.groups[task.group].rules.ports.iter().map(|port| port.number)
            });
        let mut taken = self.given(row);
        taken.extend(requested);
        taken.extend(group.rules.ports.iter().map(|port| port.number));
        let range = self.rows[row].machine.as_ref().map(|host| host.spec.ports);
        let range = range.filter(|range| range.first > 0);
        let all: Vec<u16> = range.map_or(Vec::new(), |range| (range.first..=range.last).collect());
        let mut ports = Vec::new();
        for _ in &group.any_ports {
            let before = u64::from(id.index) * group.any_ports.len() as u64;
            let start = (id.job.0 * 127 + before) as usize;
            let candidates = (0..all.len()).map(|at| all[(start + at) % all.len()]);
            let free = candidates.into_iter().find(|port| !taken.contains(port));
            let port = free.ok_or(Reason::NoPorts)?;
            taken.insert(port);
            ports.push(port);
        }
        Ok(ports)
    }
}
