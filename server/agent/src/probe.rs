//! Health checks: a thread for each run of a program that has a check.

use crate::inbox::Sender;
use crate::supervisor_event::SupervisorEvent;
use omega_core::{HealthCheck, Probe};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Weak;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Bytes of a response that are read, enough for its first line.
const ANSWER_BYTES: usize = 64;

/// Bytes that are read at once.
const PART_BYTES: usize = 4 << 10;

/// Limits on the rest of a response, which is read after its first line.
const BODY_BYTES: usize = 1 << 20;
const BODY_TIME: Duration = Duration::from_millis(100);

/// Checks a run while it is alive, or until the check has failed too often.
pub(crate) fn watch(check: HealthCheck, run: u32, events: Sender, alive: Weak<()>) {
    std::thread::spawn(move || {
        let began = Instant::now();
        let (interval, start) = (millis(check.interval_ms), millis(check.start_period_ms));
        let (mut failures, mut is_ready) = (0, false);
        while alive.strong_count() > 0 {
            let succeeded = test(&check, &events);
            if succeeded {
                failures = 0;
                if !is_ready {
                    is_ready = true;
                    events.send(SupervisorEvent::Ready(run));
                }
            } else if is_ready || began.elapsed() >= start {
                failures += 1;
                if failures >= check.failures {
                    return events.send(SupervisorEvent::Unhealthy(run));
                }
            }
            // Before the program is ready, checks are more frequent, so that readiness is noticed soon.
            let pause = if is_ready { interval } else { interval.min(Duration::from_millis(200)) };
            let pause =
                if succeeded || is_ready || began.elapsed() < start { pause } else { interval };
            sleep_while(&alive, pause);
        }
    });
}

/// Sleeps, but not much longer than a run is alive.
fn sleep_while(alive: &Weak<()>, time: Duration) {
    let until = Instant::now() + time;
    while alive.strong_count() > 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_secs(1)));
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn test(check: &HealthCheck, events: &Sender) -> bool {
    let timeout = millis(check.timeout_ms);
    match &check.probe {
        Probe::Tcp(port) => TcpStream::connect_timeout(&address(*port), timeout).is_ok(),
        Probe::Http { port, path } => {
            status(*port, path, timeout).is_ok_and(|status| (200..400).contains(&status))
        }
        // This never happens, because the agent has replaced the names by the numbers of the task's ports.
        Probe::NamedTcp(_) | Probe::NamedHttp { .. } => false,
        Probe::Command(_) => {
            let (answer, answered) = mpsc::channel();
            events.send(SupervisorEvent::Probe(answer));
            match answered.recv_timeout(timeout) {
                Ok(succeeded) => succeeded,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    events.send(SupervisorEvent::ProbeIsLate);
                    false
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => false,
            }
        }
    }
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Reads the next bytes before a time. Returns no bytes at the end of the stream.
fn read_until(stream: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let mut bytes = vec![0; PART_BYTES];
    let count = stream.read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The status code of the response to a GET request.
fn status(port: u16, path: &str, timeout: Duration) -> io::Result<u16> {
    let until = Instant::now() + timeout;
    let mut stream = TcpStream::connect_timeout(&address(port), timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    while answer.len() < ANSWER_BYTES && !answer.contains(&b'\n') {
        match read_until(&mut stream, until)? {
            part if part.is_empty() => break,
            part => answer.extend(part),
        }
    }
    let line = String::from_utf8_lossy(&answer);
    let mut words = line.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/"));
    let status = words.next().and_then(|word| word.parse().ok()).filter(|_| is_http);
    // If the connection were closed with unread bytes, the server would get an error.
    let mut left = BODY_BYTES;
    let until = until.min(Instant::now() + BODY_TIME);
    while let Ok(part) = read_until(&mut stream, until) {
        left = left.saturating_sub(part.len());
        if part.is_empty() || left == 0 {
            break;
        }
    }
    status.ok_or_else(|| io::Error::other("the answer to the health check is not HTTP"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox;
    use std::net::TcpListener;
    use std::sync::Arc;

    #[test]
    fn a_check_ends_with_its_run() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let check = HealthCheck {
            probe: Probe::Tcp(listener.local_addr().unwrap().port()),
            interval_ms: 1,
            timeout_ms: 10_000,
            start_period_ms: 0,
            failures: 1_000_000,
        };
        let (sender, events, _wakes) = inbox::channel().unwrap();
        let alive = Arc::new(());
        watch(check, 0, sender, Arc::downgrade(&alive));
        assert!(matches!(events.recv(), Ok(SupervisorEvent::Ready(0))));
        drop(alive);
        // The thread drops its sender when it ends.
        let ended = events.recv_timeout(Duration::from_secs(60));
        assert!(matches!(ended, Err(mpsc::RecvTimeoutError::Disconnected)), "{ended:?}");
    }

    fn answered(answer: &'static str) -> io::Result<u16> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let status = status(port, "/healthy", Duration::from_secs(30));
        assert!(server.join().unwrap().starts_with("GET /healthy HTTP/1.1\r\n"));
        status
    }

    #[test]
    fn the_status_of_an_answer_is_read() {
        assert_eq!(answered("HTTP/1.1 204 No Content\r\n\r\n").unwrap(), 204);
        assert_eq!(answered("HTTP/1.0 500 Oh\r\n\r\n").unwrap(), 500);
        assert!(answered("hello 200\r\n").is_err());
        assert!(answered("").is_err());
    }
}
