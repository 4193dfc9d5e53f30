//! Random messages of a faulty or hostile replica.

use super::commands::{commands, entry};
use super::files::Files;
use crate::random::Dice;
use omega_client::proto::PeerFrame;
use omega_core::{Amounts, Command, Job, JobId, Machine, MachineId, TaskGroup, TaskId};
use omega_store::log::{Entry, EntryKind, LogIndex, Position, ReplicaId, Term};
use omega_store::membership::{MemberStep, Membership, MembershipChange};
use omega_store::node::{Message, MessageKind, SnapshotOffer};
use omega_store::replica::{
    PeerMessage, Reply, Request, RequestId, RetryReason, Settings, SnapshotResult, Started, start,
};
use omega_store::snapshot::{Offer, Piece};
use omega_store::wire;
use prost::Message as _;

/// Number of messages in one round.
const MESSAGES: usize = 12;

const KINDS: [MessageKind; 13] = [
    MessageKind::Append,
    MessageKind::Appended,
    MessageKind::Vote,
    MessageKind::Voted,
    MessageKind::PreVote,
    MessageKind::PreVoted,
    MessageKind::Heartbeat,
    MessageKind::Heard,
    MessageKind::Snapshot,
    MessageKind::StandNow,
    MessageKind::Transfer,
    MessageKind::ReadIndex,
    MessageKind::ReadIndexIs,
];

/// A message of any kind. Its commands are only a few fixed ones, because the encoding of commands has separate tests.
#[must_use]
pub fn random_message(seed: u64) -> PeerMessage {
    let group = TaskGroup::new(3, Amounts::new([100, 1 << 20]));
    let task = TaskId { job: JobId(1), index: 2 };
    let machine = MachineId { slot: 3, incarnation: 4 };
    let commands = [
        Command::RegisterScheduler { name: "a".into() },
        Command::RegisterMachine(Machine::new("m", Amounts::new([4000, 1 << 30]))),
        Command::SubmitJob(Job::batch("j", group)),
        Command::AdoptTask { task, machine },
        Command::RemoveMachine { id: machine },
    ];
    any(&mut Dice::new(seed), Term(3), LogIndex(5), &commands)
}

/// Encoded messages of every kind.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut dice = Dice::new(7);
    let commands = commands();
    let one = |_| bytes_of(&any(&mut dice, Term(3), LogIndex(5), &commands));
    (0..400).map(one).collect()
}

fn bytes_of(message: &PeerMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes).expect("it is small");
    bytes
}

pub(super) fn check_bytes(input: &[u8]) -> bool {
    let Ok(message) = wire::decode(input) else { return false };
    let again = wire::decode(&bytes_of(&message)).expect("it can be written again");
    assert_eq!(again, message);
    true
}

/// Frames of some of these messages, as a peer's stream has them.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let frame = |messages: &[Vec<u8>]| {
        let (cell, address) = (format!("{:032x}", 0xCE11), "r2.example.org:7700".to_owned());
        let client_address = "r2.example.org:7600".to_owned();
        let messages = messages.to_vec();
        let disk_full = messages.len().is_multiple_of(2);
        PeerFrame { cell, from: 2, to: 1, messages, address, client_address, disk_full }
            .encode_to_vec()
    };
    corpus().chunks(5).map(frame).collect()
}

/// Reads a frame, and the messages in it as the listener does: up to the first that is rejected.
pub(super) fn check_frame(input: &[u8]) -> bool {
    let Ok(frame) = PeerFrame::decode(input) else { return false };
    assert_eq!(PeerFrame::decode(frame.encode_to_vec().as_slice()).as_ref(), Ok(&frame));
    frame.messages.iter().all(|message| check_bytes(message))
}

/// One of three replicas gets some plausible messages. It may reject or apply them, or stop, but it must not panic.
pub(super) fn check_replica(files: &Files, seed: u64) {
    let mut dice = Dice::new(seed);
    let settings = Settings { snapshot_bytes: 2000, log_keep_bytes: 500, ..Settings::default() };
    let mut started = start(files.directory(), settings).expect("nothing is wrong with it");
    if dice.chance(60) {
        elect(&mut started);
    }
    let commands = commands();
    for _ in 0..MESSAGES {
        let node = started.replica.node();
        let (term, last) = (node.leadership().term, node.last());
        let message = any(&mut dice, term, last, &commands);
        // Only messages that can be encoded can arrive, so each is encoded and decoded.
        let message = wire::decode(&bytes_of(&message)).expect("it was written");
        let from = ReplicaId(2 + dice.below(3) as u64);
        started.replica.receive(from, message);
        if dice.chance(20) {
            started.replica.tick();
        }
        if dice.chance(70) {
            settle(&mut started);
        }
    }
    settle(&mut started);
    (0..50).for_each(|_| started.replica.tick());
    settle(&mut started);
}

/// Makes the replica the leader by the vote of another replica.
fn elect(started: &mut Started) {
    (0..30).for_each(|_| started.replica.tick());
    settle(started);
    for kind in [MessageKind::PreVoted, MessageKind::Voted] {
        let term = Term(2);
        let message = Message::new(kind, ReplicaId(2), ReplicaId(1), term);
        started.replica.receive(ReplicaId(2), PeerMessage::Raft(message));
        settle(started);
    }
    let last = started.replica.node().last();
    let term = started.replica.node().leadership().term;
    let mut message = Message::new(MessageKind::Appended, ReplicaId(2), ReplicaId(1), term);
    message.at.index = last;
    started.replica.receive(ReplicaId(2), PeerMessage::Raft(message));
    settle(started);
    assert!(started.replica.node().leads_with_all(), "two of three vote for it");
}

/// Carries out all effects that the replica requests.
fn settle(started: &mut Started) {
    for _ in 0..20 {
        let output = started.replica.proceed();
        let idle = output.writes.is_empty() && output.compact.is_none() && output.files.is_empty();
        output.writes.into_iter().for_each(|write| started.log.push(write));
        output.compact.into_iter().for_each(|base| started.log.push_compaction(base));
        if let Some(number) = started.log.work().expect("the disk is sound") {
            started.replica.persisted(number);
        }
        for job in output.files {
            let done: SnapshotResult = started.files.work(job);
            started.replica.file_done(done);
        }
        if idle {
            return;
        }
    }
}

/// A random number: near a meaningful one, or extreme.
fn number(dice: &mut Dice, near: u64) -> u64 {
    match dice.below(16) {
        0 => *dice.pick(&[0, 1, 1 << 58, (1 << 58) + 1, u64::MAX - 1, u64::MAX]),
        1 => near.saturating_add(dice.below(100) as u64),
        2..5 => near,
        5..8 => near.saturating_add(1),
        _ => near.saturating_sub(dice.below(4) as u64),
    }
}

fn position(dice: &mut Dice, term: Term, last: LogIndex) -> Position {
    Position { index: LogIndex(number(dice, last.0)), term: Term(number(dice, term.0)) }
}

fn replica(dice: &mut Dice) -> ReplicaId {
    ReplicaId(number(dice, 3))
}

fn any(dice: &mut Dice, term: Term, last: LogIndex, commands: &[Command]) -> PeerMessage {
    let id = RequestId { incarnation: number(dice, 1), number: number(dice, 5) };
    match dice.below(16) {
        0 | 1 => {
            let ask = match dice.below(6) {
                0 => Request::Read,
                1 => Request::Change(change(dice)),
                2 => Request::Transfer(replica(dice)),
                3 => Request::Retry(dice.pick(commands).clone()),
                _ => Request::Command(dice.pick(commands).clone()),
            };
            let term = if dice.chance(80) { term } else { Term(number(dice, term.0)) };
            PeerMessage::Request { id, term, request: ask }
        }
        2 => PeerMessage::Reply { id, reply: Reply::Retry(RetryReason::Busy) },
        3 => {
            let piece = Some(number(dice, 0)).filter(|_| dice.chance(60));
            let position = if dice.chance(50) {
                omega_store::replica::FIRST
            } else {
                position(dice, term, last)
            };
            PeerMessage::SnapshotRequest { position, piece }
        }
        4 => {
            let (position, bytes) = (position(dice, term, last), number(dice, 1 << 20));
            PeerMessage::SnapshotOffer {
                offer: Offer { position, bytes, hash: dice.below(9) as u128 },
            }
        }
        5 => {
            let bytes = vec![0; dice.below(100)].into();
            let piece = Piece { number: number(dice, 0), bytes, crc: dice.below(9) as u32 };
            PeerMessage::SnapshotPiece { position: position(dice, term, last), piece }
        }
        6 => PeerMessage::SnapshotGone { position: position(dice, term, last) },
        _ => PeerMessage::Raft(message(dice, term, last, commands)),
    }
}

fn message(dice: &mut Dice, term: Term, last: LogIndex, commands: &[Command]) -> Message {
    let from = ReplicaId(2 + dice.below(3) as u64);
    let to = if dice.chance(97) { ReplicaId(1) } else { replica(dice) };
    let kind = *dice.pick(&KINDS);
    let mut message = Message::new(kind, from, to, Term(number(dice, term.0)));
    if kind == MessageKind::ReadIndex && dice.chance(90) {
        message.term = Term(0);
    }
    message.at = position(dice, term, last);
    message.commit = position(dice, term, last);
    message.reject = dice.chance(30);
    if dice.chance(50) {
        message.hint = LogIndex(number(dice, last.0));
    }
    if dice.chance(15) {
        message.wants_snapshot = LogIndex(number(dice, last.0));
    }
    if dice.chance(30) {
        message.context = vec![dice.below(256) as u8; dice.below(70)].into();
    }
    let reads = matches!(kind, MessageKind::ReadIndex | MessageKind::ReadIndexIs);
    if reads || kind == MessageKind::Append || dice.chance(3) {
        let count = if reads { 1 } else { dice.below(5) };
        let mut at = message.at;
        for _ in 0..count {
            at.index.0 = at.index.0.wrapping_add(1 + u64::from(dice.chance(5)));
            at.term = if dice.chance(90) { message.term } else { at.term };
            let (kind, data) = content(dice, commands);
            let data = if reads { vec![1; dice.below(70)] } else { data };
            message.entries.push(Entry { position: at, kind, data: data.into() });
        }
    }
    if kind == MessageKind::Snapshot || dice.chance(2) {
        let position = position(dice, term, last);
        let membership = Membership::initial((1..2 + dice.below(4) as u64).map(ReplicaId));
        message.snapshot = Some(SnapshotOffer { position, membership });
    }
    message
}

fn content(dice: &mut Dice, commands: &[Command]) -> (EntryKind, Vec<u8>) {
    match dice.below(5) {
        0 => (EntryKind::Commands, Vec::new()),
        1 => (EntryKind::Commands, vec![1; dice.below(30)]),
        2 => {
            let steps = change(dice).steps;
            let mut bytes = vec![1, steps.len() as u8];
            for step in steps {
                let (tag, id, address) = match step {
                    MemberStep::Promote(id) => (0, id, None),
                    MemberStep::AddLearner(id) => (1, id, None),
                    MemberStep::Remove(id) => (2, id, None),
                    MemberStep::Locate { id, address } => (3, id, Some(address)),
                };
                bytes.extend([tag, id.0.min(250) as u8]);
                let text = |address: String| [&[address.len() as u8], address.as_bytes()].concat();
                bytes.extend(address.map(text).unwrap_or_default());
            }
            (EntryKind::Membership, bytes)
        }
        _ => (EntryKind::Commands, entry(&[dice.pick(commands).clone()])),
    }
}

fn change(dice: &mut Dice) -> MembershipChange {
    let step = |dice: &mut Dice| {
        let id = replica(dice);
        let address = dice.pick(&["host:7600", "[::1]:7600", "no address"]).to_string();
        match dice.below(4) {
            0 => MemberStep::Promote(id),
            1 => MemberStep::AddLearner(id),
            2 => MemberStep::Remove(id),
            _ => MemberStep::Locate { id, address },
        }
    };
    MembershipChange { steps: (0..dice.below(4)).map(|_| step(dice)).collect() }
}
