//! The conditions of machines, as the agent has last reported them. A plain data structure.
//!
//! Each new stream begins with the conditions of all its machines, because another leader may not know them.

use super::Condition;
use crate::proto;
use omega_core::MachineId;
use std::collections::{BTreeMap, BTreeSet};

/// The conditions of machines. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    known: BTreeMap<MachineId, Condition>,
    /// Machines whose conditions were not sent on the present stream.
    unsent: BTreeSet<MachineId>,
}

impl Conditions {
    /// Records the condition of a machine.
    pub(super) fn report(&mut self, machine: MachineId, condition: Condition) {
        self.known.insert(machine, condition);
        self.unsent.insert(machine);
    }

    /// Forgets a machine that the agent no longer manages.
    pub(super) fn forget(&mut self, machine: MachineId) {
        self.known.remove(&machine);
        self.unsent.remove(&machine);
    }

    /// Returns the reports of these machines' conditions, which are then sent.
    pub(super) fn take(&mut self, machines: &[MachineId]) -> Vec<proto::MachineCondition> {
        let mut reports = Vec::new();
        for machine in machines {
            self.unsent.remove(machine);
            if let Some(Condition { is_disk_full }) = self.known.get(machine) {
                let (machine, disk_full) = (Some((*machine).into()), *is_disk_full);
                reports.push(proto::MachineCondition { machine, disk_full });
            }
        }
        reports
    }

    /// Returns the reports that were not sent on the present stream. Those of machines that the agent does not manage
    /// yet wait.
    pub(super) fn take_unsent(
        &mut self,
        managed: &BTreeSet<MachineId>,
    ) -> Vec<proto::MachineCondition> {
        let due: Vec<MachineId> = self.unsent.intersection(managed).copied().collect();
        self.take(&due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_sent_once_on_each_stream() {
        let [one, other] = [1, 2].map(MachineId::first);
        let full = |is_disk_full| Condition { is_disk_full };
        let report = |machine: MachineId, disk_full| {
            vec![proto::MachineCondition { machine: Some(machine.into()), disk_full }]
        };
        let mut conditions = Conditions::default();
        conditions.report(one, full(true));
        assert_eq!(conditions.take_unsent(&[other].into()), [], "it is not managed yet");
        assert_eq!(conditions.take_unsent(&[one, other].into()), report(one, true));
        assert_eq!(conditions.take_unsent(&[one].into()), [], "it is sent");
        conditions.report(one, full(true));
        conditions.report(one, full(false));
        assert_eq!(conditions.take_unsent(&[one].into()), report(one, false), "the newest");
        // A new stream.
        conditions.report(one, full(true));
        assert_eq!(conditions.take(&[one, other]), report(one, true), "the other has none");
        assert_eq!(conditions.take_unsent(&[one].into()), []);
        conditions.report(other, full(true));
        conditions.forget(other);
        assert_eq!(conditions.take_unsent(&[one, other].into()), []);
        assert_eq!(conditions.take(&[other]), []);
    }
}
