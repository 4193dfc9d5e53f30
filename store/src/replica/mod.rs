//! One replica of a cell, as a state machine that does no I/O: its Raft node, the cell's state, and pending requests.
//!
//! ```text
//!          request               ┌───────────────────────── Replica ────────────────────────┐
//!   client ──────▶ queue ─▶ pre-check ─▶ entry ─▶ Node ══ log, peers ══▶ committed          │
//!                                │                                            │             │
//!          ◀─────────────── rejected                                    Cell::apply         │
//!   client ◀──────────────────────────────────────────────── reply ◀──────────┘             │
//!            reply               └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Its methods report events (a tick, a message, a request, a durable write), and [`Output`] has the effects to carry
//! out. It reads no clock and touches no file, so a simulation can run a whole cell of replicas in one thread.
//! `threads.rs` runs it in production.
//!
//! **Replies.** A command's outcome is that of applying its entry, and an entry is applied once a majority has it on
//! disk. So nothing is acknowledged before it is durable, and every replica gets the outcome that the client gets.
//!
//! **Pre-check.** The leader does not commit transactions that cannot be accepted (`Cell::pre_check`). Such a rejection
//! leaves no record, so a delayed copy of the request must not be accepted afterwards. Three rules ensure this: a
//! request is addressed to a leader's term; within its term a leader accepts the requests of each sender in the order
//! of their numbers, each at most once; and a retry ([`Request::Retry`]) is never pre-checked. A model
//! (`tests/it/cell/model`) tries every order of events. It also omits each rule in turn, and must then find a
//! violation.
//!
//! In reading order: `settings`, `request`, `requests`, `fingerprint`, this file, `applied`, `reads`, `bound`,
//! `snapshots`, `snapshot_worker`, `log_writer`, `start`, `start_error`, `stop`, `pending_replies`, `event`, `mailbox`,
//! `stalled`, `log_thread`, `durations`, `stages`, `status`, `threads`, `handle`, `many`.

mod applied;
mod bound;
mod durations;
mod event;
mod fingerprint;
mod handle;
mod log_thread;
mod log_writer;
mod mailbox;
mod many;
mod pending_replies;
mod reads;
mod request;
mod requests;
mod settings;
mod snapshot_worker;
mod snapshots;
mod stages;
mod stalled;
mod start;
mod start_error;
mod status;
mod stop;
mod threads;

pub use applied::{Applied, State};
pub use durations::{Durations, Histogram};
pub use handle::{ReplicatedCell, RequestError};
pub use log_writer::LogWriter;
pub use request::{PeerMessage, Reply, Request, RequestId, RetryReason};
pub use settings::{Settings, TornTail};
pub use snapshot_worker::{SnapshotJob, SnapshotResult, SnapshotWorker};
pub use stages::{Followed, Stage, Stages};
pub use start::{FIRST, Started, bootstrap, bootstrap_with, restore, start};
pub use start_error::StartError;
pub use status::Status;
pub use stop::{Outdated, Remedy, Stop};
pub use threads::{Network, Running, Transport};

use crate::failpoint::failpoint;
use crate::log::{LogIndex, Position, ReplicaId, Term};
use crate::membership::{ChangeError, MemberStep, MembershipChange};
use crate::node::{self, Leadership, Message, MessageError, MessageKind, Node, ReadId, Write};
pub(crate) use fingerprint::Fingerprint;
use omega_cellstate::Cell;
use requests::{Gathered, Requests, Sender};
use snapshots::Transfers;
use stages::Watch;
use stalled::UnsyncedWrites;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Effects to carry out for a replica.
#[derive(Debug, Default)]
pub struct Output {
    /// Messages to send. They may be lost.
    pub messages: Vec<(ReplicaId, PeerMessage)>,
    /// Writes to the log, in order.
    pub writes: Vec<Write>,
    /// Position up to which the log is to be compacted, after these writes.
    pub compact: Option<Position>,
    /// Snapshot jobs, in order.
    pub files: Vec<SnapshotJob>,
    /// Replies to requests of this process.
    pub replies: Vec<(RequestId, Reply)>,
}

/// Maximum age of the cell's time, in milliseconds, when a leader proposes commands whose outcomes depend on the time.
pub const TIME_AGE_MAX_MS: u64 = 100;

/// One replica. See the module documentation.
#[derive(Debug)]
pub struct Replica {
    node: Node,
    settings: Settings,
    applied: Arc<Applied>,
    fingerprint: Fingerprint,
    requests: Requests,
    transfers: Transfers,
    /// Reads that wait for an index to be applied.
    reads: BTreeMap<(LogIndex, RequestId), u64>,
    /// Reads that have requested an index from the leader, each with the tick at which it began.
    read_requests: BTreeMap<RequestId, u64>,
    ticks: u64,
    /// Clock reading in the last command by which this replica set the cell's time on its own.
    proposed_ms: u64,
    full: bool,
    /// Tick of the last message from a leader, or the last tick as the leader.
    leader_tick: u64,
    /// Whether this replica was removed, according to its own log or to another replica.
    removed: bool,
    leadership: Leadership,
    stop: Option<Stop>,
    output: Output,
    watch: Watch,
    unsynced_writes: UnsyncedWrites,
}

/// Initial state of a replica.
#[derive(Debug)]
pub struct Start {
    /// Persistent state of the Raft node.
    pub node: node::Start,
    /// The cell's state at the base of the node's log.
    pub cell: Cell,
    /// The fingerprint of the history up to the base.
    pub fingerprint: u64,
}

impl Replica {
    /// A replica that continues from persistent state.
    #[must_use]
    pub fn new(start: Start, settings: Settings) -> Replica {
        let position = start.node.base;
        let mut replica = Replica {
            node: Node::new(start.node, settings.node),
            settings,
            applied: Arc::new(Applied::new(start.cell, position)),
            fingerprint: Fingerprint::new(position.index, start.fingerprint),
            requests: Requests::new(settings.incarnation),
            transfers: Transfers::default(),
            reads: BTreeMap::new(),
            read_requests: BTreeMap::new(),
            ticks: 0,
            proposed_ms: 0,
            full: false,
            leader_tick: 0,
            removed: false,
            leadership: Leadership::default(),
            stop: None,
            output: Output::default(),
            watch: Watch::default(),
            unsynced_writes: UnsyncedWrites::default(),
        };
        replica.check_removal();
        replica
    }

    /// The state, for readers.
    #[must_use]
    pub fn applied(&self) -> &Arc<Applied> {
        &self.applied
    }

    /// The replica's Raft node.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the reason why the replica has stopped, if it has.
    #[must_use]
    pub fn stopped(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Whether a leader's entries in flight are at their limit, so that a new command must wait.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.leadership.is_leader && self.requests.in_flight() >= self.settings.entries_in_flight
    }

    /// The fingerprint of the applied history.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint.value()
    }

    /// Does everything that is possible now, and returns the effects to carry out. To be called after one or more other
    /// calls: requests that arrive together share an entry.
    #[must_use]
    pub fn proceed(&mut self) -> Output {
        self.follow_all();
        if !self.output.messages.is_empty() {
            failpoint!("send");
        }
        std::mem::take(&mut self.output)
    }

    /// Reports this replica's clock before waiting commands are proposed. If their outcomes depend on the time, and the
    /// cell's time is older than [`TIME_AGE_MAX_MS`], a leader proposes the time before them.
    pub fn propose_time(&mut self, now_ms: u64) {
        let old = |known: u64| known.saturating_add(TIME_AGE_MAX_MS) <= now_ms;
        if !self.leadership.is_leader || self.requests.waiting() == 0 || !old(self.proposed_ms) {
            return;
        }
        let state = self.applied.lock();
        let proposes = old(state.cell.now_ms()) && state.cell.depends_on_time();
        drop(state);
        if proposes {
            self.proposed_ms = now_ms;
            self.requests.push_time(now_ms);
        }
    }

    /// Advances the replica's time by one tick.
    pub fn tick(&mut self) {
        failpoint!("tick");
        self.ticks += 1;
        if !self.full || self.leadership.is_leader {
            self.node.tick();
        }
        if let Some(late) = self.ticks.checked_sub(self.settings.reply_ticks) {
            self.give_up(late);
        }
        self.retry_reads();
        self.tick_transfers();
        self.leave_a_bad_disk();
        self.check_contact();
    }

    /// Handles a message of another replica.
    pub fn receive(&mut self, from: ReplicaId, message: PeerMessage) {
        if self.stop.is_some() {
            return;
        }
        failpoint!("receive");
        if self.node.membership().has_removed(from) {
            // This reply is needed because no other replica reports the removal: since the change, the leader has sent
            // nothing to the removed replica.
            return self.output.messages.push((from, PeerMessage::Removed));
        }
        match message {
            PeerMessage::Removed => self.handle_removal(from),
            PeerMessage::Probe => {}
            PeerMessage::Raft(message) if message.from == from => self.receive_message(message),
            PeerMessage::Raft(_) => {}
            PeerMessage::Request { id, term, request } => {
                self.accept(Sender::Peer(from, id), term, request)
            }
            PeerMessage::SnapshotRequest { position, piece } => {
                self.handle_snapshot_request(from, position, piece);
            }
            PeerMessage::SnapshotOffer { offer } => self.handle_snapshot_offer(from, offer),
            PeerMessage::SnapshotPiece { position, piece } => {
                self.handle_snapshot_piece(from, position, piece);
            }
            PeerMessage::SnapshotGone { position } => self.handle_snapshot_gone(from, position),
            PeerMessage::Reply { id, reply } => {
                if self.requests.forwarded_to(id) == Some(from) {
                    self.requests.forget(id);
                    self.output.replies.push((id, reply));
                }
            }
        }
    }

    fn receive_message(&mut self, message: Message) {
        match message.snapshot.clone().filter(|_| message.kind == MessageKind::Snapshot) {
            Some(offer) => match self.node.check(&message) {
                Ok(()) => self.receive_offer(message, &offer),
                Err(error) => self.reject(&message, error),
            },
            None => self.step(&message),
        }
    }

    /// Passes a message to the Raft node.
    fn step(&mut self, message: &Message) {
        let stands = message.kind == MessageKind::StandNow;
        if self.leadership.leader == Some(message.from) {
            self.leader_tick = self.ticks;
        }
        if self.has_no_room_for(message) || stands && self.full {
            return;
        }
        if let Err(error) = self.node.receive(message) {
            self.reject(message, error);
        }
    }

    fn reject(&mut self, message: &Message, error: MessageError) {
        tracing::warn!(from = %message.from, kind = ?message.kind, %error, "message refused");
        if error.is_fatal() {
            self.stop(error.into());
        }
    }

    /// Sends a request of this process, and returns its id. A later output has the reply with this id.
    pub fn request(&mut self, request: Request) -> RequestId {
        failpoint!("ask");
        let id = self.requests.next_id();
        let removed = self.removed.then_some(RetryReason::Removed);
        if let Some(reason) = self.stop.as_ref().map(|_| RetryReason::Stopped).or(removed) {
            self.output.replies.push((id, Reply::Retry(reason)));
            return id;
        }
        match request {
            Request::Read
                if omega_cellstate::injected!(ReadWithoutIndex)
                    || omega_cellstate::injected!(ReadOfDeposedLeader)
                        && self.leadership.is_leader =>
            {
                let version = self.applied.lock().cell.version();
                self.output.replies.push((id, Reply::Fresh(version)));
            }
            Request::Read => {
                self.read_requests.insert(id, self.ticks);
                self.node.read(self.read_id(id));
            }
            request => self.accept(Sender::Here(id), self.leadership.term, request),
        }
        id
    }

    /// Accepts a request, forwards it to the leader, or rejects it.
    fn accept(&mut self, sender: Sender, term: Term, request: Request) {
        let Leadership { term: now, leader, is_leader } = self.leadership;
        let here = match sender {
            Sender::Here(id) => Some(id),
            // Replicas send read requests through Raft, so a forwarded read request is forged. In the queue, it would
            // delay other requests.
            Sender::Peer(..) if request == Request::Read => return,
            // The outcome is unknown, because this may be a late copy of a request that was accepted long ago.
            Sender::Peer(..)
                if !is_leader || term != now && !omega_cellstate::injected!(OtherTermAccepted) =>
            {
                return self.reply(sender, Reply::Unknown);
            }
            Sender::Peer(from, id) if !self.requests.admit(from, id, now) => return,
            Sender::Peer(..) => None,
        };
        match (here, leader) {
            (Some(_), Some(_)) if self.has_silent_leader() => {
                self.reply(sender, Reply::Retry(self.leaderless()));
            }
            (Some(id), Some(leader)) if !is_leader => {
                self.requests.forward(id, leader, self.ticks);
                self.output
                    .messages
                    .push((leader, PeerMessage::Request { id, term: now, request }));
            }
            _ if !is_leader => self.reply(sender, Reply::Retry(self.leaderless())),
            _ if self.full => match request {
                // Leadership is transferred at once, because waiting requests may depend on entries for which there is
                // no space.
                Request::Transfer(to) => self.transfer(sender, to),
                _ => self.reply(sender, Reply::Retry(RetryReason::Full)),
            },
            _ if request.adds_commands() && self.log_is_long() => {
                self.reply(sender, Reply::Retry(RetryReason::NoSnapshot));
            }
            _ if self.requests.waiting() >= self.settings.requests_waiting => {
                self.reply(sender, Reply::Retry(RetryReason::Busy));
            }
            _ => {
                self.requests.push(sender, request, self.ticks);
                self.watch.queued(self.requests.waiting());
            }
        }
    }

    /// The reply to a request for which no leader is known.
    fn leaderless(&self) -> RetryReason {
        if self.full { RetryReason::LeaderlessAndFull } else { RetryReason::Leaderless }
    }

    /// Whether this replica has a full disk, and its leader has been silent for longer than an election takes. Such a
    /// replica starts no election, so without this check it would wait for a leader that has stepped down.
    fn has_silent_leader(&self) -> bool {
        let patience = 2 * self.settings.node.election_ticks as u64;
        self.full && !self.leadership.is_leader && self.ticks >= self.leader_tick + patience
    }

    /// Reports that all writes up to this number are durable.
    pub fn persisted(&mut self, number: u64) {
        failpoint!("persisted");
        self.unsynced_writes.persisted(number);
        self.node.persisted(number);
        self.watch.safe(self.node.safe());
    }

    /// Reports whether the log's disk is full. While it is full, a leader accepts only requests for leadership
    /// transfers, and itself asks another replica to take over; any other replica starts no election.
    pub fn log_full(&mut self, full: bool) {
        self.full = full;
    }

    /// Reports that the log failed. The content of the log is unknown, so this replica stops.
    pub fn log_failed(&mut self, error: crate::log::WriteError) {
        self.stop(error.into());
    }

    fn stop(&mut self, stop: Stop) {
        tracing::error!(id = %self.node.id(), %stop, "the replica stops");
        self.stop.get_or_insert(stop);
        self.output.replies.extend(self.requests.give_up(u64::MAX));
        let again = self.take_reads().map(|id| (id, Reply::Retry(RetryReason::Stopped)));
        self.output.replies.extend(again);
    }

    fn follow_all(&mut self) {
        while self.stop.is_none() {
            let Some(effects) = self.node.effects() else {
                if self.propose() {
                    continue;
                }
                return self.capture();
            };
            let messages = effects.messages.into_iter();
            let messages = messages.map(|message| (message.to, PeerMessage::Raft(message)));
            self.output.messages.extend(messages);
            if let Some(write) = effects.write {
                failpoint!("write");
                self.unsynced_writes.requested(&write, self.ticks);
                self.output.writes.push(write);
            }
            if let Some(offer) = effects.install {
                self.install(&offer);
            }
            for (read, index) in effects.reads {
                let ReadId { incarnation, number, .. } = read;
                let id = RequestId { incarnation, number };
                if let Some(began) = self.read_requests.remove(&id) {
                    self.reads.insert((index, id), began);
                }
            }
            self.apply(&effects.committed);
            self.reply_to_reads();
            self.follow_leadership();
        }
    }

    /// Reacts to a change of leader or term.
    fn follow_leadership(&mut self) {
        let now = self.node.leadership();
        if now == self.leadership {
            return;
        }
        failpoint!("leadership");
        let id = self.node.id();
        tracing::info!(%id, term = now.term.0, leader = ?now.leader, "leadership");
        let before = std::mem::replace(&mut self.leadership, now);
        if before.is_leader && !(now.is_leader && now.term == before.term) {
            // Requests that were not proposed have not been done.
            for sender in self.requests.drop_waiting() {
                self.reply(sender, Reply::Retry(self.leaderless()));
            }
            self.watch.gathered(false);
        }
        // The outcome of forwarded requests is unknown: a leader of another term rejects them, but the former leader
        // may have accepted them.
        if before.term != now.term || before.leader != now.leader {
            for id in self.requests.drop_forwarded() {
                let reply = if omega_cellstate::injected!(ForwardedDenied) {
                    Reply::Retry(RetryReason::Leaderless)
                } else {
                    Reply::Unknown
                };
                self.output.replies.push((id, reply));
            }
        }
    }

    /// Proposes an entry with waiting requests, or handles a waiting request that needs no entry. Returns `false` if
    /// there is nothing to propose, or nothing can be proposed now.
    fn propose(&mut self) -> bool {
        if !self.node.leads_with_all()
            || self.requests.in_flight() >= self.settings.entries_in_flight
            || self.requests.waiting() == 0
        {
            return false;
        }
        if let Some((sender, change)) = self.requests.pop_change() {
            self.propose_change(sender, &change);
            return true;
        }
        if let Some((sender, to)) = self.requests.pop_transfer() {
            self.transfer(sender, to);
            return true;
        }
        if self.log_is_long() {
            for sender in self.requests.drop_waiting() {
                self.reply(sender, Reply::Retry(RetryReason::NoSnapshot));
            }
            return true;
        }
        self.watch.gathering();
        let mut replies = Vec::new();
        let mut state = self.applied.lock();
        let batch = self.requests.gather(&mut state.cell, self.fingerprint.head(), &mut replies);
        drop(state);
        self.watch.gathered(self.requests.waiting() > 0);
        for (sender, reply) in replies {
            self.reply(sender, reply);
        }
        let Some(Gathered { data, commands }) = batch else { return true };
        failpoint!("propose");
        match self.node.propose(data) {
            Ok(position) => {
                if omega_cellstate::injected!(RepliedWhenProposed) {
                    let mut guess = self.applied.lock().cell.clone();
                    for (sender, command) in &commands {
                        let outcome = guess.apply(command.clone());
                        self.reply(*sender, Reply::Outcome(outcome));
                    }
                }
                failpoint!("proposed");
                self.watch.proposed(position, commands.len());
                self.note_proposed(position, commands, None);
            }
            Err(_) => {
                for (sender, _) in commands {
                    self.reply(sender, Reply::Retry(RetryReason::Busy));
                }
            }
        }
        true
    }

    fn propose_change(&mut self, sender: Sender, change: &MembershipChange) {
        let removes_itself = change.steps.contains(&MemberStep::Remove(self.node.id()));
        let proposed = if removes_itself {
            Err(ChangeError::Leads(self.node.id()))
        } else {
            self.node.propose_change(change)
        };
        match proposed {
            Ok(position) => self.note_proposed(position, Vec::new(), Some(sender)),
            Err(error) => self.reply(sender, Reply::Changed(Err(error))),
        }
    }

    /// Records the requests of a proposed entry. Earlier entries of this replica with this index or a higher one are
    /// not in this leader's log, so they will never be committed.
    fn note_proposed(
        &mut self,
        position: Position,
        commands: Vec<(Sender, omega_core::Command)>,
        change: Option<Sender>,
    ) {
        for sender in self.requests.proposed(position, commands, change, self.ticks) {
            self.reply(sender, Reply::Retry(RetryReason::Overwritten));
        }
    }

    fn transfer(&mut self, sender: Sender, to: ReplicaId) {
        let reply = if self.node.membership().voters.contains(&to) {
            Reply::Begun
        } else {
            Reply::Changed(Err(ChangeError::Unknown(to)))
        };
        if reply == Reply::Begun {
            self.node.transfer(to);
        }
        self.reply(sender, reply);
    }

    /// Expires requests that have waited since the tick `late` or longer.
    fn give_up(&mut self, late: u64) {
        let replies = self.requests.give_up(late);
        self.output.replies.extend(replies);
        let late_ones = self.read_requests.extract_if(.., |_, began| *began <= late);
        let mut given_up: Vec<RequestId> = late_ones.map(|(id, _)| id).collect();
        let late_ones = self.reads.extract_if(.., |_, began| *began <= late);
        given_up.extend(late_ones.map(|((_, id), _)| id));
        let again = Reply::Retry(self.leaderless());
        self.output.replies.extend(given_up.into_iter().map(|id| (id, again.clone())));
    }

    /// Replies to a sender.
    fn reply(&mut self, to: Sender, reply: Reply) {
        failpoint!("reply");
        match to {
            Sender::Here(id) => self.output.replies.push((id, reply)),
            Sender::Peer(replica, id) => {
                self.output.messages.push((replica, PeerMessage::Reply { id, reply }));
            }
        }
    }
}
