//! New connections: their number, handshake and caller identity.
//!
//! Each connection takes a slot (`overload/slots.rs`). Within five seconds (`Limits::handshake`), a connection must
//! complete the TLS handshake, if the listener uses TLS, and begin HTTP/2. On the listener of the web page, it must
//! send its headers instead (`web/listen.rs`). A connection ends if it has no call in progress for `Limits::idle`, or
//! if a new connection needs its slot. So silent or slow connections do not keep their slots.
//!
//! When few slots for calls are left, the server delays reading from connections: see `overload/slowdown.rs`.

use crate::access::identity::Caller;
use crate::overload::frames::Frames;
use crate::overload::limits::{CallLimits, Limits};
use crate::overload::slots::{Slot, SlotLimits, Slots, Usage};
use crate::overload::slowdown::Slowdown;
use crate::tls::{Certificates, Protocol};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Pause when the system has no file descriptors left, so that a connection may end meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Interval at which idle connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// First bytes of every HTTP/2 connection.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Callers that may connect to a listener.
#[derive(Clone, Debug)]
pub enum ListenerSecurity {
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

/// Returns the accepted connections, after their handshake.
///
/// Without certificates, every caller is `anyone`. `calls` are the slots of calls; if they are given, the server delays
/// reading from connections when few slots are free.
pub(crate) fn incoming(
    listener: TcpListener,
    security: ListenerSecurity,
    anyone: Caller,
    (limits, calls): (Limits, Option<CallLimits>),
) -> ReceiverStream<io::Result<Connection>> {
    let (ready, connections) = mpsc::channel(1);
    let protocol = Protocol::Http2;
    let requirements = Requirements { security, anyone: Arc::new(anyone), protocol, limits, calls };
    tokio::spawn(accept(listener, requirements, ready));
    ReceiverStream::new(connections)
}

/// Accepted connections of browsers and probes, of which no request has been read yet.
pub(crate) fn incoming_http1(
    listener: TcpListener,
    security: ListenerSecurity,
    anyone: Caller,
    limits: Limits,
) -> mpsc::Receiver<io::Result<Connection>> {
    let (ready, connections) = mpsc::channel(1);
    let protocol = Protocol::Http1;
    let calls = None;
    let requirements = Requirements { security, anyone: Arc::new(anyone), protocol, limits, calls };
    tokio::spawn(accept(listener, requirements, ready));
    connections
}

/// Requirements for a new connection: certificates, protocol and limits.
#[derive(Clone, Debug)]
struct Requirements {
    security: ListenerSecurity,
    /// Identity of all callers if no certificate is required.
    anyone: Arc<Caller>,
    protocol: Protocol,
    limits: Limits,
    calls: Option<CallLimits>,
}

async fn accept(
    listener: TcpListener,
    requirements: Requirements,
    ready: mpsc::Sender<io::Result<Connection>>,
) {
    let Limits { connections, connections_each, idle, handshake, .. } = requirements.limits;
    let all = connections as usize;
    let slots = Slots::new(SlotLimits { all, each: connections_each as usize });
    let mut sweeps = interval(SWEEP);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = sweeps.tick() => {
                let ended = slots.end_idle(idle, Instant::now());
                if ended > 0 {
                    tracing::debug!(ended, "idle connections were closed");
                }
                continue;
            }
            () = ready.closed() => return,
        };
        let Ok((socket, address)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(mut slot) = slots.take(address.ip(), Instant::now()) else {
            tracing::debug!(%address, "too many connections");
            continue;
        };
        let (requirements, ready) = (requirements.clone(), ready.clone());
        let has_certificates = matches!(requirements.security, ListenerSecurity::Tls { .. });
        tokio::spawn(async move {
            let begun = tokio::select! {
                begun = tokio::time::timeout(handshake, begin(socket, requirements)) => begun,
                () = slot.lost() => {
                    tracing::debug!(%address, "a newer connection took the slot of a handshake");
                    return;
                }
            };
            match begun {
                Ok(Ok(begun)) => {
                    if has_certificates {
                        slot.identify(begun.caller.name.clone());
                    }
                    // The receiver of connections may be gone.
                    drop(ready.send(Ok(Connection { begun, slot })).await);
                }
                Ok(Err(why)) => tracing::debug!(%address, %why, "a connection was refused"),
                Err(_) => tracing::debug!(%address, "a connection took too long to start"),
            }
        });
    }
}

async fn begin(
    socket: TcpStream,
    Requirements { security, anyone, protocol, calls, .. }: Requirements,
) -> io::Result<Begun> {
    socket.set_nodelay(true)?;
    let (mut stream, caller) = match security {
        ListenerSecurity::Open => (Stream::Open(socket), anyone),
        ListenerSecurity::Tls { certificates, cell } => {
            let tls = TlsAcceptor::from(certificates.config(protocol)).accept(socket).await?;
            let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
            let caller = match chain.first() {
                Some(own) => Caller::of_certificate(own, &cell),
                None => Caller::without_certificate(),
            };
            (Stream::Tls(Box::new(tls)), Arc::new(caller))
        }
    };
    let slowdown = calls.map(|calls| Slowdown::new(calls, caller.clone()));
    if protocol == Protocol::Http1 {
        let first = PREFACE.len();
        return Ok(Begun { stream, first, caller, slowdown, frames: None });
    }
    let mut first = [0; PREFACE.len()];
    stream.read_exact(&mut first).await?;
    if first != *PREFACE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not use HTTP/2"));
    }
    let frames = Some(Frames::new(Instant::now()));
    Ok(Begun { stream, first: 0, caller, slowdown, frames })
}

/// A connection after its handshake. It ends when it loses its slot.
#[derive(Debug)]
pub(crate) struct Connection {
    begun: Begun,
    slot: Slot,
}

/// Result of a handshake.
#[derive(Debug)]
struct Begun {
    stream: Stream,
    /// Number of bytes of the preface that were passed on. The whole preface was read during the handshake.
    first: usize,
    caller: Arc<Caller>,
    /// Slowdown of the connection, if any.
    slowdown: Option<Slowdown>,
    /// Budgets of frames, if the connection uses HTTP/2.
    frames: Option<Frames>,
}

#[derive(Debug)]
enum Stream {
    Open(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The caller of a connection, and the use of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) caller: Arc<Caller>,
    pub(crate) usage: Usage,
}

impl Connection {
    pub(crate) fn visitor(&self) -> Visitor {
        Visitor { caller: self.begun.caller.clone(), usage: self.slot.usage().clone() }
    }

    /// Returns the stream, or an error if the connection has lost its slot.
    ///
    /// The loss is an error, and not an end of the stream, so that the transport drops the connection without waiting
    /// for its client to read.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut Stream>> {
        match self.slot.poll_lost(cx) {
            Poll::Pending => Ok(Pin::new(&mut self.begun.stream)),
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Visitor;

    fn connect_info(&self) -> Visitor {
        self.visitor()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(cx)?;
        let Begun { stream, slowdown, first, frames, .. } = &mut self.begun;
        let rest = &PREFACE[*first..];
        if rest.is_empty() {
            if let Some(slowdown) = slowdown {
                ready!(slowdown.poll(cx));
            }
            let before = buf.filled().len();
            let read = Pin::new(stream).poll_read(cx, buf);
            if let (true, Some(slowdown)) = (read.is_pending(), slowdown) {
                slowdown.idle();
            }
            ready!(read)?;
            let read = &buf.filled()[before..];
            return Poll::Ready(
                frames.as_mut().map_or(Ok(()), |frames| frames.read(read, Instant::now())),
            );
        }
        let handed = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..handed]);
        *first += handed;
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(self.stream(cx)?.poll_write(cx, buf))?;
        if let Some(frames) = &mut self.begun.frames {
            frames.written(written);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_shutdown(cx)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Open(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Open(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Open(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
