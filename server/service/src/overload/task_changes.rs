//! Limit on the rate at which one caller's changes of jobs begin and end tasks.
//!
//! Every replica and every scheduler handles each of these tasks. The limits of a tenant bound only the tasks that exist
//! at one time, and not those of jobs that are submitted and deleted again and again.

use crate::access::identity::{Caller, Role};
use crate::overload::bucket::Bucket;
use crate::overload::limits::{CALLERS_MAX, Limits, full};
use omega_client::ApiError;
use omega_core::limits::TASKS_PER_JOB_MAX;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Seconds of the rate that a caller may use at once after a pause.
const BURST_SECONDS: u32 = 4;

/// The limit, with the rates of all callers. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct TaskChanges {
    per_second: u32,
    callers: Arc<Mutex<HashMap<Arc<str>, Bucket>>>,
}

impl TaskChanges {
    pub(crate) fn new(limits: &Limits) -> TaskChanges {
        TaskChanges { per_second: limits.task_changes_per_second, callers: Arc::default() }
    }

    /// Counts the tasks that a change begins and ends. A change of any size is allowed unless the caller has exceeded its
    /// rate before. Operators have no limit. More tasks than a job may have count as none, because the cell rejects them
    /// with an error of its own.
    ///
    /// # Errors
    /// If the caller has exceeded its rate.
    pub(crate) fn count(&self, caller: &Caller, tasks: u64) -> Result<(), ApiError> {
        self.count_at(caller, tasks, Instant::now())
    }

    fn count_at(&self, caller: &Caller, tasks: u64, now: Instant) -> Result<(), ApiError> {
        if caller.role == Role::Operator || tasks == 0 || tasks > 2 * u64::from(TASKS_PER_JOB_MAX) {
            return Ok(());
        }
        let mut callers = self.callers.lock();
        if callers.len() >= CALLERS_MAX && !callers.contains_key(&caller.name) {
            callers.retain(|_, bucket| !bucket.is_full(now));
        }
        let burst = self.per_second.saturating_mul(BURST_SECONDS);
        let bucket = callers
            .entry(caller.name.clone())
            .or_insert_with(|| Bucket::new(self.per_second, burst, now));
        bucket.overdraw(tasks as u32, now).map_err(|pause| {
            let why = format!(
                "this caller's changes of jobs begin and end more than {} tasks per second",
                self.per_second
            );
            full(&why, pause)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::Owner;
    use omega_client::ErrorCode;
    use std::time::Duration;

    fn submitter(name: &str) -> Caller {
        let tenants = vec!["default".into()];
        let owner = Owner { name: name.into(), tenants, precedence_max: 0 };
        Caller { name: name.into(), role: Role::Submitter(owner) }
    }

    #[test]
    fn a_caller_waits_for_the_tasks_that_its_last_change_had_too_many() {
        let changes =
            TaskChanges::new(&Limits { task_changes_per_second: 1000, ..Limits::default() });
        let (bob, now) = (submitter("bob"), Instant::now());
        changes.count_at(&bob, 3000, now).unwrap();
        changes.count_at(&bob, 11_000, now).unwrap();
        let refused = changes.count_at(&bob, 1, now).unwrap_err();
        assert_eq!(refused.code, ErrorCode::Limit);
        assert_eq!(refused.retry_after, Some(Duration::from_secs(10)));
        changes.count_at(&bob, 0, now).unwrap();
        changes.count_at(&submitter("eve"), 1, now).unwrap();
        changes.count_at(&Caller::local(), 1, now).unwrap();
        changes.count_at(&bob, 1, now + Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn callers_with_a_refilled_burst_are_forgotten() {
        let changes = TaskChanges::new(&Limits::default());
        let mut now = Instant::now();
        for i in 0..3 * CALLERS_MAX {
            now += Duration::from_secs(1);
            changes.count_at(&submitter(&i.to_string()), 1, now).unwrap();
        }
        assert!(changes.callers.lock().len() <= CALLERS_MAX);
    }
}
