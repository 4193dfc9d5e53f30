//! Snapshots of a replica: when they are taken, and how one is sent to a replica that is too far behind.
//!
//! ```text
//!   taking      log long enough ─▶ capture, piece by piece ─▶ save ─▶ offer it, compact the log
//!
//!   sending     leader ──raft: snapshot 812──▶ follower
//!               leader ◀──request for offer─── follower     the follower requests piece by piece,
//!               leader ──offer, pieces ──────▶ follower     and repeats lost requests
//!                                              all pieces checked and loaded: passed to raft
//! ```
//!
//! The Raft node gets a received snapshot only when its state is loaded, so that installing it is one step.

use super::Replica;
use super::request::PeerMessage;
use super::snapshot_worker::{SnapshotJob, SnapshotResult};
use crate::failpoint::failpoint;
use crate::log::{LogIndex, Position, ReplicaId, Term};
use crate::membership::Membership;
use crate::node::{Message, MessageError, SnapshotOffer};
use crate::snapshot::{Offer, Piece, ReplicaMeta};
use omega_cellstate::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// Ticks after which a missing piece is requested again.
const PIECE_TICKS: u64 = 4;

/// Ticks after which a snapshot is offered again to a replica that requests no piece.
const SILENT_TICKS: u64 = 40;

/// Pieces of a capture that are copied at each step and each tick of the replica. A piece takes 30 microseconds.
const PIECES_A_STEP: usize = 4;
const PIECES_A_TICK: usize = 64;

/// The transfers. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// Bytes of entries that were applied since the last snapshot began.
    pub(super) since_last: u64,
    /// Position and metadata of the snapshot that is being captured.
    capturing: Option<(Position, ReplicaMeta)>,
    saving: bool,
    /// The tick at which saving a snapshot failed; `None` again when the next one begins.
    pub(super) failed_at: Option<u64>,
    receiving: Option<Receiving>,
    /// A restored state that was not passed to the Raft node yet.
    loaded: Option<(Position, ReplicaMeta, Box<Cell>)>,
    /// Tick of the last request of each replica that needs a snapshot.
    requested: BTreeMap<ReplicaId, u64>,
    /// Replicas for which the snapshot thread has a job.
    sending: BTreeSet<ReplicaId>,
}

#[derive(Debug)]
struct Receiving {
    from: ReplicaId,
    /// Message to be passed to the Raft node when all pieces have arrived.
    message: Message,
    position: Position,
    offer: Option<Offer>,
    /// Number of the requested piece.
    wanted: Option<u64>,
    asked_at: u64,
}

impl Replica {
    /// Adds the bytes of applied entries.
    pub(super) fn note_applied(&mut self, bytes: u64) {
        self.transfers.since_last += bytes;
    }

    /// Begins a snapshot if one should be taken now, and continues one in progress.
    pub(super) fn capture(&mut self) {
        if self.transfers.capturing.is_some() {
            self.capture_more(PIECES_A_STEP);
        } else if self.snapshot_is_due() {
            self.begin_capture();
        }
    }

    /// Starts a snapshot of the current state, unless one is in progress.
    pub fn begin_capture(&mut self) {
        let transfers = &mut self.transfers;
        let mut state = self.applied.lock();
        // A backup may be in the process of being captured. That ends soon, and the snapshot is taken afterwards.
        if state.cell.is_captured() || transfers.saving || self.full {
            return;
        }
        failpoint!("snapshot-capture");
        let membership = self.node.membership().clone();
        let replica_meta = ReplicaMeta { membership, fingerprint: self.fingerprint.value() };
        let mut position = state.position;
        if omega_cellstate::injected!(SnapshotIndexHigh) {
            position.index = position.index.next();
        }
        if omega_cellstate::injected!(SnapshotIndexLow) {
            position.index = LogIndex(position.index.0 - 1);
        }
        transfers.capturing = Some((position, replica_meta));
        transfers.since_last = 0;
        transfers.failed_at = None;
        state.cell.begin_capture();
    }

    fn capture_more(&mut self, pieces: usize) {
        if self.transfers.capturing.is_none() {
            return;
        }
        let Some(captured) = self.applied.lock().cell.capture_more(pieces) else { return };
        failpoint!("snapshot-captured");
        if let Some((position, mut replica_meta)) = self.transfers.capturing.take() {
            if omega_cellstate::injected!(CompactedEarly) {
                self.saved(position, replica_meta.membership.clone(), true);
            }
            if omega_cellstate::injected!(FingerprintLate) {
                replica_meta.fingerprint = self.fingerprint.value();
            }
            if omega_cellstate::injected!(MembershipLate) {
                replica_meta.membership = self.node.membership().clone();
            }
            self.transfers.saving = true;
            let captured = Box::new(captured);
            self.output.files.push(SnapshotJob::Save { position, replica_meta, captured });
        }
    }

    /// Handles the result of a snapshot job.
    pub fn file_done(&mut self, done: SnapshotResult) {
        match done {
            SnapshotResult::Saved(position, membership, safe) => {
                self.saved(position, membership, safe)
            }
            SnapshotResult::Offered(to, offer) => {
                self.transfers.sending.remove(&to);
                self.output.messages.push((to, PeerMessage::SnapshotOffer { offer }));
            }
            SnapshotResult::Read(to, position, piece) => {
                self.transfers.sending.remove(&to);
                self.output.messages.push((to, PeerMessage::SnapshotPiece { position, piece }));
            }
            SnapshotResult::Gone(to, position) => {
                self.transfers.sending.remove(&to);
                self.output.messages.push((to, PeerMessage::SnapshotGone { position }));
                self.transfers.requested.remove(&to);
                self.node.snapshot_failed(to);
            }
            SnapshotResult::Wanted(position, piece) => self.want(position, piece),
            // The accepted snapshot is installed first. The leader offers the other one again.
            SnapshotResult::Received(position, ..) if self.node.has_accepted_snapshot() => {
                self.transfers.receiving.take_if(|one| one.position == position);
            }
            SnapshotResult::Received(position, replica_meta, cell) => {
                self.transfers.loaded = Some((position, replica_meta, cell));
                let done = self.transfers.receiving.take_if(|one| one.position == position);
                if let Some(done) = done {
                    self.handle_loaded(&done.message);
                }
            }
            SnapshotResult::Failed(position) => {
                self.transfers.receiving.take_if(|one| one.position == position);
            }
        }
    }

    fn saved(&mut self, position: Position, membership: Membership, safe: bool) {
        self.transfers.saving = false;
        if !safe {
            self.transfers.failed_at = Some(self.ticks);
            return;
        }
        failpoint!("snapshot-saved");
        self.node.snapshot_taken(position, membership);
        let base = self.node.compact(position.index, self.settings.log_keep_bytes);
        failpoint!("snapshot-forget");
        self.output.compact = Some(base);
    }

    /// Handles a leader's message that offers a snapshot, which this replica needs.
    pub(super) fn receive_offer(&mut self, message: Message, offer: &SnapshotOffer) {
        let position = offer.position;
        let loaded = self.transfers.loaded.as_ref().is_some_and(|(here, ..)| *here == position);
        let known = position.index <= self.node.committed()
            || self.node.term_of(position.index) == Some(position.term);
        if loaded {
            return self.handle_loaded(&message);
        }
        if known {
            return self.step(&message);
        }
        let ticks = self.ticks;
        match &mut self.transfers.receiving {
            Some(one) if one.position == position => {
                (one.from, one.message) = (message.from, message);
            }
            receiving => {
                let from = message.from;
                *receiving = Some(Receiving {
                    from,
                    message,
                    position,
                    offer: None,
                    wanted: None,
                    asked_at: ticks,
                });
                let request = PeerMessage::SnapshotRequest { position, piece: None };
                self.output.messages.push((from, request));
            }
        }
    }

    /// Passes the offer to the Raft node if the loaded snapshot is the offered one.
    fn handle_loaded(&mut self, message: &Message) {
        let offered = message.snapshot.as_ref();
        let same = self.transfers.loaded.as_ref().zip(offered).is_some_and(|(here, offer)| {
            here.0 == offer.position && here.1.membership == offer.membership
        });
        if same {
            self.step(message)
        } else {
            self.reject(
                message,
                MessageError::Malformed("it offers another snapshot than this replica received"),
            )
        }
    }

    /// Handles another replica's request for a snapshot of this replica. Requests are repeated, so one that arrives
    /// before the previous one is answered is dropped.
    pub(super) fn handle_snapshot_request(
        &mut self,
        to: ReplicaId,
        position: Position,
        piece: Option<u64>,
    ) {
        self.transfers.requested.insert(to, self.ticks);
        if !self.transfers.sending.insert(to) {
            return;
        }
        self.output.files.push(match piece {
            None => SnapshotJob::Offer { to, position },
            Some(piece) => SnapshotJob::Send { to, position, piece },
        });
    }

    /// Handles the description of a snapshot to be received.
    pub(super) fn handle_snapshot_offer(&mut self, from: ReplicaId, offer: Offer) {
        let receiving = self.transfers.receiving.as_mut();
        let expected = receiving.filter(|one| one.from == from && one.position == offer.position);
        let Some(one) = expected.filter(|one| one.offer.is_none()) else { return };
        one.offer = Some(offer);
        self.output.files.push(SnapshotJob::Receive(offer));
    }

    /// Handles a piece of a snapshot.
    pub(super) fn handle_snapshot_piece(
        &mut self,
        from: ReplicaId,
        position: Position,
        piece: Piece,
    ) {
        let receiving = self.transfers.receiving.as_mut();
        let expected = receiving.filter(|one| {
            one.from == from && one.position == position && one.wanted == Some(piece.number)
        });
        let Some(one) = expected else { return };
        one.wanted = None;
        self.output.files.push(SnapshotJob::Accept(position, piece));
    }

    /// Handles the reply that a requested snapshot no longer exists. The leader will offer another one.
    pub(super) fn handle_snapshot_gone(&mut self, from: ReplicaId, position: Position) {
        let gone = |one: &mut Receiving| one.from == from && one.position == position;
        self.transfers.receiving.take_if(gone);
    }

    fn want(&mut self, position: Position, piece: u64) {
        let ticks = self.ticks;
        let receiving = self.transfers.receiving.as_mut();
        let Some(one) = receiving.filter(|one| one.position == position) else { return };
        (one.wanted, one.asked_at) = (Some(piece), ticks);
        let request = PeerMessage::SnapshotRequest { position, piece: Some(piece) };
        self.output.messages.push((one.from, request));
    }

    /// Requests missing pieces again, and repeats unanswered offers.
    pub(super) fn tick_transfers(&mut self) {
        self.capture_more(PIECES_A_TICK);
        let ticks = self.ticks;
        if let Some(one) = &mut self.transfers.receiving
            && ticks >= one.asked_at + PIECE_TICKS
            && (one.offer.is_none() || one.wanted.is_some())
        {
            one.asked_at = ticks;
            let request =
                PeerMessage::SnapshotRequest { position: one.position, piece: one.wanted };
            self.output.messages.push((one.from, request));
        }
        let needy = self.node.needs_snapshot();
        self.transfers.requested.retain(|id, _| needy.contains(id));
        for id in needy {
            let requested = *self.transfers.requested.entry(id).or_insert(ticks);
            if ticks >= requested + SILENT_TICKS {
                self.transfers.requested.remove(&id);
                self.node.snapshot_failed(id);
            }
        }
    }

    /// Replaces this replica's state by the state of a snapshot.
    pub(super) fn install(&mut self, offer: &SnapshotOffer) {
        let (position, replica_meta, cell) =
            self.transfers.loaded.take().expect("a snapshot is passed to raft when it is loaded");
        assert_eq!(position, offer.position, "raft accepts the snapshot that was passed to it");
        assert_eq!(
            replica_meta.membership, offer.membership,
            "the offer and the file are of one leader"
        );
        failpoint!("snapshot-install");
        let mut state = self.applied.lock();
        let mut cell = cell;
        cell.adopt_history(&mut state.cell);
        state.cell = *cell;
        state.position = position;
        state.installed += 1;
        drop(state);
        self.transfers.capturing = None;
        self.transfers.since_last = 0;
        self.fingerprint = super::Fingerprint::new(position.index, replica_meta.fingerprint);
        // The snapshot does not show whether it includes this replica's proposals, so their outcomes are unknown.
        let last = Position { index: position.index, term: Term(u64::MAX) };
        for sender in self.requests.resolve(last).overwritten {
            self.reply(sender, super::Reply::Unknown);
        }
        tracing::info!(id = %self.node.id(), index = position.index.0, "snapshot installed");
        self.applied.notify();
        self.check_removal();
    }

    /// Drops a loaded state that is older than the applied one.
    pub(super) fn forget_loaded(&mut self, applied: LogIndex) {
        self.transfers.loaded.take_if(|(position, ..)| position.index <= applied);
    }
}
