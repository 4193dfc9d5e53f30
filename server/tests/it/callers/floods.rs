//! Floods of headers and of control frames, and a thousand readers at once: memory stays bounded, and other callers are
//! served.

use crate::kit::callers::Open;
use crate::kit::calls::submit;
use crate::kit::http::frame;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::{self, WatchJobsResponse};
use omega_core::{Amounts, TaskGroup};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use tonic::Streaming;

/// Types and flags of HTTP/2 frames.
const HEADERS: u8 = 1;
const DATA: u8 = 0;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Headers of a request: POST, http, path "/" (indexed), and authority "x" (literal).
const REQUEST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 0x01, b'x'];

/// Maximum number of bytes by which one flood may make the server's memory grow.
const GROWTH_MAX: u64 = 32 << 20;

/// Resident memory of the server in bytes.
fn resident(open: &Open) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", open.server.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// Sends frames on a new connection until the server closes it. Panics if the server accepts all frames.
fn flood(open: &Open, what: &str, frames: impl Iterator<Item = Vec<u8>>) {
    let before = resident(open);
    let mut socket = TcpStream::connect(("127.0.0.1", open.port)).unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    let mut is_cut = false;
    for (count, frame) in frames.enumerate() {
        if socket.write_all(&frame).is_err() {
            is_cut = true;
            break;
        }
        if count % 1000 == 0 {
            open.described();
        }
    }
    assert!(is_cut, "{what}: such a connection is ended");
    open.described();
    let grown = resident(open).saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{what}: {grown} bytes");
}

#[test]
fn headers_without_end_are_cut_off() {
    let open = Open::start();
    // A header with a new name, which is not added to the table.
    let literal = [&b"\x00\x01a\x64"[..], &[b'v'; 100]].concat();
    let cases = [
        ("nothing in each", Vec::new(), 200_000),
        ("a header in each", literal.clone(), 200_000),
        ("many headers in each", literal.repeat(150), 10_000),
    ];
    for (what, payload, count) in cases {
        let first = frame(HEADERS, 0, 1, &REQUEST);
        let more = std::iter::repeat_n(frame(CONTINUATION, 0, 1, &payload), count);
        flood(&open, what, std::iter::once(first).chain(more));
    }
}

#[test]
fn control_frames_without_end_are_cut_off() {
    let open = Open::start();
    let cases = [
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())),
        ("frames of an unknown type", frame(0xee, 0, 0, &[])),
    ];
    for (what, one) in cases {
        flood(&open, what, std::iter::repeat_n(one.repeat(1000), 10_000));
    }
    // The body of a request, in parts without bytes.
    let first = frame(HEADERS, END_HEADERS, 1, &REQUEST);
    let parts = std::iter::repeat_n(frame(DATA, 0, 1, &[]).repeat(1000), 10_000);
    flood(&open, "empty data", std::iter::once(first).chain(parts));
}

/// One byte of a header block may refer to the largest entry of the table.
#[test]
fn small_header_blocks_that_mean_much_are_refused() {
    let open = Open::start();
    let value = [b'v'; 3900];
    let length = value.len() - 127;
    let length = [0x7f, (length % 128) as u8 | 128, (length / 128) as u8];
    let entry = [&b"\x40\x01a"[..], &length[..], &value[..]].concat();
    // The block refers 12,000 times to the newest entry of the table, so its headers would take 47 MB in all.
    let first = [&REQUEST[..], &entry[..], &[0xbe; 12_000]].concat();
    let later = [&REQUEST[..], &[0xbe; 16_000]].concat();
    let blocks = std::iter::once(first).chain(std::iter::repeat_n(later, 2000));
    let flags = END_STREAM | END_HEADERS;
    let frames = (0..).zip(blocks).map(|(i, block)| frame(HEADERS, flags, 2 * i + 1, &block));
    flood(&open, "references to one entry", frames);
}

/// Reads a watch until it has reported a number of jobs, at ascending versions.
async fn await_reports(mut watch: Streaming<WatchJobsResponse>, jobs: usize) {
    let (mut known, mut version) = (BTreeSet::new(), 0);
    while known.len() < jobs {
        let message = watch.message().await.unwrap().expect("the watch goes on");
        assert!(message.version >= version, "{} after {version}", message.version);
        version = message.version;
        known.extend(message.jobs.iter().map(|job| job.id));
    }
    assert_eq!(known.len(), jobs);
}

/// Maximum memory of a watch that has its own connection, in bytes.
const WATCH_BYTES_MAX: u64 = 128 << 10;

/// Each watch has its own connection; there are a thousand, or `OMEGA_WATCHES`.
#[test]
fn a_thousand_watches_report_every_job() {
    const JOBS: usize = 20;
    let count = std::env::var("OMEGA_WATCHES").map_or(1000, |count| count.parse().unwrap());
    let more = ["streams", "streams-each", "operator-streams", "connections", "connections-each"]
        .map(|limit| format!("--limit-{limit}={}", count + 100));
    let open = Open::start_with(&more.each_ref().map(String::as_str));
    let before = resident(&open);
    let watches: Vec<_> = (0..count)
        .map(|_| {
            let mut client = JobServiceClient::new(open.channel());
            let request = proto::WatchJobsRequest { name_prefix: String::new() };
            let watch = open.runtime.block_on(client.watch_jobs(request)).unwrap();
            open.runtime.spawn(await_reports(watch.into_inner(), JOBS))
        })
        .collect();
    let url = format!("http://127.0.0.1:{}", open.port);
    for i in 0..JOBS {
        let tasks = TaskGroup::new(10, Amounts::new([1000, 1 << 20]));
        submit(&open.runtime, &url, &format!("watched{i}"), tasks);
        open.described();
    }
    for watch in watches {
        open.runtime.block_on(watch).unwrap();
    }
    let grown = resident(&open).saturating_sub(before);
    println!("{count} watches: {} KiB", grown >> 10);
    assert!(grown < WATCH_BYTES_MAX * count, "{grown} bytes for {count} watches");
}
