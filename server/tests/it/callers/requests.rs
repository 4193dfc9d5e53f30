//! Invalid messages and their errors, and callers that send too many requests. None of them changes the cell.

use crate::kit::callers::Open;
use crate::kit::cell::Process;
use crate::kit::http::frame;
use crate::kit::process::gzip;
use crate::kit::wait::insist;
use bytes::{Buf, BufMut};
use omega_client::proto;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::{ApiError, ErrorCode};
use prost::Message;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// Codec that sends and receives bytes unchanged.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

impl Open {
    /// Reply to a call with these bytes.
    fn send(&self, path: &str, bytes: Vec<u8>, metadata: &[(&str, &str)]) -> String {
        let mut request = Request::new(bytes);
        for (key, value) in metadata {
            let key: tonic::metadata::MetadataKey<tonic::metadata::Ascii> = key.parse().unwrap();
            request.metadata_mut().insert(key, value.parse().unwrap());
        }
        let answer: Result<Vec<u8>, Status> = self.runtime.block_on(async {
            let mut client = Grpc::new(self.channel());
            client.ready().await.unwrap();
            let path = format!("/omega.v1.{path}").parse().unwrap();
            client.unary(request, path, Raw).await.map(tonic::Response::into_inner)
        });
        match answer {
            Ok(_) => "ok".to_owned(),
            Err(status) => format!("{:?} {}", status.code(), ApiError::from(status).code),
        }
    }
}

fn machine_named(name: &str) -> Vec<u8> {
    let machine = proto::Machine { name: name.to_owned(), ..Default::default() };
    proto::RegisterMachineRequest { machine: Some(machine) }.encode_to_vec()
}

#[test]
fn bytes_that_mean_nothing_change_nothing() {
    let open = Open::start();
    let before = open.described();
    let whole = machine_named("a-name-that-is-cut");
    let truncated = whole[..whole.len() - 1].to_vec();
    let malformed = "InvalidArgument MALFORMED";
    let long = 4 << 20;
    let cases = [
        ("truncated", truncated, malformed),
        ("wrong wire type", vec![0x08, 0x01], malformed),
        ("no wire type", vec![0x0f], malformed),
        ("a length without bytes", vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], malformed),
        ("a varint without end", vec![0xff; 11], malformed),
        ("nested too deep", vec![0x7b; 10_000], malformed),
        ("not UTF-8", vec![0x0a, 0x03, 0x0a, 0x01, 0xff], malformed),
        ("nothing", Vec::new(), malformed),
        ("too long", vec![0; long + 1], "ResourceExhausted LIMIT"),
        ("as long as may be, and nothing", vec![0; long], malformed),
    ];
    for (what, bytes, expected) in cases {
        let output = open.send("MachineService/RegisterMachine", bytes, &[]);
        assert_eq!(output, expected, "{what}");
    }
    assert_eq!(open.described(), before);
}

/// Appends two unknown fields: a number and some bytes.
fn with_newer_fields(mut bytes: Vec<u8>) -> Vec<u8> {
    const NUMBER: u32 = 2047;
    prost::encoding::uint64::encode(NUMBER, &7, &mut bytes);
    prost::encoding::string::encode(NUMBER + 1, &"newer".to_owned(), &mut bytes);
    bytes
}

#[test]
fn what_a_newer_client_says_is_left_out_or_refused_by_name() {
    let open = Open::start();
    let register = proto::RegisterRequest { name: "s".to_owned(), ..Default::default() };
    let register = with_newer_fields(register.encode_to_vec());
    assert_eq!(open.send("SchedulingService/Register", register, &[]), "ok");
    let describe = with_newer_fields(Vec::new());
    assert_eq!(open.send("CellService/DescribeCell", describe, &[]), "ok");
    // Unknown values must be rejected.
    let commit = proto::CommitRequest { granularity: 99, ..Default::default() };
    let output = open.send("SchedulingService/Commit", commit.encode_to_vec(), &[]);
    assert_eq!(output, "InvalidArgument MALFORMED");
    let output = open.send("SchedulingService/CommitEverywhere", Vec::new(), &[]);
    assert_eq!(output, "PermissionDenied DENIED");
}

#[test]
fn names_and_pages_that_cannot_be_are_refused() {
    let open = Open::start();
    let before = open.described();
    let bad = "InvalidArgument BAD_NAME";
    for name in ["", "a\nb", "a\0b", "\u{7f}", "\u{85}", &"x".repeat(65 << 10)] {
        let output = open.send("MachineService/RegisterMachine", machine_named(name), &[]);
        assert_eq!(output, bad, "{:?}", &name[..name.len().min(10)]);
        let register = proto::RegisterRequest { name: name.to_owned(), ..Default::default() };
        let register = register.encode_to_vec();
        assert_eq!(open.send("SchedulingService/Register", register, &[]), bad);
    }
    for token in ["-1", "zz", "1 ", "\0", "../..", &"f".repeat(17)] {
        let list = proto::ListMachinesRequest { page_token: token.into(), ..Default::default() };
        let output = open.send("MachineService/ListMachines", list.encode_to_vec(), &[]);
        assert_eq!(output, "InvalidArgument BAD_PAGE_TOKEN", "{token:?}");
    }
    for page_size in [0, 1_000_000_000, u32::MAX] {
        let list = proto::ListMachinesRequest { page_size, ..Default::default() };
        assert_eq!(open.send("MachineService/ListMachines", list.encode_to_vec(), &[]), "ok");
    }
    // The token is forged and points beyond the end, so the page is empty.
    let page_token = "ffffffffffffffff".to_owned();
    let list = proto::ListMachinesRequest { page_token, ..Default::default() };
    assert_eq!(open.send("MachineService/ListMachines", list.encode_to_vec(), &[]), "ok");
    assert_eq!(open.described(), before);
}

#[test]
fn deadlines_are_kept_whatever_they_are() {
    let open = Open::start();
    let list = || proto::ListMachinesRequest::default().encode_to_vec();
    let ask = |timeout: &str| {
        open.send("MachineService/ListMachines", list(), &[("grpc-timeout", timeout)])
    };
    // A year is reduced to a minute, and an invalid deadline is replaced by the default.
    for timeout in ["8760H", "99999999H", "1M", "50S", "soon", "-1S", "123456789S"] {
        assert_eq!(ask(timeout), "ok", "{timeout}");
    }
    for timeout in ["0S", "00000000n"] {
        // Either side may notice the deadline first.
        let output = ask(timeout);
        assert!(output.ends_with(" LATE"), "{timeout}: {output}");
    }
}

#[test]
fn what_is_large_only_in_memory_is_not_decoded() {
    let open = Open::start();
    let before = open.described();
    // Two bytes for each group.
    let groups = vec![proto::TaskGroup::default(); 1_000_000];
    let job = proto::Job { name: "many".to_owned(), groups, ..Default::default() };
    let request = proto::SubmitJobRequest { job: Some(job) };
    let output = open.send("JobService/SubmitJob", request.encode_to_vec(), &[]);
    assert!(output.contains("MALFORMED"), "{output}");
    assert_eq!(open.described(), before);
}

#[test]
fn what_is_compressed_is_not_opened() {
    let open = Open::start();
    let before = open.described();
    let bomb = gzip(&"\0".repeat(64 << 20));
    let mut body = vec![1];
    body.extend(u32::try_from(bomb.len()).unwrap().to_be_bytes());
    body.extend(&bomb);
    assert!(bomb.len() < 1 << 20, "it would be refused for its own length");
    let output = open.send("MachineService/RegisterMachine", bomb, &[("grpc-encoding", "gzip")]);
    assert!(
        output.starts_with("Unimplemented") || output.starts_with("InvalidArgument"),
        "{output}"
    );
    assert_eq!(open.described(), before);
}

/// Opens a connection from one of this computer's many loopback addresses.
fn connect_from(from: Ipv4Addr, open: &Open) -> TcpStream {
    let socket = open.runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(([127, 0, 0, 1], open.port).into()).await.unwrap()
    });
    let socket = socket.into_std().unwrap();
    socket.set_nonblocking(false).unwrap();
    socket
}

/// Number of open files of a server, once there are few enough. A busy server may close connections late.
fn open_files(server: &Process, enough: usize) -> usize {
    let folder = format!("/proc/{}/fd", server.0.id());
    let count = || std::fs::read_dir(&folder).unwrap().count();
    let mut readings = std::iter::repeat_with(count).take(10_000);
    readings.find(|files| *files < enough).unwrap_or_else(count)
}

#[test]
fn connections_that_say_nothing_are_few_and_short() {
    let open = Open::start();
    let mut held = Vec::new();
    for round in 0..10_000_u32 {
        let address = Ipv4Addr::from(0x7f00_0002 + round % 20);
        let mut socket = connect_from(address, &open);
        // Some connections send an incomplete beginning.
        let _ = socket.write_all(&b"PRI * HTTP/2.0"[..round as usize % 14]);
        held.push(socket);
        if held.len() == 256 {
            let files = open_files(&open.server, 600);
            assert!(files < 600, "{files}");
            held.drain(..128);
        }
    }
    // The connections are still open, and another client is served.
    open.described();
    // The server has closed the silent connections by itself.
    for socket in &mut held {
        socket.set_nonblocking(false).unwrap();
        let mut output = [0; 1];
        assert!(matches!(socket.read(&mut output), Ok(0) | Err(_)), "it was told something");
    }
}

#[test]
fn streams_that_are_reset_at_once_starve_nobody() {
    let open = Open::start();
    let mut socket = TcpStream::connect(("127.0.0.1", open.port)).unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    socket.write_all(&frame(4, 0, 0, &[])).unwrap();
    // Headers of a request: POST, http, path "/" (indexed), and authority "x" (literal).
    let headers = [0x83, 0x86, 0x84, 0x41, 0x01, b'x'];
    let mut cut = false;
    for i in 0..100_000_u32 {
        let stream = 2 * i + 1;
        let mut both = frame(1, 4, stream, &headers);
        both.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
        if socket.write_all(&both).is_err() {
            cut = true;
            break;
        }
        if i % 10_000 == 0 {
            open.described();
        }
    }
    assert!(cut, "such a connection is ended");
    open.described();
}

#[test]
fn watches_are_bounded_and_callers_told_when_to_come_again() {
    let open = Open::start();
    // If all calls used one connection, the caller would have to wait for the end of a stream.
    let channels: Vec<Channel> = (0..9).map(|_| open.channel()).collect();
    let mut watches = Vec::new();
    let watch = |i: usize| {
        let mut client = SchedulingServiceClient::new(channels[i / 30].clone());
        open.runtime.block_on(client.sync(proto::SyncRequest::default()))
    };
    for i in 0..256 {
        watches.push(watch(i).unwrap().into_inner());
    }
    let status = watch(256).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let error = ApiError::from(status);
    assert_eq!(error.code, ErrorCode::Limit);
    std::thread::sleep(error.retry_after.expect("it is told when"));
    open.described();
    watches.clear();
    insist(|| Ok(watch(256)?));
}
