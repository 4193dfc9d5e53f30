//! Snapshots in a folder. They can be read back, and after any damage of a file the result is the saved state, or an
//! error that names the file and the place.
//!
//! `OMEGA_SEEDS=1000000 cargo test -p omega-tests snapshot_files` searches longer.

use crate::cell::histories::seeds;
use crate::cell::snapshot_states::{rich_snapshot_state, small_cell};
use crate::storage::snapshot_fixtures::{
    CELL, CHUNK, FIXED, FailingDisk, Fault, Folder, Parts, at, meta,
};
use omega_cellstate::{Cell, SnapshotState};
use omega_core::{Amounts, Command, Job, TaskGroup};
use omega_store::log::{LogIndex, Position, Term};
use omega_store::snapshot::{FORMAT, LoadError, Meta, SaveError, SnapshotDamage, Snapshots};
use omega_store::{CellId, RealDisk};
use omega_tests::history;
use omega_tests::random::Dice;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// A snapshot state with several chunks.
pub(crate) fn large_snapshot_state() -> SnapshotState {
    let mut cell = small_cell();
    for number in 0..6000u32 {
        let mut group = TaskGroup::new(1 + number % 40, Amounts::new([1]));
        group.images = vec![format!("{number:0>500}").into(), "x".repeat(300).into()];
        let job = Job::batch(format!("job-{number}"), group);
        cell.apply(Command::SubmitJob(job)).unwrap();
    }
    cell.snapshot_state()
}

#[track_caller]
fn damage(error: LoadError) -> SnapshotDamage {
    match error {
        LoadError::Corrupt { damage, .. } => *damage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_comes_back() {
    let folder = Folder::new();
    for seed in seeds(200) {
        let (kinds, commands) = history::commands(seed, 60);
        let mut cell = Cell::new(kinds);
        commands.into_iter().for_each(|command| drop(cell.apply(command)));
        let state = cell.snapshot_state();
        folder.snapshots.save(&meta(seed), &state).unwrap();
        assert_eq!(folder.snapshots.load(at(seed)).unwrap(), (meta(seed), state), "seed {seed}");
        let (_, again) = folder.snapshots.restore(at(seed)).unwrap();
        again.audit().unwrap();
        assert_eq!(again.state_hash(), cell.state_hash(), "seed {seed}");
        let sealed = Parts::of(&folder.bytes(seed)).sealed();
        assert_eq!(sealed, folder.bytes(seed), "seed {seed}: the format is as documented");
    }
}

#[test]
fn a_snapshot_of_many_chunks_comes_back() {
    let state = large_snapshot_state();
    let folder = Folder::with(&state);
    let bytes = folder.bytes(7);
    assert!(bytes.len() > 4 * CHUNK, "{} bytes", bytes.len());
    assert_eq!(folder.load(&bytes).unwrap(), state);
    assert_eq!(Parts::of(&bytes).sealed(), bytes);
}

#[test]
fn a_snapshot_that_was_cut_is_refused() {
    let folder = Folder::with(&rich_snapshot_state());
    let bytes = folder.bytes(7);
    for length in 0..bytes.len() {
        let error = folder.load(&bytes[..length]).unwrap_err();
        assert!(matches!(damage(error), SnapshotDamage::Length { .. }), "{length} bytes");
    }
    let error = folder.load(&[&bytes[..], b"x"].concat()).unwrap_err();
    assert!(matches!(damage(error), SnapshotDamage::Length { .. }));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let folder = Folder::with(&rich_snapshot_state());
    let bytes = folder.bytes(7);
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = folder.load(&bytes).unwrap_err();
        let named = error.to_string().contains(".snapshot");
        assert!(named, "bit {bit}: {error}");
    }
}

#[test]
fn chunks_that_are_swapped_lost_or_repeated_are_noticed() {
    let folder = Folder::with(&large_snapshot_state());
    let bytes = folder.bytes(7);
    let start = FIXED + meta(7).replica_meta.len();
    let chunk = |number: usize| start + number * (CHUNK + 8)..start + (number + 1) * (CHUNK + 8);
    let mut swapped = bytes.clone();
    swapped[chunk(0)].copy_from_slice(&bytes[chunk(1)]);
    swapped[chunk(1)].copy_from_slice(&bytes[chunk(0)]);
    assert!(matches!(damage(folder.load(&swapped).unwrap_err()), SnapshotDamage::Chunk(0)));
    let mut repeated = bytes.clone();
    repeated[chunk(2)].copy_from_slice(&bytes[chunk(1)]);
    assert!(matches!(damage(folder.load(&repeated).unwrap_err()), SnapshotDamage::Chunk(2)));
    // A chunk from another snapshot of the same state is not accepted.
    folder.snapshots.save(&meta(8), &large_snapshot_state()).unwrap();
    let mut foreign = bytes.clone();
    foreign[chunk(1)].copy_from_slice(&folder.bytes(8)[chunk(1)]);
    assert!(matches!(damage(folder.load(&foreign).unwrap_err()), SnapshotDamage::Chunk(1)));
    let zeros = [&bytes[..chunk(1).start], &vec![0; bytes.len() - chunk(1).start]].concat();
    let found = damage(folder.load(&zeros).unwrap_err());
    assert!(matches!(found, SnapshotDamage::ChunkLength { number: 1, found: 0, .. }), "{found}");
}

/// A snapshot state without the fields that the state hash leaves out: the times and claims in load reports, the
/// submission times of jobs, and the placement times of tasks.
fn hashed(mut state: SnapshotState) -> SnapshotState {
    for (_, report) in &mut state.loads {
        (report.at_ms, report.claimed) = (0, Amounts::zero());
    }
    state.jobs.iter_mut().for_each(|job| job.submitted_ms = 0);
    state.jobs.iter_mut().flat_map(|job| &mut job.tasks).for_each(|task| task.placed_ms = 0);
    state
}

/// Bytes are forged so that all checksums are right, but the content is not.
#[test]
fn a_forged_snapshot_is_refused_or_sound() {
    let folder = Folder::with(&rich_snapshot_state());
    let parts = Parts::of(&folder.bytes(7));
    let mut known = 0;
    for seed in seeds(6000) {
        let mut dice = Dice::new(seed);
        let mut forged = parts.clone();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(forged.body.len());
            match dice.below(4) {
                0 => forged.body[at] = 253,
                1 => drop(forged.body.remove(at)),
                _ => forged.body[at] = dice.below(256) as u8,
            }
        }
        match folder.load(&forged.clone().resized()) {
            Ok(state) => assert_eq!(hashed(state), hashed(rich_snapshot_state()), "seed {seed}"),
            Err(LoadError::Corrupt { damage, .. }) => {
                // A forger could change the state hash, too, so the snapshot is also loaded with the hash of its forged
                // state.
                if let SnapshotDamage::State { found, .. } = *damage {
                    known += 1;
                    let _ = folder.load(&forged.with_word(48, found).resized());
                }
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(known > 100 || seeds(6000).count() < 6000, "some are images of another state");
}

#[test]
fn lengths_that_cannot_be_take_no_memory() {
    let folder = Folder::with(&rich_snapshot_state());
    let parts = Parts::of(&folder.bytes(7));
    for counts in 0..7 {
        for count in [u64::MAX, 1 << 40, 1000] {
            let forged = parts.clone().with_word(64 + 8 * counts, count).sealed();
            let error = folder.load(&forged).unwrap_err();
            assert!(matches!(error, LoadError::Corrupt { .. }), "{error}");
        }
    }
    for length in [u64::MAX, 1 << 50, 0, 200] {
        let forged = parts.clone().with_word(56, length).sealed();
        let found = damage(folder.load(&forged).unwrap_err());
        let named = matches!(found, SnapshotDamage::Length { .. } | SnapshotDamage::Header);
        assert!(named, "{found}");
    }
    for length in [u32::MAX, 1 << 30, 1 << 20, 0] {
        let mut forged = parts.clone();
        forged.body[..4].copy_from_slice(&length.to_le_bytes());
        let found = damage(folder.load(&forged.sealed()).unwrap_err());
        assert!(matches!(found, SnapshotDamage::Block(_)), "{found}");
        let mut forged = parts.clone();
        forged.head[12..16].copy_from_slice(&length.max(1).to_le_bytes());
        assert!(folder.load(&forged.sealed()).is_err());
    }
    let mut longer = parts.clone();
    longer.body.extend([2, 0, 0, 0, 1, 1]);
    let found = damage(folder.load(&longer.resized()).unwrap_err());
    assert!(matches!(found, SnapshotDamage::Counts), "{found}");
    let empty = Parts { body: Vec::new(), ..parts };
    let found = damage(folder.load(&empty.resized()).unwrap_err());
    assert!(matches!(found, SnapshotDamage::Counts), "{found}");
}

#[test]
fn a_state_that_hashes_otherwise_is_refused() {
    let folder = Folder::with(&rich_snapshot_state());
    let forged = Parts::of(&folder.bytes(7)).with_word(48, 1).sealed();
    let found = damage(folder.load(&forged).unwrap_err());
    assert!(matches!(found, SnapshotDamage::State { wanted: 1, .. }), "{found}");
}

#[test]
fn what_is_no_snapshot_of_this_cell_is_refused() {
    let folder = Folder::with(&rich_snapshot_state());
    let bytes = folder.bytes(7);
    let newer = [&bytes[..8], &(FORMAT + 1).to_le_bytes(), &bytes[12..]].concat();
    let error = folder.load(&newer).unwrap_err();
    assert!(matches!(error, LoadError::UnknownFormat { found: 2, .. }), "{error}");
    assert!(error.to_string().contains("has format 2, but this program reads 1:"), "{error}");
    let older = [&bytes[..8], &(FORMAT - 1).to_le_bytes(), &bytes[12..]].concat();
    assert!(matches!(folder.load(&older), Err(LoadError::UnknownFormat { found: 0, .. })));
    assert!(matches!(folder.load(b"not a snapshot at all"), Err(LoadError::NotASnapshot(_))));

    folder.load(&bytes).unwrap();
    let others = Snapshots::open(Arc::new(RealDisk), folder.folder.path(), CellId(1)).unwrap();
    let error = others.newest().unwrap_err();
    assert!(matches!(error, LoadError::OtherCell { found: CELL, .. }), "{error}");
    let error = others.save(&meta(9), &rich_snapshot_state()).unwrap_err();
    assert!(matches!(error, SaveError::OtherCell { .. }), "{error}");
    std::fs::copy(folder.snapshots.path(at(7)), folder.snapshots.path(at(9))).unwrap();
    let error = folder.snapshots.newest().unwrap_err();
    assert!(matches!(error, LoadError::OtherPosition { .. }), "{error}");
    assert!(matches!(folder.snapshots.load(at(1)), Err(LoadError::Missing(_))));
    let large = Meta { replica_meta: vec![0; 1 << 20].into(), ..meta(9) };
    let error = folder.snapshots.save(&large, &rich_snapshot_state()).unwrap_err();
    assert!(matches!(error, SaveError::Membership(_)), "{error}");
}

#[test]
fn a_folder_keeps_the_last_two_and_names_a_damaged_one() {
    let folder = Folder::new();
    assert_eq!(folder.newest(), None);
    for index in [10, 9_999_999, 20, 30] {
        folder.snapshots.save(&meta(index), &rich_snapshot_state()).unwrap();
    }
    let names = ["00000000000000000020-00000003", "00000000000000000030-00000003"];
    let later = "00000000000009999999-00000003";
    let names: Vec<String> =
        names.iter().chain([&later]).map(|name| format!("{name}.snapshot")).collect();
    assert_eq!(folder.names(), names, "what is newer than what is saved stays");
    std::fs::remove_file(folder.snapshots.path(at(9_999_999))).unwrap();

    // Incomplete files, and files of other programs, are not snapshots.
    let path = folder.folder.path();
    std::fs::write(path.join("00000000000000000040-00000003.partial"), b"OMEGASNP").unwrap();
    std::fs::write(path.join("+40-3.snapshot"), b"").unwrap();
    std::fs::write(path.join("notes"), b"").unwrap();
    let again = Snapshots::open(Arc::new(RealDisk), path, CELL).unwrap();
    assert_eq!(again.list().unwrap(), [at(20), at(30)]);
    assert!(!folder.names().iter().any(|name| name.ends_with(".partial")));

    let mut bytes = folder.bytes(30);
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    std::fs::write(again.path(at(30)), bytes).unwrap();
    let error = again.newest().unwrap_err();
    assert!(error.to_string().contains("00030-00000003.snapshot is corrupt at byte"), "{error}");
    assert_eq!(again.newest_before(at(30)).unwrap().unwrap().meta, meta(20));
    assert_eq!(again.newest_before(at(20)).unwrap(), None);
    // A term of more than eight digits is valid, too.
    let far = Position { index: LogIndex(u64::MAX), term: Term(u64::MAX) };
    again.save(&Meta { position: far, ..meta(0) }, &rich_snapshot_state()).unwrap();
    assert_eq!(again.newest().unwrap().unwrap().meta.position, far);
}

/// After any disk error, the older snapshot exists, and the new one is complete or absent.
#[test]
fn a_disk_that_fails_leaves_nothing_half_made() {
    for fault in [Fault::Full, Fault::Broken] {
        let mut failures = 0;
        for operations in 0.. {
            let folder = Folder::with(&rich_snapshot_state());
            let disk = Arc::new(FailingDisk::new(operations, fault));
            let snapshots = Snapshots::open(disk, folder.folder.path(), CELL).unwrap();
            match snapshots.save(&meta(8), &rich_snapshot_state()) {
                Ok(()) => break,
                Err(SaveError::Full(_)) => assert_eq!(fault, Fault::Full),
                Err(SaveError::Io { .. }) => assert_eq!(fault, Fault::Broken),
                Err(error) => panic!("{error}"),
            }
            failures += 1;
            assert_eq!(folder.snapshots.load(at(7)).unwrap().1, rich_snapshot_state());
            let newest = folder.newest().unwrap();
            assert!(newest == at(7) || fault == Fault::Broken, "{operations} operations");
            assert_eq!(folder.snapshots.load(newest).unwrap().1, rich_snapshot_state());
            assert!(!folder.names().iter().any(|name| name.ends_with(".partial")));
        }
        let expected = if fault == Fault::Full { 3 } else { 6 };
        assert_eq!(failures, expected, "a chunk, the hash, the header, a sync, a rename, a folder");
    }
}

/// The bytes of a golden file, which has them in hexadecimal.
fn recorded(format: u32) -> Vec<u8> {
    let path = golden(format);
    let text = std::fs::read_to_string(&path);
    let text =
        text.unwrap_or_else(|why| panic!("{}: {why}: OMEGA_BLESS=1 makes it", path.display()));
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn golden(format: u32) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/snapshot-v{format}.txt"))
}

/// The bytes of a format never change.
#[test]
fn the_bytes_of_a_format_never_change() {
    let folder = Folder::with(&rich_snapshot_state());
    let bytes = folder.bytes(7);
    if std::env::var_os("OMEGA_BLESS").is_some() && !golden(FORMAT).exists() {
        let mut text = String::new();
        for line in bytes.chunks(40) {
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
        std::fs::write(golden(FORMAT), &text).unwrap();
    }
    assert!(recorded(FORMAT) == bytes, "other bytes are another format: raise FORMAT, read both");
}
