//! A short fuzz run (`cargo run -p omega-tests --bin fuzz -- --seconds 600` runs longer), and
//! earlier findings. `OMEGA_SEEDS_TIMES` multiplies the number of rounds.

use crate::cell::histories::setting;
use omega_store::log::{LogIndex, Position, ReplicaId, Term};
use omega_store::membership::Membership;
use omega_store::node::{
    Message, MessageError, MessageKind, Node, ReadId, Settings, SnapshotOffer, Start,
};
use omega_tests::fuzz::Target;
use std::process::Command;

/// The test runs in its own process, because it measures the memory of each round.
#[test]
fn bytes_from_anywhere_are_read_or_refused() {
    for (target, rounds) in Target::ALL.map(|target| match target {
        Target::Replica => (target, 100),
        Target::Snapshot | Target::Profile => (target, 1000),
        // Few inputs get past the first check.
        Target::Segment => (target, 3000),
        Target::Tables | Target::Cluster | Target::Swf => (target, 1000),
        Target::Openb | Target::Azure | Target::Google => (target, 2000),
        // Each input makes two thousand machines, so fewer rounds are run.
        Target::OmegaSim => (target, 100),
        _ => (target, 5000),
    }) {
        let rounds = rounds * setting("OMEGA_SEEDS_TIMES").unwrap_or(1);
        let mut fuzz = Command::new(env!("CARGO_BIN_EXE_fuzz"));
        let output = fuzz.args(["--target", target.name(), "--rounds", &rounds.to_string()]);
        let output = output.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let more = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{more}");
        assert!(!text.contains(" 0 read"), "nothing got past the first check: {text}");
    }
}

const SNAPSHOT: Position = Position { index: LogIndex(5), term: Term(3) };

fn node() -> Node {
    let membership = Membership::initial([1, 2, 3].map(ReplicaId));
    let hard_state = omega_store::log::HardState::default();
    let id = ReplicaId(1);
    Node::new(
        Start { id, base: SNAPSHOT, membership, hard_state, entries: vec![], suspected_loss: None },
        Settings::default(),
    )
}

fn message(kind: MessageKind, term: u64) -> Message {
    Message::new(kind, ReplicaId(2), ReplicaId(1), Term(term))
}

/// A follower's Raft node panicked on the first of these messages; no Raft node sends the second.
#[test]
fn what_a_raft_cannot_send_on_is_refused() {
    let mut node = node();
    node.receive(&message(MessageKind::Heartbeat, 3)).unwrap();
    let transfer = message(MessageKind::Transfer, 3);
    assert!(matches!(node.receive(&transfer), Err(MessageError::Malformed(_))));
    let mut far = message(MessageKind::Appended, 3);
    far.hint = LogIndex(u64::MAX);
    far.reject = true;
    assert_eq!(node.receive(&far), Err(MessageError::Malformed("a position is out of range")));
}

/// In the past, Raft took a snapshot that ends at its own commit index for a newer one, although the terms differ.
#[test]
fn another_snapshot_where_this_one_ends_is_a_contradiction() {
    let mut message = message(MessageKind::Snapshot, 4);
    let position = Position { term: Term(4), ..SNAPSHOT };
    let membership = Membership::initial([1, 2, 3].map(ReplicaId));
    message.snapshot = Some(SnapshotOffer { position, membership });
    let error = node().receive(&message).unwrap_err();
    assert!(matches!(error, MessageError::Contradiction { .. }), "{error}");
}

/// In the past, followers rejected each other's read requests, because these have no term.
#[test]
fn a_follower_reads_by_asking_its_leader() {
    let mut follower = node();
    follower.receive(&message(MessageKind::Heartbeat, 3)).unwrap();
    follower.read(ReadId { replica: ReplicaId(2), incarnation: 1, number: 9 });
    let asked = follower.effects().unwrap().messages;
    let asked: Vec<_> = asked.iter().filter(|one| one.kind == MessageKind::ReadIndex).collect();
    assert_eq!(asked.len(), 1);
    let start = Start {
        id: ReplicaId(2),
        base: SNAPSHOT,
        membership: Membership::initial([1, 2, 3].map(ReplicaId)),
        hard_state: omega_store::log::HardState::default(),
        entries: vec![],
        suspected_loss: None,
    };
    assert_eq!(Node::new(start, Settings::default()).check(asked[0]), Ok(()));
}
