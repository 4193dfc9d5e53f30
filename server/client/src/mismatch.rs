//! Detection of connections that can never work, because only one side uses TLS, or because a certificate is rejected.
//!
//! A transport reports such a mismatch as a broken connection or an invalid frame. So after a failed call, a client
//! probes the server once: it sends the HTTP/2 preface and reads the first bytes. A TLS server replies with an alert,
//! an HTTP/2 server with its settings.

use crate::{ApiError, ErrorCode};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Time limit for the first bytes of the reply.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Maximum number of attempts. A server that rejects the first bytes may reset the connection before its alert is read.
const PROBE_ATTEMPTS: usize = 3;

/// A request of HTTP/1, to which a server of web pages replies.
const REQUEST: &[u8] = b"HEAD / HTTP/1.0\r\n\r\n";

/// The first bytes of every HTTP/2 connection.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Type of a TLS record with an alert.
const ALERT: u8 = 0x15;

/// Type of an HTTP/2 settings frame. The type is the fourth byte of a frame.
const SETTINGS: u8 = 0x4;

/// Protocol that a listener uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tls,
    Plain,
    /// HTTP/1, which a cell uses only for its web page.
    Web,
}

/// Whether a client's connections use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionSecurity {
    /// The client uses TLS, and presents a certificate.
    Tls,
    /// The client does not use TLS.
    Plain,
}

/// Returns the error for a certificate that either side has rejected; `None` for other errors.
pub(crate) fn of_certificates(error: &(dyn Error + 'static)) -> Option<ApiError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        // The TLS error may be wrapped in an `io::Error`, whose method `source` skips it.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = error
            .downcast_ref::<rustls::Error>()
            .or_else(|| inner.and_then(|inner| inner.downcast_ref()));
        if let Some(why) = found.and_then(sentence) {
            return Some(ApiError::new(ErrorCode::Tls, why));
        }
        cause = error.source();
    }
    None
}

fn sentence(error: &rustls::Error) -> Option<String> {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some(format!(
            "{error}: reach the replica by a name that its certificate has, or issue one with this name (omega cert issue --host)"
        )),
        Error::InvalidCertificate(_) => Some(format!(
            "{error}: this client rejects the replica's certificate: check --tls-ca and the \
             certificate's dates"
        )),
        Error::AlertReceived(alert) => Some(format!(
            "the replica rejected this client's certificate ({alert:?}): check --tls-cert, its \
             dates and its authority"
        )),
        _ => None,
    }
}

/// Returns the reason why connections to this address (`host:port`) can never work; `None` if they may work.
pub(crate) async fn of_address(address: &str, security: ConnectionSecurity) -> Option<ApiError> {
    let protocol = tokio::time::timeout(PROBE_MAX, probe(address)).await.ok()??;
    let why = match (security, protocol) {
        (ConnectionSecurity::Plain, Protocol::Tls) => format!(
            "{address} uses TLS, but this client has no certificate: give --tls-ca, --tls-cert \
             and --tls-key (or set OMEGA_CA, OMEGA_CERT and OMEGA_KEY)"
        ),
        (ConnectionSecurity::Tls, Protocol::Plain) => format!(
            "{address} does not use TLS, but this client has a certificate: leave out --tls-ca, \
             --tls-cert and --tls-key if the address is right"
        ),
        (_, Protocol::Web) => format!(
            "{address} is not the address of a cell's API, for example that of its web page \
             (--web-listen): give the address that `omega serve` has in --listen"
        ),
        (ConnectionSecurity::Plain, Protocol::Plain) | (ConnectionSecurity::Tls, Protocol::Tls) => {
            return None;
        }
    };
    Some(ApiError::new(ErrorCode::Tls, why))
}

/// The protocol of a listener, if its first bytes reveal it.
async fn probe(address: &str) -> Option<Protocol> {
    for _ in 0..PROBE_ATTEMPTS {
        match first_bytes(address, PREFACE).await {
            Ok([ALERT, 3, ..]) => return Some(Protocol::Tls),
            Ok([.., SETTINGS]) => return Some(Protocol::Plain),
            Err(why) if why.kind() == ErrorKind::ConnectionReset => {}
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => break,
            Ok(_) | Err(_) => return None,
        }
    }
    let first = first_bytes(address, REQUEST).await.ok()?;
    (first == *b"HTTP").then_some(Protocol::Web)
}

/// The first bytes that a listener sends after a message.
async fn first_bytes(address: &str, message: &[u8]) -> io::Result<[u8; 4]> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(message).await?;
    let mut first = [0; 4];
    stream.read_exact(&mut first).await?;
    Ok(first)
}
