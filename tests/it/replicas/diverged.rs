//! Replicas whose history differs from the leader's. If they applied equal entries with different outcomes, they stop at
//! the next entry, because their states differ. If they have other entries, they stop when the leader sends its own.

use omega_cellstate::Cell;
use omega_core::{
    Amounts, Claim, Command, Job, JobId, Kinds, Machine, MachineId, SchedulerId, SequenceNumber,
    TaskGroup, TaskId, Transaction, TransactionId, Version,
};
use omega_store::log::{Entry, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use omega_store::membership::Membership;
use omega_store::node::{self, Message, MessageError, MessageKind, Node};
use omega_store::replica::{FIRST, Replica, Request, Settings, Start, Stop};

/// A cell with a machine of this many thousandths of a core, and a job with one task of a core.
fn cell(milli: u64) -> (Cell, JobId, MachineId) {
    let mut cell = Cell::new(Kinds::standard());
    cell.apply(Command::RegisterScheduler { name: "a".into() }).unwrap();
    let machine = Machine::new("m", Amounts::new([milli, 1 << 30]));
    cell.apply(Command::RegisterMachine(machine)).unwrap();
    let job = Job::batch("j", TaskGroup::new(1, Amounts::new([1000, 1 << 20])));
    cell.apply(Command::SubmitJob(job)).unwrap();
    let (job, machine) = (cell.jobs().next().unwrap().0, cell.machines().next().unwrap().id);
    (cell, job, machine)
}

/// A replica that is the only one of its cell, with these entries, which are all committed.
fn alone(cell: Cell, entries: Vec<Entry>, fingerprint: u64) -> Replica {
    let commit = entries.last().map_or(FIRST.index, |last| last.position.index);
    let term = entries.last().map_or(Term(1), |last| last.position.term);
    let node = node::Start {
        id: ReplicaId(1),
        base: FIRST,
        membership: Membership::initial([ReplicaId(1)]),
        hard_state: HardState { term, vote: None, commit },
        entries,
        suspected_loss: None,
    };
    Replica::new(Start { node, cell, fingerprint }, Settings::default())
}

/// Steps the replica until it requests no more writes. Returns the entries that it wrote.
fn written(replica: &mut Replica) -> Vec<Entry> {
    let mut entries = Vec::new();
    loop {
        let output = replica.proceed();
        if output.writes.is_empty() {
            return entries;
        }
        for write in output.writes {
            replica.persisted(write.number);
            entries.extend(write.batch.entries);
        }
    }
}

/// Entries of a leader: a transaction that places the task, and a job after it.
fn entries() -> Vec<Entry> {
    let (cell, job, machine) = cell(1000);
    let mut leader = alone(cell, Vec::new(), 0);
    let mut entries = written(&mut leader);
    let claim = Claim::new(TaskId { job, index: 0 }, machine, SequenceNumber(0));
    let id = TransactionId { scheduler: SchedulerId(0), number: 0 };
    let place = Command::Commit(Transaction::new(id, Version(0), vec![claim]));
    let next = Command::SubmitJob(Job::batch("next", TaskGroup::new(1, Amounts::new([1]))));
    for command in [place, next] {
        leader.request(Request::Command(command));
        entries.extend(written(&mut leader));
    }
    assert!(leader.stopped().is_none());
    entries
}

/// Index of the entry at which a replica of this cell stops.
fn diverges_at(milli: u64, fingerprint: u64) -> Option<LogIndex> {
    let mut replica = alone(cell(milli).0, entries(), fingerprint);
    written(&mut replica);
    match replica.stopped() {
        None => None,
        Some(Stop::Diverged { at }) => Some(*at),
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn a_replica_with_another_outcome_stops_at_the_next_entry() {
    let last = entries().last().unwrap().position.index;
    assert_eq!(diverges_at(1000, 0), None);
    assert_eq!(diverges_at(999, 0), Some(last), "the task does not fit there");
    let before = LogIndex(last.0 - 1);
    assert_eq!(diverges_at(1000, 1), Some(before), "the outcomes before the snapshot were others");
}

fn entry(index: u64, term: u64, content: u8) -> Entry {
    let position = Position { index: LogIndex(index), term: Term(term) };
    Entry { position, kind: EntryKind::Commands, data: vec![content].into() }
}

/// Result of the entries 3 to 7 of a leader, at a replica with the entries 2 to 6, of which those up to `committed` are
/// known to be committed. Entry 4 of the leader is `sent`.
fn received(sent: Entry, committed: u64) -> Result<(), MessageError> {
    let node = node::Start {
        id: ReplicaId(1),
        base: FIRST,
        membership: Membership::initial([1, 2, 3].map(ReplicaId)),
        hard_state: HardState { term: Term(3), vote: None, commit: LogIndex(committed) },
        entries: (2..=6).map(|index| entry(index, 2, 0)).collect(),
        suspected_loss: None,
    };
    let mut node = Node::new(node, node::Settings::default());
    let mut message = Message::new(MessageKind::Append, ReplicaId(2), ReplicaId(1), Term(3));
    message.at = entry(2, 2, 0).position;
    let later = (5..=7).map(|index| entry(index, 3, 0));
    let same_later = (5..=7).map(|index| entry(index, 2, 0));
    message.entries = vec![entry(3, 2, 0), sent.clone()];
    match sent.position.term {
        Term(2) => message.entries.extend(same_later),
        _ => message.entries.extend(later),
    }
    node.receive(&message)
}

#[test]
fn a_replica_with_another_committed_entry_stops() {
    for committed in 4..=6 {
        let error = received(entry(4, 3, 0), committed).expect_err("entry 4 was committed");
        let (index, committed, offered) = (LogIndex(4), Term(2), Term(3));
        assert_eq!(error, MessageError::Contradiction { index, committed, offered });
        assert!(error.is_fatal());
        assert!(error.to_string().contains("omega log show"), "{error}");
    }
    for committed in 1..=3 {
        assert_eq!(received(entry(4, 3, 0), committed), Ok(()), "entry 4 can be replaced");
    }
}

#[test]
fn a_replica_with_an_entry_of_other_content_stops() {
    for committed in 1..=6 {
        assert_eq!(received(entry(4, 2, 0), committed), Ok(()));
        let error = received(entry(4, 2, 1), committed).expect_err("the leader has another entry");
        assert_eq!(error, MessageError::Altered { index: LogIndex(4), term: Term(2) });
        assert!(error.is_fatal());
    }
}
