//! Connections without calls: they do not exclude other clients, and are closed after a time.

use crate::kit::callers::{Guarded, Open};
use crate::kit::calls::submit;
use crate::kit::http::frame;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::{Amounts, TaskGroup};
use std::io::{Read, Write};
use std::net::TcpStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// Type and flag of HTTP/2 frames.
const SETTINGS: u8 = 4;
const ACKNOWLEDGED: u8 = 1;

/// Connections that one address may have by default.
const EACH: usize = 64;

/// A connection that sends only the first `begun` bytes of the HTTP/2 preface and settings, then nothing. If it sends
/// all of them, HTTP/2 has started.
fn silent(open: &Open, begun: usize) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", open.port)).unwrap();
    let settings = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACKNOWLEDGED, 0, &[])];
    let beginning = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings.concat()].concat();
    // The server may have closed the connection already.
    let _ = socket.write_all(&beginning[..begun.min(beginning.len())]);
    socket
}

/// Connects without a call. The connection answers pings.
async fn connect(port: u16) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    endpoint.connect().await.unwrap()
}

type Watch = Streaming<proto::WatchJobsResponse>;

async fn watch(channel: Channel) -> Watch {
    let request = proto::WatchJobsRequest { name_prefix: String::new() };
    JobServiceClient::new(channel).watch_jobs(request).await.unwrap().into_inner()
}

/// Submits a job, and waits until a watch has reported it.
fn await_report(open: &Open, watch: &mut Watch, name: &str) {
    let url = format!("http://127.0.0.1:{}", open.port);
    let tasks = TaskGroup::new(1, Amounts::new([1000, 1 << 20]));
    let id = submit(&open.runtime, &url, name, tasks);
    open.runtime.block_on(async {
        loop {
            let message = watch.message().await.unwrap().expect("the watch goes on");
            if message.jobs.iter().any(|job| job.id == id) {
                return;
            }
        }
    });
}

/// Reads until the server closes the connection.
fn is_closed(mut socket: TcpStream) {
    let mut bytes = Vec::new();
    // The server may also close the connection by a reset, which is reported as an error.
    let _ = socket.read_to_end(&mut bytes);
}

#[test]
fn silent_connections_lock_nobody_out() {
    let open = Open::start();
    let mut watched = open.runtime.block_on(async { watch(connect(open.port).await).await });
    // These connections answer pings.
    let idle: Vec<Channel> =
        (0..2 * EACH).map(|_| open.runtime.block_on(connect(open.port))).collect();
    await_report(&open, &mut watched, "after-idle");
    // These connections stop before, within and after the HTTP/2 preface.
    let silent: Vec<TcpStream> = (0..4 * EACH).map(|i| silent(&open, i % 48)).collect();
    await_report(&open, &mut watched, "after-silent");
    assert!(idle.len() + silent.len() > 5 * EACH);
    // The server has closed the oldest connections to make room, independently of its time limits.
    silent.into_iter().take(2 * EACH).for_each(is_closed);
}

#[test]
fn connections_without_calls_end_and_streams_go_on() {
    let open = Open::start_with(&["--limit-idle-seconds=1"]);
    let mut watched = open.runtime.block_on(async { watch(connect(open.port).await).await });
    let idle = open.runtime.block_on(connect(open.port));
    for socket in [silent(&open, usize::MAX), silent(&open, usize::MAX)] {
        is_closed(socket);
    }
    await_report(&open, &mut watched, "first");
    // A client whose connection has ended connects again by itself.
    let mut again = open.runtime.block_on(watch(idle));
    await_report(&open, &mut again, "second");
    await_report(&open, &mut watched, "third");
}

#[test]
fn a_caller_with_watches_on_all_connections_locks_nobody_out() {
    let cell = Guarded::start();
    let connect = |name: &str| cell.of(name);
    let mut held: Vec<(Channel, Watch)> = Vec::new();
    let mut hold = |count: usize| {
        for _ in 0..count {
            let channel = connect("reader-eve");
            let watch = cell.runtime.block_on(watch(channel.clone()));
            held.push((channel, watch));
        }
    };
    hold(EACH);
    let operator = connect("operator-ann");
    cell.describe(operator.clone()).expect("a connection of the reader gives way");
    hold(EACH);
    cell.describe(operator).expect("the operator is not locked out later, either");
    for name in ["agent-m0", "scheduler-web", "submitter-bob"] {
        cell.describe(connect(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}
