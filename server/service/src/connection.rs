//! New connections: their number, handshake and caller identity.
//!
//! Each connection takes a slot of the listener and a slot of its address. If either has no free slot, the connection
//! is closed. Within five seconds (`Limits::handshake`), a connection must complete the TLS handshake, if the listener
//! uses TLS, and begin HTTP/2. On the listener of the web page, it must send its headers instead (`web/listen.rs`). So
//! silent or slow connections do not keep their slots.
//!
//! When few slots for calls are left, the server delays reading from connections: see `slowdown.rs`.

use crate::identity::Caller;
use crate::limits::{Limits, Places as Calls};
use crate::slowdown::Slowdown;
use crate::tls::{Certificates, Language};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Pause when the system has no file descriptors left, so that a connection may end meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// First bytes of every HTTP/2 connection.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Callers that may connect to a listener.
#[derive(Clone, Debug)]
pub enum Door {
    /// Everyone who reaches the listener.
    Open,
    /// Owners of valid certificates.
    Tls {
        /// The certificates of the listener.
        certificates: Arc<Certificates>,
        /// The cell that a caller's certificate must name.
        cell: Arc<str>,
    },
}

/// Connection slots of a listener. Clones share them.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A slot, released when dropped.
#[derive(Debug)]
struct Place {
    of: IpAddr,
    places: Places,
}

impl Places {
    fn take(&self, of: IpAddr, limits: &Limits) -> Option<Place> {
        let mut taken = self.0.lock();
        // The map has at most one entry for each connection.
        let all: usize = taken.values().sum();
        let each = taken.get(&of).copied().unwrap_or(0);
        if all >= limits.connections as usize || each >= limits.connections_each as usize {
            return None;
        }
        taken.insert(of, each + 1);
        Some(Place { of, places: self.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        if let Some(count) = taken.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

/// Returns the accepted connections, after their handshake.
///
/// Without certificates, every caller is `anyone`. `calls` are the slots of calls; if they are given, the server delays
/// reading from connections when few slots are free.
pub(crate) fn incoming(
    listener: TcpListener,
    door: Door,
    anyone: Caller,
    (limits, calls): (Limits, Option<Calls>),
) -> ReceiverStream<io::Result<Connection>> {
    let (ready, connections) = mpsc::channel(1);
    let language = Language::Http2;
    let threshold = Threshold { door, anyone: Arc::new(anyone), language, limits, calls };
    tokio::spawn(accept(listener, threshold, ready));
    ReceiverStream::new(connections)
}

/// Accepted connections of browsers and probes, of which no request has been read yet.
pub(crate) fn incoming_http1(
    listener: TcpListener,
    door: Door,
    anyone: Caller,
    limits: Limits,
) -> mpsc::Receiver<io::Result<Connection>> {
    let (ready, connections) = mpsc::channel(1);
    let language = Language::Http1;
    let calls = None;
    let threshold = Threshold { door, anyone: Arc::new(anyone), language, limits, calls };
    tokio::spawn(accept(listener, threshold, ready));
    connections
}

/// Requirements for a new connection: certificates, protocol and limits.
#[derive(Clone, Debug)]
struct Threshold {
    door: Door,
    /// Identity of all callers if no certificate is required.
    anyone: Arc<Caller>,
    language: Language,
    limits: Limits,
    calls: Option<Calls>,
}

async fn accept(
    listener: TcpListener,
    threshold: Threshold,
    ready: mpsc::Sender<io::Result<Connection>>,
) {
    let places = Places::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ready.closed() => return,
        };
        let Ok((socket, address)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(place) = places.take(address.ip(), &threshold.limits) else {
            tracing::debug!(%address, "too many connections");
            continue;
        };
        let (threshold, ready) = (threshold.clone(), ready.clone());
        tokio::spawn(async move {
            let max = threshold.limits.handshake;
            match tokio::time::timeout(max, begin(socket, place, threshold)).await {
                // The receiver of connections may be gone.
                Ok(Ok(connection)) => drop(ready.send(Ok(connection)).await),
                Ok(Err(why)) => tracing::debug!(%address, %why, "a connection was refused"),
                Err(_) => tracing::debug!(%address, "a connection took too long to start"),
            }
        });
    }
}

async fn begin(
    socket: TcpStream,
    place: Place,
    Threshold { door, anyone, language, calls, .. }: Threshold,
) -> io::Result<Connection> {
    socket.set_nodelay(true)?;
    let (mut stream, caller) = match door {
        Door::Open => (Stream::Open(socket), anyone),
        Door::Tls { certificates, cell } => {
            let tls = TlsAcceptor::from(certificates.config(language)).accept(socket).await?;
            let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
            let caller = match chain.first() {
                Some(own) => Caller::of_certificate(own, &cell),
                None => Caller::without_certificate(),
            };
            (Stream::Tls(Box::new(tls)), Arc::new(caller))
        }
    };
    let patience = calls.map(|calls| Slowdown::new(calls, caller.clone()));
    if language == Language::Http1 {
        let first = PREFACE.len();
        return Ok(Connection { stream, first, caller, patience, _place: place });
    }
    let mut first = [0; PREFACE.len()];
    stream.read_exact(&mut first).await?;
    if first != *PREFACE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not use HTTP/2"));
    }
    Ok(Connection { stream, first: 0, caller, patience, _place: place })
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    /// Number of bytes of the preface that were passed on. The whole preface was read during the handshake.
    first: usize,
    caller: Arc<Caller>,
    /// Slowdown of the connection, if any.
    patience: Option<Slowdown>,
    _place: Place,
}

#[derive(Debug)]
enum Stream {
    Open(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// The caller.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }
}

impl Connected for Connection {
    type ConnectInfo = Arc<Caller>;

    fn connect_info(&self) -> Arc<Caller> {
        self.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &PREFACE[self.first..];
        if rest.is_empty() {
            let Connection { stream, patience, .. } = &mut *self;
            let Some(patience) = patience else { return Pin::new(stream).poll_read(cx, buf) };
            ready!(patience.poll(cx));
            let read = Pin::new(stream).poll_read(cx, buf);
            if read.is_pending() {
                patience.idle();
            }
            return read;
        }
        let handed = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..handed]);
        self.first += handed;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Open(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Open(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Open(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Open(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
