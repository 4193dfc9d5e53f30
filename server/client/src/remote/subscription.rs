//! The stream of deltas for one reader.
//!
//! Deltas collect until the scheduler syncs, and are then merged. If the scheduler does not sync for long, the channel
//! becomes full and the replica waits. Later changes then come as one delta.

use super::times::{PATIENCE, PAUSE};
use crate::connect::{Connection, Connections, MESSAGE_BYTES_MAX};
use crate::convert;
use crate::own_runtime::block_on;
use crate::proto::scheduling_service_client::SchedulingServiceClient;
use crate::proto::{self, SyncRequest};
use omega_cellstate::{Delta, HandleError, Interest, Wake};
use omega_core::Version;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Maximum number of deltas that wait to be read.
const DELTAS_MAX: usize = 64;

/// Interval at which a stream checks whether the client has left the replica. A stream without messages may mean that
/// nothing changes, or that the replica has stopped. Only unanswered commits show that the replica has stopped; the
/// client then leaves it.
const LOOK: Duration = Duration::from_millis(250);

/// Maximum time for which a sync waits for the version that its scheduler requires.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Maximum number of functions that wake the readers of an interest. A further one replaces the oldest.
const WAKES_MAX: usize = 64;

/// Position of a reader: the state that its last delta led to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    version: Version,
    lineage: Version,
    /// The cell's time in the last delta; `None` if the reader no longer has this delta.
    now_ms: Option<u64>,
}

impl Position {
    /// The position of a reader that passes its last delta to a sync.
    pub(super) fn of(since: Version, delta: &Delta) -> Position {
        let now_ms = (delta.to == since).then_some(delta.now_ms);
        Position { version: since, lineage: delta.lineage, now_ms }
    }
}

#[derive(Debug)]
pub(super) struct Subscription {
    interest: Interest,
    connections: Connections,
    /// Version from which the next delta must start.
    next: Version,
    lineage: Version,
    /// The cell's time in the last delta that was read.
    now_ms: u64,
    /// Time of the last read.
    read_at: Instant,
    stream: Option<Stream>,
    watcher: Watcher,
    /// Maximum time for which a sync waits for the version that its scheduler requires.
    catch_up: Duration,
}

/// Functions that wake the readers of an interest when a delta has arrived. They are shared with the network thread.
#[derive(Clone, Default)]
pub(super) struct Watcher(Arc<Mutex<VecDeque<Wake>>>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}

impl Watcher {
    pub(super) fn add(&self, wake: Wake) {
        let mut wakes = self.0.lock();
        if wakes.len() == WAKES_MAX {
            wakes.pop_front();
        }
        wakes.push_back(wake);
    }

    pub(super) fn wake(&self) {
        let wakes = self.0.lock().clone();
        wakes.iter().for_each(|wake| wake());
    }
}

/// A stream that is kept open until this value is dropped.
#[derive(Debug)]
struct Stream {
    deltas: mpsc::Receiver<Delta>,
    /// Whether a replica is sending. If the value is stale, a sync reports a lost connection too late or too early.
    connected: Arc<AtomicBool>,
}

impl Subscription {
    pub(super) fn new(
        interest: Interest,
        connections: Connections,
        watcher: Watcher,
    ) -> Subscription {
        Subscription {
            interest,
            connections,
            next: Version(0),
            lineage: Version(0),
            now_ms: 0,
            read_at: Instant::now(),
            stream: None,
            watcher,
            catch_up: CATCH_UP,
        }
    }

    /// Whether the subscription continues at the position of a reader with this interest.
    pub(super) fn is_at(&self, interest: &Interest, position: Position) -> bool {
        let Position { version, lineage, now_ms } = position;
        let is_new = version == Version(0);
        self.next == version
            && self.interest == *interest
            && (is_new || lineage == self.lineage && now_ms.is_none_or(|now| now == self.now_ms))
    }

    /// Whether deltas wait, and none was read for a time.
    pub(super) fn is_unread_for(&self, time: Duration) -> bool {
        let waits = self.stream.as_ref().is_some_and(|stream| !stream.deltas.is_empty());
        waits && self.read_at.elapsed() > time
    }

    /// Fills `delta` with the changes since a version. The call waits if the view is empty, or if the version `wanted`
    /// has not arrived. If that version does not arrive in time, `wanted` is set to 0, because the cell may have been
    /// restored to an earlier version.
    pub(super) fn read(
        &mut self,
        runtime: &Handle,
        since: Version,
        wanted: &AtomicU64,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.read_at = Instant::now();
        let required = wanted.load(Ordering::Relaxed);
        let goes_on = since == self.next && delta.lineage == self.lineage && since != Version(0);
        if self.stream.is_none() || !goes_on {
            // The reader is a new view, or its last subscription was closed.
            (self.next, self.lineage, self.now_ms) = (since, delta.lineage, delta.now_ms);
            self.stream = Some(self.open(runtime));
        }
        let patience = if goes_on { self.catch_up } else { PATIENCE };
        let mut until = Instant::now() + patience;
        let mut read: Option<Delta> = None;
        loop {
            let has_view = goes_on || read.is_some();
            let came = if has_view && self.next.0 >= required {
                self.try_next()
            } else {
                self.next_until(runtime, until)
            };
            let Some(came) = came else { break };
            self.next = came.to;
            match &mut read {
                Some(read) => read.append(came),
                None => {
                    read = Some(came);
                    until = until.min(Instant::now() + self.catch_up);
                }
            }
        }
        if self.next.0 < required && (read.is_some() || self.is_connected()) {
            // If this fails, a later conflict requires another version.
            let _ = wanted.compare_exchange(required, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        match read {
            Some(read) => {
                (self.lineage, self.now_ms) = (read.lineage, read.now_ms);
                *delta = read;
                Ok(())
            }
            // Nothing has changed since the reader's last delta.
            None if goes_on && delta.to == since && self.is_connected() => {
                *delta = delta.nothing_since();
                Ok(())
            }
            None => Err(HandleError::Unavailable),
        }
    }

    /// The subscription at a version, with the sending end of its stream.
    #[cfg(test)]
    pub(super) fn with_stream(mut self, next: Version) -> (Subscription, mpsc::Sender<Delta>) {
        let (to, deltas) = mpsc::channel(DELTAS_MAX);
        self.next = next;
        self.stream = Some(Stream { deltas, connected: Arc::new(AtomicBool::new(true)) });
        (self, to)
    }

    fn is_connected(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.connected.load(Ordering::Relaxed))
    }

    fn try_next(&mut self) -> Option<Delta> {
        self.stream.as_mut()?.deltas.try_recv().ok()
    }

    fn next_until(&mut self, runtime: &Handle, until: Instant) -> Option<Delta> {
        let stream = self.stream.as_mut()?;
        block_on(runtime, async {
            let wait = tokio::time::timeout_at(until.into(), stream.deltas.recv());
            wait.await.ok().flatten()
        })
    }

    fn open(&self, runtime: &Handle) -> Stream {
        let (to, deltas) = mpsc::channel(DELTAS_MAX);
        let connected = Arc::new(AtomicBool::new(false));
        let source = Source {
            connections: self.connections.clone(),
            interest: self.interest.clone(),
            since: self.next,
            lineage: self.lineage,
            to,
            connected: connected.clone(),
            watcher: self.watcher.clone(),
        };
        runtime.spawn(source.run());
        Stream { deltas, connected }
    }
}

/// The task that reads the stream of deltas and forwards them.
struct Source {
    connections: Connections,
    interest: Interest,
    since: Version,
    lineage: Version,
    to: mpsc::Sender<Delta>,
    connected: Arc<AtomicBool>,
    watcher: Watcher,
}

impl Source {
    async fn run(mut self) {
        while !self.to.is_closed() {
            let connection = self.connections.current();
            self.stream(&connection).await;
            if self.to.is_closed() {
                // The replica may be well: other streams stay with it.
                return;
            }
            self.connected.store(false, Ordering::Relaxed);
            // The reader is woken, because its next sync must report that no server answers.
            self.watcher.wake();
            self.connections.leave(&connection);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Forwards the messages of one stream, until it breaks or the subscription is dropped.
    async fn stream(&mut self, connection: &Connection) {
        let mut client = SchedulingServiceClient::new(connection.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        let request = SyncRequest {
            since: self.since.0,
            lineage: self.lineage.0,
            interest: convert::interested(&self.interest),
        };
        let opened = tokio::select! {
            opened = client.sync(request) => opened,
            () = self.to.closed() => return,
            () = self.left(connection) => return,
        };
        let Ok(opened) = opened else { return };
        let mut deltas = opened.into_inner();
        let mut begun: Option<proto::Delta> = None;
        loop {
            let piece = tokio::select! {
                piece = deltas.message() => piece,
                () = self.to.closed() => return,
                () = self.left(connection) => return,
            };
            let Ok(Some(piece)) = piece else { return };
            let whole = match begun.take() {
                Some(mut delta) => {
                    convert::join(&mut delta, piece);
                    delta
                }
                None => piece,
            };
            if whole.more {
                begun = Some(whole);
                continue;
            }
            // If the delta is malformed or does not continue the last one, the stream is opened again.
            let Ok(delta) = convert::delta(whole) else { return };
            let goes_on = delta.from == self.since && delta.lineage == self.lineage;
            if !delta.full && !goes_on {
                return;
            }
            self.connected.store(true, Ordering::Relaxed);
            (self.since, self.lineage) = (delta.to, delta.lineage);
            if self.to.send(delta).await.is_err() {
                return;
            }
            // The reader is woken only after the delta was passed on, so that the reader finds the delta.
            self.watcher.wake();
        }
    }

    /// Waits until other users of the connections have left the replica.
    async fn left(&self, connection: &Connection) {
        while self.connections.current().address == connection.address {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::Address;
    use crate::own_runtime::OwnRuntime;

    /// A subscription whose stream is the returned channel. Its reader has version 1.
    fn subscription(runtime: &OwnRuntime) -> (Subscription, mpsc::Sender<Delta>) {
        let address = Address::plain(["127.0.0.1:1"]);
        let connections = runtime.block_on(async { Connections::new(&address) }).unwrap();
        // While one delta is in the channel, the sender waits for the reader.
        let (to, deltas) = mpsc::channel(1);
        let connected = Arc::new(AtomicBool::new(true));
        let mut subscription =
            Subscription::new(Interest::Machines, connections, Watcher::default());
        subscription.next = Version(1);
        subscription.stream = Some(Stream { deltas, connected });
        (subscription, to)
    }

    fn runtime() -> OwnRuntime {
        OwnRuntime::start("test").unwrap()
    }

    fn delta(from: u64, to: u64) -> Delta {
        Delta { from: Version(from), to: Version(to), ..Delta::default() }
    }

    #[test]
    fn a_sync_waits_for_the_wanted_version_even_if_an_earlier_delta_is_queued() {
        let runtime = runtime();
        let (mut subscription, to) = subscription(&runtime);
        to.try_send(delta(1, 2)).unwrap();
        let later = to.clone();
        runtime.handle().spawn(async move { later.send(delta(2, 3)).await });
        let (wanted, mut read) = (AtomicU64::new(3), delta(0, 1));
        subscription.read(runtime.handle(), Version(1), &wanted, &mut read).unwrap();
        assert_eq!((read.from, read.to), (Version(1), Version(3)));
        assert_eq!(wanted.into_inner(), 3);
    }

    /// Otherwise each sync would wait after a cell was restored to an earlier version.
    #[test]
    fn a_version_that_does_not_arrive_is_waited_for_only_once() {
        let runtime = runtime();
        let (mut subscription, to) = subscription(&runtime);
        subscription.catch_up = Duration::ZERO;
        to.try_send(delta(1, 2)).unwrap();
        let (wanted, mut read) = (AtomicU64::new(100), delta(0, 1));
        subscription.read(runtime.handle(), Version(1), &wanted, &mut read).unwrap();
        assert_eq!((read.to, wanted.into_inner()), (Version(2), 0));
    }
}
