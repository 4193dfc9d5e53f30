//! A limit on the number of a tenant's unfinished tasks.
//!
//! Each task costs memory in every replica and every scheduler. So a server accepts a job only while the tenant's
//! tasks, including those in requests that it is handling, stay within the limit. The limit is a setting of the server
//! (`limit-tenant-tasks`) and not part of the cell; quotas limit resources (see `omega quota`).

use crate::host::Host;
use omega_client::{ApiError, ErrorCode};
use omega_core::Text;
use omega_core::limits::TASKS_PER_JOB_MAX;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of tasks, by tenant, that were accepted here and may not be in the state yet.
type UnderWay = Arc<Mutex<BTreeMap<Text, u64>>>;

/// The limit, and the requests in progress. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct TenantTasks {
    max: u64,
    /// Locked during a look-up in the cell, so this lock is taken before the cell's lock.
    under_way: UnderWay,
}

/// Number of tasks reserved for a tenant, until they are in the state or rejected.
#[derive(Debug)]
pub(crate) struct Admitted {
    tenant: Text,
    tasks: u64,
    under_way: UnderWay,
}

impl TenantTasks {
    pub(crate) fn new(max: u32) -> TenantTasks {
        TenantTasks { max: max.into(), under_way: UnderWay::default() }
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
        let mut under_way = self.under_way.lock();
        let has = host.read(|cell| cell.tenant_tasks(tenant));
        let has = has + under_way.get(tenant).copied().unwrap_or(0);
        if tasks > self.max.saturating_sub(has) {
            return Err(ApiError::new(
                ErrorCode::NotAdmitted,
                format!(
                    "tenant {tenant:?} has {has} tasks that have not ended, and {tasks} more \
                     would exceed the maximum of {}: wait until some have ended, kill jobs, or let an operator raise --limit-tenant-tasks of the servers",
                    self.max
                ),
            ));
        }
        *under_way.entry(tenant.clone()).or_default() += tasks;
        Ok(Admitted { tenant: tenant.clone(), tasks, under_way: self.under_way.clone() })
    }
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
        assert!(bound.under_way.lock().is_empty());
    }
}
