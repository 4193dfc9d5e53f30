//! Accounting of a simulated cell's tenants: dominant shares over time, preferences met, and
//! fragmentation.

use omega_cellstate::Cell;
use omega_core::{Job, Machine, TaskGroup, Text};
use omega_schedulers::dominant::{Totals, Weight};
use omega_workload::fragments::Requests;
use std::collections::BTreeMap;

/// Number of samples of the cell's use per sample of the tenants' shares; samples are a second apart.
const SELDOM: u64 = 60;

/// Allocations of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Got {
    /// The mean of its dominant shares.
    pub share_mean: f64,
    /// The largest of them.
    pub share_peak: f64,
    /// Weights of the machine preferences of its placed tasks.
    pub asked: u64,
    /// Weights of those that were met.
    pub met: u64,
}

/// The accounting. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    looks: u64,
    /// Totals of the cell, until its machines change.
    totals: Option<Totals>,
    /// Figures by tenant; the mean is a sum until it is read.
    tenants: BTreeMap<Text, Got>,
    /// Number of tasks with equal requests.
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

    /// For each kind, the share of the free amount on machines where requesting tasks do not fit.
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
