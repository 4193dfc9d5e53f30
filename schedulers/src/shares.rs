//! How much of the cell each tenant has, for its weight: who goes first when tenants take turns.
//!
//! A tenant's *dominant share* is the largest part that it has of any kind: of a cell with 1,000 cores and
//! 10 TiB, a tenant with 100 cores and 2 TiB has a fifth. Divided by its weight it says how well the tenant
//! is served; the one that is served worst goes first. In a tree of tenants that is asked level by level,
//! from the top: a branch is served as all tenants in it are together. (Ghodsi et al., "Dominant Resource
//! Fairness", NSDI 2011; in a tree, Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter
//! Workloads", SoCC 2013, without its correction for kinds that a branch has used up.)

use omega_cellstate::{Delta, TenantDelta, View};
use omega_core::{Amounts, Text};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A whole, in the units of shares.
const WHOLE: u128 = 1 << 32;

/// Where a tenant stands among those that wait: for each level from the top, the share of the branch for
/// its weight, and the name of the branch, by which those with the same share are told apart. Less goes
/// first.
pub(crate) type Place = SmallVec<[(u64, Text); 2]>;

/// What every tenant has. See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// What all machines have of each kind.
    capacity: Vec<u64>,
    /// How often machines came, changed or went until that was counted.
    counted: Option<u64>,
    tenants: BTreeMap<Text, TenantDelta>,
    /// What was claimed for tenants since the cell told what they have.
    claimed: BTreeMap<Text, SmallVec<[i64; 4]>>,
}

impl Shares {
    /// Takes in what a view's last sync brought.
    pub(crate) fn hear(&mut self, view: &View) {
        let delta: &Delta = view.delta();
        self.claimed.clear();
        if delta.full {
            self.tenants.clear();
        }
        for tenant in &delta.tenants {
            self.tenants.insert(tenant.name.clone(), tenant.clone());
        }
        let tally = view.tally();
        let changes = tally.added + tally.changed + tally.removed;
        if delta.full || self.counted != Some(changes) {
            self.counted = Some(changes);
            self.capacity = capacity(view);
        }
    }

    /// Whether nothing is known of any tenant.
    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Counts what was claimed for so many tasks of a tenant: for it and all above it.
    pub(crate) fn claim(&mut self, tenant: &Text, request: &Amounts, tasks: usize) {
        let mut at = Some(tenant.clone());
        for _ in 0..omega_core::limits::TENANT_DEPTH_MAX {
            let Some(name) = at else { return };
            let claimed = self.claimed.entry(name.clone()).or_default();
            for (kind, amount) in request.iter() {
                if claimed.len() <= kind.index() {
                    claimed.resize(kind.index() + 1, 0);
                }
                let more = i64::try_from(amount).unwrap_or(i64::MAX).saturating_mul(tasks as i64);
                claimed[kind.index()] = claimed[kind.index()].saturating_add(more);
            }
            at = self.tenants.get(&name).and_then(|tenant| tenant.standing.parent.clone());
        }
    }

    /// Where a tenant stands among those that wait.
    pub(crate) fn place(&self, tenant: &Text) -> Place {
        let mut place = Place::new();
        let mut at = Some(tenant);
        while let Some(name) = at.filter(|_| place.len() < omega_core::limits::TENANT_DEPTH_MAX) {
            place.push((self.share(name), name.clone()));
            at = self.tenants.get(name).and_then(|tenant| tenant.standing.parent.as_ref());
        }
        place.reverse();
        place
    }

    /// A tenant's dominant share for its weight.
    fn share(&self, name: &Text) -> u64 {
        let known = self.tenants.get(name);
        let weight = known.map_or(1, |tenant| u128::from(tenant.standing.weight));
        let claimed = self.claimed.get(name);
        let of = |(kind, capacity): (usize, &u64)| {
            let used = known.and_then(|tenant| tenant.used.get(kind)).copied().unwrap_or(0);
            let claimed = claimed.and_then(|claimed| claimed.get(kind)).copied().unwrap_or(0);
            let used = u128::from(used.saturating_add(claimed).max(0).cast_unsigned());
            let share = used * WHOLE / (u128::from((*capacity).max(1)) * weight.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        self.capacity.iter().enumerate().map(of).max().unwrap_or(0)
    }
}

/// What all machines of a view have of each kind.
fn capacity(view: &View) -> Vec<u64> {
    let mut sums = vec![0u64; view.kinds().count()];
    for machine in (0..view.rows()).filter_map(|row| view.machine(row)) {
        for (kind, amount) in machine.capacity.iter() {
            sums[kind.index()] = sums[kind.index()].saturating_add(amount);
        }
    }
    sums
}
