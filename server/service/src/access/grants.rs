//! Permissions that depend on the content of a call: jobs, machines and names.
//!
//! Every item of a transaction is checked. The checks depend on a job's scheduler, tenant and precedence, and on a
//! scheduler's name. These properties never change while the object exists, so a check stays valid until the command is
//! applied, on any replica. If this replica does not have an object, it catches up with the leader once. If the object
//! is still missing, the call is denied.

use crate::access::identity::{Caller, Grant, Role, is_worker_of};
use crate::access::roles::denied;
use crate::host::Host;
use omega_cellstate::Cell;
use omega_client::ApiError;
use omega_core::{HolderId, JobId, MachineId, SchedulerId, TaskId, Transaction};
use std::sync::Arc;
use tokio::time::Instant;
use tonic::Request;

/// Returns the caller of a request, or an error if the request has no caller.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<Arc<Caller>, ApiError> {
    let known = request.extensions().get::<Arc<Caller>>();
    known.cloned().ok_or_else(|| denied("the caller is not identified".to_owned()))
}

/// Checks whether the caller may register under a name.
///
/// # Errors
/// If the name belongs to another scheduler.
pub(crate) fn may_register(caller: &Caller, name: &str) -> Result<(), ApiError> {
    match &caller.role {
        Role::Scheduler(grant) if !grant.is_own(name) => {
            Err(denied(format!("{caller} may not use the name of the scheduler {name:?}")))
        }
        _ => Ok(()),
    }
}

/// Checks whether the caller may revoke the leases of a process.
///
/// # Errors
/// If the process holds a name that is not the caller's own.
pub(crate) fn may_end(caller: &Caller, cell: &Cell, holder: HolderId) -> Result<(), ApiError> {
    let held = cell.schedulers().filter(|state| state.lease.is_some_and(|h| h.holder == holder));
    held.map(|state| state.name).try_for_each(|name| may_register(caller, name))
}

/// Checks whether the caller may register the machine of this name.
///
/// # Errors
/// If the caller is an agent, and the machine is not its own.
pub(crate) fn may_be_machine(caller: &Caller, name: &str) -> Result<(), ApiError> {
    match &caller.role {
        Role::Agent(own) if **own != *name => {
            Err(denied(format!("{caller} may not manage the machine {name:?}")))
        }
        _ => Ok(()),
    }
}

/// Checks whether the caller may manage a machine.
///
/// # Errors
/// If the machine is not the agent's own, or is unknown.
pub(crate) async fn may_report(
    caller: &Caller,
    host: &Host,
    machine: MachineId,
    until: Instant,
) -> Result<(), ApiError> {
    let Role::Agent(_) = &caller.role else { return Ok(()) };
    let look = || {
        host.read(|cell| {
            let machine = cell.machine(machine)?.machine;
            Some(may_be_machine(caller, &machine.name))
        })
    };
    if let Some(known) = look() {
        return known;
    }
    host.refresh(until).await?;
    look().unwrap_or_else(|| Err(denied(format!("{caller} may not manage {machine}"))))
}

/// Checks whether the caller may commit a transaction.
///
/// # Errors
/// If the transaction is another scheduler's, or contains an item that the caller has no right to.
pub(crate) async fn may_commit(
    caller: &Caller,
    host: &Host,
    txn: &Transaction,
    until: Instant,
) -> Result<(), ApiError> {
    let Role::Scheduler(grant) = &caller.role else { return Ok(()) };
    match host.read(|cell| grant.check(cell, txn)) {
        Ok(()) => return Ok(()),
        Err(Refused::No(why)) => return Err(denied(format!("{caller} may not: {why}"))),
        Err(Refused::Unknown(_)) => {}
    }
    host.refresh(until).await?;
    host.read(|cell| grant.check(cell, txn)).map_err(|refused| {
        let (Refused::No(why) | Refused::Unknown(why)) = refused;
        denied(format!("{caller} may not: {why}"))
    })
}

/// Reason why a transaction is denied.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// An object in the transaction is outside of the caller's rights.
    No(String),
    /// This replica does not have an object to which the transaction refers.
    Unknown(String),
}

impl Grant {
    /// Whether a name is the grant's scheduler, or one of its workers.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        *name == *self.scheduler || is_worker_of(name, &self.scheduler)
    }

    /// Checks every item of a transaction.
    fn check(&self, cell: &Cell, txn: &Transaction) -> Result<(), Refused> {
        self.check_scheduler(cell, txn.id.scheduler)?;
        let claimed = txn.claims.iter().map(|claim| claim.task);
        let mut last = None;
        let resized = txn.resizes.iter().map(|resize| resize.task);
        for TaskId { job, .. } in claimed.chain(txn.releases.iter().copied()).chain(resized) {
            // In most transactions all items are about one job, so equal ids are checked once.
            if last != Some(job) {
                self.check_job(cell, job)?;
                last = Some(job);
            }
        }
        txn.evictions.iter().try_for_each(|victim| self.check_victim(cell, victim.job))
    }

    fn check_scheduler(&self, cell: &Cell, id: SchedulerId) -> Result<(), Refused> {
        match cell.scheduler_name(id) {
            None => Err(Refused::Unknown(format!("there is no scheduler {}", id.0))),
            Some(name) if self.is_own(name) => Ok(()),
            Some(name) => {
                Err(Refused::No(format!("the transaction belongs to the scheduler {:?}", &**name)))
            }
        }
    }

    fn check_job(&self, cell: &Cell, id: JobId) -> Result<(), Refused> {
        let Some(job) = known(cell, id)? else { return Ok(()) };
        let no = |why: String| Err(Refused::No(format!("job {:?} {why}", &*job.name)));
        if *job.scheduler != *self.scheduler {
            return no(format!("belongs to the scheduler {:?}", &*job.scheduler));
        }
        if !self.tenants.is_empty() && !self.tenants.iter().any(|own| **own == *job.tenant) {
            return no(format!("belongs to the tenant {:?}", &*job.tenant));
        }
        if job.precedence.0 > self.precedence_max {
            no(format!("has a precedence above {}", self.precedence_max))
        } else {
            Ok(())
        }
    }

    /// Checks the job of an evicted task. The cell itself checks that each eviction is for a claim of higher
    /// precedence. This check rejects only evictions of tasks that no claim of this scheduler could displace.
    fn check_victim(&self, cell: &Cell, id: JobId) -> Result<(), Refused> {
        let Some(job) = known(cell, id)? else { return Ok(()) };
        if job.precedence.0 >= self.precedence_max {
            Err(Refused::No(format!("job {:?} may not be evicted", &*job.name)))
        } else {
            Ok(())
        }
    }
}

/// Returns the job with this id. `None` means that the job has ended; the cell then rejects the item.
fn known(cell: &Cell, id: JobId) -> Result<Option<&Arc<omega_core::Job>>, Refused> {
    match cell.job(id) {
        None if id >= cell.next_job() => Err(Refused::Unknown(format!("there is no job {id}"))),
        job => Ok(job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity;
    use omega_core::{Amounts, Command, Job, Kinds, Outcome, Precedence, Resize, TaskGroup};
    use omega_core::{Claim, Granularity};
    use omega_core::{TransactionId, Version};
    use proptest::prelude::*;

    fn grant(uri: &str) -> Grant {
        match identity::read(uri, "c") {
            Ok(Role::Scheduler(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }

    /// A cell with a job for each combination of a grant's conditions, and two schedulers.
    fn cell() -> Cell {
        let mut cell = Cell::new(Kinds::standard());
        for name in ["web-0", "other"] {
            cell.apply(Command::RegisterScheduler { name: name.into() }).unwrap();
        }
        for i in 0..8_u8 {
            let mut job = Job::batch(format!("j{i}"), TaskGroup::new(4, Amounts::new([1, 1])));
            job.scheduler = if i & 1 == 0 { "web" } else { "other" }.into();
            job.tenant = if i & 2 == 0 { "a" } else { "b" }.into();
            job.precedence = Precedence(if i & 4 == 0 { 5 } else { 50 });
            let outcome = cell.apply(Command::SubmitJob(job)).unwrap();
            assert_eq!(outcome, Outcome::Job(JobId(i.into())));
        }
        cell
    }

    fn txn(scheduler: u32, claims: &[u64], releases: &[u64], evictions: &[u64]) -> Transaction {
        let task = |job: &u64| TaskId { job: JobId(*job), index: 0 };
        let machine = MachineId { slot: 0, incarnation: 0 };
        let claim = |job: &u64| Claim::new(task(job), machine, omega_core::SequenceNumber(0));
        Transaction {
            id: TransactionId { scheduler: SchedulerId(scheduler), number: 0 },
            base: Version(0),
            granularity: Granularity::Incremental,
            check: omega_core::ConflictCheck::ResourceFit,
            releases: releases.iter().map(task).collect(),
            evictions: evictions.iter().map(task).collect(),
            claims: claims.iter().map(claim).collect(),
            resizes: Vec::new(),
        }
    }

    fn resize(job: &u64) -> Resize {
        Resize { task: TaskId { job: JobId(*job), index: 0 }, to: Amounts::zero() }
    }

    proptest! {
        /// A single denied item, at any position of a transaction, denies the transaction.
        #[test]
        fn every_item_is_looked_at(
            scheduler in 0..3_u32,
            claims in proptest::collection::vec(0..9_u64, 0..5),
            releases in proptest::collection::vec(0..9_u64, 0..5),
            evictions in proptest::collection::vec(0..9_u64, 0..5),
            resizes in proptest::collection::vec(0..9_u64, 0..3),
        ) {
            let grant = grant("omega://c/scheduler/web?tenant=a&precedence-max=10");
            let cell = cell();
            // Of the eight jobs, only job 0 is for the scheduler `web`, of tenant `a`, and of a low enough precedence.
            // Job 8 does not exist.
            let own = |job: &u64| *job == 0;
            let low = |job: &u64| *job < 4;
            let expected = scheduler == 0
                && claims.iter().all(own)
                && releases.iter().all(own)
                && resizes.iter().all(own)
                && evictions.iter().all(low);
            let mut txn = txn(scheduler, &claims, &releases, &evictions);
            txn.resizes = resizes.iter().map(resize).collect();
            let allowed = grant.check(&cell, &txn);
            prop_assert_eq!(allowed.is_ok(), expected, "{:?}", allowed);
        }
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_ones_own() {
        let grant = grant("omega://c/scheduler/web");
        let cell = cell();
        let unknown = |txn| matches!(grant.check(&cell, &txn), Err(Refused::Unknown(_)));
        assert!(unknown(txn(9, &[0], &[], &[])));
        assert!(unknown(txn(0, &[8], &[], &[])));
        assert!(unknown(txn(0, &[], &[u64::MAX], &[])));
        assert!(unknown(txn(0, &[], &[], &[8])));
    }
}
