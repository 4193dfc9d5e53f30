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
use omega_cellstate::{Cell, ChangePosition, Changed};
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
const READ_MAX: usize = 2048;

/// Number of unread changes above which a watch starts again with the full state, if that is shorter.
const BACKLOG_MAX: usize = 1 << 16;

/// Size in bytes at which a message is full.
const MESSAGE_BYTES: usize = 64 << 10;

/// One watch.
pub(crate) struct JobsWatch {
    host: Host,
    caller: Arc<Caller>,
    watched: WatchedJobs,
    versions: watch::Receiver<Version>,
    place: Place,
    /// Whether everything has been sent, and the stream waits for changes.
    is_idle: bool,
}

/// The watched jobs.
enum WatchedJobs {
    Prefix(String),
    One(JobId),
}

/// The position of the next message.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the list of all jobs: at the beginning of the stream, or again after too many changes.
    All(Listing),
    /// In the changes after a version.
    Changes(Changes),
    /// After the end of the stream.
    Over,
}

/// Position in the list of all jobs.
#[derive(Clone, Copy, Debug)]
struct Listing {
    /// The cell's version at the beginning of the list.
    began: Version,
    next: Cursor,
    /// Whether no message was sent yet.
    is_first: bool,
    /// Number of jobs and tasks that were read.
    size: usize,
}

/// Position in the changes after a version.
#[derive(Clone, Copy, Debug)]
struct Changes {
    /// The position in the change log after the changes that were sent.
    position: ChangePosition,
    /// Number of jobs and tasks in the last list of all jobs.
    listed: usize,
    /// Whether everything up to the version was sent before. If not, the watch does not start again because of many
    /// changes, or it might never catch up.
    was_current: bool,
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
    update: Option<Update>,
    /// Whether everything up to the cell's version was read.
    is_current: bool,
}

impl Step {
    fn new(cell: &Cell, place: Place, update: Option<Update>) -> Step {
        let is_current = match place {
            Place::Changes(changes) => {
                !changes.is_open && changes.position.since() == cell.version()
            }
            Place::All(_) | Place::Over => false,
        };
        Step { place, update, is_current }
    }
}

/// A message.
struct Update {
    response: WatchJobsResponse,
    /// Whether the message completes the watch of a single job: all its tasks have ended.
    ended: bool,
}

impl JobsWatch {
    /// A watch of all jobs with a name prefix.
    pub(crate) fn of_prefix(host: Host, caller: Arc<Caller>, prefix: String) -> JobsWatch {
        JobsWatch::new(host, caller, WatchedJobs::Prefix(prefix))
    }

    /// A watch of one job, until all its tasks have ended.
    pub(crate) fn of_one(host: Host, caller: Arc<Caller>, job: JobId) -> JobsWatch {
        JobsWatch::new(host, caller, WatchedJobs::One(job))
    }

    fn new(host: Host, caller: Arc<Caller>, watched: WatchedJobs) -> JobsWatch {
        let versions = host.versions();
        let place = host.read(Place::start);
        JobsWatch { host, caller, watched, versions, place, is_idle: false }
    }

    /// The messages of a watch of several jobs.
    pub(crate) fn jobs(self) -> impl Stream<Item = Result<WatchJobsResponse, Status>> {
        self.messages().map(|update| update.map(|update| update.response))
    }

    /// The messages of a watch of one job.
    pub(crate) fn tasks(self) -> impl Stream<Item = Result<WatchJobResponse, Status>> {
        let of_one = |Update { response, ended }: Update| WatchJobResponse {
            version: response.version,
            more: response.more,
            tasks: response.jobs.into_iter().flat_map(|job| job.tasks).collect(),
            ended,
        };
        self.messages().map(move |update| update.map(of_one))
    }

    fn messages(self) -> impl Stream<Item = Result<Update, Status>> {
        stream::unfold(self, |mut watch| async move { Some((watch.next().await?, watch)) })
    }

    /// The next message; `None` after the last one.
    async fn next(&mut self) -> Option<Result<Update, Status>> {
        loop {
            if self.is_idle {
                let changed = tokio::select! {
                    changed = self.versions.changed() => changed.map_err(|_| {
                        ApiError::new(ErrorCode::Stopped, "this replica has stopped")
                    }),
                    outdated = self.host.until_outdated() => Err(outdated),
                };
                if let Err(error) = changed {
                    self.is_idle = false;
                    return self.end(error);
                }
                tokio::time::sleep(GATHER).await;
            }
            self.versions.mark_unchanged();
            let step = self.host.read(|cell| self.step(cell));
            let Step { place, update, is_current } = match step? {
                Ok(step) => step,
                Err(error) => return self.end(error),
            };
            (self.place, self.is_idle) = (place, is_current);
            if let Some(update) = update {
                if update.ended {
                    (self.place, self.is_idle) = (Place::Over, false);
                }
                return Some(Ok(update));
            }
            // Other calls go on, however much is read without a message.
            tokio::task::yield_now().await;
        }
    }

    /// Ends the stream with an error.
    fn end(&mut self, error: ApiError) -> Option<Result<Update, Status>> {
        self.place = Place::Over;
        Some(Err(error.into()))
    }

    /// Returns the next message and position; `None` at the end of the stream.
    fn step(&self, cell: &Cell) -> Option<Result<Step, ApiError>> {
        if let WatchedJobs::One(id) = self.watched
            && !matches!(self.place, Place::Over)
            && cell.job(id).is_none()
        {
            return Some(Err((&Rejection::UnknownJob(id)).into()));
        }
        Some(Ok(match self.place {
            Place::All(listing) => self.all(cell, listing),
            Place::Changes(changes) => self.changes(cell, changes),
            Place::Over => return None,
        }))
    }

    /// Reads jobs from a position on.
    fn all(&self, cell: &Cell, listing: Listing) -> Step {
        let Listing { began, next: from, is_first, mut size } = listing;
        let first = match self.watched {
            WatchedJobs::One(id) => from.job.max(id),
            WatchedJobs::Prefix(_) => from.job,
        };
        let mut page = Page::new(&self.caller);
        let mut next = None;
        for (read_count, (id, job)) in cell.jobs_from(first).enumerate() {
            if matches!(self.watched, WatchedJobs::One(one) if one < id) {
                break;
            }
            if read_count == READ_MAX || page.is_full() {
                next = Some(Cursor { job: id, task: 0 });
                break;
            }
            size += 1;
            if self.is_watched(id, job) {
                let task = if id == from.job { from.task } else { 0 };
                next = page.add_job(cell, Cursor { job: id, task });
                if next.is_some() {
                    break;
                }
            }
        }
        let more = next.is_some();
        let is_sent = is_first || !more || !page.jobs.is_empty();
        size += page.jobs.values().map(|job| job.tasks.len()).sum::<usize>();
        let place = match next {
            Some(next) => Place::All(Listing { began, next, is_first: is_first && !is_sent, size }),
            None => Place::Changes(Changes::after(began, size)),
        };
        let response =
            WatchJobsResponse { version: began.0, whole: is_first, jobs: page.jobs(), more };
        let ended = !more && began == cell.version() && self.has_ended(cell);
        Step::new(cell, place, is_sent.then_some(Update { response, ended }))
    }

    /// Reads changes after a version. If the change log does not reach back that far, or has very many changes, starts
    /// again with all jobs.
    fn changes(&self, cell: &Cell, mut progress: Changes) -> Step {
        let since = progress.position.since();
        let kept = cell.changes_from(progress.position, READ_MAX);
        let Some(mut changed) = kept.filter(|rest| !progress.is_too_long(rest.remaining())) else {
            return Step::new(cell, Place::start(cell), None);
        };
        let mut page = Page::new(&self.caller);
        progress.rest = progress.rest.and_then(|rest| page.add_job(cell, rest));
        while progress.rest.is_none() && !page.is_full() {
            let Some(change) = changed.next() else { break };
            match change {
                Changed::Job(id) if self.is_watched_id(cell, id) => {
                    progress.rest = page.add_job(cell, Cursor { job: id, task: 0 });
                }
                Changed::Task(id) if self.is_watched_id(cell, id.job) => page.add_task(cell, id),
                _ => {}
            }
        }
        progress.position = changed.position();
        let more = progress.rest.is_some() || changed.remaining() > 0;
        let ended = !more && self.has_ended(cell);
        let is_sent = !page.jobs.is_empty() || (!more && (progress.is_open || ended));
        progress.is_open = if is_sent { more } else { progress.is_open };
        let version = if more { since } else { cell.version() };
        if !more {
            progress = Changes { was_current: true, ..Changes::after(version, progress.listed) };
        }
        let place = Place::Changes(progress);
        let response =
            WatchJobsResponse { version: version.0, whole: false, jobs: page.jobs(), more };
        Step::new(cell, place, is_sent.then_some(Update { response, ended }))
    }

    fn has_ended(&self, cell: &Cell) -> bool {
        match self.watched {
            WatchedJobs::One(id) => !cell.is_alive(id) && !cell.is_scaled_to_zero(id),
            WatchedJobs::Prefix(_) => false,
        }
    }

    fn is_watched(&self, id: JobId, job: &Job) -> bool {
        match &self.watched {
            WatchedJobs::Prefix(prefix) => {
                job.name.starts_with(&**prefix) && self.caller.may_see(job)
            }
            WatchedJobs::One(one) => id == *one,
        }
    }

    fn is_watched_id(&self, cell: &Cell, id: JobId) -> bool {
        cell.job(id).is_some_and(|job| self.is_watched(id, job))
    }
}

impl Place {
    fn start(cell: &Cell) -> Place {
        let next = Cursor { job: JobId(0), task: 0 };
        Place::All(Listing { began: cell.version(), next, is_first: true, size: 0 })
    }
}

impl Changes {
    fn after(version: Version, listed: usize) -> Changes {
        let position = ChangePosition::after(version);
        Changes { position, listed, was_current: false, rest: None, is_open: false }
    }

    /// Whether the full state is probably shorter than this number of changes.
    fn is_too_long(&self, remaining: usize) -> bool {
        self.was_current && remaining > BACKLOG_MAX.max(self.listed)
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
        let mut job_tasks = JobTasks { id: id.0, ..JobTasks::default() };
        if from.task == 0 {
            let job = proto::Job::from(&**spec);
            let sees = self.caller.may_see_programs(spec);
            job_tasks.job = Some(if sees { job } else { job.without_programs() });
        }
        self.bytes += job_tasks.encoded_len();
        let mut rest = None;
        for (task, state) in cell.tasks_from(id, from.task) {
            if self.is_full() && task.index > from.task {
                rest = Some(Cursor { job: id, task: task.index });
                break;
            }
            let status = responses::task(cell, task, state);
            self.bytes += status.encoded_len();
            job_tasks.tasks.push(status);
        }
        self.jobs.insert(id, job_tasks);
        rest
    }

    /// Adds a changed task, unless the page already includes it.
    fn add_task(&mut self, cell: &Cell, id: TaskId) {
        let Some(state) = cell.task(id) else { return };
        let job_tasks = self.jobs.entry(id.job);
        let job_tasks =
            job_tasks.or_insert_with(|| JobTasks { id: id.job.0, ..JobTasks::default() });
        if job_tasks.job.is_none() && self.tasks.insert(id) {
            let status = responses::task(cell, id, state);
            self.bytes += status.encoded_len();
            job_tasks.tasks.push(status);
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

    /// A watch that has sent its first state, and then sees all tasks of a large job submitted and killed.
    async fn behind(prefix: &str) -> (JobsWatch, usize) {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        let caller = Arc::new(Caller::local());
        let mut watch = JobsWatch::of_prefix(host.clone(), caller, prefix.to_owned());
        watch.next().await.expect("a message").expect("no error");
        let job = Job::batch("large", TaskGroup::new(250_000, Amounts::new([1])));
        cell.apply(Command::SubmitJob(job)).expect("it is accepted");
        kill(&host, JobId(0)).await;
        let all = ChangePosition::after(Version(0));
        let changes = cell.read(|cell| cell.changes_from(all, 0).map(|rest| rest.remaining()));
        let changes = changes.expect("they are kept");
        assert!(changes > 250_000);
        watch.is_idle = false;
        (watch, changes)
    }

    #[tokio::test]
    async fn changes_of_other_jobs_are_read_once_each_by_many_watches() {
        let (mut watch, changes) = behind("nothing").await;
        for _ in 0..20 {
            // Another watch that has just sent the full state.
            watch.place = Place::Changes(Changes::after(Version(0), 0));
            let mut steps = 0;
            let host = watch.host.clone();
            loop {
                let step = host.read(|cell| watch.step(cell)).expect("it goes on").expect("a step");
                steps += 1;
                assert!(step.update.is_none(), "nothing that is watched has changed");
                watch.place = step.place;
                if step.is_current {
                    break;
                }
            }
            assert_eq!(steps, changes.div_ceil(READ_MAX), "no change is read twice");
        }
    }

    #[tokio::test]
    async fn a_watch_that_reads_much_lets_other_calls_go_on() {
        let (mut watch, _) = behind("nothing").await;
        watch.place = Place::Changes(Changes::after(Version(0), 0));
        {
            let mut next = pin!(watch.next());
            assert!(futures_util::poll!(next.as_mut()).is_pending());
        }
        let Place::Changes(changes) = watch.place else { panic!("{:?}", watch.place) };
        let left = watch
            .host
            .read(|cell| cell.changes_from(changes.position, 0).map(|rest| rest.remaining()));
        assert!(left.expect("they are kept") > 240_000, "one step is read without a pause");
    }

    #[tokio::test]
    async fn after_many_changes_a_current_watch_starts_again_if_that_is_shorter() {
        let (mut watch, _) = behind("nothing").await;
        let current = |listed| Changes { was_current: true, ..Changes::after(Version(0), listed) };
        for (listed, restarts) in [(0, true), (300_000, false)] {
            watch.place = Place::Changes(current(listed));
            let step = watch.host.read(|cell| watch.step(cell)).expect("it goes on");
            let place = step.expect("a step").place;
            assert_eq!(matches!(place, Place::All(_)), restarts, "{place:?}");
        }
        watch.place = Place::Changes(current(0));
        let update = watch.next().await.expect("a message").expect("no error");
        assert!(update.response.whole && update.response.jobs.is_empty());
    }

    #[tokio::test]
    async fn changes_during_the_first_state_follow_it() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let host = Host::memory(cell.clone());
        (0..=READ_MAX).for_each(|number| _ = submit(&cell, &format!("j{number}")));
        let watch = JobsWatch::of_prefix(host.clone(), Arc::new(Caller::local()), "j".to_owned());
        let mut messages = pin!(watch.jobs());
        let first = messages.next().await.expect("a message").expect("no error");
        assert!(first.whole && first.more);
        kill(&host, JobId(0)).await;
        let version = cell.read(Cell::version).0;
        while messages.next().await.expect("a message").expect("no error").version < version {}
    }
}
