//! A limit on the number of a tenant's unfinished tasks.
//!
//! Each task costs memory in every replica and every scheduler. So a server accepts a job only while the tenant's
//! tasks, including those in requests that it is handling, stay within the limit. The controller of updates adds tasks
//! only within the limit, too. The limit is a setting of the server (`limit-tenant-tasks`) and not part of the cell;
//! quotas limit resources (see `omega quota`).

use crate::host::Host;
use crate::overload::under_way::UnderWay;
use omega_client::{ApiError, ErrorCode};
use omega_core::Text;
use omega_core::limits::TASKS_PER_JOB_MAX;
use std::collections::BTreeMap;

/// The limit. All users of a host share the tasks that are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantTasks {
    max: u64,
}

/// Number of tasks reserved for a tenant, until they are in the state or rejected.
#[derive(Debug)]
pub(crate) struct Admitted {
    tenant: Text,
    tasks: u64,
    under_way: UnderWay,
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

impl TenantTasks {
    pub(crate) fn new(max: u32) -> TenantTasks {
        TenantTasks { max: max.into() }
    }

    /// Reserves a number of further tasks of a tenant.
    ///
    /// # Errors
    /// If the tasks would exceed the limit.
    pub(crate) fn admit(
        &self,
        host: &Host,
        tenant: &Text,
        tasks: u64,
    ) -> Result<Admitted, ApiError> {
        // A job with more tasks than this maximum is too large for any tenant. The cell rejects it with an error of its
        // own, so nothing is reserved here.
        let tasks = if tasks > u64::from(TASKS_PER_JOB_MAX) { 0 } else { tasks };
        let mut under_way = host.tasks_under_way().lock();
        let has = tasks_of(host, &under_way, tenant);
        if tasks > self.max.saturating_sub(has) {
            return Err(self.refusal(tenant, has, tasks));
        }
        *under_way.entry(tenant.clone()).or_default() += tasks;
        drop(under_way);
        Ok(Admitted { tenant: tenant.clone(), tasks, under_way: host.tasks_under_way().clone() })
    }

    /// Reserves as many of the tasks that a step adds as the limit allows. The step may always add as many tasks as it
    /// ends, even for a tenant above the limit.
    pub(crate) fn grant(&self, host: &Host, tenant: &Text, adds: u64, ends: u64) -> Granted {
        let mut under_way = host.tasks_under_way().lock();
        let has = tasks_of(host, &under_way, tenant);
        let granted = adds.min(self.max.saturating_sub(has).saturating_add(ends));
        let refused = (granted < adds).then(|| self.refusal(tenant, has, adds));
        let tasks = granted.saturating_sub(ends);
        *under_way.entry(tenant.clone()).or_default() += tasks;
        drop(under_way);
        let under_way = host.tasks_under_way().clone();
        Granted {
            adds: granted,
            refused,
            admitted: Admitted { tenant: tenant.clone(), tasks, under_way },
        }
    }

    fn refusal(&self, tenant: &Text, has: u64, tasks: u64) -> ApiError {
        ApiError::new(
            ErrorCode::NotAdmitted,
            format!(
                "tenant {tenant:?} has {has} tasks that have not ended, and {tasks} more would \
                 exceed the maximum of {}: wait until some have ended, kill jobs, or let an \
                 operator raise --limit-tenant-tasks of the servers",
                self.max
            ),
        )
    }
}

/// Number of a tenant's tasks, in the cell and under way.
fn tasks_of(host: &Host, under_way: &BTreeMap<Text, u64>, tenant: &Text) -> u64 {
    let in_cell = host.read(|cell| cell.tenant_tasks(tenant));
    in_cell + under_way.get(tenant).copied().unwrap_or(0)
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut under_way = self.under_way.lock();
        if let Some(tasks) = under_way.get_mut(&self.tenant) {
            *tasks -= self.tasks;
            if *tasks == 0 {
                under_way.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{Amounts, Command, Job, JobId, Kinds, TaskGroup};

    #[test]
    fn tasks_in_the_cell_and_on_their_way_count() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let (bound, tenant) = (TenantTasks::new(10), Text::from("default"));
        let job = Job::batch("j", TaskGroup::new(6, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        let under_way = bound.admit(&host, &tenant, 3).unwrap();
        let refused = bound.admit(&host, &tenant, 2).unwrap_err();
        assert_eq!(refused.code, ErrorCode::NotAdmitted);
        assert!(
            refused.message.contains("has 9 tasks that have not ended, and 2 more"),
            "{refused}"
        );
        assert!(bound.admit(&host, &"other".into(), 10).is_ok());
        drop(under_way);
        assert!(bound.admit(&host, &tenant, 4).is_ok());
        cell.apply(Command::KillJob { job: JobId(0) }).unwrap();
        assert!(bound.admit(&host, &tenant, 10).is_ok());
        assert!(host.tasks_under_way().lock().is_empty());
    }

    #[test]
    fn a_step_adds_what_is_left_and_as_many_tasks_as_it_ends() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let (bound, tenant) = (TenantTasks::new(10), Text::from("default"));
        let job = Job::service("j", TaskGroup::new(6, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).unwrap();
        let grant = |adds, ends| {
            let granted = bound.grant(&host, &tenant, adds, ends);
            (granted.adds, granted.refused.map(|refused| refused.code))
        };
        assert_eq!(grant(4, 0), (4, None));
        assert_eq!(grant(9, 0), (4, Some(ErrorCode::NotAdmitted)));
        assert_eq!(grant(9, 3), (7, Some(ErrorCode::NotAdmitted)));
        let other_job = bound.admit(&host, &tenant, 3).unwrap();
        assert_eq!(grant(9, 0).0, 1);
        let first = bound.grant(&host, &tenant, 9, 2);
        assert_eq!(first.adds, 3);
        assert!(bound.admit(&host, &tenant, 1).is_err(), "both are under way");
        assert_eq!((grant(5, 0).0, grant(5, 2).0), (0, 2));
        drop((other_job, first));
        assert!(host.tasks_under_way().lock().is_empty());
    }
}
