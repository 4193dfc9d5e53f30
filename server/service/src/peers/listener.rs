//! The service that receives messages of peers.

use super::contacts::PeerContacts;
use super::{Peers, ReplicaIdentity};
use crate::access::grants::caller;
use crate::access::identity::{Caller, Role};
use crate::service::RpcResult;
use omega_client::proto::peer_service_server::PeerService;
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::log::ReplicaId;
use omega_store::replica::Running;
use omega_store::wire;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::{Request, Response, Streaming};

/// Receives messages of peers.
#[derive(Debug)]
pub struct PeerListener {
    me: ReplicaIdentity,
    running: Arc<Running>,
    peers: Peers,
    contacts: PeerContacts,
    /// Message of the last rejection for each peer, so that retries do not log it again.
    refused: Mutex<BTreeMap<u64, String>>,
}

impl PeerListener {
    /// Creates the service of a replica, with the record of peers' messages.
    #[must_use]
    pub fn new(running: Arc<Running>, peers: Peers, contacts: PeerContacts) -> PeerListener {
        peers.watch_disk(running.has_full_disk());
        PeerListener { me: peers.me(), running, peers, contacts, refused: Mutex::default() }
    }

    /// Sets the address of this replica for clients, which is sent to its peers.
    pub fn listens_to_clients(&self, at: String) {
        self.peers.listens_to_clients(at);
    }

    /// Logs that a peer's message cannot be read, once for each reason.
    fn log_refused(&self, from: u64, why: &str) {
        let mut refused = self.refused.lock();
        if refused.get(&from).is_none_or(|last| last != why) {
            tracing::warn!(from = %ReplicaId(from), why, "the messages of a peer cannot be read");
            refused.insert(from, why.to_owned());
        }
    }

    /// Checks that a frame is addressed to this replica of this cell, and was sent by the replica that the sender's
    /// certificate names.
    fn check(&self, frame: &proto::PeerFrame, sender: &Caller) -> Result<(), ApiError> {
        let wrong = |what: &str, given: &str, is: &str| {
            let message = format!(
                "{what} is {given}, but this replica has {is}: check the addresses \
                 of the peers"
            );
            Err(ApiError::new(ErrorCode::Denied, message))
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
                let message = format!("{sender} may not send for {}", ReplicaId(frame.from));
                return Err(ApiError::new(ErrorCode::Denied, message));
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
    ) -> RpcResult<proto::DeliverResponse> {
        let sender = caller(&request)?;
        let mut frames = request.into_inner();
        while let Some(frame) = frames.message().await? {
            self.check(&frame, &sender)?;
            self.contacts.record(&frame);
            self.peers.record_addresses(
                ReplicaId(frame.from),
                &frame.address,
                &frame.client_address,
            );
            for bytes in &frame.messages {
                let message = wire::decode(bytes).map_err(|error| {
                    let why = format!("a peer's message: {error}");
                    self.log_refused(frame.from, &why);
                    ApiError::new(ErrorCode::Malformed, why)
                })?;
                self.running.deliver(ReplicaId(frame.from), message);
            }
        }
        Ok(Response::new(proto::DeliverResponse {}))
    }
}
