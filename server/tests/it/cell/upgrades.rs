//! Different versions together. Directories and files of a newer version are rejected with a remedy, and not changed.
//! Replicas of incompatible versions report this. Older versions are served.

use crate::cell::durable::content;
use crate::cell::events::{start, wait_for};
use crate::kit::calls::unavailable;
use crate::kit::cell::{ports, serve};
use crate::kit::process::{folder, listing, run_omega, workspace_file};
use crate::kit::wait::insist;
use omega_client::proto::peer_service_client::PeerServiceClient;
use omega_client::proto::peer_service_server::{PeerService, PeerServiceServer};
use omega_client::{ApiError, ErrorCode, proto};
use omega_store::directory::{Directory, Expected};
use omega_store::log::{Batch, Entry, EntryKind, HardState, Position};
use omega_store::{RealDisk, codec, wire};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

/// Offset of the format number in each of our files, which is 32 bits after 8 bytes of magic.
const FORMAT_AT: usize = 8;

/// Changes a file to the next format.
fn newer(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[FORMAT_AT] += 1;
    std::fs::write(file, bytes).unwrap();
}

/// Name of the only file in a folder, apart from temporary files.
fn only(dir: &Path) -> String {
    let mut names = listing(dir);
    names.retain(|name| !name.ends_with(".tmp"));
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

/// Appends a committed entry that a newer version wrote.
fn newer_entry(dir: &Path) -> u64 {
    let directory = Directory::open(Arc::new(RealDisk), dir, Expected::default()).unwrap();
    let mut log = directory.open_log().unwrap();
    let last = log.bounds().last;
    let position = Position { index: last.index.next(), term: last.term };
    let data = vec![codec::VERSION + 1; 40].into();
    let entries = vec![Entry { position, kind: EntryKind::Commands, data }];
    let hard_state = Some(HardState { commit: position.index, ..log.hard_state() });
    log.append(&Batch { entries, hard_state }).unwrap();
    log.sync().unwrap();
    position.index.0
}

/// A stopped cell of one replica in `cell`, and its backup.
fn kept() -> tempfile::TempDir {
    let dir = folder(&[]);
    let address = format!("127.0.0.1:{}", ports(1)[0]);
    let server = serve(dir.path(), &["--dir=cell".to_owned(), format!("--listen={address}")]);
    for line in ["machine add m --cpu 4", "job submit web --count 2 --cpu 1", "backup saved"] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["--cell", &address]);
        let output = run_omega(dir.path(), &arguments);
        assert_eq!(output.code, Some(0), "{line}: {}", output.stderr);
    }
    drop(server);
    dir
}

/// Checks the error of each verb that opens a directory: it is one line, and the directory is not changed.
fn refused(dir: &Path, verbs: &[&str], expected: &str) {
    let before = content(dir);
    for verb in verbs {
        let output = run_omega(dir, &verb.split(' ').collect::<Vec<_>>());
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(2), ""),
            "{verb}: {}",
            output.stderr
        );
        assert_eq!(output.stderr, format!("omega: {expected}\n"), "{verb}");
    }
    assert!(content(dir) == before, "something was changed by one of {verbs:?}");
}

const SERVE: &str = "serve --dir=cell --listen=127.0.0.1:0";

#[test]
fn a_directory_of_a_newer_version_is_refused_and_stays_as_it_is() {
    let all = [SERVE, "log show cell", "log replay cell", "log at cell 1"];
    let dir = kept();
    newer(&dir.path().join("cell/IDENTITY"));
    let knows = "has format 2, but this program reads 1: use a program that reads format 2";
    refused(dir.path(), &all, &format!("cell/IDENTITY {knows}"));
    // A run never uses a folder that has content, whatever its version.
    let exists = "cell: this folder already contains a replica, and a run creates a new cell: \
         name a folder that is empty or does not exist";
    refused(dir.path(), &["run --synthetic 10 --hours 1 --quiet --dir cell"], exists);

    let dir = kept();
    let segment = format!("cell/log/{}", only(&dir.path().join("cell/log")));
    newer(&dir.path().join(&segment));
    refused(dir.path(), &all, &format!("{segment} {knows}"));
}

#[test]
fn snapshots_and_backups_of_a_newer_version_are_refused() {
    let reads = "has format 2, but this program reads 1: use a program that reads format 2";
    let dir = kept();
    let snapshot = format!("cell/snapshots/{}", only(&dir.path().join("cell/snapshots")));
    newer(&dir.path().join(&snapshot));
    let expected = format!("{snapshot} {reads}");
    refused(dir.path(), &[SERVE, "log replay cell", "log at cell 1"], &expected);
    // The log can still be printed, together with the error about the snapshot.
    let before = content(dir.path());
    let output = run_omega(dir.path(), &["log", "show", "cell"]);
    assert!(output.code == Some(0) && output.stdout.contains(&expected), "{}", output.stdout);
    assert!(content(dir.path()) == before);

    newer(&dir.path().join("saved"));
    let verbs = ["backup --verify saved", "restore saved --dir again"];
    let expected = "saved: has format 2, which this version of omega cannot read: use the version \
         that wrote the file, or a newer one";
    refused(dir.path(), &verbs, expected);
    assert!(!dir.path().join("again").exists());
}

#[test]
fn entries_of_a_newer_version_are_refused_before_anything_is_written() {
    let dir = kept();
    let at = newer_entry(&dir.path().join("cell"));
    let cannot = format!(
        "entry {at} cannot be read: the bytes have version 2, but this program reads version 1: \
         use a program that reads version 2"
    );
    refused(dir.path(), &[SERVE], &format!("cell: {cannot}"));
    refused(dir.path(), &["log show cell", "log replay cell"], &cannot);
}

#[test]
fn what_an_older_version_wrote_is_served() {
    for format in listing(&workspace_file("tests/golden/data")) {
        let golden = workspace_file(&format!("tests/golden/data/{format}"));
        let state = std::fs::read_to_string(golden.join("state.txt")).unwrap();
        let version = state.lines().next().unwrap().strip_prefix("version ").unwrap();
        let dir = folder(&[]);
        copy(&golden.join("replica"), &dir.path().join("cell"));
        let address = format!("127.0.0.1:{}", ports(1)[0]);
        let _server = serve(dir.path(), &["--dir=cell".to_owned(), format!("--listen={address}")]);
        let output = run_omega(dir.path(), &["cell", "--cell", &address, "-o", "json"]);
        let response: Value = serde_json::from_str(&output.stdout).unwrap();
        assert!(response["version"].as_u64() >= version.parse().ok(), "{format}: {response}");
        let backup = golden.join("backup");
        let output = run_omega(dir.path(), &["backup", "--verify", backup.to_str().unwrap()]);
        assert!(output.stdout.contains(version), "{format}: {} {}", output.stdout, output.stderr);
    }
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in content(from) {
        let file = to.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
}

/// A peer of the next version. It records the frames that it gets. It rejects them in the same way as this version
/// rejects frames of the next version.
struct Newer {
    frames: mpsc::Sender<proto::PeerFrame>,
}

#[tonic::async_trait]
impl PeerService for Newer {
    async fn deliver(
        &self,
        request: Request<Streaming<proto::PeerFrame>>,
    ) -> Result<Response<proto::DeliverResponse>, Status> {
        let frame = request.into_inner().message().await?;
        let frame = frame.ok_or_else(|| Status::cancelled("nothing came"))?;
        assert_eq!(frame.messages[0][0], wire::VERSION, "each message begins with its version");
        // The receiver may have been dropped after it got enough frames.
        drop(self.frames.send(frame));
        Err(ApiError::new(ErrorCode::Malformed, refusal(wire::VERSION, wire::VERSION + 1)).into())
    }
}

fn refusal(found: u8, known: u8) -> String {
    format!(
        "a peer's message: the bytes have version {found}, but this program reads version \
         {known}: use a program that reads version {found}"
    )
}

#[test]
fn replicas_of_two_versions_say_why_they_do_not_hear_each_other() {
    let dir = folder(&[]);
    let all = ports(3);
    let runtime = Runtime::new().unwrap();
    let (sender, frames) = mpsc::channel();
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", all[2]))).unwrap();
    let server = tonic::transport::Server::builder()
        .add_service(PeerServiceServer::new(Newer { frames: sender }));
    runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let peers = format!("1=127.0.0.1:{},2=127.0.0.1:{}", all[1], all[2]);
    let line = format!(
        "serve --dir=r1 --listen=127.0.0.1:{} --cell-name=two --replica=1 --peers={peers} --bootstrap \
         --log-format=json",
        all[0]
    );
    let _replica = start(dir.path(), &line, "errors");
    let errors = dir.path().join("errors");
    let is = |event: &Value, message: &str| event["message"] == message;
    let refuses = "a peer rejects the messages of this replica";
    let response = wait_for(&errors, |event| is(event, refuses));
    let words = refusal(wire::VERSION, wire::VERSION + 1);
    assert_eq!((&response["to"], &response["why"]), (&"r2".into(), &words.into()), "{response}");
    // The replica retries, but reports the error only once.
    let frame = frames.iter().take(4).last().unwrap();
    // In the other direction, a message of a newer version is rejected, and both replicas report the reason.
    let message = vec![wire::VERSION + 1, 0];
    let newer = proto::PeerFrame { from: 2, to: 1, messages: vec![message], ..frame };
    let url = format!("http://127.0.0.1:{}", all[1]);
    let say_newer = || {
        runtime.block_on(async {
            let mut client = PeerServiceClient::connect(url.clone()).await.map_err(unavailable)?;
            let frames = tokio_stream::iter([newer.clone()]);
            Ok(ApiError::from(client.deliver(frames).await.unwrap_err()))
        })
    };
    let words = refusal(wire::VERSION + 1, wire::VERSION);
    for _ in 0..3 {
        let error = insist(say_newer);
        assert_eq!((error.code, &error.message), (ErrorCode::Malformed, &words));
    }
    let cannot = "the messages of a peer cannot be read";
    let response = wait_for(&errors, |event| is(event, cannot));
    assert_eq!((&response["from"], &response["why"]), (&"r2".into(), &words.into()), "{response}");
    let text = std::fs::read_to_string(&errors).unwrap();
    for message in [refuses, cannot] {
        assert_eq!(text.matches(message).count(), 1, "{text}");
    }
}
