//! Ports for processes that tests start.
//!
//! A process is told its port before it listens, so nothing else may take the port in between: not another test, of this
//! process or of another, and not a connection to which the system gives any free port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::Mutex;

/// Ports below the ephemeral range.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// Claims of this process, which end with it. A port is claimed by listening under its name: the system sees to it
/// that one process at a time does.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

fn claim(port: u16) -> Option<UnixListener> {
    let name = UnixAddr::from_abstract_name(format!("omega-test-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Returns free ports that no other test gets before this process ends.
pub fn ports(count: usize) -> Vec<u16> {
    // Tests of several processes begin at different places, so that few meet a claim.
    let start = std::process::id() as usize * 977 % PORTS.len();
    let mut claims = CLAIMS.lock().expect("nothing panics with it");
    let all = PORTS.cycle().skip(start).take(PORTS.len());
    let mut found = Vec::with_capacity(count);
    for port in all {
        if found.len() == count {
            break;
        }
        let Some(claimed) = claim(port) else { continue };
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            claims.push(claimed);
            found.push(port);
        }
    }
    assert_eq!(found.len(), count, "there are not so many free ports");
    found
}

/// Returns such ports as addresses of this machine alone.
pub fn addresses(count: usize) -> Vec<SocketAddr> {
    ports(count).into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect()
}

/// Returns one such address.
pub fn address() -> SocketAddr {
    addresses(1)[0]
}
