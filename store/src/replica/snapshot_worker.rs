//! The worker of the snapshot thread, which saves, sends, receives and restores snapshots.

use crate::failpoint::failpoint;
use crate::log::{Position, ReplicaId};
use crate::membership::Membership;
use crate::snapshot::{
    Incoming, KEPT, Meta, Offer, Outgoing, Piece, ReceiveError, ReplicaMeta, SaveError, Snapshots,
};
use omega_cellstate::{Captured, Cell};
use std::sync::Arc;

/// A job of the snapshot thread.
#[derive(Debug)]
pub enum SnapshotJob {
    /// Saves a captured state.
    Save {
        /// Position of the last included entry.
        position: Position,
        /// Replicated state apart from the cell, at that position.
        replica_meta: ReplicaMeta,
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
pub enum SnapshotResult {
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
    Received(Position, ReplicaMeta, Box<Cell>),
    /// The snapshot cannot be received now.
    Failed(Position),
}

/// The worker of the snapshot thread. See the module documentation.
#[derive(Debug)]
pub struct SnapshotWorker {
    snapshots: Arc<Snapshots>,
    /// Snapshots that are being sent, the last requested one at the end. Replicas may receive different ones.
    outgoing: Vec<Outgoing>,
    incoming: Option<Incoming>,
}

impl SnapshotWorker {
    /// A worker for a folder of snapshots.
    #[must_use]
    pub fn new(snapshots: Arc<Snapshots>) -> SnapshotWorker {
        SnapshotWorker { snapshots, outgoing: Vec::new(), incoming: None }
    }

    /// Does a job, and returns its result.
    pub fn work(&mut self, job: SnapshotJob) -> SnapshotResult {
        match job {
            SnapshotJob::Save { position, replica_meta, captured } => {
                self.save(position, &replica_meta, *captured)
            }
            SnapshotJob::Offer { to, position } => match self.outgoing(position) {
                Some(outgoing) => SnapshotResult::Offered(to, outgoing.offer()),
                None => SnapshotResult::Gone(to, position),
            },
            SnapshotJob::Send { to, position, piece } => {
                failpoint!("snapshot-read", SnapshotResult::Gone(to, position));
                self.read(to, position, piece)
            }
            SnapshotJob::Receive(offer) => self.receive(offer),
            SnapshotJob::Accept(position, piece) => self.accept(position, &piece),
        }
    }

    fn save(
        &mut self,
        position: Position,
        replica_meta: &ReplicaMeta,
        captured: Captured,
    ) -> SnapshotResult {
        failpoint!(
            "snapshot-save",
            SnapshotResult::Saved(position, replica_meta.membership.clone(), false)
        );
        let cell = self.snapshots.cell();
        let meta = Meta { cell, position, replica_meta: replica_meta.to_bytes() };
        let saved = self.snapshots.save(&meta, &captured.into_snapshot_state());
        match &saved {
            Ok(()) => {}
            Err(error @ SaveError::Full(_)) => tracing::warn!(%error, "no snapshot was taken"),
            Err(error) => tracing::error!(%error, "no snapshot was taken"),
        }
        SnapshotResult::Saved(position, replica_meta.membership.clone(), saved.is_ok())
    }

    /// The snapshot at this position, opened for sending. All its bytes are checked when it is opened.
    fn outgoing(&mut self, position: Position) -> Option<&Outgoing> {
        failpoint!("snapshot-offer", None);
        let open = self.outgoing.iter().position(|one| one.offer().position == position);
        let outgoing = match open {
            Some(at) => self.outgoing.remove(at),
            None => match self.snapshots.outgoing(position) {
                Ok(outgoing) => outgoing,
                Err(error) => {
                    tracing::warn!(%error, "a snapshot cannot be sent");
                    return None;
                }
            },
        };
        if self.outgoing.len() == KEPT {
            self.outgoing.remove(0);
        }
        self.outgoing.push(outgoing);
        self.outgoing.last()
    }

    /// Reads a piece of a snapshot for another replica.
    fn read(&mut self, to: ReplicaId, position: Position, piece: u64) -> SnapshotResult {
        let Some(outgoing) = self.outgoing(position) else {
            return SnapshotResult::Gone(to, position);
        };
        let (read, is_last) =
            (outgoing.piece(piece), piece.saturating_add(1) >= outgoing.offer().pieces());
        if is_last || read.is_err() {
            // An open file keeps its room on the disk even after it was removed.
            self.outgoing.pop();
        }
        match read {
            Ok(piece) => SnapshotResult::Read(to, position, piece),
            Err(error) => {
                tracing::error!(%error, "a snapshot cannot be sent");
                SnapshotResult::Gone(to, position)
            }
        }
    }

    fn receive(&mut self, offer: Offer) -> SnapshotResult {
        failpoint!("snapshot-receive", SnapshotResult::Failed(offer.position));
        // If another snapshot is being received, its file must be closed before a new one is begun.
        self.incoming = None;
        match self.snapshots.receive(offer) {
            Ok(incoming) => {
                self.incoming = Some(incoming);
                self.next(offer.position)
            }
            Err(error) => {
                tracing::warn!(%error, "a snapshot cannot be received");
                SnapshotResult::Failed(offer.position)
            }
        }
    }

    fn accept(&mut self, position: Position, piece: &Piece) -> SnapshotResult {
        failpoint!("snapshot-accept", SnapshotResult::Failed(position));
        let incoming = self.incoming.as_mut().filter(|one| one.offer().position == position);
        let Some(incoming) = incoming else { return SnapshotResult::Failed(position) };
        match incoming.accept(piece) {
            Ok(_) => {
                failpoint!("snapshot-piece", SnapshotResult::Failed(position));
                self.next(position)
            }
            Err(error @ (ReceiveError::Order { .. } | ReceiveError::Piece(_))) => {
                tracing::warn!(%error, "a piece of a snapshot was not taken");
                self.next(position)
            }
            // The disk fails. The pieces on it are kept until the leader offers the snapshot again.
            Err(error) => {
                tracing::warn!(%error, "a piece of a snapshot was not taken");
                self.incoming = None;
                SnapshotResult::Failed(position)
            }
        }
    }

    /// Requests the next piece, or restores the state if the file is complete.
    fn next(&mut self, position: Position) -> SnapshotResult {
        let Some(incoming) = self.incoming.take() else { return SnapshotResult::Failed(position) };
        if let Some(wanted) = incoming.wanted() {
            self.incoming = Some(incoming);
            return SnapshotResult::Wanted(position, wanted);
        }
        failpoint!("snapshot-finish", SnapshotResult::Failed(position));
        if let Err(error) = incoming.finish() {
            tracing::warn!(%error, "a snapshot was not received");
            return SnapshotResult::Failed(position);
        }
        failpoint!("snapshot-load", SnapshotResult::Failed(position));
        match restore(&self.snapshots, position) {
            Ok((replica_meta, cell)) => {
                SnapshotResult::Received(position, replica_meta, Box::new(cell))
            }
            Err(error) => {
                tracing::error!(%error, "a snapshot that was received cannot be read");
                SnapshotResult::Failed(position)
            }
        }
    }
}

/// Restores the cell of a snapshot.
pub(super) fn restore(
    snapshots: &Snapshots,
    position: Position,
) -> Result<(ReplicaMeta, Cell), super::StartError> {
    let (meta, cell) = snapshots.restore(position)?;
    let replica_meta = ReplicaMeta::from_bytes(&meta.replica_meta);
    let path = || snapshots.path(position);
    let replica_meta =
        replica_meta.ok_or_else(|| super::StartError::ReplicaMeta { path: path() })?;
    Ok((replica_meta, cell))
}
