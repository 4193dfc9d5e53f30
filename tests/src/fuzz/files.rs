//! Files of a replica's directory with random changes, but with right checksums.

use super::mutate::mutate_part;
use crate::disk::SimulatedDisk;
use crate::log_reference::LogContent;
use crate::random::Dice;
use omega_cellstate::Cell;
use omega_core::Kinds;
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::segment::{LogOwner, SegmentLog, SegmentOptions};
use omega_store::log::{
    Batch, Entry, EntryKind, HardState, LogEngine, LogIndex, Position, ReplicaId, Term,
};
use omega_store::membership::Membership;
use omega_store::replica::bootstrap;
use omega_store::snapshot::{Meta, Snapshots};
use omega_store::{CellId, Origin};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

const CELL: CellId = CellId(0xCE11);
const OWNER: LogOwner = LogOwner { cell: CELL, replica: ReplicaId(1) };
const SMALL: SegmentOptions = SegmentOptions { segment_bytes: 8 << 10, reused_max: 1 };
const FOLDER: &str = "/replica";
const AT: Position = Position { index: LogIndex(9), term: Term(2) };

/// Size of a segment's header in bytes; the next constants are the sizes of its used part and of a record's head.
const HEADER: usize = 4096;
const USED: usize = 56;
const HEAD: usize = 24;

/// Number of bytes of a snapshot's header before the membership; the next constant is the number of bytes at the end of
/// the file.
const FIXED: usize = 124;
const TRAILER: usize = 16;

/// A disk with the directory of a founding replica.
#[derive(Debug)]
pub(super) struct Files {
    disk: SimulatedDisk,
}

impl Files {
    pub(super) fn new() -> Files {
        let disk = SimulatedDisk::new(1);
        let origin = Origin { cell: CELL, kinds: Kinds::standard() };
        let identity = Identity { origin, replica: ReplicaId(1), engine: EngineKind::Segment };
        let shared = Arc::new(disk.clone());
        let directory = Directory::create_with(shared, Path::new(FOLDER), identity, SMALL);
        let directory = directory.expect("an empty disk takes a folder");
        let members = Membership::initial([1, 2, 3].map(ReplicaId));
        bootstrap(&directory, &members).expect("an empty disk takes a snapshot");
        drop(directory);
        Files { disk }
    }

    /// Opens the directory on a new disk with equal content.
    pub(super) fn directory(&self) -> Directory {
        let disk = Arc::new(self.disk.copy());
        let directory = Directory::open(disk, Path::new(FOLDER), Expected::default());
        directory.expect("it was made").with_options(SMALL)
    }

    pub(super) fn identity(&self) -> Vec<u8> {
        self.disk.bytes(&Path::new(FOLDER).join("IDENTITY")).expect("it was made")
    }

    pub(super) fn check_identity(&self, input: &[u8]) -> bool {
        let disk = self.disk.copy();
        disk.damage(&Path::new(FOLDER).join("IDENTITY"), |bytes| *bytes = input.to_vec());
        match Directory::open(Arc::new(disk), Path::new(FOLDER), Expected::default()) {
            Ok(directory) => {
                drop(directory.open_log());
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        }
    }

    /// The segments of a log with records of every kind.
    pub(super) fn segments(&self) -> Vec<Vec<u8>> {
        let disk = SimulatedDisk::new(2);
        let made = SegmentLog::create(Arc::new(disk.clone()), Path::new("/"), OWNER, SMALL);
        let mut log = made.expect("an empty disk takes a log");
        for index in 1..30u64 {
            let position = Position { index: LogIndex(index), term: Term(1 + index / 9) };
            let data = vec![index as u8; (index * 17 % 300) as usize].into();
            let kind = if index % 7 == 0 { EntryKind::Membership } else { EntryKind::Commands };
            let vote = Some(ReplicaId(2)).filter(|_| index % 2 == 0);
            let commit = LogIndex(index - 1);
            let hard_state = HardState { term: position.term, vote, commit };
            let entries = vec![Entry { position, kind, data }];
            log.append(&Batch { entries, hard_state: Some(hard_state) }).expect("there is room");
            log.sync().expect("it works");
            if index % 10 == 0 {
                let base = Position { index: LogIndex(index - 4), term: Term(1 + (index - 4) / 9) };
                log.compact(base).expect("it works");
            }
        }
        log.sync().expect("it works");
        let bytes = disk.files().into_iter().filter_map(|path| disk.bytes(&path));
        bytes.filter(|bytes| bytes.len() > HEADER && bytes[HEADER..] != [0; 4096]).collect()
    }

    pub(super) fn check_segment(&self, seed: u64, input: &[u8]) -> bool {
        let disk = SimulatedDisk::new(seed);
        // The file name is made from the header, so that the name is not the reason for an error.
        let sequence = input.get(36..44).and_then(|bytes| bytes.first_chunk());
        let sequence = sequence.map_or(1, |bytes| u64::from_le_bytes(*bytes));
        put(&disk, &PathBuf::from(format!("/{sequence:020}.log")), input);
        let open = || SegmentLog::open(Arc::new(disk.clone()), Path::new("/"), OWNER, SMALL);
        let Ok(mut log) = open() else { return false };
        let content = LogContent::of(&mut log);
        drop(log);
        let mut again = open().expect("what was opened once can be opened again");
        assert_eq!(LogContent::of(&mut again), content, "it holds the same");
        true
    }

    pub(super) fn snapshots(&self) -> Vec<Vec<u8>> {
        let disk = SimulatedDisk::new(3);
        let folder = Snapshots::open(Arc::new(disk.clone()), "/s", CELL).expect("it is empty");
        let image = |seed| {
            let (kinds, commands) = crate::history::commands(seed, 60);
            let mut cell = Cell::new(kinds);
            commands.into_iter().for_each(|command| drop(cell.apply(command)));
            cell.snapshot_state()
        };
        let meta = Meta { cell: CELL, position: AT, replica_meta: (&b"\x01"[..]).into() };
        let saved = |seed| {
            folder.save(&meta, &image(seed)).expect("there is room");
            disk.bytes(&folder.path(AT)).expect("it was saved")
        };
        (0..8).map(saved).collect()
    }

    pub(super) fn check_snapshot(&self, seed: u64, input: &[u8]) -> bool {
        let disk = SimulatedDisk::new(seed);
        let folder = Snapshots::open(Arc::new(disk.clone()), "/s", CELL).expect("it is empty");
        put(&disk, &folder.path(AT), input);
        let loaded = folder.load(AT).is_ok();
        let Ok((_, cell)) = folder.restore(AT) else { return false };
        assert!(loaded, "what can be restored can be loaded");
        cell.audit().expect("a restored cell is sound");
        true
    }
}

fn put(disk: &SimulatedDisk, path: &Path, bytes: &[u8]) {
    use omega_store::Disk;
    drop(disk.create(path).expect("the disk is empty"));
    disk.damage(path, |file| *file = bytes.to_vec());
}

/// A mutated identity.
pub(super) fn mutate_identity(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    bytes.truncate(bytes.len() - 4);
    mutate_part(&mut bytes[8..], dice);
    if dice.chance(20) {
        bytes.truncate(dice.below(bytes.len()));
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// A segment with a mutated header or record.
pub(super) fn mutate_segment(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let salt = word(&bytes, USED - 4);
    if dice.chance(10) {
        mutate_part(&mut bytes[8..USED - 4], dice);
        let crc = crc32fast::hash(&bytes[..USED - 4]);
        bytes[USED - 4..USED].copy_from_slice(&crc.to_le_bytes());
        return bytes;
    }
    let checksum = |record: &[u8], meta: usize| {
        let head = [&salt.to_le_bytes()[..], &record[..4], &record[8..HEAD]].concat();
        crc32fast::hash(&[&head, &record[HEAD..HEAD + meta]].concat())
    };
    // A record's checksum covers its head and the first `meta` bytes of its body. Bytes after the last record are from
    // an earlier use of the file.
    let mut records = Vec::new();
    let mut at = HEADER;
    while at + HEAD < bytes.len() {
        let length = word(&bytes, at) as usize;
        let Some(record) = bytes.get(at..at + HEAD + length) else { break };
        let sealed = word(record, 4);
        let Some(meta) = (1..=length).find(|meta| checksum(record, *meta) == sealed) else { break };
        records.push((at, length, meta));
        at += (HEAD + length).next_multiple_of(8);
    }
    if records.is_empty() {
        return bytes;
    }
    let (at, length, meta) = *dice.pick(&records);
    let record = &mut bytes[at..at + HEAD + length];
    if dice.chance(15) {
        mutate_part(&mut record[8..HEAD], dice)
    } else {
        mutate_part(&mut record[HEAD..HEAD + meta], dice)
    }
    let crc = checksum(record, meta);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A mutated snapshot of one chunk.
pub(super) fn mutate_snapshot(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let start = FIXED + word(12) as usize;
    let mut head = bytes[..FIXED - 4].to_vec();
    let membership = &bytes[FIXED..start];
    let mut body = bytes[start + 8..bytes.len() - TRAILER].to_vec();
    if dice.chance(20) {
        mutate_part(&mut head[16..], dice);
    }
    if dice.chance(80) {
        let from = dice.below(body.len());
        mutate_part(&mut body[from..], dice);
    }
    let salt = crc32fast::hash(&head[16..48]);
    let length = (body.len() as u32).to_le_bytes();
    let sum = [&salt.to_le_bytes()[..], &0u64.to_le_bytes(), &length, &body].concat();
    let chunk = [&length[..], &crc32fast::hash(&sum).to_le_bytes(), &body].concat();
    let crc = crc32fast::hash(&[&head, membership].concat()).to_le_bytes();
    let header = [&head, &crc[..], membership].concat();
    let hash = xxh3_128(&[&chunk[..], &header].concat()).to_le_bytes();
    [header, chunk, hash.to_vec()].concat()
}
