//! A view's own claims, from [`View::claim`] to the result of the transaction.
//!
//! A claim is subtracted from the view's free amounts, and added back exactly once: when it is dropped or rejected, or
//! when a sync brings the machine's row that includes it.

use super::columns::Columns;
use super::tenants::TenantRef;
use super::{GroupRef, View};
use crate::demand_profiles::{DemandProfileSums, DemandProfiles};
use crate::facts::Need;
use crate::judge::Grant;
use crate::policy::Placement;
use omega_core::{
    Claim, Commit, ConflictCheck, DeviceSet, Granularity, Job, MachineId, Reason, TaskId,
    Transaction, TransactionId, Version,
};
use std::sync::Arc;

/// A claim without a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    claim: Claim,
    group: GroupRef,
    grant: Grant,
}

/// Submitted claims.
#[derive(Debug)]
pub(super) struct InFlight {
    number: u64,
    claims: Vec<Open>,
}

/// A claim that was accepted at a version that the view has not reached, so the machine's row does not include it yet.
///
/// It does not refer to a compiled group, because the group of a fully placed job is forgotten at once.
#[derive(Debug)]
pub(super) struct Taken {
    version: Version,
    task: TaskId,
    machine: MachineId,
    /// Its job, for its class and run time.
    job: Arc<Job>,
    /// The position of its group in its job.
    group: usize,
    need: Arc<Need>,
    grant: Grant,
    tenant: Option<TenantRef>,
}

impl View {
    /// Claims a part of a machine for a task, in the view; [`View::take_transaction`] submits it.
    ///
    /// # Errors
    /// If the placement check or a tenant's limit rejects it, as the cell would.
    pub fn claim(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
    ) -> Result<(), Reason> {
        let grant = self.judge_machine(machine, group)?;
        if let Some(lack) = self.quota_lack(group) {
            return Err(Reason::QuotaExceeded(lack.kind));
        }
        self.open_claim_for((task, machine, group), grant);
        Ok(())
    }

    /// Claims a part of a machine for a task for which [`View::quota_room`] has found room, without checking limits
    /// again.
    ///
    /// # Errors
    /// If the placement check rejects it, as the cell would.
    pub fn claim_in_quota(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
    ) -> Result<(), Reason> {
        debug_assert!(self.quota_lack(group).is_none(), "there is room within all limits");
        let grant = self.judge_machine(machine, group)?;
        self.open_claim_for((task, machine, group), grant);
        Ok(())
    }

    fn open_claim_for(
        &mut self,
        (task, machine, group): (TaskId, MachineId, GroupRef),
        grant: Grant,
    ) {
        let seen = self.sequences[machine.row()];
        // The cell chooses devices by the same rule. Requesting these devices would only cause conflicts.
        let take = self.compiled(group).take;
        let claim = Claim { take, ..Claim::new(task, machine, seen) };
        let open = Open { claim, group, grant };
        self.count(&open, -1);
        self.open.push(open);
    }

    /// The number of claims that the next [`View::take_transaction`] will contain.
    #[must_use]
    pub fn open_claims(&self) -> usize {
        self.open.len()
    }

    /// An open claim by its position in the order of claiming: its task, machine and group.
    #[must_use]
    pub fn open_claim(&self, index: usize) -> Option<(TaskId, MachineId, GroupRef)> {
        self.open.get(index).map(|open| (open.claim.task, open.claim.machine, open.group))
    }

    /// Drops the last `count` open claims, with their evictions.
    pub fn drop_claims(&mut self, count: usize) {
        for _ in 0..count {
            let Some(open) = self.open.pop() else { return };
            self.drop_open(&open);
        }
    }

    /// Drops the open or held claim of a task, with its evictions. Returns whether there was one.
    pub fn drop_claim(&mut self, task: TaskId) -> bool {
        let open = self.take_open(task).or_else(|| self.held.remove(&task));
        let Some(open) = open else { return false };
        self.drop_open(&open);
        true
    }

    /// Sets the open claim of a task aside: it stays subtracted through every sync, but goes into no transaction until
    /// [`View::resume_claim`]. Returns whether there was one.
    pub fn hold_claim(&mut self, task: TaskId) -> bool {
        let Some(open) = self.take_open(task) else { return false };
        self.held.insert(task, open);
        true
    }

    /// Makes a held claim open again. Returns whether there was one.
    pub fn resume_claim(&mut self, task: TaskId) -> bool {
        let Some(open) = self.held.remove(&task) else { return false };
        self.open.push(open);
        true
    }

    /// The number of held claims.
    #[must_use]
    pub fn held_claims(&self) -> usize {
        self.held.len()
    }

    /// Searched from the newest: the claim to remove was mostly just added.
    fn take_open(&mut self, task: TaskId) -> Option<Open> {
        let index = self.open.iter().rposition(|open| open.claim.task == task)?;
        Some(self.open.remove(index))
    }

    fn drop_open(&mut self, open: &Open) {
        self.count(open, 1);
        self.drop_evictions(open.claim.task);
    }

    /// Moves all open claims into a transaction, incremental and with the resource-fit check; change these settings
    /// before sending it.
    pub fn take_transaction(&mut self) -> Transaction {
        let number = self.next_number;
        self.next_number += 1;
        let spare = self.spare.pop().unwrap_or_default();
        let claims = std::mem::replace(&mut self.open, spare);
        let id = TransactionId { scheduler: self.scheduler, number };
        let (evictions, resizes) = self.submit_evictions(number);
        let txn = Transaction {
            id,
            base: self.version,
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            releases: Vec::new(),
            evictions,
            claims: claims.iter().map(|open| open.claim).collect(),
            resizes,
        };
        self.in_flight.push(InFlight { number, claims });
        txn
    }

    /// Applies the result of a transaction.
    pub fn settle(&mut self, txn: &Transaction, commit: &Commit) {
        let already_seen = commit.version <= self.version;
        let gives_back = |index| already_seen || commit.conflict_of_claim(index).is_some();
        self.end_flight(txn, commit.version, gives_back);
        self.end_evictions(txn, Some(commit));
    }

    /// Drops all claims of a transaction that was not committed.
    pub fn abandon(&mut self, txn: &Transaction) {
        self.end_flight(txn, self.version, |_| true);
        self.end_evictions(txn, None);
    }

    fn end_flight(
        &mut self,
        txn: &Transaction,
        version: Version,
        gives_back: impl Fn(usize) -> bool,
    ) {
        let flight = self.in_flight.iter().position(|flight| flight.number == txn.id.number);
        let Some(flight) = flight.map(|i| self.in_flight.swap_remove(i)) else { return };
        let mut claims = flight.claims;
        for (index, open) in claims.iter().enumerate() {
            match gives_back(index) {
                true => self.count(open, 1),
                false => self.note_taken(open, version),
            }
        }
        claims.clear();
        self.spare.push(claims);
    }

    /// Keeps an accepted claim subtracted until the row of that version arrives.
    fn note_taken(&mut self, open: &Open, version: Version) {
        if let Some(places) = &mut self.job_places {
            places.placed(open.claim.task, open.claim.machine);
        }
        let compiled = self.compiled(open.group);
        let (need, job) = (&compiled.need, compiled.job.clone());
        let Claim { task, machine, .. } = open.claim;
        self.taken.push(Taken {
            version,
            task,
            machine,
            need: need.clone(),
            grant: open.grant,
            tenant: compiled.tenant,
            group: compiled.index,
            job,
        });
    }

    /// The jobs of own claims that the rows do not include yet, with each claim's amounts.
    pub(super) fn own_requests(&self) -> impl Iterator<Item = (&Arc<Job>, &[i64])> {
        let flying = self.in_flight.iter().flat_map(|flight| &flight.claims);
        let unanswered = flying.chain(&self.open).chain(self.held.values()).map(|open| {
            let compiled = self.compiled(open.group);
            (&compiled.job, &compiled.need.request[..])
        });
        unanswered.chain(self.taken.iter().map(|taken| (&taken.job, &taken.need.request[..])))
    }

    /// Adds back all own claims, then their evictions' room: before a sync.
    pub(super) fn give_all_back(&mut self) {
        self.each_unanswered(1);
        self.each_taken(1);
        self.return_victims();
    }

    /// Subtracts all of that again, in the opposite order: after a sync.
    pub(super) fn take_all_again(&mut self) {
        self.lift_victims();
        self.each_taken(-1);
        self.each_unanswered(-1);
    }

    /// Forgets the claims and evictions that the rows of a version include. The rows have them subtracted.
    pub(super) fn forget_taken(&mut self, version: Version) {
        self.forget_taken_evictions(version);
        let departures = &mut self.departures;
        self.taken.retain(|taken| {
            if taken.version <= version
                && let Some(departures) = departures
            {
                departures.remove(taken.machine.row(), taken.task);
            }
            taken.version > version
        });
    }

    /// Adds back every accepted claim that the rows do not include yet (`sign` 1), or subtracts it again (-1).
    fn each_taken(&mut self, sign: i64) {
        let mut taken = std::mem::take(&mut self.taken);
        for taken in &mut taken {
            let row = taken.machine.row();
            // The machine may have been removed since.
            if self.incarnations.get(row) == Some(&taken.machine.incarnation) {
                self.count_taken(taken, row, sign);
            }
        }
        self.taken = taken;
    }

    /// Recomputes which trackers count the tasks of accepted claims.
    pub(super) fn find_matches_of_taken(&mut self) {
        for taken in &mut self.taken {
            let rules = self.facts.find_rules((taken.task.job, &taken.job), taken.group);
            Arc::make_mut(&mut taken.need).rules = rules;
        }
    }

    fn count_taken(&mut self, taken: &mut Taken, row: usize, sign: i64) {
        let Taken { task, job, need, grant, tenant, .. } = taken;
        if let Some(rules) = &need.rules {
            self.facts.rules.count_task(rules, row, -sign as i32, &self.facts.sets);
        }
        let request = &need.request;
        self.tenants.count(*tenant, (request, need.cluster_request.as_deref()), -sign);
        let part = (row, &request[..], need.demand_profiles.as_deref());
        add(&mut self.columns, &mut self.demand_profiles, part, sign);
        self.policies.count(&Placement { row, job, tenant: 0, need, request }, -sign);
        // The cell chooses by the same rule; the row will show its choice.
        if let (Some(request), Some(left)) = (need.devices, self.devices.get_mut(&(row as u32))) {
            if sign > 0 {
                left.give_back(request, grant.devices);
            } else {
                grant.devices = left.choose(request, DeviceSet::default()).unwrap_or_default();
                left.take(request, grant.devices);
            }
        }
        if let Some(request) = need.cores {
            self.cores.change(row, |left| {
                if sign > 0 {
                    left.give_back(&grant.cores);
                } else {
                    grant.cores = left.choose(request).unwrap_or_default();
                    left.take(&grant.cores);
                }
            });
        }
        if let Some(departures) = &mut self.departures {
            let devices = need.devices.map(|request| (request, grant.devices));
            match sign > 0 {
                true => departures.remove(row, *task),
                false => departures.claim((row, *task), (self.now_ms, job), (request, devices)),
            }
        }
    }

    /// Adds back every claim without a result (`sign` 1), or subtracts it again (-1).
    fn each_unanswered(&mut self, sign: i64) {
        if self.open.is_empty() && self.in_flight.is_empty() && self.held.is_empty() {
            return;
        }
        let mut open = std::mem::take(&mut self.open);
        let mut held = std::mem::take(&mut self.held);
        let mut in_flight = std::mem::take(&mut self.in_flight);
        let flying = in_flight.iter_mut().flat_map(|flight| &mut flight.claims);
        for claim in flying.chain(&mut open).chain(held.values_mut()) {
            if sign < 0 {
                claim.grant = self.grant_again(claim);
            }
            self.count(claim, sign);
        }
        self.open = open;
        self.held = held;
        self.in_flight = in_flight;
    }

    /// Chooses devices and cores of a claim without a result again, as the cell will, because others may have taken the
    /// previous ones. Empty if there are too few: then the claim will conflict.
    fn grant_again(&self, open: &Open) -> Grant {
        let need = &self.compiled(open.group).need;
        let row = open.claim.machine.row();
        let devices = need.devices.and_then(|request| {
            self.devices(row).and_then(|devices| devices.choose(request, DeviceSet::default()))
        });
        let cores = need.cores.and_then(|request| self.cores(row)?.choose(request));
        Grant { devices: devices.unwrap_or_default(), cores: cores.unwrap_or_default() }
    }

    fn count(&mut self, open: &Open, sign: i64) {
        let row = open.claim.machine.row();
        // The machine may have been removed since.
        if row >= self.sequences.len() || self.incarnations[row] != open.claim.machine.incarnation {
            return;
        }
        self.count_group((row, sign), open.group, open.grant, None);
        if self.departures.is_some() {
            self.count_departure(open, sign);
        }
    }

    /// Adds the expected departure of a claim's task (`sign` -1), or removes it (1).
    fn count_departure(&mut self, open: &Open, sign: i64) {
        let Claim { task, machine, .. } = open.claim;
        let compiled = self.groups[open.group.0 as usize].as_ref();
        let (Some(departures), Some(compiled)) = (&mut self.departures, compiled) else { return };
        let need = &compiled.need;
        let devices = need.devices.map(|request| (request, open.grant.devices));
        match sign > 0 {
            true => departures.remove(machine.row(), task),
            false => departures.claim(
                (machine.row(), task),
                (self.now_ms, &compiled.job),
                (&need.request, devices),
            ),
        }
    }

    /// Subtracts a task of a group with these devices and cores from a row (`sign` -1), or adds it back (1). `held` is
    /// its allocation, if it differs from the group's request.
    pub(super) fn count_group(
        &mut self,
        (row, sign): (usize, i64),
        group: GroupRef,
        grant: Grant,
        held: Option<&[i64]>,
    ) {
        let compiled = self.groups[group.0 as usize].as_ref();
        let compiled = compiled.expect("a group is used until its job is forgotten");
        let need = &compiled.need;
        if let Some(places) = &mut self.job_places {
            places.add(compiled.id, row as u32, -sign as i32);
        }
        // A resized task has constant amounts all day.
        let demand_profiles = need.demand_profiles.as_deref().filter(|_| held.is_none());
        let request = held.unwrap_or(&need.request);
        let at = Placement { row, job: &compiled.job, tenant: 0, need, request };
        self.policies.count(&at, -sign);
        let part = (row, request, demand_profiles);
        add(&mut self.columns, &mut self.demand_profiles, part, sign);
        self.tenants.count(compiled.tenant, (request, need.cluster_request.as_deref()), -sign);
        if let Some(request) = need.devices_of_placed()
            && let Some(devices) = self.devices.get_mut(&(row as u32))
        {
            match sign < 0 {
                true => devices.take(request, grant.devices),
                false => devices.give_back(request, grant.devices),
            }
        }
        if !grant.cores.is_empty() {
            self.cores.change(row, |left| match sign < 0 {
                true => left.take(&grant.cores),
                false => left.give_back(&grant.cores),
            });
        }
        if let Some(rules) = &need.rules {
            self.facts.rules.count_task(rules, row, -sign as i32, &self.facts.sets);
        }
    }
}

/// Subtracts a claim from a row (`sign` -1), or adds it back (1).
fn add(
    columns: &mut Columns,
    sums: &mut DemandProfileSums,
    (row, request, demand_profiles): (usize, &[i64], Option<&DemandProfiles>),
    sign: i64,
) {
    match demand_profiles {
        None => columns.add(row, request, sign),
        Some(demand_profiles) => {
            columns.add(row, &sums.shift(row, (request, demand_profiles), -sign), sign)
        }
    }
}
