//! The threads of a replica in production: one handles events, one writes to a slow disk, and one handles snapshots.
//!
//! ```text
//!   clients, peers, clock ──events──▶ ┌─────────┐ ──writes──▶ ┌───────────┐
//!                                     │ replica │ ◀─durable── │    log    │──▶ disk
//!         replies, messages ◀──────── └─────────┘             └───────────┘
//!                                        │   ▲ ──jobs───────▶ ┌───────────┐
//!                                        └───┴─────done────── │ snapshots │──▶ disk
//!                                                             └───────────┘
//! ```
//!
//! The replica's thread takes all events that have collected before it works, so that requests that arrive while it is
//! busy share an entry. It writes the log itself while the disk is fast (`log_thread.rs`). If the disk is slow, the log's
//! thread writes. It takes all writes that have collected, so that writes that arrive during a sync share the next
//! sync.

use super::event::{Event, LogResult};
use super::log_thread::{Log, LogHandle, LogJob, LogThread, Waits};
use super::mailbox::{Mailbox, WakeFor};
use super::pending_replies::ReplySender;
use super::request::{PeerMessage, RequestId};
use super::snapshot_worker::{SnapshotJob, SnapshotResult, SnapshotWorker};
use super::start::Started;
use super::status::Status;
use super::{Applied, Outdated, Replica, Stages, State, Stop};
use crate::directory::Directory;
use crate::log::ReplicaId;
use crate::membership::Membership;
use crossbeam_channel::{self as channel, Receiver, Sender};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of waiting messages from other replicas. Further messages are dropped, and Raft sends them again.
const MESSAGES_MAX: usize = 4096;

/// Transport of messages to other replicas. Messages may be lost, delayed, duplicated and reordered.
pub trait Transport: Send + Sync + std::fmt::Debug {
    /// Sends a message without waiting.
    fn send(&self, to: ReplicaId, message: PeerMessage);

    /// Applies the membership, which has the replicas' addresses. Called at the start, and after each change.
    fn follow(&self, _membership: &Membership) {}
}

/// A running replica.
#[derive(Debug)]
pub struct Running {
    mailbox: Arc<Mailbox>,
    applied: Arc<Applied>,
    status: Arc<Mutex<Status>>,
    stages: Arc<Stages>,
    threads: Vec<JoinHandle<()>>,
    /// Never read; it keeps the directory locked.
    _directory: Directory,
}

impl Running {
    /// Starts the threads of a replica. `tick` is the duration of the ticks in its settings.
    #[must_use]
    pub fn start(started: Started, transport: Arc<dyn Transport>, tick: Duration) -> Running {
        let Started { mut replica, log, files, directory } = started;
        let mailbox = Arc::new(Mailbox::new());
        let (to_log, log_inbox) = channel::unbounded();
        let (to_files, file_inbox) = channel::unbounded();
        let applied = replica.applied().clone();
        let status = Arc::new(Mutex::new(Status::default()));
        let stages = Arc::new(Stages::default());
        replica.watch(stages.clone());
        let id = replica.node().id();
        let log = Log { writer: log, status: status.clone(), stages: stages.clone() };
        let log = Arc::new(Mutex::new(log));
        let writer = LogThread { log: log.clone(), inbox: log_inbox, mailbox: mailbox.clone() };
        let keeper = SnapshotThread { files, inbox: file_inbox, mailbox: mailbox.clone() };
        let driver = Driver {
            replica,
            mailbox: mailbox.clone(),
            log_handle: LogHandle::new(log, to_log),
            to_files,
            transport,
            tick,
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
        Running { mailbox, applied, status, stages, threads, _directory: directory }
    }

    /// Delivers a message of another replica. Messages that arrive too fast are dropped.
    pub fn deliver(&self, from: ReplicaId, message: PeerMessage) {
        deliver(&self.mailbox, from, message);
    }

    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(super) fn applied(&self) -> &Arc<Applied> {
        &self.applied
    }

    /// Calls `look` with the replica's state, which is locked during the call.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.applied.lock())
    }

    /// The state that the replica publishes.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.lock().clone()
    }

    /// Reason why the replica's state may be outdated, if there is one.
    #[must_use]
    pub fn outdated(&self) -> Option<Outdated> {
        self.status.lock().outdated
    }

    /// Returns a function that tells whether the replica has stopped. It does not keep the replica running.
    pub fn has_stopped(&self) -> impl Fn() -> bool + Send + use<> {
        let status = self.status.clone();
        move || status.lock().stopped.is_some()
    }

    /// Returns a function that tells whether the disk of the log is full. It does not keep the replica running.
    pub fn has_full_disk(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let status = self.status.clone();
        move || status.lock().disk_full
    }

    /// Durations of the replica's entries in each stage.
    #[must_use]
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// Stops the replica after the writes that are in progress.
    pub fn end(mut self) {
        self.join();
    }

    fn join(&mut self) {
        // The only possible error is that the thread has ended already.
        let _ = self.mailbox.send(Event::End);
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

fn deliver(mailbox: &Mailbox, from: ReplicaId, message: PeerMessage) {
    if mailbox.messages() < MESSAGES_MAX {
        // The only possible error is that the replica has ended.
        let _ = mailbox.send(Event::Message(from, message));
    }
}

/// The replica's thread.
struct Driver {
    replica: Replica,
    mailbox: Arc<Mailbox>,
    log_handle: LogHandle,
    to_files: Sender<SnapshotJob>,
    transport: Arc<dyn Transport>,
    tick: Duration,
    waiting: BTreeMap<RequestId, ReplySender>,
    status: Arc<Mutex<Status>>,
}

impl Driver {
    fn run(mut self) {
        // Carries out the effects of the start.
        self.follow();
        let mut events = Vec::new();
        let mut next_tick = Instant::now() + self.tick;
        loop {
            let wake_for =
                if self.replica.is_busy() { WakeFor::Urgent } else { WakeFor::Everything };
            self.mailbox.take(wake_for, next_tick, &mut events);
            for event in events.drain(..) {
                if !self.handle(event) {
                    return;
                }
            }
            let now = Instant::now();
            if now >= next_tick {
                self.replica.tick();
                self.report_progress();
                // If the thread was delayed, missed ticks are skipped, so that the delay does not count for callers
                // that wait for the replica.
                next_tick = now + self.tick;
            }
            self.replica.propose_time(unix_ms());
            self.follow();
        }
    }

    /// Publishes the ends of the logs, the last applied entry, and whether the state may be outdated, at every tick.
    fn report_progress(&self) {
        let node = self.replica.node();
        let progress = if node.leadership().is_leader { node.progress() } else { Vec::new() };
        let applied = self.replica.applied().lock().position.index;
        let mut status = self.status.lock();
        status.log_end = node.last();
        status.applied = applied;
        status.outdated = self.replica.outdated();
        status.progress = progress;
    }

    /// Handles an event. Returns whether the replica continues.
    fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Message(from, message) => self.replica.receive(from, message),
            Event::Request(requests) => {
                for (request, sender) in requests {
                    let id = self.replica.request(request);
                    self.waiting.insert(id, sender);
                }
            }
            Event::LogResult(written) => {
                self.log_handle.completed(&written);
                self.written(written);
            }
            Event::File(done) => {
                let saved = matches!(done, SnapshotResult::Saved(_, _, true));
                self.status.lock().snapshots += u64::from(saved);
                self.replica.file_done(done);
            }
            Event::End => return false,
        }
        true
    }

    /// Handles the result of writes.
    fn written(&mut self, written: LogResult) {
        match written.safe {
            Ok(number) => {
                self.replica.log_full(written.full);
                number.into_iter().for_each(|number| self.replica.persisted(number));
            }
            Err(error) => self.replica.log_failed(error),
        }
    }

    /// Does all pending work, until the replica can only wait.
    fn follow(&mut self) {
        let mut wrote = false;
        while let Some(written) = self.follow_once() {
            self.written(written);
            wrote = true;
        }
        // The next write is prepared now, because the requests that waited for this write have been answered.
        let failed = if wrote { self.log_handle.prepare() } else { None };
        if let Some(failed) = failed {
            self.written(failed);
            self.follow_once();
        }
    }

    /// Does pending work once. Returns the result of writes that were completed at once.
    fn follow_once(&mut self) -> Option<LogResult> {
        let output = self.replica.proceed();
        for job in output.files {
            // The only possible error is that the thread has panicked, which `join` reports.
            let _ = self.to_files.send(job);
        }
        for (to, message) in output.messages {
            self.transport.send(to, message);
        }
        for (id, reply) in output.replies {
            if let Some(sender) = self.waiting.remove(&id) {
                sender.send(reply);
            }
        }
        let leadership = self.replica.node().leadership();
        let mut status = self.status.lock();
        status.leadership = leadership;
        if status.membership != *self.replica.node().membership() {
            status.membership = self.replica.node().membership().clone();
            self.transport.follow(&status.membership);
        }
        if status.stopped.is_none() {
            status.stopped = self.replica.stopped().map(ToString::to_string);
            status.remedy = self.replica.stopped().map(Stop::remedy);
        }
        drop(status);
        let alone = self.replica.node().is_alone();
        let waits = if alone { Waits::Always } else { Waits::WhileQuick };
        let job = LogJob { writes: output.writes, compact: output.compact };
        if job == LogJob::default() { None } else { self.log_handle.write(job, waits) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

/// The thread for snapshots.
struct SnapshotThread {
    files: SnapshotWorker,
    inbox: Receiver<SnapshotJob>,
    mailbox: Arc<Mailbox>,
}

impl SnapshotThread {
    fn run(mut self) {
        for job in &self.inbox {
            let done = self.files.work(job);
            if self.mailbox.send(Event::File(done)).is_err() {
                return;
            }
        }
    }
}

/// A network within one process.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Connected replicas. Locked for single look-ups, and while a replica connects.
    replicas: Arc<Mutex<BTreeMap<ReplicaId, Arc<Mailbox>>>>,
}

/// One replica's end of the network.
#[derive(Debug)]
struct Port {
    id: ReplicaId,
    network: Network,
}

impl Network {
    /// Transport of a replica.
    #[must_use]
    pub fn port(&self, id: ReplicaId) -> Arc<dyn Transport> {
        Arc::new(Port { id, network: self.clone() })
    }

    /// Connects a running replica.
    pub fn connect(&self, id: ReplicaId, replica: &Running) {
        self.replicas.lock().insert(id, replica.mailbox.clone());
    }

    /// Disconnects a replica.
    pub fn disconnect(&self, id: ReplicaId) {
        self.replicas.lock().remove(&id);
    }
}

impl Transport for Port {
    fn send(&self, to: ReplicaId, message: PeerMessage) {
        if let Some(mailbox) = self.network.replicas.lock().get(&to) {
            deliver(mailbox, self.id, message);
        }
    }
}

/// Returns the time in milliseconds since 1970. An earlier time counts as 1970, and the cell never sets its time back.
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
