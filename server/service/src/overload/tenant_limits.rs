//! Limits on the unfinished tasks of a tenant and on the size of its jobs.
//!
//! Tasks and descriptions of jobs cost memory in every replica and every scheduler. So a server accepts a job only while
//! the tenant's tasks and bytes, including those in requests that it is handling, stay within the limits. The controller
//! of updates adds tasks only within the limit, too. The limits are settings of the server (`limit-tenant-tasks`,
//! `limit-tenant-bytes`) and not part of the cell; quotas limit resources (see `omega quota`).

use crate::host::Host;
use crate::overload::in_flight::{TasksInFlight, TenantUse};
use crate::overload::limits::Limits;
use omega_cellstate::TASK_BYTES;
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::{JOB_BYTES_MAX, TASKS_PER_JOB_MAX};
use omega_core::{Job, Text, bytes_at_most};
use std::collections::BTreeMap;

/// The limits. All users of a host share the tasks and bytes that are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantLimits {
    tasks: u64,
    bytes: u64,
}

/// Tasks and bytes reserved for a tenant, until they are in the state or rejected.
#[derive(Debug)]
pub(crate) struct Admitted {
    tenant: Text,
    adds: TenantUse,
    in_flight: TasksInFlight,
}

/// The tasks that a step of a job may add.
#[derive(Debug)]
pub(crate) struct Granted {
    /// Number of the tasks.
    pub(crate) adds: u64,
    /// Reason for which the step may not add all its tasks, if so.
    pub(crate) refused: Option<ApiError>,
    /// The reservation.
    pub(crate) admitted: Admitted,
}

impl TenantUse {
    /// Further tasks of a job that the cell has. More tasks than a job may have count as nothing, because the cell rejects
    /// them with an error of its own.
    pub(crate) fn tasks(tasks: u64) -> TenantUse {
        let tasks = if tasks > u64::from(TASKS_PER_JOB_MAX) { 0 } else { tasks };
        TenantUse { tasks, bytes: tasks * TASK_BYTES }
    }

    /// A further description with this number of further tasks. A description that is too large for any tenant counts as
    /// nothing, for the reason above.
    pub(crate) fn described(job: &Job, tasks: u64) -> TenantUse {
        let bytes = bytes_at_most(job);
        let bytes = if bytes > JOB_BYTES_MAX { 0 } else { bytes as u64 };
        let TenantUse { tasks, bytes: of_tasks } = TenantUse::tasks(tasks);
        TenantUse { tasks, bytes: bytes + of_tasks }
    }
}

impl TenantLimits {
    pub(crate) fn new(limits: &Limits) -> TenantLimits {
        TenantLimits { tasks: limits.tenant_tasks.into(), bytes: limits.tenant_bytes }
    }

    /// Reserves further tasks and bytes of a tenant.
    ///
    /// # Errors
    /// If they would exceed a limit.
    pub(crate) fn admit(
        &self,
        host: &Host,
        tenant: &Text,
        adds: TenantUse,
    ) -> Result<Admitted, ApiError> {
        let mut in_flight = host.tenants_in_flight().lock();
        let has = used(host, &in_flight, tenant);
        if adds.tasks > self.tasks.saturating_sub(has.tasks) {
            return Err(self.too_many_tasks(tenant, has.tasks, adds.tasks));
        }
        if adds.bytes > self.bytes.saturating_sub(has.bytes) {
            return Err(self.too_many_bytes(tenant, has.bytes, adds.bytes));
        }
        in_flight.entry(tenant.clone()).or_default().add(adds);
        drop(in_flight);
        Ok(Admitted { tenant: tenant.clone(), adds, in_flight: host.tenants_in_flight().clone() })
    }

    /// Reserves as many of the tasks that a step adds as the limits allow. For the limit on tasks, the step may always add
    /// as many tasks as it ends. For the limit on bytes it may not, because ended tasks are kept.
    pub(crate) fn grant(&self, host: &Host, tenant: &Text, adds: u64, ends: u64) -> Granted {
        let mut in_flight = host.tenants_in_flight().lock();
        let has = used(host, &in_flight, tenant);
        let by_tasks = adds.min(self.tasks.saturating_sub(has.tasks).saturating_add(ends));
        let granted = by_tasks.min(self.bytes.saturating_sub(has.bytes) / TASK_BYTES);
        let refused = if granted < by_tasks {
            Some(self.too_many_bytes(tenant, has.bytes, by_tasks * TASK_BYTES))
        } else {
            (granted < adds).then(|| self.too_many_tasks(tenant, has.tasks, adds))
        };
        let reserved =
            TenantUse { tasks: granted.saturating_sub(ends), bytes: granted * TASK_BYTES };
        in_flight.entry(tenant.clone()).or_default().add(reserved);
        drop(in_flight);
        let in_flight = host.tenants_in_flight().clone();
        Granted {
            adds: granted,
            refused,
            admitted: Admitted { tenant: tenant.clone(), adds: reserved, in_flight },
        }
    }

    fn too_many_tasks(&self, tenant: &Text, has: u64, tasks: u64) -> ApiError {
        ApiError::new(
            ErrorCode::NotAdmitted,
            format!(
                "tenant {tenant:?} has {has} tasks that have not ended, and {tasks} more would \
                 exceed the maximum of {}: wait until some have ended, kill jobs, or let an \
                 operator raise --limit-tenant-tasks of the servers",
                self.tasks
            ),
        )
    }

    fn too_many_bytes(&self, tenant: &Text, has: u64, bytes: u64) -> ApiError {
        ApiError::new(
            ErrorCode::NotAdmitted,
            format!(
                "jobs of tenant {tenant:?}, including ended ones, have {has} bytes, and {bytes} \
                 more would exceed the maximum of {}: delete ended jobs, or let an operator raise \
                 --limit-tenant-bytes of the servers",
                self.bytes
            ),
        )
    }
}

/// A tenant's use of its limits, in the cell and under way.
fn used(host: &Host, in_flight: &BTreeMap<Text, TenantUse>, tenant: &Text) -> TenantUse {
    let (tasks, bytes) = host.read(|cell| (cell.tenant_tasks(tenant), cell.tenant_bytes(tenant)));
    let mut used = in_flight.get(tenant).copied().unwrap_or_default();
    used.add(TenantUse { tasks, bytes });
    used
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut in_flight = self.in_flight.lock();
        if let Some(used) = in_flight.get_mut(&self.tenant) {
            used.tasks -= self.adds.tasks;
            used.bytes -= self.adds.bytes;
            if *used == TenantUse::default() {
                in_flight.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{Amounts, Command, Job, JobId, Kinds, TaskGroup};

    fn limits(tasks: u32) -> TenantLimits {
        TenantLimits::new(&Limits { tenant_tasks: tasks, ..Limits::default() })
    }

    #[test]
    fn tasks_in_the_cell_and_on_their_way_count() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let (bound, tenant) = (limits(10), Text::from("default"));
        let job = Job::batch("j", TaskGroup::new(6, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        let in_flight = bound.admit(&host, &tenant, TenantUse::tasks(3)).unwrap();
        let refused = bound.admit(&host, &tenant, TenantUse::tasks(2)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotAdmitted);
        assert!(
            refused.message.contains("has 9 tasks that have not ended, and 2 more"),
            "{refused}"
        );
        assert!(bound.admit(&host, &"other".into(), TenantUse::tasks(10)).is_ok());
        drop(in_flight);
        assert!(bound.admit(&host, &tenant, TenantUse::tasks(4)).is_ok());
        cell.apply(Command::KillJob { job: JobId(0) }).unwrap();
        assert!(bound.admit(&host, &tenant, TenantUse::tasks(10)).is_ok());
        assert!(host.tenants_in_flight().lock().is_empty());
    }

    #[test]
    fn a_step_adds_what_is_left_and_as_many_tasks_as_it_ends() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let (bound, tenant) = (limits(10), Text::from("default"));
        let job = Job::service("j", TaskGroup::new(6, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        let grant = |adds, ends| {
            let granted = bound.grant(&host, &tenant, adds, ends);
            (granted.adds, granted.refused.map(|refused| refused.code))
        };
        assert_eq!(grant(4, 0), (4, None));
        assert_eq!(grant(9, 0), (4, Some(ErrorCode::NotAdmitted)));
        assert_eq!(grant(9, 3), (7, Some(ErrorCode::NotAdmitted)));
        let other_job = bound.admit(&host, &tenant, TenantUse::tasks(3)).unwrap();
        assert_eq!(grant(9, 0).0, 1);
        let first = bound.grant(&host, &tenant, 9, 2);
        assert_eq!(first.adds, 3);
        assert!(bound.admit(&host, &tenant, TenantUse::tasks(1)).is_err(), "both are under way");
        assert_eq!((grant(5, 0).0, grant(5, 2).0), (0, 2));
        drop((other_job, first));
        let left = TenantUse::tasks(2).bytes;
        let has = cell.read(|cell| cell.tenant_bytes(&tenant));
        let bound = TenantLimits::new(&Limits { tenant_bytes: has + left, ..Limits::default() });
        let granted = bound.grant(&host, &tenant, 3, 3);
        assert_eq!((granted.adds, granted.refused.is_some()), (2, true), "ended tasks are kept");
        drop(granted);
        assert!(host.tenants_in_flight().lock().is_empty());
    }

    #[test]
    fn bytes_count_until_the_job_is_deleted() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let tenant = Text::from("default");
        let job = Job::batch("j", TaskGroup::new(1, Amounts::new([1])));
        let adds = TenantUse::described(&job, 1);
        assert!(adds.bytes > 0);
        let bound =
            TenantLimits::new(&Limits { tenant_bytes: 2 * adds.bytes, ..Limits::default() });
        cell.apply(Command::SubmitJob(job)).unwrap();
        let in_flight = bound.admit(&host, &tenant, adds).unwrap();
        let refused = bound.admit(&host, &tenant, adds).unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotAdmitted);
        assert!(refused.message.contains("--limit-tenant-bytes"), "{refused}");
        drop(in_flight);
        cell.apply(Command::KillJob { job: JobId(0) }).unwrap();
        let second = bound.admit(&host, &tenant, adds).unwrap();
        assert!(bound.admit(&host, &tenant, adds).is_err(), "the ended job is still kept");
        cell.apply(Command::DeleteJob { job: JobId(0) }).unwrap();
        assert!(bound.admit(&host, &tenant, adds).is_ok());
        drop(second);
        assert!(host.tenants_in_flight().lock().is_empty());
    }
}
