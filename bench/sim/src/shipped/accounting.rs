//! Accounting of a simulated cell's tenants: dominant shares over time, the share of met preferences, and
//! fragmentation.

use omega_cellstate::Cell;
use omega_core::{Job, Machine, TaskGroup, Text};
use omega_schedulers::dominant::{Totals, Weight};
use omega_workload::fragments::Requests;
use std::collections::{BTreeMap, BTreeSet};

/// Dominant shares and met preferences of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TenantUse {
    /// Mean of the tenant's dominant share over time.
    pub share_mean: f64,
    /// Largest dominant share of the tenant.
    pub share_peak: f64,
    /// Sum of the weights of the machine preferences of the tenant's placed tasks.
    pub asked: u64,
    /// Sum of the weights of the preferences that were met.
    pub met: u64,
}

/// Account of a tenant so far.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// Until the accounting is closed, `share_mean` is a sum over seconds.
    used: TenantUse,
    /// Share of the tenant since `since_s`.
    share: f64,
    since_s: f64,
}

/// The accounting. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Accounting {
    now_s: f64,
    /// Tenants whose claims have changed at `now_s`.
    changed: BTreeSet<Text>,
    /// Totals of the cell's resources. After a change of machines, they are computed again, with all shares.
    totals: Option<Totals>,
    tenants: BTreeMap<Text, Account>,
    /// For each distinct request, the number of tasks that have it.
    requests: Requests,
}

impl Account {
    /// Adds the present share for the time since it began.
    fn advance(&mut self, now_s: f64) {
        self.used.share_mean += self.share * (now_s - self.since_s);
        self.since_s = now_s;
    }
}

impl Accounting {
    /// Advances the time. The shares of tenants whose claims have changed are valid from the present time on.
    pub(super) fn pass(&mut self, cell: &Cell, now_s: f64) {
        if self.totals.is_none() {
            self.totals = Some(Totals::of_cell(cell));
            self.changed.extend(cell.tenants().map(|(name, ..)| name.clone()));
        }
        for name in std::mem::take(&mut self.changed) {
            let mut next = Some(name);
            while let Some(name) = next {
                self.share(cell, &name);
                // The claims of a tenant are part of its parent's.
                next = cell.tenant_config(&name).and_then(|config| config.parent.clone());
            }
        }
        self.now_s = now_s;
    }

    /// Notes the share that a tenant has now.
    fn share(&mut self, cell: &Cell, name: &Text) {
        let used = cell.tenant_used(name).unwrap_or_default();
        let used = used.iter().map(|used| (*used).max(0).cast_unsigned()).collect();
        let Some(totals) = &self.totals else { return };
        let share = totals.share([&used], Weight::ONE).fraction();
        let now_s = self.now_s;
        let account = self.account(name);
        account.advance(now_s);
        account.share = share;
        account.used.share_peak = account.used.share_peak.max(share);
    }

    /// Notes that claims of a tenant's tasks have changed.
    pub(super) fn mark_changed(&mut self, tenant: &Text) {
        if !self.changed.contains(tenant) {
            self.changed.insert(tenant.clone());
        }
    }

    /// Counts the requests of a job that arrives.
    pub(super) fn add_job(&mut self, job: &Job) {
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
    pub(super) fn add_preferences(
        &mut self,
        tenant: &Text,
        group: &TaskGroup,
        machine: Option<&Machine>,
    ) {
        let used = &mut self.account(tenant).used;
        for one in &group.rules.affinity.preferred {
            let met = machine.is_some_and(|machine| one.machines.matches(machine));
            used.asked += u64::from(one.weight);
            used.met += if met { u64::from(one.weight) } else { 0 };
        }
    }

    fn account(&mut self, tenant: &Text) -> &mut Account {
        if !self.tenants.contains_key(tenant) {
            let account = Account { since_s: self.now_s, ..Account::default() };
            self.tenants.insert(tenant.clone(), account);
        }
        self.tenants.get_mut(tenant).expect("it is there now")
    }

    /// Returns the accounting of each tenant.
    pub(super) fn close(self) -> BTreeMap<Text, TenantUse> {
        let now_s = self.now_s;
        let seconds = if now_s > 0.0 { now_s } else { 1.0 };
        let mean = |(name, mut account): (Text, Account)| {
            account.advance(now_s);
            let share_mean = account.used.share_mean / seconds;
            (name, TenantUse { share_mean, ..account.used })
        };
        self.tenants.into_iter().map(mean).collect()
    }
}
