//! A replica in production: one thread that decides, one that writes the log, one for snapshots.
//!
//! ```text
//!   clients, peers, clock ──events──▶ ┌─────────┐ ──writes──▶ ┌───────────┐
//!                                     │ replica │ ◀──safe──── │    log    │──▶ disk
//!        answers, messages ◀───────── └─────────┘             └───────────┘
//!                                        │   ▲ ──jobs───────▶ ┌───────────┐
//!                                        └───┴─────done────── │ snapshots │──▶ disk
//!                                                             └───────────┘
//! ```
//!
//! The replica's thread takes all events that have gathered, and only then looks at what is to be
//! done: so requests that come while it is busy share an entry. The log's thread does likewise with
//! writes: so those that come while it syncs share the next sync.

use super::ask::{Answer, Ask, AskId, PeerMessage};
use super::files::{FileDone, FileJob, FileWorker};
use super::start::Started;
use super::worker::LogWorker;
use super::{Applied, Replica, State};
use crate::directory::Directory;
use crate::log::{Position, ReplicaId, WriteError};
use crate::membership::Membership;
use crate::node::{Leadership, Write};
use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Events that a replica takes before it looks at what is to be done: what it is told meanwhile
/// waits no longer than these take.
const EVENTS_MAX: usize = 1024;

/// Messages of other replicas that wait. More are dropped: raft sends again.
const MESSAGES_MAX: usize = 4096;

/// How messages get to other replicas. They may be lost, late, doubled and in any order.
pub trait Transport: Send + Sync + std::fmt::Debug {
    /// Sends a message, and does not wait.
    fn send(&self, to: ReplicaId, message: PeerMessage);
}

/// What a replica's thread is told.
#[derive(Debug)]
pub(super) enum Event {
    Tick,
    Message(ReplicaId, PeerMessage),
    Ask(Ask, Reply),
    Safe(Result<Option<u64>, WriteError>, bool),
    File(FileDone),
    End,
}

/// Where an answer goes: several requests may share a channel, and each has a number there.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) to: Sender<(usize, Answer)>,
    pub(super) number: usize,
}

/// What the log's thread is told.
#[derive(Debug, PartialEq)]
struct ToLog {
    writes: Vec<Write>,
    compact: Option<Position>,
}

/// A replica that runs.
#[derive(Debug)]
pub struct Running {
    events: Sender<Event>,
    applied: Arc<Applied>,
    status: Arc<Mutex<Status>>,
    threads: Vec<JoinHandle<()>>,
    /// Locked as long as it runs.
    _directory: Directory,
}

/// What is known of a replica that runs.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Who leads.
    pub leadership: Leadership,
    /// Who the replicas are.
    pub membership: Membership,
    /// Why it has stopped, if it has.
    pub stopped: Option<String>,
    /// How many bytes its log has written.
    pub log_bytes: u64,
    /// How many times its log was synced.
    pub log_syncs: u64,
    /// How many snapshots it has taken since it was started.
    pub snapshots: u64,
}

impl Running {
    /// Starts the threads of a replica. A tick is how long its settings take a tick to be.
    #[must_use]
    pub fn start(started: Started, transport: Arc<dyn Transport>, tick: Duration) -> Running {
        let Started { replica, log, files, directory } = started;
        let (events, inbox) = channel::unbounded();
        let (to_log, log_inbox) = channel::unbounded();
        let (to_files, file_inbox) = channel::unbounded();
        let applied = replica.applied().clone();
        let status = Arc::new(Mutex::new(Status::default()));
        let id = replica.node().id();
        let writer =
            Writer { log, inbox: log_inbox, events: events.clone(), status: status.clone() };
        let keeper = Keeper { files, inbox: file_inbox, events: events.clone() };
        let driver = Driver {
            replica,
            inbox,
            to_log,
            to_files,
            transport,
            clock: channel::tick(tick),
            waiting: BTreeMap::new(),
            status: status.clone(),
        };
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let builder = std::thread::Builder::new().name(format!("{name}-{id}"));
            builder.spawn(run).expect("the system has three threads for each replica")
        };
        let threads = vec![
            spawn("replica", Box::new(move || driver.run())),
            spawn("log", Box::new(move || writer.run())),
            spawn("snapshots", Box::new(move || keeper.run())),
        ];
        Running { events, applied, status, threads, _directory: directory }
    }

    /// Gives it a message of another replica. One that comes too fast is dropped.
    pub fn deliver(&self, from: ReplicaId, message: PeerMessage) {
        deliver(&self.events, from, message);
    }

    pub(super) fn events(&self) -> &Sender<Event> {
        &self.events
    }

    pub(super) fn applied(&self) -> &Arc<Applied> {
        &self.applied
    }

    /// Looks at its state. Nothing is applied while `look` runs.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.applied.lock())
    }

    /// What is known of it.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.lock().clone()
    }

    /// Ends it, after the writes that are under way.
    pub fn end(mut self) {
        self.join();
    }

    fn join(&mut self) {
        // It fails where the thread has ended already.
        let _ = self.events.send(Event::End);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

fn deliver(events: &Sender<Event>, from: ReplicaId, message: PeerMessage) {
    if events.len() < MESSAGES_MAX {
        // It fails where the replica has ended.
        let _ = events.send(Event::Message(from, message));
    }
}

/// The replica's thread.
struct Driver {
    replica: Replica,
    inbox: Receiver<Event>,
    to_log: Sender<ToLog>,
    to_files: Sender<FileJob>,
    transport: Arc<dyn Transport>,
    clock: Receiver<std::time::Instant>,
    waiting: BTreeMap<AskId, Reply>,
    status: Arc<Mutex<Status>>,
}

impl Driver {
    fn run(mut self) {
        // What a replica that starts has to do at once.
        self.follow();
        loop {
            let first = crossbeam::select! {
                recv(self.inbox) -> event => event.unwrap_or(Event::End),
                recv(self.clock) -> _ => Event::Tick,
            };
            let rest: Vec<Event> = self.inbox.try_iter().take(EVENTS_MAX).collect();
            for event in std::iter::once(first).chain(rest) {
                if !self.take(event) {
                    return;
                }
            }
            self.follow();
        }
    }

    /// Tells the replica what happened. The answer is whether it goes on.
    fn take(&mut self, event: Event) -> bool {
        match event {
            Event::Tick => self.replica.tick(),
            Event::Message(from, message) => self.replica.receive(from, message),
            Event::Ask(ask, reply) => {
                let id = self.replica.ask(ask);
                self.waiting.insert(id, reply);
            }
            Event::Safe(Ok(number), full) => {
                self.replica.log_full(full);
                number.into_iter().for_each(|number| self.replica.persisted(number));
            }
            Event::Safe(Err(error), _) => self.replica.log_failed(error),
            Event::File(done) => {
                let saved = matches!(done, FileDone::Saved(_, _, true));
                self.status.lock().snapshots += u64::from(saved);
                self.replica.file_done(done);
            }
            Event::End => return false,
        }
        true
    }

    /// Does what is to be done.
    fn follow(&mut self) {
        let output = self.replica.proceed();
        if !output.writes.is_empty() || output.compact.is_some() {
            // It fails where the log has failed, and told so.
            let _ = self.to_log.send(ToLog { writes: output.writes, compact: output.compact });
        }
        for job in output.files {
            // It fails only where the thread has panicked, which `join` will tell.
            let _ = self.to_files.send(job);
        }
        for (to, message) in output.messages {
            self.transport.send(to, message);
        }
        for (id, answer) in output.answers {
            if let Some(reply) = self.waiting.remove(&id) {
                // It fails where nobody waits any more.
                let _ = reply.to.send((reply.number, answer));
            }
        }
        let leadership = self.replica.node().leadership();
        let mut status = self.status.lock();
        status.leadership = leadership;
        if status.membership != *self.replica.node().membership() {
            status.membership = self.replica.node().membership().clone();
        }
        if status.stopped.is_none() {
            status.stopped = self.replica.stopped().map(ToString::to_string);
        }
    }
}

/// The log's thread.
struct Writer {
    log: LogWorker,
    inbox: Receiver<ToLog>,
    events: Sender<Event>,
    status: Arc<Mutex<Status>>,
}

/// How often a full disk is tried again.
const FULL_RETRY: Duration = Duration::from_millis(200);

impl Writer {
    fn run(mut self) {
        loop {
            let first = match self.log.is_full() {
                true => self.inbox.recv_timeout(FULL_RETRY),
                false => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if first == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            for ToLog { writes, compact } in first.into_iter().chain(self.inbox.try_iter()) {
                writes.into_iter().for_each(|write| self.log.push(write));
                compact.into_iter().for_each(|base| self.log.push_compaction(base));
            }
            let done = self.log.work();
            let failed = done.is_err();
            let mut status = self.status.lock();
            status.log_bytes = self.log.engine().bytes_written();
            status.log_syncs += u64::from(matches!(done, Ok(Some(_))));
            drop(status);
            let told = self.events.send(Event::Safe(done, self.log.is_full()));
            if failed || told.is_err() {
                return;
            }
            if let Err(error) = self.log.prepare() {
                // It fails where the replica has ended.
                let _ = self.events.send(Event::Safe(Err(error), false));
                return;
            }
        }
    }
}

/// The snapshots' thread.
struct Keeper {
    files: FileWorker,
    inbox: Receiver<FileJob>,
    events: Sender<Event>,
}

impl Keeper {
    fn run(mut self) {
        for job in &self.inbox {
            let done = self.files.work(job);
            if self.events.send(Event::File(done)).is_err() {
                return;
            }
        }
    }
}

/// A network inside one process.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Guards who is connected. Held for a look-up, or while somebody connects.
    replicas: Arc<Mutex<BTreeMap<ReplicaId, Sender<Event>>>>,
}

/// One replica's end of the network.
#[derive(Debug)]
struct Port {
    id: ReplicaId,
    network: Network,
}

impl Network {
    /// What a replica sends with.
    #[must_use]
    pub fn port(&self, id: ReplicaId) -> Arc<dyn Transport> {
        Arc::new(Port { id, network: self.clone() })
    }

    /// Connects a replica that runs.
    pub fn connect(&self, id: ReplicaId, replica: &Running) {
        self.replicas.lock().insert(id, replica.events.clone());
    }

    /// Takes a replica off.
    pub fn disconnect(&self, id: ReplicaId) {
        self.replicas.lock().remove(&id);
    }
}

impl Transport for Port {
    fn send(&self, to: ReplicaId, message: PeerMessage) {
        if let Some(events) = self.network.replicas.lock().get(&to) {
            deliver(events, self.id, message);
        }
    }
}
