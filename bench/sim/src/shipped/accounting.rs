//! Accounting of a simulated cell's tenants: dominant shares over time, the share of met preferences, and
//! fragmentation.

use omega_cellstate::Cell;
use omega_core::{Job, Machine, TaskGroup, Text};
use omega_schedulers::dominant::{Totals, Weight};
use omega_workload::fragments::Requests;
use std::collections::BTreeMap;

/// The tenants' shares are sampled with every 60th sample of the cell's use, which is once a minute.
const SELDOM: u64 = 60;

/// Dominant shares and met preferences of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Got {
    /// Mean of the tenant's dominant shares over the samples.
    pub share_mean: f64,
    /// Largest of the tenant's dominant shares.
    pub share_peak: f64,
    /// Sum of the weights of the machine preferences of the tenant's placed tasks.
    pub asked: u64,
    /// Sum of the weights of the preferences that were met.
    pub met: u64,
}

/// The accounting. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    looks: u64,
    /// Totals of the cell's resources, which are computed again after a change of machines.
    totals: Option<Totals>,
    /// Figures by tenant. Until the accounting is closed, `share_mean` is a sum.
    tenants: BTreeMap<Text, Got>,
    /// For each distinct request, the number of tasks that have it.
    requests: Requests,
}

impl Accounting {
    /// Samples the cell's use.
    pub(super) fn look(&mut self, cell: &Cell) {
        let seldom = self.looks.is_multiple_of(SELDOM);
        self.looks += 1;
        if !seldom {
            return;
        }
        let totals = self.totals.get_or_insert_with(|| Totals::of_cell(cell));
        let shares = cell.tenants().map(|(name, _, used)| {
            let used = used.iter().map(|used| (*used).max(0).cast_unsigned()).collect();
            (name, totals.share([&used], Weight::ONE).fraction())
        });
        let shares: Vec<(&Text, f64)> = shares.collect();
        for (name, share) in shares {
            let got = self.of(name);
            got.share_mean += share;
            got.share_peak = got.share_peak.max(share);
        }
    }

    /// Records a job's arrival.
    pub(super) fn came(&mut self, job: &Job) {
        job.groups.iter().for_each(|group| self.requests.note(group));
    }

    /// Returns the fragmentation of each resource kind by name (see [`Requests::fragmented`]).
    pub(super) fn fragmented(&self, cell: &Cell) -> BTreeMap<String, f64> {
        let shares = self.requests.fragmented(cell);
        let kinds = cell.kinds().iter().zip(shares);
        kinds.filter_map(|((_, kind), share)| Some((kind.name.clone(), share?))).collect()
    }

    /// Discards the totals after a change of machines.
    pub(super) fn forget_totals(&mut self) {
        self.totals = None;
    }

    /// Records the preferences of a placed task.
    pub(super) fn placed(&mut self, tenant: &Text, group: &TaskGroup, machine: Option<&Machine>) {
        let got = self.of(tenant);
        for one in &group.rules.affinity.preferred {
            let met = machine.is_some_and(|machine| one.machines.matches(machine));
            got.asked += u64::from(one.weight);
            got.met += if met { u64::from(one.weight) } else { 0 };
        }
    }

    fn of(&mut self, tenant: &Text) -> &mut Got {
        if !self.tenants.contains_key(tenant) {
            self.tenants.insert(tenant.clone(), Got::default());
        }
        self.tenants.get_mut(tenant).expect("it is there now")
    }

    /// Returns the accounting of each tenant.
    pub(super) fn close(self) -> BTreeMap<Text, Got> {
        let taken = self.looks.div_ceil(SELDOM).max(1) as f64;
        let mean =
            |(name, got): (Text, Got)| (name, Got { share_mean: got.share_mean / taken, ..got });
        self.tenants.into_iter().map(mean).collect()
    }
}
