//! Why jobs wait, for the web page: what `omega job explain` says, on the cell that is in this process.
//!
//! It explains with the ready-made profiles, because a server does not know the files of its schedulers; the
//! command has `--profile` for that.

use crate::ask::explain::summary;
use omega_bench::report::waiting::render_job;
use omega_bench::run::{AskedJob, explain_at};
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_client::{ApiError, ErrorCode};
use omega_core::{
    Commit, Job, JobId, SchedulerId, TaskState, Text, Transaction, TransactionError, Version,
};
use omega_schedulers::config::Profiles;
use omega_service::{Explained, Explainer, Host};
use std::sync::Arc;

/// Explains by looking at the cell as a scheduler would.
#[derive(Clone, Copy, Debug)]
pub(super) struct BySchedulers;

/// The cell of this process, which is only looked at.
struct Onlooker<'a>(&'a Host);

impl CellHandle for Onlooker<'_> {
    /// No id is asked for: without a commit, none is needed.
    fn register(&self, _: Text) -> Result<(SchedulerId, u64), HandleError> {
        Ok((SchedulerId(u32::MAX), 0))
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.0.read(|cell| cell.delta_since(since, interest, delta));
        Ok(())
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        Err(TransactionError::UnknownScheduler(txn.id.scheduler).into())
    }
}

impl Explainer for BySchedulers {
    fn explain(&self, host: &Host, name: &str) -> Result<Explained, ApiError> {
        let unknown = || ApiError::new(ErrorCode::UnknownJob, format!("there is no job {name:?}"));
        let (id, job, waiting) = find(host, name).ok_or_else(unknown)?;
        let kinds = host.read(|cell| cell.kinds().clone());
        let asked = AskedJob { id, job: &job, waiting };
        let told = explain_at(&Onlooker(host), &kinds, &Profiles::default(), asked);
        let failed = |why: omega_bench::run::RunError| {
            ApiError::new(ErrorCode::Stopped, format!("it cannot be explained: {why}"))
        };
        let told = told.map_err(failed)?;
        Ok(Explained { summary: summary(&told), text: render_job(&told) })
    }
}

/// A job, and how many tasks of each of its groups wait.
fn find(host: &Host, name: &str) -> Option<(JobId, Arc<Job>, Vec<usize>)> {
    host.read(|cell| {
        let id = cell.job_by_name(name)?;
        let job = cell.job(id)?.clone();
        let mut waiting = vec![0; job.groups.len()];
        for (task, state) in cell.tasks(id) {
            let group = cell.task_group(task).and_then(|group| waiting.get_mut(group));
            if let Some(count) = group.filter(|_| state == TaskState::Pending) {
                *count += 1;
            }
        }
        Some((id, job, waiting))
    })
}
