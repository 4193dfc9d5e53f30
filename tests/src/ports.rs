//! Ports for processes that tests start: a process is told its port before it takes it, so nobody else may get it meanwhile.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports that nobody has now, nor gets by chance: below those that systems give to whoever connects, and
/// each once in this process.
pub fn ports(count: usize) -> Vec<u16> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(977);
    let all = std::iter::repeat_with(|| {
        let port = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST;
        u16::try_from(port).expect("it is below 65,536")
    });
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    all.filter(is_free).take(count).collect()
}

/// The same, as addresses of this machine alone.
pub fn addresses(count: usize) -> Vec<SocketAddr> {
    ports(count).into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect()
}

/// One of them.
pub fn address() -> SocketAddr {
    addresses(1)[0]
}
