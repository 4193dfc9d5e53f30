//! Watches of jobs: changes of one job, or of all jobs with a name prefix.
//!
//! Every stream begins with the full state. A client compares this state with its own, so it misses no change between
//! two streams, and need not remember a version. Jobs are read a few at a time, so that commits go on meanwhile;
//! changes made during that time are sent afterwards. From then on, the cost of a watch depends only on the number of
//! changes.
//!
//! A message is built when the transport asks for it, that is, when the reader has room. Between two messages, a watch
//! stores only its position among the jobs or changes. So a reader that stops reading occupies one message of about
//! [`MESSAGE_BYTES`], regardless of the size of the cell.

use crate::access::identity::Caller;
use crate::calls::responses;
use crate::host::Host;
use futures_util::stream::{self, Stream, StreamExt};
use omega_cellstate::{Cell, Changed};
use omega_client::proto::{self, JobTasks, WatchJobResponse, WatchJobsResponse};
use omega_client::{ApiError, ErrorCode};
use omega_core::{Job, JobId, Rejection, TaskId, Version};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Status;

/// Time for which changes are batched. It is short, because programs wait for the changes.
const GATHER: Duration = Duration::from_millis(10);

/// Maximum number of jobs or changes that are read under one lock of the cell. Reading them takes some hundred
/// microseconds.
const LOOK_MAX: usize = 2048;

/// Size in bytes at which a message is full.
const MESSAGE_BYTES: usize = 64 << 10;

/// One watch.
pub(crate) struct JobsWatch {
    host: Host,
    caller: Arc<Caller>,
    wanted: Wanted,
    versions: watch::Receiver<Version>,
    place: Place,
    /// Whether everything has been sent, and the stream waits for changes.
    is_idle: bool,
}

/// The watched jobs.
enum Wanted {
    Prefix(String),
    One(JobId),
}

/// The position of the next message.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the list of all jobs: at the beginning of the stream, or again after too many changes.
    All { began: Version, next: Cursor, is_first: bool },
    /// In the changes after a version.
    Changes { since: Version, told: Changes },
    /// After the end of the stream.
    Over,
}

/// Position in the changes after a version.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    /// Number of changes already sent.
    count: usize,
    /// Position in the last job, if the job did not fit into one message.
    rest: Option<Cursor>,
    /// Whether the last message announced that more messages follow.
    is_open: bool,
}

/// The first unsent task of a job. If it is the job's first task, the job itself is unsent too.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    job: JobId,
    task: u32,
}

/// The message to send next, if any, and the position after it.
struct Step {
    place: Place,
    told: Option<Told>,
    /// Whether everything up to the cell's version was read.
    is_current: bool,
}

impl Step {
    fn new(cell: &Cell, place: Place, told: Option<Told>) -> Step {
        let is_current = match place {
            Place::Changes { since, told } => !told.is_open && since == cell.version(),
            Place::All { .. } | Place::Over => false,
        };
        Step { place, told, is_current }
    }
}

/// A message.
struct Told {
    response: WatchJobsResponse,
    /// Whether the message completes the watch of a single job: all its tasks have ended.
    ended: bool,
}

impl JobsWatch {
    /// A watch of all jobs with a name prefix.
    pub(crate) fn of_prefix(host: Host, caller: Arc<Caller>, prefix: String) -> JobsWatch {
        JobsWatch::new(host, caller, Wanted::Prefix(prefix))
    }

    /// A watch of one job, until all its tasks have ended.
    pub(crate) fn of_one(host: Host, caller: Arc<Caller>, job: JobId) -> JobsWatch {
        JobsWatch::new(host, caller, Wanted::One(job))
    }

    fn new(host: Host, caller: Arc<Caller>, wanted: Wanted) -> JobsWatch {
        let versions = host.versions();
        let place = host.read(Place::start);
        JobsWatch { host, caller, wanted, versions, place, is_idle: false }
    }

    /// The messages of a watch of several jobs.
    pub(crate) fn jobs(self) -> impl Stream<Item = Result<WatchJobsResponse, Status>> {
        self.messages().map(|told| told.map(|told| told.response))
    }

    /// The messages of a watch of one job.
    pub(crate) fn tasks(self) -> impl Stream<Item = Result<WatchJobResponse, Status>> {
        let of_one = |Told { response, ended }: Told| WatchJobResponse {
            version: response.version,
            more: response.more,
            tasks: response.jobs.into_iter().flat_map(|job| job.tasks).collect(),
            ended,
        };
        self.messages().map(move |told| told.map(of_one))
    }

    fn messages(self) -> impl Stream<Item = Result<Told, Status>> {
        stream::unfold(self, |mut watch| async move { Some((watch.next().await?, watch)) })
    }

    /// The next message; `None` after the last one.
    async fn next(&mut self) -> Option<Result<Told, Status>> {
        loop {
            if self.is_idle {
                if self.versions.changed().await.is_err() {
                    self.is_idle = false;
                    return self.end(ApiError::new(ErrorCode::Stopped, "this replica has stopped"));
                }
                tokio::time::sleep(GATHER).await;
            }
            self.versions.mark_unchanged();
            let step = self.host.read(|cell| self.step(cell));
            let Step { place, told, is_current } = match step? {
                Ok(step) => step,
                Err(error) => return self.end(error),
            };
            (self.place, self.is_idle) = (place, is_current);
            if let Some(told) = told {
                if told.ended {
                    (self.place, self.is_idle) = (Place::Over, false);
                }
                return Some(Ok(told));
            }
        }
    }

    /// Ends the stream with an error.
    fn end(&mut self, error: ApiError) -> Option<Result<Told, Status>> {
        self.place = Place::Over;
        Some(Err(error.into()))
    }

    /// Returns the next message and position; `None` at the end of the stream.
    fn step(&self, cell: &Cell) -> Option<Result<Step, ApiError>> {
        if let Wanted::One(id) = self.wanted
            && !matches!(self.place, Place::Over)
            && cell.job(id).is_none()
        {
            return Some(Err((&Rejection::UnknownJob(id)).into()));
        }
        Some(Ok(match self.place {
            Place::All { began, next, is_first } => self.all(cell, (began, is_first), next),
            Place::Changes { since, told } => self.changes(cell, since, told),
            Place::Over => return None,
        }))
    }

    /// Reads jobs from a position on.
    fn all(&self, cell: &Cell, (began, is_first): (Version, bool), from: Cursor) -> Step {
        let first = match self.wanted {
            Wanted::One(id) => from.job.max(id),
            Wanted::Prefix(_) => from.job,
        };
        let mut page = Page::new(&self.caller);
        let mut next = None;
        for (looked, (id, job)) in cell.jobs_from(first).enumerate() {
            if matches!(self.wanted, Wanted::One(one) if one < id) {
                break;
            }
            if looked == LOOK_MAX || page.is_full() {
                next = Some(Cursor { job: id, task: 0 });
                break;
            }
            if self.is_watched(id, job) {
                let task = if id == from.job { from.task } else { 0 };
                next = page.add_job(cell, Cursor { job: id, task });
                if next.is_some() {
                    break;
                }
            }
        }
        let more = next.is_some();
        let is_told = is_first || !more || !page.jobs.is_empty();
        let place = match next {
            Some(next) => Place::All { began, next, is_first: is_first && !is_told },
            None => Place::Changes { since: began, told: Changes::default() },
        };
        let response =
            WatchJobsResponse { version: began.0, whole: is_first, jobs: page.jobs(), more };
        let ended = !more && began == cell.version() && self.has_ended(cell);
        Step::new(cell, place, is_told.then_some(Told { response, ended }))
    }

    /// Reads changes after a version. If the change log does not reach back that far, starts again with all jobs.
    fn changes(&self, cell: &Cell, since: Version, told: Changes) -> Step {
        let Some(changed) = cell.changed_since(since) else {
            return Step::new(cell, Place::start(cell), None);
        };
        let mut page = Page::new(&self.caller);
        let mut told = told;
        told.rest = told.rest.and_then(|rest| page.add_job(cell, rest));
        let mut changed = changed.skip(told.count).peekable();
        let mut looked = 0;
        while told.rest.is_none() && !page.is_full() && looked < LOOK_MAX {
            let Some(change) = changed.next() else { break };
            told.count += 1;
            looked += 1;
            match change {
                Changed::Job(id) if self.is_watched_id(cell, id) => {
                    told.rest = page.add_job(cell, Cursor { job: id, task: 0 });
                }
                Changed::Task(id) if self.is_watched_id(cell, id.job) => page.add_task(cell, id),
                _ => {}
            }
        }
        let more = told.rest.is_some() || changed.peek().is_some();
        let ended = !more && self.has_ended(cell);
        let is_told = !page.jobs.is_empty() || (!more && (told.is_open || ended));
        told.is_open = more;
        let version = if more { since } else { cell.version() };
        let place = if more {
            Place::Changes { since, told }
        } else {
            Place::Changes { since: version, told: Changes::default() }
        };
        let response =
            WatchJobsResponse { version: version.0, whole: false, jobs: page.jobs(), more };
        Step::new(cell, place, is_told.then_some(Told { response, ended }))
    }

    fn has_ended(&self, cell: &Cell) -> bool {
        match self.wanted {
            Wanted::One(id) => cell.tasks(id).all(|(_, state)| state.ended()),
            Wanted::Prefix(_) => false,
        }
    }

    fn is_watched(&self, id: JobId, job: &Job) -> bool {
        match &self.wanted {
            Wanted::Prefix(prefix) => job.name.starts_with(&**prefix) && self.caller.sees(job),
            Wanted::One(one) => id == *one,
        }
    }

    fn is_watched_id(&self, cell: &Cell, id: JobId) -> bool {
        cell.job(id).is_some_and(|job| self.is_watched(id, job))
    }
}

impl Place {
    fn start(cell: &Cell) -> Place {
        let next = Cursor { job: JobId(0), task: 0 };
        Place::All { began: cell.version(), next, is_first: true }
    }
}

/// A message being built.
struct Page<'a> {
    /// The reader, who may not see the programs of each job.
    caller: &'a Caller,
    jobs: BTreeMap<JobId, JobTasks>,
    /// Tasks of jobs that are in the page only in part.
    tasks: BTreeSet<TaskId>,
    bytes: usize,
}

impl Page<'_> {
    fn new(caller: &Caller) -> Page<'_> {
        Page { caller, jobs: BTreeMap::new(), tasks: BTreeSet::new(), bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.bytes >= MESSAGE_BYTES
    }

    /// Adds a job, beginning with one of its tasks, and replaces single tasks of the job that were added before. Adds
    /// at least one task. If the page fills up before the end of the job, returns the position to continue from.
    fn add_job(&mut self, cell: &Cell, from: Cursor) -> Option<Cursor> {
        let id = from.job;
        let spec = cell.job(id)?;
        let mut told = JobTasks { id: id.0, ..JobTasks::default() };
        if from.task == 0 {
            let job = proto::Job::from(&**spec);
            let sees = self.caller.sees_programs(spec);
            told.job = Some(if sees { job } else { job.without_programs() });
        }
        self.bytes += told.encoded_len();
        let mut rest = None;
        for (task, state) in cell.tasks_from(id, from.task) {
            if self.is_full() && task.index > from.task {
                rest = Some(Cursor { job: id, task: task.index });
                break;
            }
            let status = responses::task(cell, task, state);
            self.bytes += status.encoded_len();
            told.tasks.push(status);
        }
        self.jobs.insert(id, told);
        rest
    }

    /// Adds a changed task, unless the page already includes it.
    fn add_task(&mut self, cell: &Cell, id: TaskId) {
        let Some(state) = cell.task(id) else { return };
        let told = self.jobs.entry(id.job);
        let told = told.or_insert_with(|| JobTasks { id: id.job.0, ..JobTasks::default() });
        if told.job.is_none() && self.tasks.insert(id) {
            let status = responses::task(cell, id, state);
            self.bytes += status.encoded_len();
            told.tasks.push(status);
        }
    }

    fn jobs(self) -> Vec<JobTasks> {
        let mut jobs: Vec<JobTasks> = self.jobs.into_values().collect();
        for job in &mut jobs {
            job.tasks.sort_by_key(|task| task.task.map(|id| id.index));
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_cellstate::SharedCell;
    use omega_core::{Amounts, Command, Kinds, Outcome, TaskGroup};
    use std::pin::pin;

    fn submit(cell: &SharedCell, name: &str) -> JobId {
        let job = Job::batch(name, TaskGroup::new(1, Amounts::new([1])));
        match cell.apply(Command::SubmitJob(job)).expect("it is accepted") {
            Outcome::Job(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Kills a job, and publishes the new version to watches.
    async fn kill(host: &Host, job: JobId) {
        let by = tokio::time::Instant::now() + Duration::from_secs(60);
        host.apply(Command::KillJob { job }, by).await.expect("it is accepted");
    }

    #[tokio::test]
    async fn an_end_before_the_first_message_completes_a_watch() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let job = submit(&cell, "one");
        let watch = JobsWatch::of_one(host.clone(), Arc::new(Caller::local()), job);
        kill(&host, job).await;
        let mut messages = pin!(watch.tasks());
        while !messages.next().await.expect("a message").expect("no error").ended {}
        assert!(messages.next().await.is_none());
    }

    #[tokio::test]
    async fn changes_during_the_first_state_follow_it() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        (0..=LOOK_MAX).for_each(|number| _ = submit(&cell, &format!("j{number}")));
        let watch = JobsWatch::of_prefix(host.clone(), Arc::new(Caller::local()), "j".to_owned());
        let mut messages = pin!(watch.jobs());
        let first = messages.next().await.expect("a message").expect("no error");
        assert!(first.whole && first.more);
        kill(&host, JobId(0)).await;
        let version = cell.read(Cell::version).0;
        while messages.next().await.expect("a message").expect("no error").version < version {}
    }
}
