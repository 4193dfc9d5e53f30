//! The Raft node of one replica: raft-rs as a state machine that does no I/O.
//!
//! ```text
//!    tick ─────────▶┌──────┐      ┌─▶ messages      send now
//!    message ──────▶│      │      ├─▶ write         to the log, in order; then call `persisted`
//!    propose ──────▶│ Node ├──────┼─▶ install       replace the state by a snapshot
//!    read ─────────▶│      │effects├─▶ committed    apply, in order; then call `applied`
//!    persisted ────▶└──────┘      └─▶ reads         answer once that index is applied
//! ```
//!
//! It has no clock, no disk, no network, and no randomness except a seeded generator. So a simulation can run all
//! replicas of a cell in one thread under a seed, with the node that runs in production. The caller decides when
//! effects are carried out. The node makes sure that nothing happens too early:
//!
//! - A message with a promise is released only when the write that it depends on, and all writes before that, are
//!   `persisted`. The entries that a leader sends promise nothing, so they are sent while its own disk writes them.
//! - An entry is released as committed only when a majority, including this replica, has it on disk.
//!
//! raft-rs draws election timeouts from the system's randomness, so after each step the timeout is replaced by a seeded
//! one. raft-rs also panics on impossible messages, so each message is checked before (`check.rs`).
//!
//! In reading order: `message`, `convert`, `check`, `window`, this file, `read`, `snapshots`, `votes`, `contacts`,
//! `change`.

mod change;
mod check;
mod contacts;
mod convert;
mod message;
mod read;
mod snapshots;
mod votes;
mod window;

pub use check::MessageError;
pub use message::{Message, MessageKind, SnapshotOffer};
pub use read::ReadId;

use crate::log::{Batch, Entry, HardState, LogIndex, Position, ReplicaId, Term};
use crate::membership::Membership;
use contacts::Contacts;
use raft::eraftpb;
use raft::{RawNode, Ready, StateRole};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::VecDeque;
use votes::Votes;
use window::Window;

/// Settings of a node. Times are in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Shortest election timeout. The longest is twice as long.
    pub election_ticks: usize,
    /// Heartbeat interval of a leader.
    pub heartbeat_ticks: usize,
    /// Maximum bytes of entries in one message. A single entry is sent even if it has more bytes.
    pub message_bytes: u64,
    /// Maximum number of messages with entries to one follower that are not acknowledged.
    pub messages_in_flight: usize,
    /// Maximum bytes of entries that are proposed and not yet committed. Further proposals are rejected.
    pub uncommitted_bytes_max: u64,
    /// Seed of the node's random timeouts, which must be different on each replica.
    pub seed: u64,
}

impl Default for Settings {
    /// With ticks of 50 ms, an election begins half a second to a second after the last message of a leader.
    fn default() -> Settings {
        Settings {
            election_ticks: 10,
            heartbeat_ticks: 2,
            message_bytes: 1 << 20,
            messages_in_flight: 64,
            uncommitted_bytes_max: 64 << 20,
            seed: 0,
        }
    }
}

/// Persistent state of a node at its start.
#[derive(Clone, Debug)]
pub struct Start {
    /// Id of the replica.
    pub id: ReplicaId,
    /// Position of the last entry that the state includes.
    pub base: Position,
    /// Membership at that position.
    pub membership: Membership,
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// The entries after the base.
    pub entries: Vec<Entry>,
    /// Position up to which the replica may have acknowledged entries that it lost (see `votes.rs`).
    pub suspected_loss: Option<Position>,
}

/// Role and leader, from the point of view of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Present term.
    pub term: Term,
    /// The leader, if known.
    pub leader: Option<ReplicaId>,
    /// Whether this replica is the leader.
    pub is_leader: bool,
}

/// A write to the log. Writes are executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Number of the write, to be passed to [`Node::persisted`].
    pub number: u64,
    /// Set after a received snapshot: the position after which the log restarts, before the batch is appended.
    pub restart: Option<Position>,
    /// Batch to append.
    pub batch: Batch,
}

/// Effects to carry out, in the order of the fields. The write may run concurrently with the other effects.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Messages to send. They may be lost.
    pub messages: Vec<Message>,
    /// A write to the log.
    pub write: Option<Write>,
    /// A received snapshot that replaces the state, as it was passed to [`Node::receive`].
    pub install: Option<SnapshotOffer>,
    /// Entries to apply.
    pub committed: Vec<Entry>,
    /// Reads, each with an index. A read may be answered once the entry at its index is applied.
    pub reads: Vec<(ReadId, LogIndex)>,
}

/// Reason why a proposal was rejected. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// This replica is not the leader. Send the request to the leader.
    #[error("this replica does not lead: ask the leader")]
    NotLeader,
    /// Too many proposals are uncommitted, or leadership is being transferred. Try again later.
    #[error("the leader is busy, try again later")]
    Busy,
}

/// The Raft state machine of one replica. See the module documentation.
pub struct Node {
    raw: RawNode<Window>,
    membership: Membership,
    dice: Pcg64,
    settings: Settings,
    /// The present election timeout, with the term and role for which it was chosen.
    timeout: (usize, Term, StateRole),
    /// Messages that wait for writes, in order.
    held: VecDeque<Held>,
    /// Number of the last requested write.
    written: u64,
    hard_state_written: HardState,
    /// The offered snapshot that raft-rs has accepted, until it is installed.
    accepted: Option<SnapshotOffer>,
    /// An accepted snapshot: the number of the write that makes it durable, and its index. Until that write is durable,
    /// raft-rs considers the entries before the snapshot unapplied. It would fail to read them if this replica started
    /// an election.
    installing: Option<(u64, LogIndex)>,
    /// Position up to which the replica may have acknowledged entries that it lost.
    suspected_loss: Option<Position>,
    votes: Votes,
    contacts: Contacts,
    outbox: Vec<Message>,
}

/// Messages that wait for a durable write.
struct Held {
    ready: u64,
    needs: u64,
    messages: Vec<Message>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let raft = &self.raw.raft;
        f.debug_struct("Node")
            .field("id", &raft.id)
            .field("role", &raft.state)
            .field("term", &raft.term)
            .field("committed", &raft.raft_log.committed)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// A node that continues from persistent state.
    #[must_use]
    pub fn new(start: Start, settings: Settings) -> Node {
        let Start { id, base, membership, mut hard_state, entries, suspected_loss } = start;
        // Compacted entries and the entries in a received snapshot are always committed.
        hard_state.commit = hard_state.commit.max(base.index);
        hard_state.term = hard_state.term.max(base.term);
        let mut window = Window::new(base, &membership, hard_state);
        let entries = entries.iter().map(convert::to_raft);
        window.append(entries.map(|entry| entry.expect("the log was checked when it was opened")));
        window.offer(base, membership.clone());
        let config = raft::Config {
            id: id.0,
            election_tick: settings.election_ticks,
            heartbeat_tick: settings.heartbeat_ticks,
            applied: base.index.0,
            max_size_per_msg: settings.message_bytes,
            max_inflight_msgs: settings.messages_in_flight,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: settings.uncommitted_bytes_max,
            max_committed_size_per_ready: settings.message_bytes,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&config, window, &logger).expect("the settings are sound");
        let mut node = Node {
            raw,
            membership,
            dice: Pcg64::seed_from_u64(settings.seed ^ id.0.rotate_left(32)),
            settings,
            timeout: (0, Term(u64::MAX), StateRole::Follower),
            held: VecDeque::new(),
            written: 0,
            hard_state_written: hard_state,
            accepted: None,
            installing: None,
            suspected_loss,
            votes: Votes::default(),
            contacts: Contacts::default(),
            outbox: Vec::new(),
        };
        node.settle();
        if node.is_alone() {
            // The only voter starts an election at once, because no other replica could be elected.
            node.campaign();
        }
        node
    }

    /// Id of the replica.
    #[must_use]
    pub fn id(&self) -> ReplicaId {
        ReplicaId(self.raw.raft.id)
    }

    /// The replica's role and the leader.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        let raft = &self.raw.raft;
        Leadership {
            term: Term(raft.term),
            leader: (raft.leader_id != 0).then_some(ReplicaId(raft.leader_id)),
            is_leader: raft.state == StateRole::Leader,
        }
    }

    /// Whether this replica is the leader and has applied an entry of its own term. If so, it has applied all entries
    /// that earlier leaders committed.
    #[must_use]
    pub fn leads_with_all(&self) -> bool {
        let raft = &self.raw.raft;
        raft.state == StateRole::Leader && raft.apply_to_current_term()
    }

    /// Membership at the last applied entry.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Index up to which entries are known to be committed.
    #[must_use]
    pub fn committed(&self) -> LogIndex {
        LogIndex(self.raw.raft.raft_log.committed)
    }

    /// Index of the last entry of the log.
    #[must_use]
    pub fn last(&self) -> LogIndex {
        LogIndex(self.raw.raft.raft_log.last_index())
    }

    /// The position before the entries in memory, and the number of bytes of these entries.
    #[must_use]
    pub fn log_in_memory(&self) -> (Position, u64) {
        (self.raw.store().base(), self.raw.store().bytes_in_memory())
    }

    /// Whether a snapshot of the applied state could shorten the log.
    #[must_use]
    pub fn can_shorten(&self) -> bool {
        self.raw.raft.raft_log.applied > self.raw.store().base().index.0
    }

    /// The term of an entry in memory.
    #[must_use]
    pub fn term_of(&self, index: LogIndex) -> Option<Term> {
        self.raw.store().term_of(index)
    }

    /// The entry with this index, if it is still in memory.
    #[must_use]
    pub fn entry(&self, index: LogIndex) -> Option<Entry> {
        self.raw.store().entry(index).map(convert::from_raft)
    }

    /// Returns the index up to which each replica's log matches and is synced. It is valid only if this replica is the
    /// leader.
    #[must_use]
    pub fn progress(&self) -> Vec<(ReplicaId, LogIndex)> {
        let progress = self.raw.raft.prs().iter();
        let mut list: Vec<_> =
            progress.map(|(id, one)| (ReplicaId(*id), LogIndex(one.matched))).collect();
        list.sort_unstable();
        list
    }

    /// Advances the node's time by one tick.
    pub fn tick(&mut self) {
        self.contacts.tick();
        let leads_at_once = self.is_alone() && !self.leadership().is_leader;
        if self.cannot_lead_alone() {
            return;
        }
        if self.installing.is_some() || leads_at_once && !self.held.is_empty() {
            // raft-rs cannot make the only voter the leader at once while writes are in progress.
            return;
        }
        self.raw.tick();
        self.settle();
    }

    /// Starts an election.
    pub fn campaign(&mut self) {
        if self.installing.is_some() || self.cannot_lead_alone() {
            return;
        }
        // The only possible error is that raft-rs ignores the request.
        let _ = self.raw.campaign();
        self.settle();
    }

    /// Handles a message of another replica. A message that offers a snapshot may only be passed once the snapshot is
    /// received and loaded.
    ///
    /// # Errors
    /// The message is invalid. If the error is fatal, the replica must stop.
    pub fn receive(&mut self, message: &Message) -> Result<(), MessageError> {
        self.check(message)?;
        let Some(raft) = message.to_raft() else {
            return Err(MessageError::Malformed("a change of the membership cannot be read"));
        };
        if message.kind == MessageKind::StandNow && self.installing.is_some() {
            return Ok(());
        }
        if self.is_held_vote(message) {
            return Ok(());
        }
        // The only possible error is that the message is a reply of a removed replica.
        let _ = self.raw.step(raft);
        self.record_contact(message);
        if let Some(offer) = message.snapshot.as_ref().filter(|offer| self.is_accepted(offer)) {
            self.accepted = Some(offer.clone());
        }
        self.settle();
        Ok(())
    }

    /// Checks a message.
    ///
    /// # Errors
    /// The message is invalid. If the error is fatal, the replica must stop.
    pub fn check(&self, message: &Message) -> Result<(), MessageError> {
        check::check(message, &self.raw)
    }

    /// Proposes commands, and returns the position of their entry. If another entry is committed at this index, the
    /// proposed entry will never be committed.
    ///
    /// # Errors
    /// This replica is not the leader, or too many proposals are uncommitted.
    pub fn propose(&mut self, data: Vec<u8>) -> Result<Position, ProposeError> {
        if self.raw.raft.state != StateRole::Leader {
            return Err(ProposeError::NotLeader);
        }
        self.raw.propose(Vec::new(), data).map_err(|_| ProposeError::Busy)?;
        Ok(Position { index: self.last(), term: Term(self.raw.raft.term) })
    }

    /// Starts a transfer of leadership to another voter. [`Node::leadership`] returns whether it has succeeded.
    pub fn transfer(&mut self, to: ReplicaId) {
        self.raw.transfer_leader(to.0);
        self.settle();
    }

    /// Requests the index that must be applied before a read that begins now may be answered. This makes the read
    /// linearizable. The reply appears in [`Effects::reads`]. If the reply is lost, the caller must repeat the request.
    pub fn read(&mut self, id: ReadId) {
        self.raw.read_index(id.to_bytes());
        self.settle();
    }

    /// Drops the oldest entries in memory until at most `keep_bytes` bytes remain. Entries after `index`, or after the
    /// newest snapshot, are never dropped. Returns the position before the remaining entries.
    pub fn compact(&mut self, index: LogIndex, keep_bytes: u64) -> Position {
        let window = self.raw.mut_store();
        let taken = window.offered().map_or(LogIndex(0), |position| position.index);
        window.compact(index.min(taken), keep_bytes)
    }

    /// Reports that all writes up to this number are durable.
    pub fn persisted(&mut self, number: u64) {
        while let Some(held) = self.held.pop_front_if(|held| held.needs <= number) {
            self.raw.on_persist_ready(held.ready);
            self.outbox.extend(held.messages);
            if let Some((_, index)) = self.installing.take_if(|(ready, _)| *ready == held.ready) {
                self.raw.advance_apply_to(index.0);
            }
        }
        if omega_cellstate::injected!(NoQuorum) && self.leadership().is_leader {
            let log = &mut self.raw.raft.raft_log;
            log.commit_to(log.persisted.max(log.committed));
        }
        self.settle();
    }

    /// The index of the last entry that is durable on this disk.
    #[must_use]
    pub fn safe(&self) -> LogIndex {
        LogIndex(self.raw.raft.raft_log.persisted)
    }

    /// Reports that all entries up to this index are applied.
    pub fn applied(&mut self, index: LogIndex) {
        self.raw.advance_apply_to(index.0);
        self.settle();
    }

    /// Takes the effects to carry out; `None` if there are none.
    pub fn effects(&mut self) -> Option<Effects> {
        if !self.raw.has_ready() && self.outbox.is_empty() {
            return None;
        }
        let mut effects = Effects::default();
        if self.raw.has_ready() {
            let ready = self.raw.ready();
            self.follow(ready, &mut effects);
            self.settle();
        }
        let mut first = std::mem::take(&mut self.outbox);
        first.append(&mut effects.messages);
        effects.messages = first;
        Some(effects)
    }

    /// Converts the ready state of raft-rs into effects.
    fn follow(&mut self, mut ready: Ready, effects: &mut Effects) {
        let number = ready.number();
        let now = ready.take_messages();
        effects.messages = self.outgoing(now);
        let held = ready.take_persisted_messages();
        let mut held = self.outgoing(held);
        for read in ready.take_read_states() {
            let id = ReadId::from_bytes(&read.request_ctx);
            effects.reads.extend(id.map(|id| (id, LogIndex(read.index))));
        }
        let restart = self.install(&ready, effects);
        if let Some(position) = restart {
            self.installing = Some((number, position.index));
        }
        let entries = ready.take_entries();
        let batch = Batch {
            entries: entries.iter().map(convert::from_raft).collect(),
            hard_state: Some(self.hard_state()).filter(|now| *now != self.hard_state_written),
        };
        let batch = inject_into(batch);
        self.raw.mut_store().append(entries);
        self.settle_suspected_loss();
        if omega_cellstate::injected!(VoteSentEarly)
            || omega_cellstate::injected!(AppendedSentEarly)
        {
            effects.messages.extend(promised_early(&mut held));
        }
        let committed = ready.take_committed_entries();
        effects.committed = committed.iter().map(convert::from_raft).collect();
        // A new commit index alone causes no write; it is written with the next one.
        if ready.must_sync() {
            self.written = number;
            self.hard_state_written = batch.hard_state.unwrap_or(self.hard_state_written);
            let restart = restart.filter(|_| !omega_cellstate::injected!(RestartForgotten));
            effects.write = Some(Write { number, restart, batch });
        }
        self.raw.advance_append_async(ready);
        if self.held.is_empty() && effects.write.is_none() {
            self.raw.on_persist_ready(number);
            effects.messages.extend(held);
        } else {
            self.held.push_back(Held { ready: number, needs: self.written, messages: held });
        }
    }

    /// Continues from a snapshot that raft-rs has accepted.
    fn install(&mut self, ready: &Ready, effects: &mut Effects) -> Option<Position> {
        let metadata = ready.snapshot().get_metadata();
        if metadata.index == 0 {
            return None;
        }
        let offer = self.accepted.take().expect("raft-rs accepts only offered snapshots");
        let position = offer.position;
        assert_eq!(position.index.0, metadata.index, "it is the accepted snapshot");
        self.membership.clone_from(&offer.membership);
        self.raw.mut_store().restart(position);
        // Entries up to the snapshot's end are not missing: the snapshot includes them, or entries that replaced them.
        self.suspected_loss.take_if(|loss| loss.index <= position.index);
        self.raw.mut_store().offer(position, offer.membership.clone());
        effects.install = Some(offer);
        Some(position)
    }

    fn hard_state(&self) -> HardState {
        let raft = &self.raw.raft;
        HardState {
            term: Term(raft.term),
            vote: (raft.vote != 0).then_some(ReplicaId(raft.vote)),
            commit: LogIndex(raft.raft_log.committed),
        }
    }

    /// Converts messages of raft-rs.
    fn outgoing(&self, messages: Vec<eraftpb::Message>) -> Vec<Message> {
        let convert = |message: eraftpb::Message| {
            let offer = self.raw.store().offer_of(&message);
            Message::from_raft(message, offer).map(|message| self.with_suspected_loss(message))
        };
        messages.into_iter().filter_map(convert).collect()
    }

    /// Replaces the election timeout if raft-rs has chosen a new one.
    fn settle(&mut self) {
        let raft = &mut self.raw.raft;
        let now = (Term(raft.term), raft.state);
        if (self.timeout.1, self.timeout.2) != now {
            let least = self.settings.election_ticks;
            self.timeout = (self.dice.random_range(least..2 * least), now.0, now.1);
        }
        raft.set_randomized_election_timeout(self.timeout.0);
    }
}

/// The batch, without the part that an injected bug omits.
fn inject_into(mut batch: Batch) -> Batch {
    if omega_cellstate::injected!(HardStateApart) && !batch.entries.is_empty() {
        batch.hard_state = None;
    }
    if omega_cellstate::injected!(VoteForgotten) {
        batch.hard_state = batch.hard_state.map(|state| HardState { vote: None, ..state });
    }
    batch
}

/// Removes and returns the messages with promises that an injected bug sends before the promises are synced.
fn promised_early(held: &mut Vec<Message>) -> impl Iterator<Item = Message> + '_ {
    held.extract_if(.., |message| match message.kind {
        MessageKind::Voted => omega_cellstate::injected!(VoteSentEarly),
        MessageKind::Appended => omega_cellstate::injected!(AppendedSentEarly),
        _ => false,
    })
}
