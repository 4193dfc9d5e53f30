//! Streaming of a backup to a caller.
//!
//! ```text
//!   state, copied while commits go on ──▶ the bytes of a snapshot ──pieces──▶ the caller's file
//! ```
//!
//! The file is encoded while it is sent, on a thread of its own. Nothing is written to a disk of this machine, so cells
//! in memory and cells with a full disk can be backed up, too. A backup needs memory for one copy of the state, so
//! each replica makes one at a time, and a caller that does not read is disconnected.

use crate::host::Host;
use omega_cellstate::SnapshotState;
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::CellId;
use omega_store::snapshot::{piece_checksum, write_backup};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The pieces of one backup.
pub(crate) type Pieces = ReceiverStream<Result<proto::BackupResponse, Status>>;

/// Maximum number of pieces of one MiB that wait to be sent.
const PIECES_MAX: usize = 4;

/// Time without a read after which a caller is disconnected.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Retry delay for a caller during another backup: the time that the backup of a large cell takes.
const PAUSE: Duration = Duration::from_secs(5);

/// The slot for the one backup in progress. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Backups(Arc<Semaphore>);

impl Default for Backups {
    fn default() -> Backups {
        Backups(Arc::new(Semaphore::new(1)))
    }
}

impl Backups {
    /// Starts a backup of this replica's state. The backup ends when its reader closes the stream, or at `end`.
    ///
    /// # Errors
    /// If another backup is in progress.
    pub(crate) fn begin(
        &self,
        host: &Host,
        from: CellId,
        end: Option<Instant>,
    ) -> Result<Pieces, ApiError> {
        let place = self.0.clone().try_acquire_owned().map_err(|_| {
            let message =
                "nothing was done: this replica is making a backup for another caller: try again \
                 later";
            ApiError::new(ErrorCode::Limit, message).retry_after(PAUSE)
        })?;
        let (to, pieces) = mpsc::channel(PIECES_MAX);
        let sender = Sender { to, end, runtime: Handle::current(), _place: place };
        let host = host.clone();
        tokio::task::spawn_blocking(move || sender.run(&host, from));
        Ok(ReceiverStream::new(pieces))
    }
}

/// Encodes and sends one backup.
struct Sender {
    to: mpsc::Sender<Result<proto::BackupResponse, Status>>,
    end: Option<Instant>,
    runtime: Handle,
    _place: OwnedSemaphorePermit,
}

impl Sender {
    fn run(&self, host: &Host, from: CellId) {
        let sent = host.snapshot_state().and_then(|state| self.send_all(from, &state));
        if let Err(error) = sent {
            tracing::warn!(%error, "a backup failed");
            // A caller that does not read does not get the error.
            let _ = self.to.try_send(Err(error.into()));
        }
    }

    fn send_all(&self, from: CellId, state: &SnapshotState) -> Result<(), ApiError> {
        let version = state.version.0;
        let mut head = Vec::new();
        let mut stopped = None;
        let written = write_backup(from, state, |offset, data| {
            if offset == 0 {
                // The head is sent last, because it contains the length.
                head = data.to_vec();
                return Ok(());
            }
            self.send(piece(version, offset, data)).map_err(|error| {
                stopped = Some(error);
                io::ErrorKind::BrokenPipe.into()
            })
        });
        let length = match (written, stopped) {
            (_, Some(error)) => return Err(error),
            (Err(error), None) => {
                return Err(ApiError::new(ErrorCode::Internal, error.to_string()));
            }
            (Ok(length), None) => length,
        };
        self.send(proto::BackupResponse { length, ..piece(version, 0, &head) })
    }

    fn send(&self, piece: proto::BackupResponse) -> Result<(), ApiError> {
        let patience = Instant::now() + SILENCE_MAX;
        let until = self.end.map_or(patience, |end| end.min(patience));
        let late = |message: &str| {
            ApiError::new(ErrorCode::Late, format!("the backup is incomplete: {message}"))
        };
        match self.runtime.block_on(timeout_at(until, self.to.send(Ok(piece)))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(late("the caller no longer reads it")),
            Err(_) => Err(late("the deadline has passed, or the caller did not read it")),
        }
    }
}

fn piece(version: u64, offset: u64, data: &[u8]) -> proto::BackupResponse {
    let crc32 = piece_checksum(offset, data);
    proto::BackupResponse { version, offset, data: data.to_vec(), crc32, length: 0 }
}
