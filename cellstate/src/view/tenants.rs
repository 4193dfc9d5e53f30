//! The tenants, for schedulers that share fairly or have what was lent given back.
//!
//! They come with deltas, once some tenant of the cell has a standing; before that a view knows of none.
//! What this view claims and evicts is not counted here until the cell has taken it.

use super::View;
use crate::delta::{Delta, TenantDelta};
use omega_core::Text;
use omega_core::limits::TENANT_DEPTH_MAX;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Tenants by name. See the head of the file.
#[derive(Debug, Default)]
pub(super) struct KnownTenants(BTreeMap<Text, TenantDelta>);

impl KnownTenants {
    /// Takes in what a delta tells.
    pub(super) fn apply(&mut self, delta: &Delta) {
        if delta.full {
            self.0.clear();
        }
        for tenant in &delta.tenants {
            match self.0.get_mut(&tenant.name) {
                Some(known) => known.clone_from(tenant),
                None => drop(self.0.insert(tenant.name.clone(), tenant.clone())),
            }
        }
    }
}

impl View {
    /// Every tenant, by name; none as long as no tenant of the cell has a standing.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantDelta> {
        self.tenants.0.values()
    }

    /// A tenant and those above it, from the top down; empty if the view does not know it.
    #[must_use]
    pub fn tenant_line(&self, name: &str) -> SmallVec<[&TenantDelta; 4]> {
        let above = |tenant: &&TenantDelta| {
            tenant.standing.parent.as_ref().and_then(|parent| self.tenants.0.get(parent))
        };
        let up = std::iter::successors(self.tenants.0.get(name), above);
        let mut line: SmallVec<[&TenantDelta; 4]> = up.take(TENANT_DEPTH_MAX).collect();
        line.reverse();
        line
    }

    /// Where the lines of two tenants part: the highest of each that is not in the other's. `None` if one
    /// line is part of the other. What may be reclaimed is decided there.
    #[must_use]
    pub fn parting(&self, one: &str, other: &str) -> Option<(&TenantDelta, &TenantDelta)> {
        let (one, other) = (self.tenant_line(one), self.tenant_line(other));
        one.into_iter().zip(other).find(|(one, other)| one.name != other.name)
    }
}
