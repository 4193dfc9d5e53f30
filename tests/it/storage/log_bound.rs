//! A replica that cannot save snapshots. Its log stops growing, commits return an error, nothing is lost, and the
//! replica continues after the next snapshot.

use omega_core::Command;
use omega_store::directory::EngineKind;
use omega_store::node::{self, MessageKind};
use omega_store::replica::{PeerMessage, Reply, Request, RetryReason};
use omega_tests::disk::SimulatedDisk;
use omega_tests::durable::{LOG_BYTES_MAX, Lone, create};
use omega_tests::random::Dice;
use omega_tests::trio::{self, Trio};
use std::path::Path;
use std::sync::Arc;

const FOLDER: &str = "/replica";
const SNAPSHOTS: &str = "/replica/snapshots";

/// Bytes of memory of an entry with one transaction.
const ENTRY: u64 = 1 << 10;

/// Number of ticks after which a snapshot has been tried again.
const TICKS: usize = 100;

fn open(disk: &SimulatedDisk) -> Lone {
    Lone::open(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap()
}

fn new() -> (SimulatedDisk, Lone) {
    let disk = SimulatedDisk::new(1);
    create(Arc::new(disk.clone()), Path::new(FOLDER), EngineKind::Segment).unwrap();
    let lone = open(&disk);
    (disk, lone)
}

/// Commits until a commit is rejected. Returns the number of acknowledged commits.
fn work_until_refused(lone: &mut Lone) -> u64 {
    let before = lone.next;
    while lone.work() {
        assert!(lone.next < before + 10_000, "the log has no bound");
    }
    let in_memory = lone.started.replica.node().log_in_memory().1;
    assert!((LOG_BYTES_MAX..LOG_BYTES_MAX + ENTRY).contains(&in_memory), "{in_memory} bytes");
    lone.next
}

fn pass_time(lone: &mut Lone) {
    for _ in 0..TICKS {
        lone.started.replica.tick();
        lone.drive();
    }
}

fn log_bytes(disk: &SimulatedDisk) -> u64 {
    let logs = disk.files().into_iter().filter(|path| path.starts_with("/replica/log"));
    logs.filter_map(|path| disk.bytes(&path)).map(|bytes| bytes.len() as u64).sum()
}

#[test]
fn a_log_that_no_snapshot_shortens_ends_to_grow_and_goes_on_after_one() {
    let (disk, mut lone) = new();
    disk.set_full_folder(Some(Path::new(SNAPSHOTS)));
    let acknowledged = work_until_refused(&mut lone);
    assert_eq!(lone.stopped(), None);
    // Half of each segment is its header, because segments are small here.
    assert!(log_bytes(&disk) < 4 * LOG_BYTES_MAX, "{} bytes on the disk", log_bytes(&disk));
    pass_time(&mut lone);
    assert!(!lone.work(), "nothing is better yet");

    disk.set_full_folder(None);
    pass_time(&mut lone);
    let in_memory = lone.started.replica.node().log_in_memory().1;
    assert!(in_memory < LOG_BYTES_MAX / 2, "{in_memory} bytes after a snapshot");
    assert!((0..500).all(|_| lone.work()), "it goes on");
    assert_eq!(lone.count(), Ok(acknowledged + 500));
}

#[test]
fn whoever_starts_again_with_a_long_log_has_all_of_it_and_the_same_bound() {
    let (disk, mut lone) = new();
    disk.set_full_folder(Some(Path::new(SNAPSHOTS)));
    let acknowledged = work_until_refused(&mut lone);
    drop(lone);
    disk.crash(&mut Dice::new(1));
    // A read would add an entry to the log, so it is not used here.
    let mut lone = reopen(&disk);
    lone.next = acknowledged;
    assert!(!lone.work(), "the bound holds after a start, too");

    disk.set_full_folder(None);
    pass_time(&mut lone);
    assert_eq!(lone.count(), Ok(acknowledged));
    assert!((0..100).all(|_| lone.work()));
}

#[test]
fn a_follower_that_saves_no_snapshot_holds_nobody_up_and_catches_up() {
    let mut trio = Trio::new();
    let follower = (0..3).find(|at| Some(*at) != trio.leader()).unwrap();
    let snapshots = Path::new(trio::FOLDER).join("snapshots");
    trio.disks[follower].set_full_folder(Some(&snapshots));
    (0..4_000).for_each(|_| trio.round());
    let in_memory = trio.up[follower].replica.node().log_in_memory().1;
    assert!((LOG_BYTES_MAX..LOG_BYTES_MAX + ENTRY).contains(&in_memory), "{in_memory} bytes");
    let acknowledged = trio.next;
    assert!(acknowledged > 600, "the others go on: {acknowledged}");
    let behind = trio.up[follower].replica.applied().lock().cell.version().0;
    assert!(behind + 100 < acknowledged, "it lets entries pass: {behind}");

    trio.disks[follower].set_full_folder(None);
    (0..300).for_each(|_| trio.round());
    trio.agree();
    assert_eq!(trio.restarts, 0);
}

#[test]
fn a_leader_that_saves_no_snapshot_turns_commits_away_until_it_can() {
    let mut trio = Trio::new();
    let snapshots = Path::new(trio::FOLDER).join("snapshots");
    trio.disks.iter().for_each(|disk| disk.set_full_folder(Some(&snapshots)));
    (0..4_000).for_each(|_| trio.round());
    let refused_at = trio.next;
    (0..200).for_each(|_| trio.round());
    assert_eq!(trio.next, refused_at, "nothing is taken any more");
    for replica in &trio.up {
        let in_memory = replica.replica.node().log_in_memory().1;
        assert!(in_memory < LOG_BYTES_MAX + ENTRY, "{in_memory} bytes");
    }
    trio.disks.iter().for_each(|disk| disk.set_full_folder(None));
    (0..400).for_each(|_| trio.round());
    assert!(trio.next > refused_at + 50, "it goes on: {} after {refused_at}", trio.next);
    trio.agree();
    assert_eq!(trio.restarts, 0);
}

/// A follower whose disk is full requests no votes, so no reply shows it that its leader has stepped down.
#[test]
fn a_follower_whose_disk_is_full_gives_up_a_leader_that_is_silent() {
    let mut trio = Trio::new();
    let follower = (0..3).find(|at| Some(*at) != trio.leader()).unwrap();
    (0..20).for_each(|_| trio.round());
    let replica = &mut trio.up[follower].replica;
    replica.log_full(true);
    let time = || Request::Command(Command::Expire { now_ms: 1 });
    replica.request(time());
    let output = replica.proceed();
    assert!(output.replies.is_empty(), "it asks the leader: {:?}", output.replies);
    for _ in 0..2 * node::Settings::default().election_ticks {
        replica.tick();
        assert!(replica.proceed().messages.iter().all(|(_, message)| !is_vote(message)));
    }
    let id = replica.request(time());
    let answers = replica.proceed().replies;
    assert!(answers.contains(&(id, Reply::Retry(RetryReason::LeaderlessAndFull))), "{answers:?}");
}

fn is_vote(message: &PeerMessage) -> bool {
    matches!(message, PeerMessage::Raft(message) if message.kind == MessageKind::Vote)
}

/// Starts the replica again, without a check that it makes progress.
fn reopen(disk: &SimulatedDisk) -> Lone {
    let started = omega_tests::durable::open(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    let mut lone = Lone { started, next: 0 };
    lone.drive();
    lone
}
