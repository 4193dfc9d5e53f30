//! Watches of many jobs: what becomes of all whose names begin alike.
//!
//! A stream begins with everything, and each new one does: whoever compares it with what he knew has lost
//! nothing between two streams, and needs to remember no version. The jobs are looked through a few at a
//! time, so that commits go on meanwhile; what changed while that went on is told after it. After that a
//! watch costs what changes in the cell: it keeps no copy of what it has told.

use crate::describe;
use crate::host::Host;
use crate::identity::Caller;
use omega_cellstate::{Cell, Changed};
use omega_client::proto::{JobTasks, WatchJobsResponse};
use omega_client::{ApiError, ErrorCode};
use omega_core::{Job, JobId, TaskId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::Status;

/// How long changes gather: a program waits for them, so less than for people.
const GATHER: Duration = Duration::from_millis(10);

/// Jobs that are looked at under the cell's lock at once: some hundred microseconds.
const LOOK_MAX: usize = 2048;

/// Tasks of one message: well below the longest message, with the jobs' descriptions.
const TASKS_MAX: usize = 1000;

/// Jobs of one message, whose descriptions may be long.
const JOBS_MAX: usize = 100;

/// Messages that wait for a slow reader. What changes meanwhile comes together later.
pub(crate) const MESSAGES_MAX: usize = 4;

/// What a message goes to.
pub(crate) type To = mpsc::Sender<Result<WatchJobsResponse, Status>>;

/// One watch.
pub(crate) struct JobsWatch {
    pub(crate) host: Host,
    pub(crate) caller: Arc<Caller>,
    pub(crate) prefix: String,
    pub(crate) to: To,
}

/// The reader has gone.
struct Gone;

impl JobsWatch {
    /// Tells until nobody listens, or the replica has stopped.
    pub(crate) async fn run(self) {
        let mut versions = self.host.versions();
        let mut since = None;
        loop {
            versions.mark_unchanged();
            let told = match since {
                None => self.tell_all().await.map(Some),
                Some(since) => self.tell_changes(since).await,
            };
            let Ok(reached) = told else { return };
            since = reached;
            if since.is_none() {
                continue;
            }
            tokio::select! {
                changed = versions.changed() => if changed.is_err() {
                    let gone = ApiError::new(ErrorCode::Stopped, "this replica has stopped");
                    let _ = self.to.send(Err(gone.into())).await;
                    return;
                },
                () = self.to.closed() => return,
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    /// Tells of every job. The answer is the version from which on changes are to be told.
    async fn tell_all(&self) -> Result<Version, Gone> {
        let began = self.host.read(Cell::version);
        let mut next = JobId(0);
        let mut is_first = true;
        loop {
            let (jobs, from) = self.host.read(|cell| {
                let mut seen = cell.jobs_from(next).take(LOOK_MAX + 1);
                let page: Vec<(JobId, &Arc<Job>)> = seen.by_ref().take(LOOK_MAX).collect();
                let wanted = page.into_iter().filter(|(_, job)| self.wants(job));
                let jobs = wanted.map(|(id, job)| whole(cell, id, job)).collect::<Vec<_>>();
                (jobs, seen.next().map(|(id, _)| id))
            });
            let is_last = from.is_none();
            if is_first || is_last || !jobs.is_empty() {
                self.send(began, is_first, jobs, !is_last).await?;
                is_first = false;
            }
            match from {
                Some(from) => next = from,
                None => return Ok(began),
            }
        }
    }

    /// Tells of what changed after a version. The answer is the next such version; none where that is too
    /// long ago.
    async fn tell_changes(&self, since: Version) -> Result<Option<Version>, Gone> {
        let looked = self.host.read(|cell| Some((cell.version(), self.changes(cell, since)?)));
        let Some((version, jobs)) = looked else { return Ok(None) };
        if !jobs.is_empty() {
            self.send(version, false, jobs, false).await?;
        }
        Ok(Some(version))
    }

    fn changes(&self, cell: &Cell, since: Version) -> Option<Vec<JobTasks>> {
        let (mut jobs, mut tasks) = (BTreeSet::new(), BTreeSet::<TaskId>::new());
        for changed in cell.changed_since(since)? {
            match changed {
                Changed::Job(id) if self.wants_id(cell, id) => _ = jobs.insert(id),
                Changed::Task(id) if self.wants_id(cell, id.job) => _ = tasks.insert(id),
                _ => {}
            }
        }
        let mut told: BTreeMap<JobId, JobTasks> = BTreeMap::new();
        for id in &jobs {
            told.extend(cell.job(*id).map(|job| (*id, whole(cell, *id, job))));
        }
        for id in tasks.iter().filter(|id| !jobs.contains(&id.job)) {
            let Some(state) = cell.task(*id) else { continue };
            let job = told.entry(id.job);
            let job = job.or_insert_with(|| JobTasks { id: id.job.0, ..JobTasks::default() });
            job.tasks.push(describe::task(cell, *id, state));
        }
        Some(told.into_values().collect())
    }

    fn wants(&self, job: &Job) -> bool {
        job.name.starts_with(&*self.prefix) && self.caller.sees(job)
    }

    fn wants_id(&self, cell: &Cell, id: JobId) -> bool {
        cell.job(id).is_some_and(|job| self.wants(job))
    }

    async fn send(
        &self,
        version: Version,
        whole: bool,
        jobs: Vec<JobTasks>,
        more: bool,
    ) -> Result<(), Gone> {
        let messages = split(jobs);
        let last = messages.len() - 1;
        for (index, jobs) in messages.into_iter().enumerate() {
            let message = WatchJobsResponse {
                version: version.0,
                whole: whole && index == 0,
                jobs,
                more: more || index < last,
            };
            self.to.send(Ok(message)).await.map_err(|_| Gone)?;
        }
        Ok(())
    }
}

/// A job with all its tasks.
fn whole(cell: &Cell, id: JobId, job: &Job) -> JobTasks {
    let tasks = cell.tasks(id).map(|(id, state)| describe::task(cell, id, state)).collect();
    JobTasks { id: id.0, job: Some(job.into()), tasks }
}

/// What goes into each of one or several messages. A job of very many tasks is in several.
fn split(jobs: Vec<JobTasks>) -> Vec<Vec<JobTasks>> {
    let mut messages = vec![Vec::new()];
    let mut room = TASKS_MAX;
    for mut job in jobs {
        loop {
            let is_full = messages.last().is_some_and(|last| last.len() >= JOBS_MAX);
            if room == 0 || is_full {
                messages.push(Vec::new());
                room = TASKS_MAX;
            }
            let rest = job.tasks.split_off(room.min(job.tasks.len()));
            room -= job.tasks.len();
            let id = job.id;
            messages.last_mut().expect("there is one from the beginning").push(job);
            if rest.is_empty() {
                break;
            }
            job = JobTasks { id, job: None, tasks: rest };
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_client::proto::TaskStatus;
    use proptest::prelude::*;

    proptest! {
        /// Nothing is lost, doubled or out of order, and no message is beyond its bounds.
        #[test]
        fn messages_hold_all_in_order(sizes in proptest::collection::vec(0..3000_usize, 0..250)) {
            let task = TaskStatus::default();
            let jobs = sizes.iter().zip(0..).map(|(size, id)| JobTasks {
                id,
                job: Some(omega_client::proto::Job::default()),
                tasks: vec![task.clone(); *size],
            });
            let mut told = vec![0; sizes.len()];
            let mut last = 0;
            for message in split(jobs.collect()) {
                prop_assert!(message.len() <= JOBS_MAX);
                prop_assert!(message.iter().map(|job| job.tasks.len()).sum::<usize>() <= TASKS_MAX);
                for job in message {
                    prop_assert!(job.id >= last);
                    prop_assert_eq!(job.job.is_some(), told[job.id as usize] == 0);
                    last = job.id;
                    told[job.id as usize] += job.tasks.len();
                }
            }
            prop_assert_eq!(told, sizes);
        }
    }
}
