//! Starts of a replica whose log may have lost its end. If no other voter can tell the replica what is missing, it
//! refuses to start; otherwise it starts in doubt. Committed membership changes in the log determine the voters, even
//! if the older snapshot has other voters.

use crate::storage::log_rot::lose_markers;
use omega_core::Kinds;
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::segment::SegmentOptions;
use omega_store::log::{Batch, Entry, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use omega_store::membership::{MemberStep, Membership, MembershipChange};
use omega_store::replica::{FIRST, Settings, StartError, Started, TornTail, bootstrap, start};
use omega_store::{CellId, Origin};
use omega_tests::disk::SimulatedDisk;
use omega_tests::durable::Lone;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOLDER: &str = "/replica";
const SEGMENTS: SegmentOptions = SegmentOptions { segment_bytes: 8 << 10, reused_max: 1 };
const TERM: Term = Term(2);

/// Entries that are known to be committed when the power fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Changes,
    Nothing,
}

/// The last write, which is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Entry,
    Term,
}

struct Case {
    founders: &'static [u64],
    changes: Vec<MemberStep>,
    known: Known,
    last: Last,
}

fn hard_state(term: Term, commit: u64) -> HardState {
    HardState { term, vote: Some(ReplicaId(1)), commit: LogIndex(commit) }
}

fn entry(index: u64, kind: EntryKind, data: Vec<u8>) -> Entry {
    Entry { position: Position { index: LogIndex(index), term: TERM }, kind, data: data.into() }
}

impl Case {
    /// The disk of replica 1, whose last write is damaged.
    fn disk(&self) -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        let origin = Origin { cell: CellId(0xCE11), kinds: Kinds::standard() };
        let identity = Identity { origin, replica: ReplicaId(1), engine: EngineKind::Segment };
        let shared = Arc::new(disk.clone());
        let made = Directory::create_with(shared, Path::new(FOLDER), identity, SEGMENTS).unwrap();
        let founders = self.founders.iter().copied().map(ReplicaId);
        bootstrap(&made, &Membership::initial(founders)).unwrap();
        let mut log = made.open_log().unwrap();
        log.restart(FIRST, hard_state(FIRST.term, FIRST.index.0)).unwrap();
        let change = |step: &MemberStep| MembershipChange::one(step.clone()).to_bytes();
        let changes = (2..).zip(self.changes.iter().map(change));
        let mut entries: Vec<Entry> =
            changes.map(|(index, data)| entry(index, EntryKind::Membership, data)).collect();
        let committed = match self.known {
            Known::Changes => entries.len() as u64 + 1,
            Known::Nothing => FIRST.index.0,
        };
        let next = entries.len() as u64 + 2;
        entries.push(entry(next, EntryKind::Commands, Vec::new()));
        log.append(&Batch { entries, hard_state: Some(hard_state(TERM, committed)) }).unwrap();
        log.sync().unwrap();
        let last = match self.last {
            Last::Entry => Batch {
                entries: vec![entry(next + 1, EntryKind::Commands, Vec::new())],
                hard_state: None,
            },
            Last::Term => {
                Batch { entries: Vec::new(), hard_state: Some(hard_state(Term(5), committed)) }
            }
        };
        log.append(&last).unwrap();
        log.sync().unwrap();
        drop(log);
        lose_markers(&disk);
        let is_log = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "log");
        let path = disk.files().into_iter().find(is_log).unwrap();
        disk.damage(&path, |bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[end] ^= 4;
        });
        disk
    }
}

fn started(disk: &SimulatedDisk, torn_tail: TornTail) -> Result<Started, StartError> {
    let shared = Arc::new(disk.clone());
    let directory = Directory::open(shared, Path::new(FOLDER), Expected::default()).unwrap();
    start(directory.with_options(SEGMENTS), Settings { torn_tail, ..Settings::default() })
}

/// Whether a replica becomes leader without any other replica.
fn leads_alone(started: Started) -> bool {
    let mut lone = Lone { started, next: 0 };
    for _ in 0..100 {
        lone.drive();
        lone.started.replica.tick();
    }
    lone.started.replica.node().leadership().is_leader
}

#[test]
fn the_last_voter_left_refuses_to_lose_its_end() {
    let one = [MemberStep::Remove(ReplicaId(2))];
    let two = [2, 3].map(|id| MemberStep::Remove(ReplicaId(id)));
    let cases: [(&[u64], &[MemberStep], [u64; 2]); 3] =
        [(&[1], &[], [3, 2]), (&[1, 2], &one, [4, 3]), (&[1, 2, 3], &two, [5, 4])];
    for (founders, changes, expected) in cases {
        let (known, last) = (Known::Changes, Last::Entry);
        let disk = Case { founders, changes: changes.to_vec(), known, last }.disk();
        for again in ["at first", "and again"] {
            let error = started(&disk, TornTail::Refuse).unwrap_err();
            let StartError::TornTail { promised, last, .. } = error else { panic!("{error}") };
            assert_eq!([promised.0, last.0], expected, "founded by {founders:?}, {again}");
        }
        assert!(leads_alone(started(&disk, TornTail::Accept).unwrap()), "{founders:?}");
        assert!(leads_alone(started(&disk, TornTail::Refuse).unwrap()), "it is told once");
    }
}

#[test]
fn a_replica_that_others_can_help_starts_in_doubt() {
    let remove = vec![MemberStep::Remove(ReplicaId(2))];
    let (two, votes) = (ReplicaId(2), Known::Changes);
    let add = vec![MemberStep::AddLearner(two), MemberStep::Promote(two)];
    let cases: [(&str, &[u64], _, _); 4] = [
        ("two voters", &[1, 2], Vec::new(), votes),
        ("one of three was removed", &[1, 2, 3], remove.clone(), votes),
        ("the other may not be removed", &[1, 2], remove, Known::Nothing),
        // The snapshot names one voter.
        ("another voter was added", &[1], add, votes),
    ];
    for (what, founders, changes, known) in cases {
        let disk = Case { founders, changes, known, last: Last::Entry }.disk();
        let replica = started(&disk, TornTail::Refuse).unwrap();
        assert!(replica.replica.node().suspected_loss().is_some(), "{what}");
        assert!(!leads_alone(replica), "{what}");
    }
}

/// No entry is missing. The damaged last record has a term, a vote and the commit index; the second copy of the term
/// and the vote (`log/segment/promise.rs`) is intact.
#[test]
fn the_last_voter_refuses_to_lose_its_term() {
    let (known, last) = (Known::Changes, Last::Term);
    let disk = Case { founders: &[1], changes: Vec::new(), known, last }.disk();
    let error = started(&disk, TornTail::Refuse).unwrap_err();
    assert!(matches!(error, StartError::TornTail { .. }), "{error}");
    assert!(leads_alone(started(&disk, TornTail::Accept).unwrap()));
}

/// In the past, such a log was emptied at the start.
#[test]
fn a_log_that_contradicts_the_snapshot_is_kept_and_refused() {
    let disk = SimulatedDisk::new(1);
    let origin = Origin { cell: CellId(0xCE11), kinds: Kinds::standard() };
    let identity = Identity { origin, replica: ReplicaId(1), engine: EngineKind::Segment };
    let shared = Arc::new(disk.clone());
    let made = Directory::create_with(shared, Path::new(FOLDER), identity, SEGMENTS).unwrap();
    bootstrap(&made, &Membership::initial([1, 2, 3].map(ReplicaId))).unwrap();
    let mut log = made.open_log().unwrap();
    log.restart(Position { term: TERM, ..FIRST }, hard_state(TERM, FIRST.index.0)).unwrap();
    drop((log, made));
    for again in ["at first", "and again"] {
        let error = started(&disk, TornTail::Refuse).unwrap_err();
        let StartError::Contradiction { index, committed, snapshot, .. } = error else {
            panic!("{again}: {error}")
        };
        assert_eq!((index, committed, snapshot), (FIRST.index, TERM, FIRST.term), "{again}");
    }
}
