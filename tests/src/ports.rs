//! Ports for processes that tests start.
//!
//! A process gets its port some time before it listens on the port. In the meantime, the port must not be taken by
//! another test in any process, nor by an outgoing connection, to which the system assigns any free port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::Mutex;

/// Ports below those that a cell gives to tasks (from 20,000 on), and below those that the system assigns to outgoing
/// connections.
const PORTS: std::ops::Range<u16> = 10_000..20_000;

/// Claimed ports, which are released when this process ends. A claim is an abstract Unix socket named after the port,
/// which only one process can bind at a time.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

fn claim(port: u16) -> Option<UnixListener> {
    let name = UnixAddr::from_abstract_name(format!("omega-test-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Returns free ports that no other test gets before this process ends.
pub fn ports(count: usize) -> Vec<u16> {
    // Processes begin their search at different ports, so that claims rarely collide.
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

/// Returns free ports as loopback addresses.
pub fn addresses(count: usize) -> Vec<SocketAddr> {
    ports(count).into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect()
}

/// Returns a free port as a loopback address.
pub fn address() -> SocketAddr {
    addresses(1)[0]
}
