//! Connections between replicas: a relay for each direction, which can hold, break or delay messages.
//!
//! A replica uses a separate stream to send to each peer, so a relay in place of the peer's address controls one
//! direction: if it holds messages, those of the other direction still arrive. No rights or tools of the system are
//! needed. Held bytes arrive when the connection is restored, even if that is much later.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Interval at which a relay reads its state again.
const LOOK: Duration = Duration::from_millis(5);

/// State of a relayed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// All messages are passed on.
    Whole,
    /// No message is passed on, but connections stay open.
    Held,
    /// Connections are closed, and new ones are closed at once.
    Broken,
    /// Each piece of data is delayed by this time.
    Slow(Duration),
}

/// Relay of one direction between two replicas.
#[derive(Clone, Debug)]
pub struct Relay {
    /// The relay's address, which the sender uses for the peer.
    pub address: SocketAddr,
    state: Arc<State>,
}

/// State shared by the threads of a relay. The values are read independently of each other; if one is stale, at most a
/// single piece of data is wrongly delayed or passed on.
#[derive(Debug)]
struct State {
    kind: AtomicU8,
    delay_ms: AtomicU64,
}

const WHOLE: u8 = 0;
const HELD: u8 = 1;
const BROKEN: u8 = 2;
const GONE: u8 = 3;

impl Relay {
    /// Starts a relay to this address.
    ///
    /// # Errors
    /// If the system has no free port.
    pub fn start(to: SocketAddr) -> io::Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State { kind: AtomicU8::new(WHOLE), delay_ms: AtomicU64::new(0) });
        let accepting = state.clone();
        std::thread::spawn(move || accept(&listener, to, &accepting));
        Ok(Relay { address, state })
    }

    /// Sets the state.
    pub fn set(&self, wire: Wire) {
        let (kind, delay) = match wire {
            Wire::Whole => (WHOLE, Duration::ZERO),
            Wire::Held => (HELD, Duration::ZERO),
            Wire::Broken => (BROKEN, Duration::ZERO),
            Wire::Slow(delay) => (WHOLE, delay),
        };
        self.state.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
        self.state.kind.store(kind, Ordering::Relaxed);
    }

    /// Ends the relay and its threads.
    pub fn end(&self) {
        self.state.kind.store(GONE, Ordering::Relaxed);
        // The connection wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn kind(&self) -> u8 {
        self.kind.load(Ordering::Relaxed)
    }
}

fn accept(listener: &TcpListener, to: SocketAddr, state: &Arc<State>) {
    for accepted in listener.incoming() {
        match (state.kind(), accepted) {
            (GONE, _) => return,
            (BROKEN, _) | (_, Err(_)) => {}
            (_, Ok(from)) => {
                let state = state.clone();
                std::thread::spawn(move || relay(from, to, &state));
            }
        }
    }
}

/// Relays one connection until it ends.
fn relay(from: TcpStream, to: SocketAddr, state: &Arc<State>) {
    wait_while_held(state);
    // If the peer is down, it refuses the connection, and this side is closed, too.
    let Ok(to) = TcpStream::connect(to) else { return };
    let (Ok(back_from), Ok(back_to)) = (to.try_clone(), from.try_clone()) else { return };
    let back_state = state.clone();
    let back = std::thread::spawn(move || pump(back_from, back_to, &back_state));
    pump(from, to, state);
    // The thread ends when the connection does.
    let _ = back.join();
}

/// Passes bytes on until either side closes, or the state becomes `Broken`.
fn pump(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let mut bytes = vec![0; 64 << 10];
    let _ = (from.set_read_timeout(Some(LOOK)), to.set_nodelay(true));
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                wait_while_held(state);
                let delay = state.delay_ms.load(Ordering::Relaxed);
                if delay > 0 {
                    std::thread::sleep(Duration::from_millis(delay));
                }
                if state.kind() >= BROKEN || to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            Err(error) if is_pause(&error) => {
                if state.kind() >= BROKEN {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    // Both directions are closed together.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn wait_while_held(state: &State) {
    while state.kind() == HELD {
        std::thread::sleep(LOOK);
    }
}
