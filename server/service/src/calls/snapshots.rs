//! Large deltas: encoded once, and shared by all readers of the same state.
//!
//! A full delta is as large as the cell, and every stream may request one. So only one large delta is built at a time,
//! and a full delta is shared as long as it has readers. The bytes of a delta are counted for the reader for which it
//! was built. No further delta is built for a reader at its limit.

use crate::access::identity::Caller;
use crate::overload::memory_accounts::{CallerAccount, MemoryCharge};
use omega_cellstate::{Delta, Interest};
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::Version;
use parking_lot::Mutex;
use prost::Message;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Slowest accepted rate of reading a large delta, in bytes per second. In addition, the reader has the longest time
/// limit of a call.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;

/// Interval at which a waiting stream checks for its turn: a fraction of the time in which a large delta is built.
const TURN_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Full states that are being read, by key.
type Shared = Vec<(Key, Weak<Snapshot>)>;

/// The large deltas being read now. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    /// Full states by key.
    whole: Arc<Mutex<Shared>>,
    /// Semaphore for building: one large delta at a time.
    making: Arc<Semaphore>,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots { whole: Arc::default(), making: Arc::new(Semaphore::new(1)) }
    }
}

/// Key of a full state: its content, and, if the reader's view is restricted, the reader.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    interest: Interest,
    of: Option<Arc<str>>,
}

impl Key {
    pub(crate) fn new(interest: &Interest, caller: &Caller) -> Key {
        let of = caller.is_bounded().then(|| caller.name.clone());
        Key { interest: interest.clone(), of }
    }
}

impl Snapshots {
    /// Waits until a large delta may be built for a reader. Only a stream that is being polled gets the turn, so a slow
    /// reader does not delay the others.
    pub(crate) async fn turn(&self, holder: Option<&CallerAccount>) -> SemaphorePermit<'_> {
        loop {
            if let Some(holder) = holder {
                poll_fn(|cx| holder.poll_room(cx)).await;
            }
            if let Ok(turn) = self.making.try_acquire() {
                return turn;
            }
            tokio::time::sleep(TURN_CHECK_INTERVAL).await;
        }
    }

    /// The full state with this key, if it is being read.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Snapshot>> {
        let whole = self.whole.lock();
        whole.iter().find(|(known, _)| known == key).and_then(|(_, snapshot)| snapshot.upgrade())
    }

    /// Shares a full state as long as it has readers.
    pub(crate) fn share(&self, key: Key, snapshot: &Arc<Snapshot>) {
        let mut whole = self.whole.lock();
        whole.retain(|(known, other)| *known != key && other.strong_count() > 0);
        whole.push((key, Arc::downgrade(snapshot)));
    }
}

/// A large delta, encoded as messages.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pieces: Vec<Vec<u8>>,
    pub(crate) full: bool,
    pub(crate) to: Version,
    pub(crate) lineage: Version,
    pub(crate) now_ms: u64,
    _held: Option<MemoryCharge>,
}

impl Snapshot {
    /// Encodes a delta, and counts its bytes for a caller.
    pub(crate) fn of(delta: Delta, holder: Option<&CallerAccount>) -> Snapshot {
        let Delta { full, to, lineage, now_ms, .. } = delta;
        let message = proto::Delta::from(&delta);
        drop(delta);
        let pieces = convert::split(message, convert::PIECE_BYTES);
        let pieces: Vec<Vec<u8>> = pieces.map(|piece| piece.encode_to_vec()).collect();
        let charge = holder.map(|holder| {
            let mut charge = holder.nothing();
            charge.add(pieces.iter().map(Vec::len).sum());
            charge
        });
        Snapshot { pieces, full, to, lineage, now_ms, _held: charge }
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }
}

/// A reader's position in a large delta. If the reader is too slow, the delta is dropped.
#[derive(Debug)]
pub(crate) struct Reading {
    snapshot: Arc<Mutex<Option<Arc<Snapshot>>>>,
    next: usize,
}

impl Reading {
    /// Starts reading. The reader's time limit is `patience`, plus the time for the delta's bytes at the slowest
    /// accepted rate.
    pub(crate) fn begin(snapshot: Arc<Snapshot>, patience: Duration) -> Reading {
        let bytes = snapshot.bytes() as u64;
        let patience = patience + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN);
        let snapshot = Arc::new(Mutex::new(Some(snapshot)));
        let weak = Arc::downgrade(&snapshot);
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            if let Some(read) = weak.upgrade() {
                read.lock().take();
            }
        });
        Reading { snapshot, next: 0 }
    }

    /// The next piece; `None` after the last one.
    ///
    /// # Errors
    /// If the reader has taken too long.
    pub(crate) fn next(&mut self) -> Result<Option<proto::Delta>, ApiError> {
        let snapshot = self.snapshot.lock();
        let late = || {
            let message = "the caller did not read the stream in time: sync again, and read it \
                 continuously";
            ApiError::new(ErrorCode::Late, message)
        };
        let Some(piece) = snapshot.as_ref().ok_or_else(late)?.pieces.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        let broken = |_| ApiError::new(ErrorCode::Internal, "a piece of a delta cannot be read");
        proto::Delta::decode(piece.as_slice()).map(Some).map_err(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[tokio::test]
    async fn whoever_waits_and_does_not_ask_again_keeps_the_turn_from_nobody() {
        let snapshots = Snapshots::default();
        let first = snapshots.turn(None).now_or_never().unwrap();
        let mut waiting = pin!(snapshots.turn(None));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(first);
        assert!(snapshots.turn(None).now_or_never().is_some());
    }
}
