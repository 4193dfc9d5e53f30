//! Cluster resources: random capacities, and groups that claim them.

use super::{Dice, Generator};
use omega_core::limits::QUOTA_MAX;
use omega_core::{Amounts, Command, KindId, TaskGroup};

impl Generator {
    /// Creates a history in which tasks claim cluster resources.
    #[must_use]
    pub fn with_cluster_resources(self, seed: u64) -> Generator {
        Generator { licences: Some(Dice::new(seed ^ 0x11CE)), ..self }
    }

    /// Occasionally makes a command that sets the capacity of a cluster resource.
    pub(super) fn license(&mut self) -> Option<Command> {
        let kinds = self.kinds.count();
        let dice = self.licences.as_mut()?;
        if !dice.chance(5) {
            return None;
        }
        // The kind is occasionally unknown, and the amount occasionally far too large.
        let kinds = kinds + usize::from(dice.chance(3));
        let kind = KindId(dice.below(kinds) as u8);
        let amount =
            if dice.chance(2) { QUOTA_MAX + dice.below(2) as u64 } else { dice.below(10) as u64 };
        Some(Command::SetClusterCapacity { kind, amount })
    }

    /// Occasionally adds cluster resources to a group's request.
    pub(super) fn claim_of_cell(&mut self, group: &mut TaskGroup) {
        let kinds = self.kinds.count();
        let Some(dice) = self.licences.as_mut() else { return };
        if !dice.chance(20) {
            return;
        }
        let mut request = Amounts::zero();
        for _ in 0..1 + dice.below(2) {
            // The kind is occasionally unknown.
            let kinds = kinds + usize::from(dice.chance(1));
            request.set(KindId(dice.below(kinds) as u8), dice.below(3) as u64);
        }
        group.cluster_request = request;
    }
}
