//! Addresses of the peers, and a stream to each.
//!
//! A peer's address is taken from the membership, else from this server's settings, else from the peer's own messages.
//! So a membership change can move or add a replica without a restart of the others. A joining replica needs only its
//! own address.

use super::link::{self, Link};
use super::{Dialer, Reached, ReplicaIdentity};
use omega_store::log::ReplicaId;
use omega_store::membership::{Membership, REPLICAS_MAX, is_address};
use omega_store::replica::{PeerMessage, Transport};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Maximum number of peers whose announced addresses are kept: the current replicas, and some former ones.
const ANNOUNCED_MAX: usize = 2 * REPLICAS_MAX;

/// Sender of messages to the peers. Clones share the streams.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    me: ReplicaIdentity,
    reached: Reached,
    dialer: Dialer,
    runtime: Handle,
    /// Locked for a look-up, or while a stream is opened.
    routes: Mutex<Routes>,
}

/// Addresses of the peers by origin, and the open streams.
#[derive(Debug, Default)]
struct Routes {
    /// Addresses from the membership.
    agreed: BTreeMap<ReplicaId, String>,
    /// Addresses from the settings.
    given: BTreeMap<ReplicaId, String>,
    /// Addresses from the peers' own frames.
    announced: BTreeMap<ReplicaId, String>,
    /// Addresses of the peers for clients, from their own frames.
    clients: BTreeMap<ReplicaId, String>,
    open: BTreeMap<ReplicaId, Open>,
}

/// A stream to a peer.
#[derive(Debug)]
struct Open {
    address: String,
    messages: mpsc::Sender<PeerMessage>,
}

impl Routes {
    fn address(&self, of: ReplicaId) -> Option<&String> {
        let by_rank = [&self.agreed, &self.given, &self.announced];
        by_rank.into_iter().find_map(|addresses| addresses.get(&of))
    }

    /// Ends the streams to peers whose address has changed.
    fn end_moved(&mut self) {
        let open = std::mem::take(&mut self.open);
        let stays = |(id, open): &(ReplicaId, Open)| self.address(*id) == Some(&open.address);
        self.open = open.into_iter().filter(stays).collect();
    }
}

impl Peers {
    /// Creates the streams of the replica at `address`, to peers at the addresses in the settings.
    #[must_use]
    pub fn new(
        me: ReplicaIdentity,
        address: String,
        given: BTreeMap<ReplicaId, String>,
        dialer: Dialer,
        runtime: Handle,
    ) -> Peers {
        let routes = Mutex::new(Routes { given, ..Routes::default() });
        let reached = Reached { by_peers: address, ..Reached::default() };
        Peers(Arc::new(Inner { me, reached, dialer, runtime, routes }))
    }

    /// Identity of this replica.
    pub(super) fn me(&self) -> ReplicaIdentity {
        self.0.me
    }

    /// Sets the address of this replica for clients, which is sent to its peers. Only the first call has an effect.
    pub(super) fn listens_to_clients(&self, at: String) {
        let _ = self.0.reached.by_clients.set(at);
    }

    /// Sets the source of the state of this replica's disk, which is sent to its peers. Only the first call has an
    /// effect.
    pub(super) fn watch_disk(&self, is_full: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.reached.disk.watch(is_full);
    }

    /// Address of a replica for clients, if the replica has sent it.
    pub(crate) fn client_address(&self, of: ReplicaId) -> Option<String> {
        if of == self.0.me.replica {
            return self.0.reached.by_clients.get().cloned();
        }
        self.0.routes.lock().clients.get(&of).cloned()
    }

    /// Address of a replica for its peers, if known.
    pub(crate) fn peer_address(&self, of: ReplicaId) -> Option<String> {
        let own = (of == self.0.me.replica).then(|| self.0.reached.by_peers.clone());
        own.or_else(|| self.0.routes.lock().address(of).cloned())
    }

    /// Records the addresses that a peer has sent: its address for peers, and its address for clients.
    pub(super) fn record_addresses(&self, from: ReplicaId, address: &str, clients: &str) {
        let mut routes = self.0.routes.lock();
        let recorded = routes.clients.get(&from);
        let has_room = recorded.is_some() || routes.clients.len() < ANNOUNCED_MAX;
        if recorded.is_none_or(|recorded| recorded != clients) && has_room && is_address(clients) {
            routes.clients.insert(from, clients.to_owned());
        }
        let recorded = routes.announced.get(&from);
        let is_new = recorded.is_none_or(|recorded| recorded != address);
        let has_room = recorded.is_some() || routes.announced.len() < ANNOUNCED_MAX;
        if is_new && has_room && is_address(address) {
            routes.announced.insert(from, address.to_owned());
            routes.end_moved();
        }
    }

    /// Whether an address of a replica is known.
    pub(crate) fn has_address(&self, id: ReplicaId) -> bool {
        self.0.routes.lock().address(id).is_some()
    }

    /// Checks that a replica of this cell listens for its peers at an address.
    ///
    /// # Errors
    /// Another program or replica listens there, or nothing does.
    pub(crate) async fn check_address(&self, id: ReplicaId, address: &str) -> Result<(), String> {
        let Inner { me, reached, dialer, .. } = &*self.0;
        let dial = dialer(address).map_err(|error| error.to_string())?;
        let Some(endpoint) = dial() else {
            return Err("this replica's certificates cannot be used".to_owned());
        };
        let frame = link::empty_frame(*me, reached, id);
        link::greet(endpoint, frame).await.map_err(|error| error.message)
    }

    fn begin(&self, to: ReplicaId, address: &str) -> Option<Open> {
        let Inner { me, reached, dialer, runtime, .. } = &*self.0;
        match dialer(address) {
            Ok(dial) => {
                let (link, messages) = Link::new(*me, reached, to, dial);
                runtime.spawn(link.run());
                Some(Open { address: address.to_owned(), messages })
            }
            Err(error) => {
                tracing::debug!(%to, address, %error, "the address of a peer cannot be used");
                None
            }
        }
    }
}

impl Transport for Peers {
    fn send(&self, to: ReplicaId, message: PeerMessage) {
        let mut routes = self.0.routes.lock();
        if !routes.open.contains_key(&to) {
            let Some(address) = routes.address(to).cloned() else {
                return tracing::debug!(%to, "the address of a peer is not known");
            };
            let Some(open) = self.begin(to, &address) else { return };
            routes.open.insert(to, open);
        }
        if let Some(open) = routes.open.get(&to) {
            // If the queue is full, the message is dropped: see the module documentation.
            drop(open.messages.try_send(message));
        }
    }

    fn follow(&self, membership: &Membership) {
        let mut routes = self.0.routes.lock();
        if routes.agreed != membership.addresses {
            tracing::info!(addresses = ?membership.addresses, "the membership has other addresses \
                 than --peers");
            routes.agreed.clone_from(&membership.addresses);
            routes.end_moved();
        }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { me, reached, routes, .. } = &*self.0;
        let (me, routes) = (me.replica, &*routes.lock());
        f.debug_struct("Peers")
            .field("me", &me)
            .field("reached", reached)
            .field("routes", routes)
            .finish()
    }
}
