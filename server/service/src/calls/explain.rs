//! Explanations of pending jobs, outside of the commit path.
//!
//! An explanation needs a scheduler, and this crate contains none. So the program that starts a server passes an
//! [`Explainer`]; without one, the call is rejected. An explanation reads the cell through deltas, like a scheduler, on
//! its own thread. It costs a full delta and processor time, so only a few run at a time.

use crate::calls::refs;
use crate::host::Host;
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{
    Commit, Job, JobId, Kinds, SchedulerId, TaskState, Text, Transaction, TransactionError, Version,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum number of concurrent explanations. Each may use a processor for a second in a large cell; the other
/// processors serve commits.
const EXPLAINED_MAX: usize = 2;

/// Retry delay for a caller who found no free slot: about the time of one explanation.
const PAUSE: Duration = Duration::from_millis(500);

/// Maximum bytes of a profile. The largest sensible profile has some kilobytes.
const PROFILE_BYTES_MAX: usize = 1 << 20;

/// A pending job, and the question asked about it.
#[derive(Clone, Debug)]
pub struct Question {
    /// Id of the job.
    pub id: JobId,
    /// The job.
    pub job: Arc<Job>,
    /// Number of pending tasks of each group of the job; 0 for groups that were not asked about.
    pub waiting: Vec<usize>,
    /// The resource kinds of the cell.
    pub kinds: Kinds,
    /// The text of a profile file; if empty, the built-in profile of the job's scheduler.
    pub profile: String,
}

/// Explains why a job is pending.
pub trait Explainer: Send + Sync + std::fmt::Debug {
    /// Explains a job from the machines of `cell`. Called on a thread that may block, by a few callers at once.
    ///
    /// # Errors
    /// If the profile is invalid, or does not match the cell.
    fn explain(
        &self,
        cell: &Onlooker,
        question: &Question,
    ) -> Result<proto::ExplainJobResponse, ApiError>;

    /// Formats an explanation as text.
    fn words(&self, told: proto::ExplainJobResponse) -> Words;
}

/// Explanation of a pending job, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Summary in one line.
    pub summary: String,
    /// Full text.
    pub text: String,
}

/// A read-only handle of a cell.
#[derive(Debug)]
pub struct Onlooker(Host);

impl CellHandle for Onlooker {
    /// Registers nothing, because the handle never commits. The returned id is not used.
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

/// The explainer of a server, with its slots. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Explanations {
    explainer: Option<Arc<dyn Explainer>>,
    places: Arc<Semaphore>,
    /// Callers with a slot.
    callers: Arc<Mutex<HashSet<Arc<str>>>>,
}

/// A slot, and its caller.
struct Slot {
    _place: OwnedSemaphorePermit,
    /// `None` for the web page, whose explanations are cached.
    caller: Option<Arc<str>>,
    callers: Arc<Mutex<HashSet<Arc<str>>>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(caller) = &self.caller {
            self.callers.lock().remove(caller);
        }
    }
}

impl Explanations {
    pub(crate) fn new(explainer: Option<Arc<dyn Explainer>>) -> Explanations {
        let (places, callers) = (Arc::new(Semaphore::new(EXPLAINED_MAX)), Arc::default());
        Explanations { explainer, places, callers }
    }

    /// Takes a slot. A caller has at most one, so that a single caller leaves slots to others.
    fn slot(&self, caller: Option<&Arc<str>>) -> Result<Slot, ApiError> {
        let full = || {
            let say = "nothing was done: this replica already explains the maximum number of \
                 jobs, or another one for this caller: try again";
            ApiError::new(ErrorCode::Limit, say).retry_after(PAUSE)
        };
        let mut callers = self.callers.lock();
        if caller.is_some_and(|caller| callers.contains(caller)) {
            return Err(full());
        }
        let place = self.places.clone().try_acquire_owned().map_err(|_| full())?;
        callers.extend(caller.cloned());
        Ok(Slot { _place: place, caller: caller.cloned(), callers: self.callers.clone() })
    }

    /// Returns an explanation as text.
    ///
    /// # Errors
    /// As [`Explanations::explain`].
    pub(crate) async fn words(
        &self,
        host: &Host,
        request: proto::ExplainJobRequest,
        until: Instant,
    ) -> Result<Words, ApiError> {
        let told = self.explain(host, None, request, until).await?;
        Ok(self.explainer.as_ref().map(|explainer| explainer.words(told)).unwrap_or_default())
    }

    /// Explains a job with this replica's state.
    ///
    /// # Errors
    /// If the job does not exist, no slot is free, or the time limit passes.
    pub(crate) async fn explain(
        &self,
        host: &Host,
        caller: Option<&Arc<str>>,
        request: proto::ExplainJobRequest,
        until: Instant,
    ) -> Result<proto::ExplainJobResponse, ApiError> {
        let none = || ApiError::new(ErrorCode::NotOffered, "this server does not explain jobs");
        let explainer = self.explainer.clone().ok_or_else(none)?;
        if request.profile.len() > PROFILE_BYTES_MAX {
            let say = format!("profile: must be at most {PROFILE_BYTES_MAX} bytes");
            return Err(ApiError::new(ErrorCode::Malformed, say));
        }
        let slot = self.slot(caller)?;
        let question = question(host, request)?;
        let onlooker = Onlooker(host.clone());
        let explained = tokio::task::spawn_blocking(move || {
            // The slot is kept until the work is done, even if the caller is gone.
            let _slot = slot;
            explainer.explain(&onlooker, &question)
        });
        let late = |_| {
            ApiError::new(
                ErrorCode::Late,
                "the explanation was not ready before the \
                 deadline: set a later deadline",
            )
        };
        let broken = |_| ApiError::new(ErrorCode::Internal, "the explanation failed");
        let mut told = timeout_at(until, explained).await.map_err(late)?.map_err(broken)??;
        told.unattended = told.waiting > 0 && !host.leases().is_held(host, &told.scheduler);
        Ok(told)
    }
}

/// Builds the question from a request and the present state.
fn question(host: &Host, request: proto::ExplainJobRequest) -> Result<Question, ApiError> {
    let proto::ExplainJobRequest { job, group, profile } = request;
    host.read(|cell| {
        let id = refs::any_job(cell, job)?;
        let job = cell.job(id).expect("it was found").clone();
        if !group.is_empty() && !job.groups.iter().any(|known| *known.name == *group) {
            let say = format!("the job {:?} has no group {group:?}", &*job.name);
            return Err(ApiError::new(ErrorCode::UnknownGroup, say));
        }
        let mut waiting = vec![0; job.groups.len()];
        for (task, _) in cell.tasks(id).filter(|(_, state)| *state == TaskState::Pending) {
            let Some(index) = cell.task_group(task) else { continue };
            if group.is_empty() || *job.groups[index].name == *group {
                waiting[index] += 1;
            }
        }
        Ok(Question { id, job, waiting, kinds: cell.kinds().clone(), profile })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_one_slot() {
        let explanations = Explanations::new(None);
        let [one, other, third] = ["one", "other", "third"].map(Arc::from);
        let slot = explanations.slot(Some(&one)).expect("a slot");
        assert!(explanations.slot(Some(&one)).is_err());
        let _others = explanations.slot(Some(&other)).expect("a slot");
        assert!(explanations.slot(Some(&third)).is_err(), "all slots are taken");
        drop(slot);
        assert!(explanations.slot(Some(&one)).is_ok());
        assert!(explanations.slot(None).is_ok());
    }
}
