//! The snapshot thread, which does the slow work of reading and writing snapshots.

use crate::failpoint::failpoint;
use crate::log::{Position, ReplicaId};
use crate::membership::Membership;
use crate::snapshot::{Incoming, Meta, Offer, Outgoing, Piece, SaveError, Snapshots};
use bytes::Bytes;
use omega_cellstate::{Captured, Cell};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Replicated state in a snapshot, apart from the cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreed {
    /// Membership.
    pub membership: Membership,
    /// The fingerprint of the history.
    pub fingerprint: u64,
}

impl Agreed {
    pub(super) fn to_bytes(&self) -> Bytes {
        crate::codec::encode_small(self).into()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Agreed> {
        let agreed: Agreed = match crate::codec::decode_small(bytes) {
            Ok(agreed) => agreed,
            Err(_) => crate::codec::decode_small::<WithoutAddresses>(bytes).ok()?.into(),
        };
        agreed.membership.is_sound().then_some(agreed)
    }
}

/// The agreed state in an older format of snapshots, which had no addresses of replicas.
#[derive(Deserialize)]
struct WithoutAddresses {
    voters: BTreeSet<ReplicaId>,
    voters_outgoing: BTreeSet<ReplicaId>,
    learners: BTreeSet<ReplicaId>,
    learners_next: BTreeSet<ReplicaId>,
    auto_leave: bool,
    highest: Option<ReplicaId>,
    fingerprint: u64,
}

impl From<WithoutAddresses> for Agreed {
    fn from(old: WithoutAddresses) -> Agreed {
        let WithoutAddresses { voters, voters_outgoing, learners, learners_next, .. } = old;
        let WithoutAddresses { auto_leave, highest, fingerprint, .. } = old;
        let addresses = BTreeMap::new();
        let membership = Membership {
            voters,
            voters_outgoing,
            learners,
            learners_next,
            auto_leave,
            highest,
            addresses,
        };
        Agreed { membership, fingerprint }
    }
}

/// A job of the snapshot thread.
#[derive(Debug)]
pub enum FileJob {
    /// Saves a captured state.
    Save {
        /// Position of the last included entry.
        position: Position,
        /// Agreed state at that position.
        agreed: Agreed,
        /// The captured state.
        captured: Box<Captured>,
    },
    /// Describes a snapshot to another replica.
    Offer {
        /// Id of the receiver.
        to: ReplicaId,
        /// Position of the snapshot.
        position: Position,
    },
    /// Reads a piece to send to another replica.
    Send {
        /// Id of the receiver.
        to: ReplicaId,
        /// Position of the snapshot.
        position: Position,
        /// Number of the piece.
        piece: u64,
    },
    /// Prepares to receive a snapshot.
    Receive(Offer),
    /// Writes a received piece.
    Accept(Position, Piece),
}

/// Result of a job.
#[derive(Debug)]
pub enum FileDone {
    /// A snapshot was saved durably (`true`), or saving it failed (`false`).
    Saved(Position, Membership, bool),
    /// Description of a snapshot for another replica.
    Offered(ReplicaId, Offer),
    /// A piece to send to another replica.
    Read(ReplicaId, Position, Piece),
    /// The snapshot that the replica with this id requested does not exist.
    Gone(ReplicaId, Position),
    /// The position of a snapshot that is being received, and the number of the next piece to request.
    Wanted(Position, u64),
    /// A snapshot was received completely and checked, and its state is restored.
    Received(Position, Agreed, Box<Cell>),
    /// The snapshot cannot be received now.
    Failed(Position),
}

/// The worker of the snapshot thread. See the module documentation.
#[derive(Debug)]
pub struct FileWorker {
    snapshots: Arc<Snapshots>,
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
}

impl FileWorker {
    /// A worker for a folder of snapshots.
    #[must_use]
    pub fn new(snapshots: Arc<Snapshots>) -> FileWorker {
        FileWorker { snapshots, outgoing: None, incoming: None }
    }

    /// Does a job, and returns its result.
    pub fn work(&mut self, job: FileJob) -> FileDone {
        match job {
            FileJob::Save { position, agreed, captured } => self.save(position, &agreed, *captured),
            FileJob::Offer { to, position } => match self.outgoing(position) {
                Some(outgoing) => FileDone::Offered(to, outgoing.offer()),
                None => FileDone::Gone(to, position),
            },
            FileJob::Send { to, position, piece } => {
                failpoint!("snapshot-read", FileDone::Gone(to, position));
                let read = self.outgoing(position).map(|outgoing| outgoing.piece(piece));
                match read {
                    Some(Ok(piece)) => FileDone::Read(to, position, piece),
                    Some(Err(error)) => {
                        tracing::error!(%error, "a snapshot cannot be sent");
                        self.outgoing = None;
                        FileDone::Gone(to, position)
                    }
                    None => FileDone::Gone(to, position),
                }
            }
            FileJob::Receive(offer) => self.receive(offer),
            FileJob::Accept(position, piece) => self.accept(position, &piece),
        }
    }

    fn save(&mut self, position: Position, agreed: &Agreed, captured: Captured) -> FileDone {
        failpoint!("snapshot-save", FileDone::Saved(position, agreed.membership.clone(), false));
        let cell = self.snapshots.cell();
        let meta = Meta { cell, position, membership: agreed.to_bytes() };
        let saved = self.snapshots.save(&meta, &captured.into_snapshot_state());
        match &saved {
            Ok(()) => {}
            Err(error @ SaveError::Full(_)) => tracing::warn!(%error, "no snapshot was taken"),
            Err(error) => tracing::error!(%error, "no snapshot was taken"),
        }
        FileDone::Saved(position, agreed.membership.clone(), saved.is_ok())
    }

    fn outgoing(&mut self, position: Position) -> Option<&Outgoing> {
        failpoint!("snapshot-offer", None);
        if self.outgoing.as_ref().is_none_or(|open| open.offer().position != position) {
            self.outgoing = match self.snapshots.outgoing(position) {
                Ok(outgoing) => Some(outgoing),
                Err(error) => {
                    tracing::warn!(%error, "a snapshot cannot be sent");
                    None
                }
            };
        }
        self.outgoing.as_ref()
    }

    fn receive(&mut self, offer: Offer) -> FileDone {
        failpoint!("snapshot-receive", FileDone::Failed(offer.position));
        // If another snapshot is being received, its file must be closed before a new one is begun.
        self.incoming = None;
        match self.snapshots.receive(offer) {
            Ok(incoming) => {
                self.incoming = Some(incoming);
                self.next(offer.position)
            }
            Err(error) => {
                tracing::warn!(%error, "a snapshot cannot be received");
                FileDone::Failed(offer.position)
            }
        }
    }

    fn accept(&mut self, position: Position, piece: &Piece) -> FileDone {
        failpoint!("snapshot-accept", FileDone::Failed(position));
        let incoming = self.incoming.as_mut().filter(|one| one.offer().position == position);
        let Some(incoming) = incoming else { return FileDone::Failed(position) };
        match incoming.accept(piece) {
            Ok(_) => {
                failpoint!("snapshot-piece", FileDone::Failed(position));
                self.next(position)
            }
            Err(error) => {
                tracing::warn!(%error, "a piece of a snapshot was not taken");
                self.next(position)
            }
        }
    }

    /// Requests the next piece, or restores the state if the file is complete.
    fn next(&mut self, position: Position) -> FileDone {
        let Some(incoming) = self.incoming.take() else { return FileDone::Failed(position) };
        if let Some(wanted) = incoming.wanted() {
            self.incoming = Some(incoming);
            return FileDone::Wanted(position, wanted);
        }
        failpoint!("snapshot-finish", FileDone::Failed(position));
        if let Err(error) = incoming.finish() {
            tracing::warn!(%error, "a snapshot was not received");
            return FileDone::Failed(position);
        }
        failpoint!("snapshot-load", FileDone::Failed(position));
        match restore(&self.snapshots, position) {
            Ok((agreed, cell)) => FileDone::Received(position, agreed, Box::new(cell)),
            Err(error) => {
                tracing::error!(%error, "a snapshot that was received cannot be read");
                FileDone::Failed(position)
            }
        }
    }
}

/// Restores the cell of a snapshot.
pub(super) fn restore(
    snapshots: &Snapshots,
    position: Position,
) -> Result<(Agreed, Cell), super::StartError> {
    let (meta, cell) = snapshots.restore(position)?;
    let agreed = Agreed::from_bytes(&meta.membership);
    let path = || snapshots.path(position);
    let agreed = agreed.ok_or_else(|| super::StartError::Agreed { path: path() })?;
    Ok((agreed, cell))
}
