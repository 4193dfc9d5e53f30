//! Connections to the replicas of a cell.
//!
//! Any replica answers, because a follower forwards requests that only the leader can handle. So a client uses one
//! replica as long as it answers, and then switches to the next. Requests that a follower cannot forward are rejected
//! with the leader's address. The client then connects to that address, even if its list of replicas lacks the address.

use crate::error::NO_CONNECTION;
use crate::mismatch::{self, ConnectionSecurity};
use crate::{ApiError, ErrorCode};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Maximum bytes of a message. Servers send far smaller messages. The largest command has
/// [`omega_core::limits::COMMAND_BYTES_MAX`] bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Maximum bytes of a message to an agent. Such a message may contain all tasks of a machine, each with its images.
pub const DIRECTIVES_BYTES_MAX: usize = 64 << 20;

/// Time limit of connecting.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Interval at which a silent connection is probed, and also the time limit for the reply. So a vanished replica is
/// detected after twice this time.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(2);

/// Addresses and certificates of a cell.
#[derive(Clone, Debug, Default)]
pub struct Address {
    /// Addresses of the replicas, as `host:port`.
    pub replicas: Vec<String>,
    /// Certificates, if the cell requires them.
    pub tls: Option<Tls>,
}

/// Client certificate and trusted authority. All fields are in PEM.
#[derive(Clone)]
pub struct Tls {
    /// Certificate of the authority that signs the replicas' certificates.
    pub authority: Vec<u8>,
    /// The client's certificate, followed by the intermediate certificates up to its authority.
    pub certificate: Vec<u8>,
    /// Private key of the client's certificate.
    pub key: Vec<u8>,
    /// Name in the replicas' certificates, if it differs from the host in the replicas' addresses.
    pub server_name: Option<String>,
}

/// Omits the key.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl Address {
    /// Returns the address of a cell without TLS. Each replica is given as `host:port`.
    pub fn plain<S: Into<String>>(replicas: impl IntoIterator<Item = S>) -> Address {
        Address { replicas: replicas.into_iter().map(Into::into).collect(), tls: None }
    }

    /// Checks the form of the address of a replica.
    ///
    /// # Errors
    /// The text is not of the form `host:port`.
    pub fn check(replica: &str) -> Result<(), ApiError> {
        let remedy = if replica.contains("://") {
            ": leave out the scheme"
        } else {
            let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '@', ' ']);
            match replica.rsplit_once(':') {
                Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => return Ok(()),
                _ => "",
            }
        };
        let message = format!("{replica:?} must be an address such as host:port{remedy}");
        Err(ApiError::new(ErrorCode::Malformed, message))
    }
}

/// Connections to the replicas, which clones share.
#[derive(Clone, Debug)]
pub struct Connections {
    security: ConnectionSecurity,
    tls: Option<Arc<Tls>>,
    channels: Arc<[(String, Channel)]>,
    /// The leader, if a replica has named its address. Locked only for a look-up.
    leader: Arc<Mutex<Option<(String, Channel)>>>,
    /// Number of switches between replicas. This number modulo the number of replicas is the index of the present
    /// replica. A stale value costs one call to a replica that does not answer.
    moves: Arc<AtomicUsize>,
    /// Whether a failure was logged. If the value is stale, a second failure is logged.
    is_outage_logged: Arc<AtomicBool>,
}

impl Connections {
    /// Prepares connections, which are made when they are first used. This needs a tokio runtime.
    ///
    /// # Errors
    /// No address is given, or an address is invalid.
    pub fn new(address: &Address) -> Result<Connections, ApiError> {
        if address.replicas.is_empty() {
            let message = "name at least one replica of the cell, as host:port";
            return Err(ApiError::new(ErrorCode::Malformed, message));
        }
        let one = |replica: &String| {
            Ok((replica.clone(), endpoint(replica, address.tls.as_ref())?.connect_lazy()))
        };
        let channels = address.replicas.iter().map(one).collect::<Result<Vec<_>, ApiError>>()?;
        let security =
            if address.tls.is_some() { ConnectionSecurity::Tls } else { ConnectionSecurity::Plain };
        let tls = address.tls.clone().map(Arc::new);
        let (leader, moves, is_outage_logged) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Connections {
            security,
            tls,
            channels: channels.into(),
            leader,
            moves,
            is_outage_logged,
        })
    }

    /// Further connections to the same replicas, for more streams than a server accepts on one connection. They switch
    /// between replicas together with these. This needs a tokio runtime.
    pub(crate) fn beside(&self) -> Connections {
        let again = |(address, channel): &(String, Channel)| {
            let endpoint = endpoint(address, self.tls.as_deref());
            let channel = endpoint.map_or_else(|_| channel.clone(), |new| new.connect_lazy());
            (address.clone(), channel)
        };
        Connections { channels: self.channels.iter().map(again).collect(), ..self.clone() }
    }

    /// The connection to the present replica.
    #[must_use]
    pub fn current(&self) -> Connection {
        let moves = self.moves.load(Ordering::Relaxed);
        if let Some((address, channel)) = self.leader.lock().clone() {
            let own = self.channels.iter().find(|(known, _)| *known == address);
            let channel = own.map_or(channel, |(_, own)| own.clone());
            return Connection { channel, address, moves };
        }
        let (address, channel) = &self.channels[moves % self.channels.len()];
        Connection { channel: channel.clone(), address: address.clone(), moves }
    }

    /// Switches to the next replica, unless the client has already switched from this connection.
    pub fn leave(&self, connection: &Connection) {
        // If a named leader does not answer, it may no longer be the leader. So the client returns to the replicas of
        // its list.
        let is_it = |leader: &mut (String, Channel)| leader.0 == connection.address;
        if self.leader.lock().take_if(is_it).is_some() {
            return;
        }
        let (from, to) = (connection.moves, connection.moves + 1);
        // If this fails, another thread has already switched.
        let _ = self.moves.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Switches to the leader that an error of this connection names. If the error names no leader, switches to the
    /// next replica.
    pub fn leave_for(&self, connection: &Connection, error: &ApiError) {
        self.leave(connection);
        let Some(address) = &error.leader_address else { return };
        // The error of a replica that names itself as the leader is temporary. The replica has just become the leader,
        // or is about to lose the leadership.
        if *address == connection.address {
            return;
        }
        match endpoint(address, self.tls.as_deref()) {
            Ok(endpoint) => {
                *self.leader.lock() = Some((address.clone(), endpoint.connect_lazy()));
            }
            Err(error) => tracing::debug!(address, %error, "a leader's address cannot be used"),
        }
    }

    /// Returns the error of a failed call, or a more precise error. `tries` is the number of earlier failures. If no
    /// call on this connection can succeed, the result has the code [`ErrorCode::Tls`], and should be reported at once.
    pub async fn explain(
        &self,
        connection: &Connection,
        error: ApiError,
        tries: usize,
    ) -> ApiError {
        // These codes may mean that the connection broke. With any other code, the replica has answered.
        let may_never_work = match error.code {
            ErrorCode::OutcomeUnknown | ErrorCode::Unreachable => tries < self.count(),
            // No retry follows this error, so its cause is always looked up.
            ErrorCode::Internal => true,
            _ => false,
        };
        let address = &connection.address;
        if may_never_work && let Some(why) = mismatch::of_address(address, self.security).await {
            return why;
        }
        let ApiError { code: ErrorCode::Unreachable, message, .. } = &error else { return error };
        let why = message.strip_prefix(NO_CONNECTION).unwrap_or_default();
        if why.starts_with(" to ") {
            // The error was explained before.
            return error;
        }
        ApiError::new(ErrorCode::Unreachable, format!("{NO_CONNECTION} to {address}{why}"))
    }

    /// Logs the first error of an outage after which a client tries again, so that users can see why the client waits.
    pub fn log_outage(&self, error: &ApiError) {
        if !self.is_outage_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(why = %error.message, "no replica carries out the call: trying again");
        }
    }

    /// Logs the end of an outage that was logged.
    pub fn log_recovery(&self, connection: &Connection) {
        if self.is_outage_logged.load(Ordering::Relaxed)
            && self.is_outage_logged.swap(false, Ordering::Relaxed)
        {
            tracing::info!(replica = %connection.address, "the cell answers again");
        }
    }

    /// Number of replicas.
    #[must_use]
    pub fn count(&self) -> usize {
        self.channels.len()
    }
}

/// A connection to one replica.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Channel for calls.
    pub channel: Channel,
    /// Address of the replica.
    pub address: String,
    moves: usize,
}

fn endpoint(replica: &str, tls: Option<&Tls>) -> Result<Endpoint, ApiError> {
    Address::check(replica)?;
    let malformed = |why: String| {
        ApiError::new(
            ErrorCode::Malformed,
            format!("{replica:?} must be an address such as host:port: {why}"),
        )
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{replica}"))
        .map_err(|error| malformed(error.to_string()))?
        .connect_timeout(CONNECT_MAX)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_MAX)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    let Some(tls) = tls else { return Ok(endpoint) };
    tls_endpoint(endpoint, tls).map_err(|error| {
        ApiError::new(ErrorCode::Malformed, format!("the certificates cannot be used: {error}"))
    })
}

/// An endpoint with mutual TLS.
///
/// # Errors
/// The certificates cannot be used.
pub fn tls_endpoint(endpoint: Endpoint, tls: &Tls) -> Result<Endpoint, tonic::transport::Error> {
    let mut config = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&tls.authority))
        .identity(Identity::from_pem(&tls.certificate, &tls.key));
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    endpoint.tls_config(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(leader: Option<&str>) -> ApiError {
        let error = ApiError::new(ErrorCode::NoLeader, "the leader does that");
        ApiError { leader_address: leader.map(str::to_owned), ..error }
    }

    #[tokio::test]
    async fn a_refusal_leads_to_the_leader_and_its_silence_back_to_what_was_given() {
        let given = Address::plain(["a:1", "b:1"]);
        let connections = Connections::new(&given).expect("they are addresses");
        let is_at = |address: &str| {
            let connection = connections.current();
            assert_eq!(connection.address, address);
            connection
        };
        connections.leave_for(&is_at("a:1"), &refusal(None));
        connections.leave_for(&is_at("b:1"), &refusal(Some("c:1")));
        let leader = is_at("c:1");
        connections.leave(&leader);
        connections.leave_for(&is_at("a:1"), &refusal(Some("not an address")));
        connections.leave_for(&is_at("b:1"), &refusal(Some("b:1")));
        connections.leave_for(&is_at("a:1"), &refusal(Some("c:1")));
        // The older connection has the same address, so leaving it also leaves the present connection.
        connections.leave(&leader);
        is_at("b:1");
        let beside = connections.beside();
        beside.leave(&beside.current());
        is_at("a:1");
        connections.leave_for(&is_at("a:1"), &refusal(Some("c:1")));
        assert_eq!(beside.current().address, "c:1");
    }

    #[tokio::test]
    async fn an_address_without_a_host_and_a_port_is_rejected_at_once() {
        for good in ["localhost:7600", "127.0.0.1:1", "[::1]:65535"] {
            assert!(Connections::new(&Address::plain([good])).is_ok(), "{good}");
        }
        let bad = ["", "localhost", "http://a:1", "a:1/", ":1", "a:", "a:99999", "u@a:1", "a b:1"];
        for bad in bad {
            let error = Connections::new(&Address::plain([bad])).expect_err(bad);
            assert_eq!(error.code, ErrorCode::Malformed);
            assert!(error.message.contains("such as host:port"), "{error}");
        }
        let error = Address::check("http://a:1").expect_err("it has a scheme");
        assert!(error.message.ends_with("host:port: leave out the scheme"), "{error}");
    }

    /// Nothing was sent, so the error does not have the code for an unknown outcome.
    #[tokio::test]
    async fn a_refused_connection_is_told_with_its_address() {
        use crate::proto::{DescribeCellRequest, cell_service_client::CellServiceClient};
        // No program listens on this port, and no test is assigned it.
        let address = "127.0.0.1:1";
        let connections = Connections::new(&Address::plain([address])).expect("it is an address");
        let connection = connections.current();
        let mut client = CellServiceClient::new(connection.channel.clone());
        let status =
            client.describe_cell(DescribeCellRequest {}).await.expect_err("nobody listens");
        let error = connections.explain(&connection, status.into(), 0).await;
        assert_eq!(error.code, ErrorCode::Unreachable);
        assert_eq!(error.message, format!("cannot connect to {address}: Connection refused"));
        assert!(error.is_temporary());
    }
}
