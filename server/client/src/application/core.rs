//! The core of an application: a state machine that does no I/O. It records the states of the application's containers,
//! and decides which calls to make. Its inputs are the time, the user's requests, and the cell's events and replies.
//! Its outputs are calls and callbacks.
//!
//! **Created once.** A container keeps its job name, so a repeated call finds the result of the first one. A call with
//! an unknown outcome is repeated until the outcome is known, even if the container was released meanwhile. Otherwise,
//! it would be uncertain whether the container has ended. If a name is reused after its container's end, the new
//! container gets the job name `APPLICATION.NAME#2`, because the cell may still have the old job.
//!
//! **Reported once.** A change is a difference from the recorded state. A stream begins with the full state of all
//! jobs. If a container's job is missing there, the container is lost in two cases: the core had the job's id before it
//! opened the stream, or the stream has already reported the job. In all other cases, the stream's state may be older
//! than the reply to the container's creation.
//!
//! Invariant: no recorded container has ended, and each has at most one call in flight.

use super::task_state::{TaskState, changes, container, job_name, machine, task_state};
use super::types::{
    ApplicationSettings, Change, Completed, ContainerSpec, ContainerState, Ended, Event, Recover,
};
use crate::proto;
use crate::{ApiError, ErrorCode};
use omega_core::{Job, Text, Version};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Delay before an unanswered call is repeated, in milliseconds. It is a tenth of an election, and is doubled each
/// time, up to sixteen times the initial delay.
const RETRY_MS: u64 = 50;
const RETRY_DOUBLINGS_MAX: u32 = 4;

/// Time in milliseconds after which an accepted container that is missing from the stream is looked up. A container is
/// missing for so long only if the cell already had an ended job of the same name. Such a job belongs to a former
/// process whose containers were not recovered.
const LOOKUP_MS: u64 = 1000;

/// Number of names of ended containers that are remembered. If a remembered name is reused, the container gets a new
/// job. If the name is not remembered and the cell still has the ended job, the container gets the old result.
const ENDED_MAX: usize = 100_000;

/// A call to the cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// Number of the call, which the reply repeats.
    pub(super) number: u64,
    /// Name of the container.
    pub(super) name: Text,
    /// The request that is made.
    pub(super) request: Request,
}

/// Request of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// Submit the job.
    Submit(Arc<Job>),
    /// Kill the job with this id.
    Kill(u64),
    /// Look up the state of the task of the job with this id.
    LookUp(u64),
}

/// Reply to a call.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// The job has this id.
    Submitted(u64),
    /// The job is killed, if it exists.
    Killed,
    /// The task has this status, at this version of the cell.
    Status(Version, Box<proto::TaskStatus>),
}

/// A container of a former process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) name: Text,
    pub(super) state: ContainerState,
}

/// A container that has not ended.
#[derive(Debug)]
struct Record {
    job: Arc<Job>,
    attempt: u32,
    id: Option<u64>,
    state: ContainerState,
    machine: Option<Text>,
    is_released: bool,
    /// Whether this is a container of a former process that must end, without callbacks, before the registration
    /// returns.
    is_dropped: bool,
    /// Number of temporary failures of the present call.
    tries: u32,
    /// Number of the call in flight, if there is one.
    call: Option<u64>,
    /// Time of the next call, if a call is planned.
    due: Option<u64>,
    /// Whether the stream or a look-up has shown that the cell has the container.
    is_confirmed: bool,
    /// Whether the present stream has reported the container.
    in_stream: bool,
    /// Whether the first state of the present stream must contain the container.
    is_expected: bool,
    /// Version of the last report about the container on the present stream.
    version: Version,
}

/// A job of a former process that has a container, with the state of its task or its container.
#[derive(Debug)]
struct Previous<State> {
    attempt: u32,
    id: u64,
    job: Arc<Job>,
    state: State,
}

/// A full state that is being received in parts.
#[derive(Debug, Default)]
struct Whole {
    expected: BTreeSet<u64>,
    reported: BTreeSet<u64>,
}

/// The core. See the module documentation.
#[derive(Debug)]
pub(super) struct Core {
    settings: ApplicationSettings,
    recover: Recover,
    /// Containers of a former process by name; `None` once the full state was received.
    left: Option<BTreeMap<Text, Previous<TaskState>>>,
    records: BTreeMap<Text, Record>,
    /// Number of containers of a former process that must end before the registration returns.
    dropped: usize,
    ids: BTreeMap<u64, Text>,
    due: BTreeSet<(u64, Text)>,
    /// Names of containers that have ended, oldest first. `attempts` has the number of uses of each.
    ended: VecDeque<Text>,
    attempts: BTreeMap<Text, u32>,
    whole: Option<Whole>,
    calls: usize,
    next_call: u64,
    version: Version,
    events: Vec<Event>,
}

impl Core {
    pub(super) fn new(settings: ApplicationSettings, recover: Recover) -> Core {
        Core {
            settings,
            recover,
            left: Some(BTreeMap::new()),
            records: BTreeMap::new(),
            dropped: 0,
            ids: BTreeMap::new(),
            due: BTreeSet::new(),
            ended: VecDeque::new(),
            attempts: BTreeMap::new(),
            whole: None,
            calls: 0,
            next_call: 0,
            version: Version(0),
            events: Vec::new(),
        }
    }

    /// The application's name.
    pub(super) fn name(&self) -> &Text {
        &self.settings.name
    }

    /// Whether the containers of a former process are known. With `Recover::Drop`, they must also have ended.
    pub(super) fn is_recovered(&self) -> bool {
        self.left.is_none() && self.dropped == 0
    }

    /// Takes the changes since the last call.
    pub(super) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Requests a container.
    pub(super) fn create(
        &mut self,
        name: &Text,
        spec: &ContainerSpec,
        now_ms: u64,
    ) -> Result<(), ApiError> {
        let refuse = |code, why: String| Err(ApiError::new(code, why));
        if name.is_empty() || name.contains('#') {
            return refuse(
                ErrorCode::BadName,
                format!("{name:?} is a container's name: it must not be empty or contain #"),
            );
        }
        if self.records.contains_key(name) {
            return refuse(
                ErrorCode::NameTaken,
                format!(
                    "the container {name:?} still exists: \
                 release it first, or choose another name"
                ),
            );
        }
        let max = self.settings.containers_max;
        if self.records.len() >= max {
            return refuse(
                ErrorCode::TooMany,
                format!(
                    "the application has {max} containers, the \
                 maximum: release some first"
                ),
            );
        }
        let attempt = self.attempts.get(name).map_or(1, |last| last + 1);
        let job = spec.job(job_name(&self.settings.name, name, attempt), &self.settings);
        let record = Record::new(Arc::new(job), attempt);
        self.records.insert(name.clone(), record);
        self.plan(name, now_ms);
        Ok(())
    }

    /// Releases a container, so that it ends.
    pub(super) fn release(&mut self, name: &Text, now_ms: u64) {
        let Some(record) = self.records.get_mut(name) else { return };
        if std::mem::replace(&mut record.is_released, true) {
            return;
        }
        // An unknown outcome of the creation must be resolved before the container can end (see the module
        // documentation).
        self.plan(name, now_ms);
    }

    /// Takes the calls that must be made now.
    pub(super) fn calls(&mut self, now_ms: u64) -> Vec<Call> {
        let mut made = Vec::new();
        while self.calls < self.settings.calls_max {
            let Some((at, name)) = self.due.first().cloned() else { break };
            if at > now_ms {
                break;
            }
            self.due.pop_first();
            let Some(record) = self.records.get_mut(&name) else { continue };
            record.due = None;
            let Some(request) = record.next_request() else { continue };
            let number = self.next_call;
            self.next_call += 1;
            self.calls += 1;
            record.call = Some(number);
            made.push(Call { number, name, request });
        }
        made
    }

    /// Time of the next call; `None` while the maximum number of calls is in flight.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let (at, _) = self.due.first()?;
        (self.calls < self.settings.calls_max).then_some(*at)
    }

    /// Handles the reply to a call.
    pub(super) fn on_reply(&mut self, call: &Call, reply: Result<Reply, ApiError>, now_ms: u64) {
        self.calls -= 1;
        let name = &call.name;
        let Some(record) = self.records.get_mut(name) else { return };
        if record.call != Some(call.number) {
            return;
        }
        record.call = None;
        let unsure = |error: &ApiError| {
            error.is_temporary()
                || matches!(error.code, ErrorCode::OutcomeUnknown | ErrorCode::Late)
        };
        match reply {
            Ok(Reply::Submitted(id)) => {
                record.id.get_or_insert(id);
                self.ids.insert(id, name.clone());
            }
            Ok(Reply::Killed) => {}
            Ok(Reply::Status(version, task)) if !record.is_confirmed => {
                let Some(state) = task_state(&task) else {
                    return self.plan(name, now_ms + LOOKUP_MS);
                };
                self.update_state(name, version, state);
            }
            Ok(Reply::Status(..)) => {}
            Err(error) if unsure(&error) => {
                let wait_ms = RETRY_MS << record.tries.min(RETRY_DOUBLINGS_MAX);
                record.tries += 1;
                let retry_after_ms = error.retry_after.map_or(0, |pause| pause.as_millis() as u64);
                return self.plan(name, now_ms + wait_ms.max(retry_after_ms));
            }
            Err(error) => return self.failed(name, &call.request, error, now_ms),
        }
        let Some(record) = self.records.get_mut(name) else { return };
        record.tries = 0;
        match record.next_request() {
            // The look-up is planned late, because the stream will probably report the container earlier.
            Some(Request::LookUp(_)) => self.plan(name, now_ms + LOOKUP_MS),
            Some(Request::Kill(_)) if matches!(call.request, Request::Kill(_)) => {
                self.plan(name, now_ms + LOOKUP_MS)
            }
            Some(_) => self.plan(name, now_ms),
            None => {}
        }
    }

    /// Handles a final error of a call.
    fn failed(&mut self, name: &Text, request: &Request, error: ApiError, now_ms: u64) {
        match request {
            Request::Submit(_) => {
                // If the stream has reported the container meanwhile, it was created nevertheless.
                if self.records.get(name).is_some_and(|record| record.id.is_none()) {
                    self.end(name, Ended::Refused(error));
                }
            }
            Request::Kill(_) | Request::LookUp(_) if error.code == ErrorCode::UnknownJob => {
                let is_released = self.records.get(name).is_some_and(|record| record.is_released);
                self.end(name, if is_released { Ended::Released } else { Ended::Lost });
            }
            Request::Kill(_) if self.records.get(name).is_some_and(|record| record.is_dropped) => {
                self.plan(name, now_ms + LOOKUP_MS);
            }
            Request::Kill(_) => {
                if let Some(record) = self.records.get_mut(name) {
                    record.is_released = false;
                }
                self.emit(name, Change::NotReleased(error));
            }
            Request::LookUp(_) => self.plan(name, now_ms + LOOKUP_MS),
        }
    }

    /// Prepares for a new stream, whose first state is at least as new as all replies received so far.
    pub(super) fn open(&mut self) {
        self.whole = None;
        if let Some(left) = &mut self.left {
            left.clear();
        }
        for record in self.records.values_mut() {
            record.is_expected = record.id.is_some();
            record.in_stream = false;
            record.version = Version(0);
        }
    }

    /// Handles a message of the stream. Returns the containers of a former process when the first full state is
    /// complete, otherwise `None`.
    pub(super) fn handle_update(
        &mut self,
        update: proto::WatchJobsResponse,
        now_ms: u64,
    ) -> Option<Vec<Found>> {
        let version = Version(update.version);
        self.version = version;
        if update.whole {
            let is_expected = |record: &&Record| record.is_expected || record.in_stream;
            let expected = self.records.values().filter(is_expected).filter_map(|record| record.id);
            self.whole = Some(Whole { expected: expected.collect(), ..Whole::default() });
        }
        for job in update.jobs {
            if let Some(whole) = &mut self.whole {
                whole.reported.insert(job.id);
            }
            self.handle_job(job, version, now_ms);
        }
        if update.more {
            return None;
        }
        if let Some(whole) = self.whole.take() {
            for id in whole.expected.difference(&whole.reported) {
                if let Some(name) = self.ids.get(id).cloned() {
                    let is_released = self.records.get(&name).is_some_and(|one| one.is_released);
                    self.end(&name, if is_released { Ended::Released } else { Ended::Lost });
                }
            }
            self.records.values_mut().for_each(|record| record.is_expected = false);
            return self.left.take().map(|left| self.recovered(left, now_ms));
        }
        None
    }

    fn handle_job(&mut self, job: proto::JobTasks, version: Version, now_ms: u64) {
        // Each container's job has one task. A job with any other number of tasks belongs to no container.
        let state = match &job.tasks[..] {
            [task] => task_state(task),
            _ => None,
        };
        let Some(state) = state else { return };
        let spec = job.job.and_then(|job| Job::try_from(job).ok());
        let named = spec.as_ref().and_then(|spec| container(&self.settings.name, &spec.name));
        if let Some(left) = &mut self.left {
            return record_previous(left, job.id, named, spec, state);
        }
        let name = match (self.ids.get(&job.id), named) {
            (Some(name), _) => name.clone(),
            (None, Some((name, attempt))) => {
                let Some(record) = self.records.get_mut(&name) else {
                    let Some(spec) = spec else { return };
                    let late = Previous { attempt, id: job.id, job: Arc::new(spec), state };
                    return self.recover_late(&name, late, now_ms);
                };
                if record.attempt != attempt {
                    return;
                }
                // The stream has reported the job before the reply to the call, or the reply was lost.
                record.id = Some(job.id);
                self.ids.insert(job.id, name.clone());
                name
            }
            (None, None) => return,
        };
        let Some(record) = self.records.get_mut(&name) else { return };
        record.in_stream = true;
        self.update_state(&name, version, state);
        self.plan(&name, now_ms);
    }

    /// Takes over the containers of a former process.
    fn recovered(&mut self, left: BTreeMap<Text, Previous<TaskState>>, now_ms: u64) -> Vec<Found> {
        let mut found = Vec::new();
        for (name, Previous { attempt, id, job, state: task }) in left {
            let state = match task {
                TaskState::Ended(ended) => {
                    self.remember(&name, attempt);
                    ContainerState::Ended(Completed { ended, machine: None })
                }
                TaskState::Live(state) => {
                    let live = Previous { attempt, id, job, state: state.clone() };
                    self.take_over(&name, live, now_ms);
                    state
                }
            };
            if self.recover == Recover::Previous {
                found.push(Found { name, state });
            }
        }
        found
    }

    /// Takes over one container of a former process.
    fn take_over(&mut self, name: &Text, previous: Previous<ContainerState>, now_ms: u64) {
        let Previous { attempt, id, job, state } = previous;
        let is_dropped = self.recover == Recover::Drop;
        self.dropped += usize::from(is_dropped);
        let record = Record {
            id: Some(id),
            machine: machine(&state),
            state,
            is_released: is_dropped,
            is_dropped,
            is_confirmed: true,
            in_stream: true,
            version: self.version,
            ..Record::new(job, attempt)
        };
        self.ids.insert(id, name.clone());
        self.records.insert(name.clone(), record);
        self.plan(name, now_ms);
    }

    /// Handles a container that a former process requested just before that process ended, and that the cell accepted
    /// late. A container that has already ended is ignored. A later request for the name then gets the result of that
    /// container.
    fn recover_late(&mut self, name: &Text, late: Previous<TaskState>, now_ms: u64) {
        let Previous { attempt, id, job, state } = late;
        let is_new = self.attempts.get(name).is_none_or(|last| *last < attempt);
        let (true, TaskState::Live(state)) = (is_new, state) else { return };
        self.take_over(name, Previous { attempt, id, job, state: state.clone() }, now_ms);
        self.emit(name, Change::Recovered(state));
    }

    /// Records the state of a container, and reports changes.
    fn update_state(&mut self, name: &Text, version: Version, task: TaskState) {
        let Some(record) = self.records.get_mut(name) else { return };
        if version < record.version {
            return;
        }
        record.version = version;
        record.is_confirmed = true;
        let state = match task {
            TaskState::Live(state) => state,
            TaskState::Ended(Ended::Killed) if record.is_released => {
                return self.end(name, Ended::Released);
            }
            TaskState::Ended(ended) => return self.end(name, ended),
        };
        if state == record.state {
            return;
        }
        let before = std::mem::replace(&mut record.state, state.clone());
        let now = machine(&state);
        let changes = changes(&before, state);
        if now.is_some() {
            record.machine = now;
        }
        changes.into_iter().for_each(|change| self.emit(name, change));
    }

    fn end(&mut self, name: &Text, ended: Ended) {
        let Some(record) = self.records.remove(name) else { return };
        if let Some(id) = record.id {
            self.ids.remove(&id);
        }
        if let Some(due) = record.due {
            self.due.remove(&(due, name.clone()));
        }
        self.remember(name, record.attempt);
        if record.is_dropped {
            self.dropped -= 1;
            return;
        }
        self.emit(name, Change::Ended(Completed { ended, machine: record.machine }));
    }

    fn remember(&mut self, name: &Text, attempt: u32) {
        if self.attempts.insert(name.clone(), attempt).is_none() {
            self.ended.push_back(name.clone());
        }
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.attempts.remove(&oldest);
        }
    }

    fn emit(&mut self, name: &Text, change: Change) {
        if self.records.get(name).is_some_and(|record| record.is_dropped) {
            return;
        }
        self.events.push(Event { version: self.version, container: name.clone(), change });
    }

    /// Plans the next call for a container, if it needs one and has none in flight.
    fn plan(&mut self, name: &Text, at_ms: u64) {
        let Some(record) = self.records.get_mut(name) else { return };
        if record.call.is_some() || record.next_request().is_none() {
            return;
        }
        let at_ms = record.due.map_or(at_ms, |due| due.min(at_ms));
        if let Some(due) = record.due.replace(at_ms) {
            self.due.remove(&(due, name.clone()));
        }
        self.due.insert((at_ms, name.clone()));
    }
}

impl Record {
    fn new(job: Arc<Job>, attempt: u32) -> Record {
        Record {
            job,
            attempt,
            id: None,
            state: ContainerState::Waiting,
            machine: None,
            is_released: false,
            is_dropped: false,
            tries: 0,
            call: None,
            due: None,
            is_confirmed: false,
            in_stream: false,
            is_expected: false,
            version: Version(0),
        }
    }

    /// The next call that the container needs, if any.
    fn next_request(&self) -> Option<Request> {
        match self.id {
            None => Some(Request::Submit(self.job.clone())),
            Some(id) if self.is_released => Some(Request::Kill(id)),
            Some(id) if !self.is_confirmed => Some(Request::LookUp(id)),
            Some(_) => None,
        }
    }
}

/// Records a container of a former process. For each name, only the latest message about the newest use of the name is
/// kept.
fn record_previous(
    left: &mut BTreeMap<Text, Previous<TaskState>>,
    id: u64,
    named: Option<(Text, u32)>,
    spec: Option<Job>,
    state: TaskState,
) {
    let (Some((name, attempt)), Some(job)) = (named, spec) else { return };
    if left.get(&name).is_none_or(|record| record.attempt <= attempt) {
        left.insert(name, Previous { attempt, id, job: Arc::new(job), state });
    }
}
