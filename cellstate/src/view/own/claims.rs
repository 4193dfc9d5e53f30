//! A view's own claims, from [`View::claim`] to the result of the transaction.
//!
//! A claim is subtracted from the view's free amounts, and added back exactly once: when the claim is dropped or
//! rejected, or when a sync brings its machine's row with the claim in it.

use crate::fit::Grant;
use crate::view::counting::{GroupOnRow, OnRow};
use crate::view::departures::Claimed;
use crate::view::own::claim_list::{Accepted, Open};
use crate::view::{GroupRef, View};
use omega_core::{
    Claim, Commit, ConflictCheck, Granularity, Job, MachineId, Reason, TaskId, Transaction, Version,
};
use std::sync::Arc;

/// A task of a group that is to be placed on a machine.
#[derive(Clone, Copy)]
pub(in crate::view) struct Wish {
    pub(in crate::view) task: TaskId,
    pub(in crate::view) machine: MachineId,
    pub(in crate::view) group: GroupRef,
}

/// A claim that is in no transaction yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenClaim {
    /// Id of the task.
    pub task: TaskId,
    /// The claimed machine.
    pub machine: MachineId,
    /// The task's group, as compiled by the view.
    pub group: GroupRef,
}

/// A claim of a view that the cell's placements do not include yet.
#[derive(Clone, Copy, Debug)]
pub struct OwnClaim<'a> {
    /// Id of the task.
    pub id: TaskId,
    /// The task's job.
    pub job: &'a Arc<Job>,
    /// Position of the task's group in the job.
    pub group: usize,
}

impl View {
    /// Claims a part of a machine for a task. The claim is subtracted from the view. The next
    /// [`View::take_transaction`] puts the claim into a transaction.
    ///
    /// # Errors
    /// The placement check or a tenant's limit rejects the claim, as the cell would.
    pub fn claim(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
    ) -> Result<(), Reason> {
        let grant = self.check_machine_fit(machine, group)?;
        if let Some(lack) = self.quota_lack(group) {
            return Err(Reason::QuotaExceeded(lack.kind));
        }
        self.open_claim_for(Wish { task, machine, group }, grant);
        Ok(())
    }

    /// Claims a part of a machine for a task, without a check of the tenant's limits. The caller must have found room
    /// for the task with [`View::quota_room`].
    ///
    /// # Errors
    /// The placement check rejects the claim, as the cell would.
    pub fn claim_in_quota(
        &mut self,
        task: TaskId,
        machine: MachineId,
        group: GroupRef,
    ) -> Result<(), Reason> {
        debug_assert!(self.quota_lack(group).is_none(), "there is room within all limits");
        let grant = self.check_machine_fit(machine, group)?;
        self.open_claim_for(Wish { task, machine, group }, grant);
        Ok(())
    }

    fn open_claim_for(&mut self, wish: Wish, grant: Grant) {
        let Wish { task, machine, group } = wish;
        let seen = self.rows.sequence(machine.row());
        // The claim names no devices. The cell chooses them by the same rule, and a claim with named devices would
        // conflict more often.
        let take = self.groups.get(group).take;
        let claim = Claim { take, ..Claim::new(task, machine, seen) };
        let open = Open { claim, group, grant };
        self.count(&open, -1);
        self.claims.push(open);
    }

    /// The view's own claims on the machine in a row that [`View::tasks_on`] does not include yet: open, deferred, in
    /// flight, and accepted since the last sync. Visits all own claims.
    pub fn claims_on(&self, row: usize) -> impl Iterator<Item = OwnClaim<'_>> {
        let is_here = move |machine: MachineId| machine.row() == row && self.rows.has(machine);
        let unanswered = self.claims.unanswered().filter(move |open| is_here(open.claim.machine));
        let unanswered = unanswered.map(|open| {
            let compiled = self.groups.get(open.group);
            OwnClaim { id: open.claim.task, job: &compiled.job, group: compiled.index }
        });
        let accepted = self.claims.accepted().iter();
        let accepted = accepted.filter(move |accepted| is_here(accepted.machine));
        unanswered.chain(accepted.map(|accepted| OwnClaim {
            id: accepted.task,
            job: &accepted.job,
            group: accepted.group,
        }))
    }

    /// The number of claims that the next [`View::take_transaction`] will contain.
    #[must_use]
    pub fn open_claims(&self) -> usize {
        self.claims.open().len()
    }

    /// An open claim, by its position in the order of claiming.
    #[must_use]
    pub fn open_claim(&self, index: usize) -> Option<OpenClaim> {
        let Open { claim, group, .. } = *self.claims.open().get(index)?;
        Some(OpenClaim { task: claim.task, machine: claim.machine, group })
    }

    /// Drops the last `count` open claims, with the evictions that make room for them.
    pub fn drop_claims(&mut self, count: usize) {
        for _ in 0..count {
            let Some(open) = self.claims.pop() else { return };
            self.drop_open(&open);
        }
    }

    /// Drops the open or deferred claim of a task, with its evictions. Returns whether the task had one.
    pub fn drop_claim(&mut self, task: TaskId) -> bool {
        let Some(open) = self.claims.remove(task) else { return false };
        self.drop_open(&open);
        true
    }

    /// Defers the open claim of a task. The claim stays subtracted through every sync, but no transaction contains it
    /// until [`View::resume_claim`] is called. Returns whether the task had an open claim.
    pub fn defer_claim(&mut self, task: TaskId) -> bool {
        self.claims.defer(task)
    }

    /// Makes the deferred claim of a task open again. Returns whether the task had a deferred claim.
    pub fn resume_claim(&mut self, task: TaskId) -> bool {
        self.claims.resume(task)
    }

    /// The number of deferred claims.
    #[must_use]
    pub fn deferred_claims(&self) -> usize {
        self.claims.deferred()
    }

    fn drop_open(&mut self, open: &Open) {
        self.count(open, 1);
        self.drop_evictions(open.claim.task);
    }

    /// Moves all open claims into a transaction, which is incremental and uses the resource-fit check. The caller may
    /// change these two settings before it sends the transaction.
    pub fn take_transaction(&mut self) -> Transaction {
        let id = self.session.next_transaction();
        let (evictions, resizes) = self.submit_evictions(id.number);
        Transaction {
            id,
            base: self.session.version(),
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            releases: Vec::new(),
            evictions,
            claims: self.claims.submit(id.number),
            resizes,
        }
    }

    /// Applies the result of a transaction.
    pub fn settle(&mut self, txn: &Transaction, commit: &Commit) {
        let already_seen = commit.version <= self.session.version();
        let gives_back = |index| already_seen || commit.conflict_of_claim(index).is_some();
        self.end_claims(txn, commit.version, gives_back);
        self.end_evictions(txn, Some(commit));
    }

    /// Drops all claims of a transaction that was not committed.
    pub fn abandon(&mut self, txn: &Transaction) {
        self.end_claims(txn, self.session.version(), |_| true);
        self.end_evictions(txn, None);
    }

    fn end_claims(
        &mut self,
        txn: &Transaction,
        version: Version,
        gives_back: impl Fn(usize) -> bool,
    ) {
        let Some(claims) = self.claims.end_in_flight(txn.id.number) else { return };
        for (index, open) in claims.iter().enumerate() {
            if gives_back(index) {
                self.count(open, 1);
            } else {
                self.note_accepted(open, version);
            }
        }
        self.claims.recycle(claims);
    }

    /// Keeps an accepted claim subtracted until a sync brings the machine's row at this version.
    fn note_accepted(&mut self, open: &Open, version: Version) {
        let Claim { task, machine, .. } = open.claim;
        self.indexes.placed(task, machine);
        let compiled = self.groups.get(open.group);
        self.claims.accept(Accepted {
            version,
            task,
            machine,
            need: compiled.need.clone(),
            take: compiled.take,
            grant: open.grant,
            tenant: compiled.tenant,
            group: compiled.index,
            job: compiled.job.clone(),
        });
    }

    /// The view's claims that the cell's rows do not include yet. Each pair is the claim's job and its amounts by kind.
    pub(in crate::view) fn own_requests(&self) -> impl Iterator<Item = (&Arc<Job>, &[i64])> {
        let unanswered = self.claims.unanswered().map(|open| {
            let compiled = self.groups.get(open.group);
            (&compiled.job, &compiled.need.request[..])
        });
        let accepted = self.claims.accepted().iter();
        unanswered.chain(accepted.map(|accepted| (&accepted.job, &accepted.need.request[..])))
    }

    /// Adds back all own claims, and then subtracts the amounts that their evictions free. Called before a sync.
    pub(in crate::view) fn give_all_back(&mut self) {
        self.each_unanswered(1);
        self.each_accepted(1);
        self.return_victims();
    }

    /// Reverts [`View::give_all_back`]: subtracts all own claims again. Called after a sync.
    pub(in crate::view) fn take_all_again(&mut self) {
        self.lift_victims();
        self.each_accepted(-1);
        self.each_unanswered(-1);
    }

    /// Forgets the claims and evictions that the rows of a version include.
    pub(in crate::view) fn forget_accepted(&mut self, version: Version) {
        self.forget_accepted_evictions(version);
        self.claims.forget_accepted(version);
    }

    /// Adds back every accepted claim that the rows do not include yet if `sign` is 1, or subtracts it again if it is
    /// -1.
    fn each_accepted(&mut self, sign: i64) {
        let mut claims = std::mem::take(&mut self.claims);
        for accepted in claims.accepted_mut() {
            // The machine may have been removed since the claim.
            if self.rows.has(accepted.machine) {
                self.count_accepted(accepted, sign);
            }
        }
        self.claims = claims;
    }

    fn count_accepted(&mut self, accepted: &mut Accepted, sign: i64) {
        let row = accepted.machine.row();
        if sign < 0 {
            // The cell chooses devices and cores by the same rule. The delta that includes the commit has the cell's
            // choice in the machine's row.
            accepted.grant = self.rows.choose(row, &accepted.need);
        }
        let Accepted { task, job, need, take, grant, tenant, .. } = &*accepted;
        self.counters()
            .count(&OnRow { row, job, need, tenant: *tenant, grant, allocation: None }, sign);
        let now_ms = self.session.now_ms();
        let Some(departures) = self.indexes.departures_mut() else { return };
        if sign > 0 {
            departures.drop_claim(*task, row);
        } else {
            let devices = need.devices.map(|request| (request, grant.devices));
            let (task, take, request) = (*task, *take, &need.request[..]);
            departures.claim(row, Claimed { task, job, now_ms, take, request, devices });
        }
    }

    /// Adds back every claim without a result if `sign` is 1, or subtracts it again if it is -1.
    fn each_unanswered(&mut self, sign: i64) {
        if self.claims.all_answered() {
            return;
        }
        let mut claims = std::mem::take(&mut self.claims);
        for open in claims.unanswered_mut() {
            if sign < 0 {
                // Devices and cores are chosen again, because other tasks may have taken them since. If too few are
                // left, the claim will conflict.
                let need = &self.groups.get(open.group).need;
                open.grant = self.rows.choose(open.claim.machine.row(), need);
            }
            self.count(open, sign);
        }
        self.claims = claims;
    }

    fn count(&mut self, open: &Open, sign: i64) {
        let Open { claim: Claim { task, machine, .. }, group, grant } = *open;
        // The machine may have been removed since the claim.
        if !self.rows.has(machine) {
            return;
        }
        let row = machine.row();
        self.count_group(GroupOnRow { row, group, grant, allocation: None }, sign);
        let now_ms = self.session.now_ms();
        let Some(departures) = self.indexes.departures_mut() else { return };
        if sign > 0 {
            departures.drop_claim(task, row);
        } else {
            let compiled = self.groups.get(group);
            let devices = compiled.need.devices.map(|request| (request, grant.devices));
            let (job, take, request) = (&compiled.job, compiled.take, &compiled.need.request[..]);
            departures.claim(row, Claimed { task, job, now_ms, take, request, devices });
        }
    }
}
