//! The lists of a view's own claims: open, deferred, in flight, and accepted.
//!
//! A claim is in one list at a time. The lists only record which claims are subtracted from the view; the view itself
//! subtracts them.

use crate::fit::Grant;
use crate::index::machine_index::{JobGroup, MachineIndex};
use crate::index::need::Need;
use crate::view::GroupRef;
use crate::view::tenants::TenantRef;
use omega_core::{Claim, Job, MachineId, Take, TaskId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A claim without a result.
#[derive(Clone, Copy, Debug)]
pub(in crate::view) struct Open {
    pub(in crate::view) claim: Claim,
    pub(in crate::view) group: GroupRef,
    pub(in crate::view) grant: Grant,
}

/// The claims of a submitted transaction.
#[derive(Debug)]
struct InFlight {
    number: u64,
    claims: Vec<Open>,
}

/// A claim that was accepted at a version that the view has not reached. The machine's row does not include it yet.
///
/// The claim does not refer to a compiled group, because the view drops the groups of a job at once when all its tasks
/// are placed.
#[derive(Debug)]
pub(in crate::view) struct Accepted {
    pub(in crate::view) version: Version,
    pub(in crate::view) task: TaskId,
    pub(in crate::view) machine: MachineId,
    /// The task's job, which gives the kind, tenant and run time.
    pub(in crate::view) job: Arc<Job>,
    /// The position of the task's group in the job.
    pub(in crate::view) group: usize,
    pub(in crate::view) need: Arc<Need>,
    pub(in crate::view) take: Take,
    pub(in crate::view) grant: Grant,
    pub(in crate::view) tenant: Option<TenantRef>,
}

/// The own claims. See the module documentation.
#[derive(Debug, Default)]
pub(in crate::view) struct OwnClaims {
    open: Vec<Open>,
    deferred: BTreeMap<TaskId, Open>,
    in_flight: Vec<InFlight>,
    accepted: Vec<Accepted>,
    /// Empty lists whose memory is reused.
    spare: Vec<Vec<Open>>,
}

impl OwnClaims {
    /// The open claims, in the order of claiming.
    pub(in crate::view) fn open(&self) -> &[Open] {
        &self.open
    }

    /// The number of deferred claims.
    pub(in crate::view) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// Whether the claim of a task is deferred.
    pub(in crate::view) fn is_deferred(&self, task: TaskId) -> bool {
        self.deferred.contains_key(&task)
    }

    /// Adds an open claim.
    pub(in crate::view) fn push(&mut self, open: Open) {
        self.open.push(open);
    }

    /// Removes the last open claim.
    pub(in crate::view) fn pop(&mut self) -> Option<Open> {
        self.open.pop()
    }

    /// Removes the open or deferred claim of a task.
    pub(in crate::view) fn remove(&mut self, task: TaskId) -> Option<Open> {
        self.take_open(task).or_else(|| self.deferred.remove(&task))
    }

    /// Removes an open claim. Searches from the newest one, because the claim was usually just added.
    fn take_open(&mut self, task: TaskId) -> Option<Open> {
        let index = self.open.iter().rposition(|open| open.claim.task == task)?;
        Some(self.open.remove(index))
    }

    /// Defers the open claim of a task. Returns whether the task had an open claim.
    pub(in crate::view) fn defer(&mut self, task: TaskId) -> bool {
        let open = self.take_open(task);
        self.deferred.extend(open.map(|open| (task, open)));
        open.is_some()
    }

    /// Makes the deferred claim of a task open again. Returns whether the task had a deferred claim.
    pub(in crate::view) fn resume(&mut self, task: TaskId) -> bool {
        let deferred = self.deferred.remove(&task);
        self.open.extend(deferred);
        deferred.is_some()
    }

    /// Moves the open claims into the transaction with this number, and returns them.
    pub(in crate::view) fn submit(&mut self, number: u64) -> Vec<Claim> {
        let spare = self.spare.pop().unwrap_or_default();
        let claims = std::mem::replace(&mut self.open, spare);
        let submitted = claims.iter().map(|open| open.claim).collect();
        self.in_flight.push(InFlight { number, claims });
        submitted
    }

    /// Removes the claims of a transaction whose result has arrived. The caller passes the list to
    /// [`OwnClaims::recycle`] afterwards.
    pub(in crate::view) fn end_in_flight(&mut self, number: u64) -> Option<Vec<Open>> {
        let index = self.in_flight.iter().position(|one| one.number == number)?;
        Some(self.in_flight.swap_remove(index).claims)
    }

    /// Takes the memory of a list for reuse.
    pub(in crate::view) fn recycle(&mut self, mut claims: Vec<Open>) {
        claims.clear();
        self.spare.push(claims);
    }

    /// Adds an accepted claim.
    pub(in crate::view) fn accept(&mut self, accepted: Accepted) {
        self.accepted.push(accepted);
    }

    /// Whether every claim has a result.
    pub(in crate::view) fn all_answered(&self) -> bool {
        self.open.is_empty() && self.in_flight.is_empty() && self.deferred.is_empty()
    }

    /// The claims without a result.
    pub(in crate::view) fn unanswered(&self) -> impl Iterator<Item = &Open> {
        let in_flight = self.in_flight.iter().flat_map(|one| &one.claims);
        in_flight.chain(&self.open).chain(self.deferred.values())
    }

    /// The claims without a result, mutable because their devices and cores are chosen again.
    pub(in crate::view) fn unanswered_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        let in_flight = self.in_flight.iter_mut().flat_map(|one| &mut one.claims);
        in_flight.chain(&mut self.open).chain(self.deferred.values_mut())
    }

    /// The accepted claims that the rows do not include yet.
    pub(in crate::view) fn accepted(&self) -> &[Accepted] {
        &self.accepted
    }

    /// The accepted claims, mutable because their devices and cores are chosen again.
    pub(in crate::view) fn accepted_mut(&mut self) -> &mut [Accepted] {
        &mut self.accepted
    }

    /// Removes each accepted claim that the rows of a version include.
    pub(in crate::view) fn forget_accepted(&mut self, version: Version) {
        self.accepted.retain(|accepted| accepted.version > version);
    }

    /// Looks up again which trackers count the tasks of accepted claims.
    pub(in crate::view) fn match_rules(&mut self, machine_index: &mut MachineIndex) {
        for accepted in &mut self.accepted {
            let Accepted { task, ref job, group: index, .. } = *accepted;
            let rules = machine_index.find_rules(JobGroup { id: task.job, job, index });
            Arc::make_mut(&mut accepted.need).rules = rules;
        }
    }
}
