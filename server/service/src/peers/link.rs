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
use tonic::transport::Endpoint;
use tonic::{Code, Status};

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
    /// Message of the last error; empty if there was none.
    failed: String,
    /// Message of the last logged rejection; empty if there was none.
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
        let (failed, refused) = (String::new(), String::new());
        (Link { me, reached, to, dial, messages, failed, refused }, sender)
    }

    /// Sends messages until the sender is dropped.
    pub(super) async fn run(mut self) {
        let mut first = None;
        while !self.messages.is_closed() {
            // The peer is dialled only when there is a message for it. So a removed replica is not dialled any more.
            let message = match first.take() {
                Some(message) => message,
                None => match self.messages.recv().await {
                    Some(message) => message,
                    None => return,
                },
            };
            if let Some(endpoint) = (self.dial)() {
                let Some(ended) = self.send(endpoint, message).await else { return };
                if let Err(status) = ended {
                    self.log_refused(status);
                }
            }
            tokio::time::sleep(PAUSE).await;
            // Messages that were queued during the pause are outdated, so only the newest is sent. Raft sends the
            // others again if they are still needed.
            while let Ok(message) = self.messages.try_recv() {
                first = Some(message);
            }
        }
    }

    /// Connects, and sends messages until the call ends. Returns the result of the call; `None` if the sender was
    /// dropped.
    async fn send(&mut self, endpoint: Endpoint, first: PeerMessage) -> Option<Result<(), Status>> {
        let client = PeerServiceClient::new(endpoint.connect_lazy());
        let (frames, stream) = mpsc::channel(FRAMES_MAX);
        let mut call = tokio::spawn(async move {
            let mut client = client.max_encoding_message_size(FRAME_BYTES_MAX);
            client.deliver(ReceiverStream::new(stream)).await.map(drop)
        });
        let mut message = first;
        let ended = loop {
            let frame = self.frame(message);
            tokio::select! {
                // If the receiver of the frames is gone, the call has ended.
                sent = frames.send(frame) => if sent.is_err() { break (&mut call).await },
                ended = &mut call => break ended,
            }
            message = tokio::select! {
                message = self.messages.recv() => message?,
                ended = &mut call => break ended,
            };
        };
        // A call that has panicked is repeated.
        Some(ended.unwrap_or(Ok(())))
    }

    /// Logs a peer's rejection, once for each reason, because the message is retried. An unreachable peer is not
    /// logged.
    fn log_refused(&mut self, status: Status) {
        let why = why(status);
        let repeats = std::mem::replace(&mut self.failed, why.message.clone()) == why.message;
        let is_refusal = match why.code {
            ErrorCode::OutcomeUnknown | ErrorCode::Late => false,
            // A peer that stops causes one such error.
            ErrorCode::Internal => repeats,
            _ => !why.is_temporary(),
        };
        if is_refusal && self.refused != why.message {
            tracing::warn!(to = %self.to, why = why.message, "a peer rejects the messages of this \
                 replica");
            self.refused = why.message;
        }
    }

    /// A frame with a message and the messages queued after it.
    fn frame(&mut self, first: PeerMessage) -> proto::PeerFrame {
        let mut frame = empty_frame(self.me, &self.reached, self.to);
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

/// Sends a frame without messages, to find out whether an endpoint is the listener of a replica for its peers.
///
/// # Errors
/// Another program listens there, or nothing does, or the replica rejects the frame.
pub(super) async fn greet(endpoint: Endpoint, frame: proto::PeerFrame) -> Result<(), ApiError> {
    let mut client = PeerServiceClient::new(endpoint.connect_lazy());
    client.deliver(tokio_stream::once(frame)).await.map(drop).map_err(why)
}

/// A frame without messages.
pub(super) fn empty_frame(
    me: ReplicaIdentity,
    reached: &Reached,
    to: ReplicaId,
) -> proto::PeerFrame {
    proto::PeerFrame {
        cell: me.cell.to_string(),
        from: me.replica.0,
        to: to.0,
        messages: Vec::new(),
        address: reached.by_peers.clone(),
        client_address: reached.by_clients.get().cloned().unwrap_or_default(),
        disk_full: reached.disk.is_full(),
    }
}

/// The error of a call to a listener for peers.
fn why(status: Status) -> ApiError {
    let is_other_service = status.code() == Code::Unimplemented;
    let mut why = ApiError::from(status);
    if is_other_service {
        why.code = ErrorCode::NotOffered;
        why.message = "its address is not that of a listener for peers: correct the address \
             (see `omega member update`)"
            .to_owned();
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_store::CellId;
    use tokio::sync::mpsc::error::TryRecvError;

    fn link(dial: Dial) -> (Link, mpsc::Sender<PeerMessage>) {
        let me = ReplicaIdentity { cell: CellId(1), replica: ReplicaId(1) };
        Link::new(me, &Reached::default(), ReplicaId(2), dial)
    }

    #[tokio::test]
    async fn a_peer_is_dialled_only_for_a_message() {
        let (dialled, mut dials) = mpsc::unbounded_channel();
        let (link, messages) = link(Box::new(move || {
            dialled.send(()).expect("the test receives it");
            None
        }));
        let mut run = Box::pin(link.run());
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(run.as_mut().poll(context)));
        assert!(polled.await.is_pending(), "there is no message yet");
        assert_eq!(dials.try_recv(), Err(TryRecvError::Empty));
        let run = tokio::spawn(run);
        for _ in 0..2 {
            messages.send(PeerMessage::Probe).await.expect("it runs");
            dials.recv().await.expect("the peer is dialled");
        }
        drop(messages);
        run.await.expect("it ends");
    }

    #[test]
    fn a_frame_contains_the_state_of_the_disk() {
        let (mut link, _messages) = link(Box::new(|| None));
        assert!(!link.frame(PeerMessage::Probe).disk_full, "nothing is known yet");
        link.reached.disk.watch(|| true);
        let frame = link.frame(PeerMessage::Probe);
        assert!(frame.disk_full && frame.messages.len() == 1);
    }

    #[test]
    fn each_lasting_rejection_is_logged_once() {
        let (mut link, _messages) = link(Box::new(|| None));
        let mut is_logged = |status: Status| {
            let before = link.refused.clone();
            link.log_refused(status);
            link.refused != before
        };
        let denied = || ApiError::new(ErrorCode::Denied, "another cell").into();
        assert!(is_logged(denied()) && !is_logged(denied()));
        assert!(!is_logged(Status::unavailable("it stops")) && !is_logged(Status::internal("h2")));
        assert!(is_logged(Status::internal("h2")) && !is_logged(Status::internal("h2")));
        assert!(is_logged(Status::unimplemented("")) && !is_logged(Status::unimplemented("")));
    }
}
