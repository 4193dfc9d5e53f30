//! How much of the cell each tenant has, for its weight: who goes first when tenants take turns.
//!
//! Tenants go by their [dominant shares](crate::dominant): the one that is served worst goes first. In a
//! tree of tenants that is asked level by level, from the top: a branch is served as all tenants in it are
//! together (Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter Workloads", SoCC 2013,
//! without its correction for kinds that a branch has used up).

use crate::dominant::{Share, Sums, Totals, Weight};
use omega_cellstate::View;
use omega_core::limits::TENANT_DEPTH_MAX;
use omega_core::{Amounts, Standing, Text};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Where a tenant stands among those that wait: for each level from the top, the share of the branch for
/// its weight, and the name of the branch, by which those with the same share are told apart. Less goes
/// first.
pub(crate) type Place = SmallVec<[(Share, Text); 2]>;

/// What every tenant has. See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    totals: Totals,
    /// How often machines had come, changed or gone when those were counted.
    counted: Option<u64>,
    tenants: BTreeMap<Text, Known>,
    /// What was claimed for tenants since the cell told what they have.
    claimed: BTreeMap<Text, Sums>,
}

/// A tenant as the cell told of it.
#[derive(Debug)]
struct Known {
    standing: Standing,
    used: Sums,
}

impl Shares {
    /// Takes in what a view's last sync brought.
    pub(crate) fn hear(&mut self, view: &View) {
        let delta = view.delta();
        self.claimed.clear();
        if delta.full {
            self.tenants.clear();
        }
        for tenant in &delta.tenants {
            let used = tenant.used.iter().map(|used| (*used).max(0).cast_unsigned()).collect();
            let known = Known { standing: tenant.standing.clone(), used };
            self.tenants.insert(tenant.name.clone(), known);
        }
        let tally = view.tally();
        let changes = tally.added + tally.changed + tally.removed;
        if delta.full || self.counted != Some(changes) {
            self.counted = Some(changes);
            self.totals = Totals::of(view);
        }
    }

    /// Whether nothing is known of any tenant.
    pub(crate) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Counts what was claimed for so many tasks of a tenant: for it and all above it.
    pub(crate) fn claim(&mut self, tenant: &Text, request: &Amounts, tasks: usize) {
        for (_, name) in self.place(tenant) {
            let claimed = self.claimed.entry(name).or_default();
            for (kind, amount) in request.iter() {
                if claimed.len() <= kind.index() {
                    claimed.resize(kind.index() + 1, 0);
                }
                let more = amount.saturating_mul(tasks as u64);
                claimed[kind.index()] = claimed[kind.index()].saturating_add(more);
            }
        }
    }

    /// Where a tenant stands among those that wait.
    pub(crate) fn place(&self, tenant: &Text) -> Place {
        let above = |name: &&Text| self.tenants.get(*name)?.standing.parent.as_ref();
        let up = std::iter::successors(Some(tenant), above).take(TENANT_DEPTH_MAX);
        let mut place: Place = up.map(|name| (self.share(name), name.clone())).collect();
        place.reverse();
        place
    }

    /// A tenant's dominant share for its weight.
    fn share(&self, name: &Text) -> Share {
        let known = self.tenants.get(name);
        let weight = known.and_then(|known| Weight::new(known.standing.weight));
        let used = known.map(|known| &known.used).into_iter().chain(self.claimed.get(name));
        self.totals.share(used, weight.unwrap_or(Weight::ONE))
    }
}
