//! The stream of messages to one peer, at one address.

use super::{Dial, FRAME_BYTES, FRAME_BYTES_MAX, Reached, ReplicaIdentity};
use omega_client::proto::peer_service_client::PeerServiceClient;
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::log::ReplicaId;
use omega_store::replica::PeerMessage;
use omega_store::wire;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// Maximum number of messages that wait for one peer. Further ones are dropped, and raft sends them again.
const MESSAGES_MAX: usize = 4096;

/// Number of encoded frames that wait to be sent.
const FRAMES_MAX: usize = 4;

/// Pause before reconnecting to a peer that does not respond.
const PAUSE: Duration = Duration::from_millis(100);

/// The stream to one peer.
pub(super) struct Link {
    me: ReplicaIdentity,
    /// Addresses of this replica, which are sent in each frame.
    reached: Reached,
    to: ReplicaId,
    dial: Dial,
    messages: mpsc::Receiver<PeerMessage>,
    /// Message of the peer's last rejection; empty if there was none.
    refused: String,
}

impl Link {
    /// Creates a stream to a peer, and the sender of its messages. The stream ends when the sender is dropped.
    pub(super) fn new(
        me: ReplicaIdentity,
        reached: &Reached,
        to: ReplicaId,
        dial: Dial,
    ) -> (Link, mpsc::Sender<PeerMessage>) {
        let (sender, messages) = mpsc::channel(MESSAGES_MAX);
        let reached = reached.clone();
        (Link { me, reached, to, dial, messages, refused: String::new() }, sender)
    }

    /// Sends messages until the sender is dropped.
    pub(super) async fn run(mut self) {
        let mut first = None;
        while !self.messages.is_closed() {
            let Some(endpoint) = (self.dial)() else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let client = PeerServiceClient::new(endpoint.connect_lazy());
            let (frames, stream) = mpsc::channel(FRAMES_MAX);
            let mut call = tokio::spawn(async move {
                let mut client = client.max_encoding_message_size(FRAME_BYTES_MAX);
                client.deliver(ReceiverStream::new(stream)).await
            });
            let ended = loop {
                let message = match first.take() {
                    Some(message) => message,
                    None => tokio::select! {
                        message = self.messages.recv() => match message {
                            Some(message) => message,
                            None => return,
                        },
                        ended = &mut call => break ended,
                    },
                };
                let frame = self.frame(message);
                tokio::select! {
                    // If the receiver of the frames is gone, the call has ended.
                    sent = frames.send(frame) => if sent.is_err() { break call.await },
                    ended = &mut call => break ended,
                }
            };
            if let Ok(Err(status)) = ended {
                self.log_refused(status.into());
            }
            tokio::time::sleep(PAUSE).await;
            // Messages that were queued during the pause are outdated, so only the newest is sent. Raft sends the
            // others again if they are still needed.
            while let Ok(message) = self.messages.try_recv() {
                first = Some(message);
            }
        }
    }

    /// Logs a peer's rejection, once for each reason, because the message is retried. An unreachable peer is not
    /// logged.
    fn log_refused(&mut self, why: ApiError) {
        let is_refusal = !why.is_temporary()
            && !matches!(
                why.code,
                ErrorCode::OutcomeUnknown | ErrorCode::Late | ErrorCode::Internal
            );
        if is_refusal && self.refused != why.message {
            tracing::warn!(to = %self.to, why = why.message, "a peer rejects the messages of this \
                 replica");
            self.refused = why.message;
        }
    }

    /// A frame with a message and the messages queued after it.
    fn frame(&mut self, first: PeerMessage) -> proto::PeerFrame {
        let mut frame = proto::PeerFrame {
            cell: self.me.cell.to_string(),
            from: self.me.replica.0,
            to: self.to.0,
            messages: Vec::new(),
            address: self.reached.by_peers.clone(),
            client_address: self.reached.by_clients.get().cloned().unwrap_or_default(),
        };
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(message) = next {
            let mut encoded = Vec::new();
            match wire::encode(&message, &mut encoded) {
                Ok(()) => {
                    bytes += encoded.len();
                    frame.messages.push(encoded);
                }
                Err(error) => tracing::error!(to = %self.to, %error, "a message to a peer cannot \
                     be sent"),
            }
            next = if bytes < FRAME_BYTES { self.messages.try_recv().ok() } else { None };
        }
        frame
    }
}
