//! The command that sets the capacity of a cluster resource.

use super::ClusterResources;
use crate::cell::Cell;
use crate::commands::validate;
use crate::policy::CellPolicy;
use omega_core::{KindId, Outcome, Rejection};

impl CellPolicy for ClusterResources {}

impl Cell {
    /// The cluster resources and their claims.
    #[must_use]
    pub fn resources(&self) -> &ClusterResources {
        &self.policies.cluster_resources
    }

    pub(crate) fn set_cluster_capacity(
        &mut self,
        kind: KindId,
        amount: u64,
    ) -> Result<Outcome, Rejection> {
        validate::known_kind(kind, &self.kinds)?;
        let capacity = self.policies.cluster_resources.capacity.clone().with(kind, amount);
        validate::cluster_capacity(&capacity, &self.kinds)?;
        if capacity == self.policies.cluster_resources.capacity {
            return Ok(Outcome::Done(self.version));
        }
        self.policies.cluster_resources.capacity = capacity;
        Ok(Outcome::Done(self.begin()))
    }
}
