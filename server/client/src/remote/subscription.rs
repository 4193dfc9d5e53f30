//! The stream of deltas for one interest.
//!
//! Deltas collect until the scheduler syncs, and are then merged. If the scheduler does not sync for long, the channel
//! becomes full and the replica waits. Later changes then come as one delta.

use super::times::{PATIENCE, PAUSE};
use crate::connect::{Connection, Connections, MESSAGE_BYTES_MAX};
use crate::convert;
use crate::proto::scheduling_service_client::SchedulingServiceClient;
use crate::proto::{self, SyncRequest};
use omega_cellstate::{Delta, HandleError, Interest, Wake};
use omega_core::Version;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// Maximum number of deltas that wait to be read.
const DELTAS_MAX: usize = 64;

/// Interval at which a stream checks whether the client has left the replica. A stream without messages may mean that
/// nothing changes, or that the replica has stopped. Only unanswered commits show that the replica has stopped; the
/// client then leaves it.
const LOOK: Duration = Duration::from_millis(250);

/// Maximum time for which a sync waits for the version that its scheduler requires.
const CATCH_UP: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Subscription {
    interest: Interest,
    connections: Connections,
    /// Version from which the next delta must start.
    next: Version,
    lineage: Version,
    stream: Option<Stream>,
    watcher: Watcher,
}

/// Function that wakes the reader when a delta has arrived. It is shared with the network thread.
#[derive(Clone, Default)]
struct Watcher(Arc<Mutex<Option<Wake>>>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}

impl Watcher {
    fn wake(&self) {
        let wake = self.0.lock().clone();
        if let Some(wake) = wake {
            wake();
        }
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
    pub(super) fn new(interest: Interest, connections: Connections) -> Subscription {
        Subscription {
            interest,
            connections,
            next: Version(0),
            lineage: Version(0),
            stream: None,
            watcher: Watcher::default(),
        }
    }

    /// Sets the function that is called whenever a delta has arrived or the connection was lost.
    pub(super) fn watch(&mut self, wake: Wake) {
        *self.watcher.0.lock() = Some(wake);
    }

    /// Fills `delta` with the changes since a version. The call waits if the view is empty, or if the view requires a
    /// version that has not arrived.
    pub(super) fn read(
        &mut self,
        runtime: &Runtime,
        since: Version,
        wanted: Version,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        let goes_on = since == self.next && delta.lineage == self.lineage && since != Version(0);
        if self.stream.is_none() || !goes_on {
            // The reader is a new view, or another view than at the last call.
            self.next = since;
            self.lineage = delta.lineage;
            self.stream = Some(self.open(runtime));
        }
        let patience = if goes_on { CATCH_UP } else { PATIENCE };
        let until = Instant::now() + patience;
        let mut read: Option<Delta> = None;
        loop {
            let reached = self.next >= wanted && self.next != Version(0) && goes_on;
            let came = if reached || read.is_some() {
                self.try_next()
            } else {
                self.next_until(runtime, until)
            };
            let Some(came) = came else { break };
            self.next = came.to;
            match &mut read {
                Some(read) => read.append(came),
                None => read = Some(came),
            }
        }
        match read {
            Some(read) => {
                self.lineage = read.lineage;
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

    fn is_connected(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.connected.load(Ordering::Relaxed))
    }

    fn try_next(&mut self) -> Option<Delta> {
        self.stream.as_mut()?.deltas.try_recv().ok()
    }

    fn next_until(&mut self, runtime: &Runtime, until: Instant) -> Option<Delta> {
        let stream = self.stream.as_mut()?;
        runtime.block_on(async {
            let wait = tokio::time::timeout_at(until.into(), stream.deltas.recv());
            wait.await.ok().flatten()
        })
    }

    fn open(&self, runtime: &Runtime) -> Stream {
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
