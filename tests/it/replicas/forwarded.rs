//! Requests that a follower has forwarded, and messages that reach a follower too late.

use omega_cellstate::Cell;
use omega_core::{Amounts, Command, Job, Kinds, TaskGroup};
use omega_store::log::{Entry, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use omega_store::membership::Membership;
use omega_store::node::{self, Message, MessageError, MessageKind};
use omega_store::replica::{FIRST, PeerMessage, Replica, Reply, Request, Settings, Start};

/// A message to replica 1, without content.
fn message(kind: MessageKind, from: u64, term: u64) -> Message {
    Message {
        kind,
        from: ReplicaId(from),
        to: ReplicaId(1),
        term: Term(term),
        at: Position::default(),
        commit: Position::default(),
        entries: Vec::new(),
        reject: false,
        hint: LogIndex(0),
        wants_snapshot: LogIndex(0),
        context: Vec::new().into(),
        snapshot: None,
    }
}

/// Replica 1 of three, without a known leader.
fn follower() -> node::Start {
    node::Start {
        id: ReplicaId(1),
        base: FIRST,
        membership: Membership::initial([1, 2, 3].map(ReplicaId)),
        hard_state: HardState { term: Term(2), vote: None, commit: FIRST.index },
        entries: Vec::new(),
        suspected_loss: None,
    }
}

fn receive(replica: &mut Replica, message: Message) -> omega_store::replica::Output {
    replica.receive(message.from, PeerMessage::Raft(message));
    let mut output = replica.proceed();
    for write in std::mem::take(&mut output.writes) {
        replica.persisted(write.number);
    }
    let mut later = replica.proceed();
    output.messages.append(&mut later.messages);
    output.replies.append(&mut later.replies);
    output
}

/// The former leader may have proposed the request, and no other replica will answer it. This also holds if the former
/// leader leads again, because it has dropped the requests that it had not proposed.
#[test]
fn a_forwarded_request_is_unknown_once_another_term_begins() {
    for next in [3, 2] {
        let cell = Cell::new(Kinds::standard());
        let start = Start { node: follower(), cell, fingerprint: 0 };
        let mut replica = Replica::new(start, Settings::default());
        receive(&mut replica, message(MessageKind::Heartbeat, 2, 3));
        assert_eq!(replica.node().leadership().leader, Some(ReplicaId(2)));

        let job = Job::batch("j", TaskGroup::new(1, Amounts::new([1])));
        let id = replica.request(Request::Command(Command::SubmitJob(job)));
        let output = replica.proceed();
        assert!(output.replies.is_empty());
        let asks = |message: &PeerMessage| matches!(message, PeerMessage::Request { .. });
        assert!(output.messages.iter().any(|(to, message)| *to == ReplicaId(2) && asks(message)));

        let output = receive(&mut replica, message(MessageKind::Heartbeat, next, 4));
        assert_eq!(output.replies, [(id, Reply::Unknown)], "{next} leads");
    }
}

/// The acknowledgement is for the leader of its term. Before a restart, this replica may have been that leader.
#[test]
fn an_acknowledgement_to_a_follower_is_no_contradiction() {
    let mut node = node::Node::new(follower(), node::Settings::default());
    let at = Position { index: LogIndex(9), term: Term(2) };
    let late = Message { at, ..message(MessageKind::Appended, 2, 2) };
    node.receive(&late).unwrap();
}

/// A follower's request for a read index has one small entry, which the leader keeps until its leadership is confirmed.
#[test]
fn a_request_for_a_read_index_that_is_no_such_request_is_refused() {
    let entry = |bytes: usize| Entry {
        position: Position::default(),
        kind: EntryKind::Commands,
        data: vec![7; bytes].into(),
    };
    for entries in [vec![], vec![entry(8), entry(8)], vec![entry(1 << 20)]] {
        let mut node = node::Node::new(follower(), node::Settings::default());
        let asked = Message { entries, ..message(MessageKind::ReadIndex, 2, 0) };
        assert!(matches!(node.receive(&asked), Err(MessageError::Malformed(_))), "{asked:?}");
    }
    let mut node = node::Node::new(follower(), node::Settings::default());
    let asked = Message { entries: vec![entry(64)], ..message(MessageKind::ReadIndex, 2, 0) };
    node.receive(&asked).unwrap();
}
