//! Connections to the API server.

use super::config::Config;
use super::error::{CallError, ConfigError};
use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The sending side of a connection.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Time without traffic after which a connection is probed, time between probes, and number of probes without an
/// answer after which the connection fails.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// The server's address, split into its parts.
pub(super) struct Endpoint {
    host: String,
    port: u16,
    name: ServerName<'static>,
    /// The path that precedes all paths of calls.
    pub(super) prefix: String,
    /// The value of the header `Host`.
    pub(super) authority: HeaderValue,
}

impl Endpoint {
    pub(super) fn new(config: &Config) -> Result<Endpoint, ConfigError> {
        let text = &config.server;
        let fault = || {
            ConfigError::Tls(format!(
                "server {text:?} must be an address such as \
                 https://10.0.0.1:6443"
            ))
        };
        let uri: http::Uri = text.parse().map_err(|_| fault())?;
        let port = match uri.scheme_str() {
            Some("https") => 443,
            Some("http") => 80,
            _ => return Err(fault()),
        };
        let authority = uri.authority().ok_or_else(fault)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = config.server_name.clone().unwrap_or_else(|| host.clone());
        Ok(Endpoint {
            port: authority.port_u16().unwrap_or(port),
            name: ServerName::try_from(name).map_err(|_| fault())?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| fault())?,
            host,
        })
    }

    /// Opens a connection to the server.
    pub(super) async fn connect(&self, tls: Option<&TlsConnector>) -> Result<Sender, CallError> {
        let fault = |why| CallError::Connect(format!("{}:{}", self.host, self.port), why);
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(fault)?;
        tcp.set_nodelay(true).map_err(fault)?;
        keep_alive(&tcp).map_err(fault)?;
        match tls {
            None => open(tcp).await,
            Some(tls) => open(tls.connect(self.name.clone(), tcp).await.map_err(fault)?).await,
        }
    }
}

/// Makes a connection fail if its peer does not answer any more. Watches would otherwise wait on such a connection.
fn keep_alive(tcp: &TcpStream) -> io::Result<()> {
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    let socket = SockRef::from(tcp);
    socket.set_tcp_keepalive(&probes.with_retries(PROBES))?;
    // A limit for data without acknowledgement, during which no probes are sent.
    socket.set_tcp_user_timeout(Some(PROBE_AFTER + PROBE_EVERY * PROBES))
}

async fn open<S>(socket: S) -> Result<Sender, CallError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaken = handshake(TokioIo::new(socket)).await;
    let (sender, connection) = shaken.map_err(|why| CallError::Broken(why.to_string()))?;
    // The task ends when the connection's sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}
