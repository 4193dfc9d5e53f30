//! Offers of snapshots at a Raft node: delayed offers, and snapshots of its own that become durable late.

use omega_store::log::{Entry, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use omega_store::membership::Membership;
use omega_store::node::{self, Message, MessageKind, Node, SnapshotOffer};
use omega_store::replica::FIRST;

fn at(index: u64) -> Position {
    Position { index: LogIndex(index), term: Term(2) }
}

fn membership() -> Membership {
    Membership::initial([1, 2, 3].map(ReplicaId))
}

/// A node with the entries 2 to 6.
fn follower() -> Node {
    let entry =
        |index| Entry { position: at(index), kind: EntryKind::Commands, data: vec![7; 10].into() };
    let start = node::Start {
        id: ReplicaId(1),
        base: FIRST,
        membership: membership(),
        hard_state: HardState { term: Term(2), vote: None, commit: FIRST.index },
        entries: (2..=6).map(entry).collect(),
        suspected_loss: None,
    };
    Node::new(start, node::Settings::default())
}

/// The message of the leader that offers a snapshot.
fn offer(index: u64) -> Message {
    let snapshot = SnapshotOffer { position: at(index), membership: membership() };
    let message = Message::new(MessageKind::Snapshot, ReplicaId(2), ReplicaId(1), Term(2));
    Message { snapshot: Some(snapshot), ..message }
}

/// The positions of the snapshots that a node installs.
fn installed(node: &mut Node) -> Vec<Position> {
    let mut installed = Vec::new();
    while let Some(effects) = node.effects() {
        installed.extend(effects.install.map(|offer| offer.position));
        effects.write.iter().for_each(|write| node.persisted(write.number));
    }
    installed
}

#[test]
fn a_delayed_offer_does_not_replace_the_accepted_one() {
    let mut node = follower();
    node.receive(&offer(20)).unwrap();
    node.receive(&offer(10)).unwrap();
    assert_eq!(installed(&mut node), [at(20)]);
    node.receive(&offer(10)).unwrap();
    assert_eq!(installed(&mut node), []);
    assert_eq!(node.committed(), LogIndex(20));
}

/// While a snapshot of this replica is being written, the replica may install a newer snapshot of its leader. If it
/// then leads, it must offer the newer one, because its log begins there.
#[test]
fn a_snapshot_that_is_durable_late_is_not_offered() {
    let mut node = follower();
    node.receive(&offer(20)).unwrap();
    assert_eq!(installed(&mut node), [at(20)]);
    node.snapshot_taken(at(5), membership());
    node.campaign();
    let mut offers = Vec::new();
    // Both other voters have empty logs. The second one votes and acknowledges entries, and the third one needs all.
    for _ in 0..40 {
        node.tick();
        while let Some(effects) = node.effects() {
            effects.write.iter().for_each(|write| node.persisted(write.number));
            for message in effects.messages {
                offers.extend(message.snapshot.clone().map(|offer| offer.position));
                if let Some(reply) = reply(&message) {
                    node.receive(&reply).unwrap();
                }
            }
        }
    }
    assert!(node.leadership().is_leader);
    assert!(!offers.is_empty() && offers.iter().all(|offer| *offer == at(20)), "{offers:?}");
}

/// The reply of a replica that votes for everyone, and has an empty log.
fn reply(message: &Message) -> Option<Message> {
    let kind = match message.kind {
        MessageKind::PreVote => MessageKind::PreVoted,
        MessageKind::Vote => MessageKind::Voted,
        MessageKind::Append => MessageKind::Appended,
        MessageKind::Heartbeat => MessageKind::Heard,
        _ => return None,
    };
    let mut reply = Message::new(kind, message.to, message.from, message.term);
    if kind == MessageKind::Appended {
        (reply.at, reply.reject, reply.hint) = (message.at, true, FIRST.index);
    }
    Some(reply)
}
