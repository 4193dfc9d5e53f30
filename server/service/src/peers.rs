//! The network between replicas: a stream to each peer, and a service that takes theirs.
//!
//! Replicas say again what was lost, so nothing waits here: what a slow peer does not take is dropped,
//! oldest kept. The messages are in the replicas' own format; the frame around them says from whom and
//! for whom they are, and is checked before anything in it is read.

use crate::grants::caller;
use crate::identity::{Caller, Role};
use crate::service::Answered;
use omega_client::proto::peer_service_client::PeerServiceClient;
use omega_client::proto::peer_service_server::PeerService;
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use omega_store::replica::{PeerMessage, Running, Transport};
use omega_store::wire;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Streaming};

/// Messages to one peer that wait. More are dropped: raft sends again.
const MESSAGES_MAX: usize = 4096;

/// Bytes of messages that one frame has, but for the last of them.
const FRAME_BYTES: usize = 1 << 20;

/// The most bytes of a frame.
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES + wire::MESSAGE_BYTES_MAX + 4096;

/// Frames that were made and not sent.
const FRAMES_MAX: usize = 4;

/// Pause before a peer that does not answer is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// The way in which a peer is reached: asked anew for each connection, because certificates change.
pub type Dial = Box<dyn Fn() -> Option<Endpoint> + Send + Sync>;

/// Which replica of which cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whoami {
    /// The cell.
    pub cell: CellId,
    /// The replica.
    pub replica: ReplicaId,
}

/// Sends to the peers.
#[derive(Debug)]
pub struct Peers {
    to: BTreeMap<ReplicaId, mpsc::Sender<PeerMessage>>,
}

impl Peers {
    /// Keeps a stream to each peer, on a runtime.
    #[must_use]
    pub fn start(me: Whoami, peers: BTreeMap<ReplicaId, Dial>, runtime: &Handle) -> Peers {
        let mut to = BTreeMap::new();
        for (id, dial) in peers {
            let (sender, messages) = mpsc::channel(MESSAGES_MAX);
            let link = Link { me, to: id, dial, messages, refused: String::new() };
            runtime.spawn(link.run());
            to.insert(id, sender);
        }
        Peers { to }
    }
}

impl Transport for Peers {
    fn send(&self, to: ReplicaId, message: PeerMessage) {
        match self.to.get(&to) {
            // A full line drops it: see the head of the file.
            Some(peer) => drop(peer.try_send(message)),
            None => tracing::debug!(%to, "no address is known"),
        }
    }
}

/// The stream to one peer.
struct Link {
    me: Whoami,
    to: ReplicaId,
    dial: Dial,
    messages: mpsc::Receiver<PeerMessage>,
    /// Why the peer refused last what was sent to it; empty: it did not.
    refused: String,
}

impl Link {
    async fn run(mut self) {
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
                    // Where nobody takes frames any more, the call has ended.
                    sent = frames.send(frame) => if sent.is_err() { break call.await },
                    ended = &mut call => break ended,
                }
            };
            if let Ok(Err(status)) = ended {
                self.note(status.into());
            }
            tokio::time::sleep(PAUSE).await;
            // What has gathered meanwhile is old: raft says anew what matters.
            while let Ok(message) = self.messages.try_recv() {
                first = Some(message);
            }
        }
    }

    /// Tells that a peer refuses what is sent to it, once for each reason: it is tried again and again. That
    /// it is not there is no news.
    fn note(&mut self, why: ApiError) {
        let is_refusal = !why.is_temporary()
            && !matches!(
                why.code,
                ErrorCode::OutcomeUnknown | ErrorCode::Late | ErrorCode::Internal
            );
        if is_refusal && self.refused != why.message {
            tracing::warn!(to = %self.to, why = why.message, "a peer refuses what this replica says");
            self.refused = why.message;
        }
    }

    /// A frame of a message and those that wait behind it.
    fn frame(&mut self, first: PeerMessage) -> proto::PeerFrame {
        let mut frame = proto::PeerFrame {
            cell: self.me.cell.to_string(),
            from: self.me.replica.0,
            to: self.to.0,
            messages: Vec::new(),
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
                Err(error) => tracing::error!(to = %self.to, %error, "a message cannot be sent"),
            }
            next = match bytes < FRAME_BYTES {
                true => self.messages.try_recv().ok(),
                false => None,
            };
        }
        frame
    }
}

/// When each peer was heard last. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PeersHeard(Arc<Mutex<BTreeMap<ReplicaId, Instant>>>);

impl PeersHeard {
    fn note(&self, peer: ReplicaId) {
        self.0.lock().insert(peer, Instant::now());
    }

    /// Time since a peer was heard; `None`: never since this process began.
    #[must_use]
    pub fn silent(&self, peer: ReplicaId) -> Option<Duration> {
        self.0.lock().get(&peer).map(Instant::elapsed)
    }
}

/// Takes what peers send.
#[derive(Debug)]
pub struct PeerListener {
    me: Whoami,
    running: Arc<Running>,
    heard: PeersHeard,
    /// Why each peer was refused last, so that it is told once: peers try again and again. Held for a look-up.
    refused: Mutex<BTreeMap<u64, String>>,
}

impl PeerListener {
    /// The service of a replica, and what is told when a peer was heard.
    #[must_use]
    pub fn new(me: Whoami, running: Arc<Running>, heard: PeersHeard) -> PeerListener {
        PeerListener { me, running, heard, refused: Mutex::default() }
    }

    /// Tells that what a peer says cannot be read.
    fn note(&self, from: u64, why: &str) {
        let mut refused = self.refused.lock();
        if refused.get(&from).is_none_or(|told| told != why) {
            tracing::warn!(from = %ReplicaId(from), why, "what a peer says cannot be read");
            refused.insert(from, why.to_owned());
        }
    }

    /// Whether a frame is for this replica of this cell, and from whom its sender's certificate says.
    fn check(&self, frame: &proto::PeerFrame, sender: &Caller) -> Result<(), ApiError> {
        let wrong = |what: &str, given: &str, is: &str| {
            let say = format!("{what} is {given}, and this is {is}: check the peers' addresses");
            Err(ApiError::new(ErrorCode::Denied, say))
        };
        let cell = self.me.cell.to_string();
        if frame.cell != cell {
            return wrong("the cell of the frame", &frame.cell, &cell);
        }
        if frame.to != self.me.replica.0 {
            let to = ReplicaId(frame.to).to_string();
            return wrong("the frame's receiver", &to, &self.me.replica.to_string());
        }
        match sender.role {
            Role::Replica(None) => {}
            Role::Replica(Some(id)) if id.0 == frame.from => {}
            _ => {
                let say = format!("{sender} may not send for {}", ReplicaId(frame.from));
                return Err(ApiError::new(ErrorCode::Denied, say));
            }
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl PeerService for PeerListener {
    async fn deliver(
        &self,
        request: Request<Streaming<proto::PeerFrame>>,
    ) -> Answered<proto::DeliverResponse> {
        let sender = caller(&request)?;
        let mut frames = request.into_inner();
        while let Some(frame) = frames.message().await? {
            self.check(&frame, &sender)?;
            self.heard.note(ReplicaId(frame.from));
            for bytes in &frame.messages {
                let message = wire::decode(bytes).map_err(|error| {
                    let why = format!("a peer's message: {error}");
                    self.note(frame.from, &why);
                    ApiError::new(ErrorCode::Malformed, why)
                })?;
                self.running.deliver(ReplicaId(frame.from), message);
            }
        }
        Ok(Response::new(proto::DeliverResponse {}))
    }
}
