//! Backups: a restore results in the saved state, any damage of the file is detected, and a snapshot state taken under
//! load is the state of its version.
//!
//! `OMEGA_SEEDS=1000000 cargo test -p omega-tests backups` searches longer.

use crate::cell::histories::seeds;
use crate::cell::snapshot_states::rich_snapshot_state;
use omega_cellstate::{Cell, SharedCell, SnapshotState};
use omega_core::Version;
use omega_store::snapshot::{BackupContent, LoadError, read_backup, write_backup};
use omega_store::{CellId, ReadOnlyDisk};
use omega_tests::history;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

const CELL: CellId = CellId(0xCE11);

/// The bytes of a backup, assembled by offset.
fn backup(snapshot: &SnapshotState) -> Vec<u8> {
    let mut file = Vec::new();
    let length = write_backup(CELL, snapshot, |offset, bytes| {
        let at = offset as usize;
        file.resize(file.len().max(at + bytes.len()), 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    });
    assert_eq!(length.unwrap(), file.len() as u64);
    file
}

fn read(file: &Path, bytes: &[u8]) -> Result<BackupContent, LoadError> {
    std::fs::write(file, bytes).unwrap();
    read_backup(&ReadOnlyDisk::default(), file)
}

#[test]
fn what_was_saved_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds(100) {
        let (kinds, commands) = history::commands(seed, 60);
        let mut cell = Cell::new(kinds);
        commands.into_iter().for_each(|command| drop(cell.apply(command)));
        let content = read(&folder.path().join("backup"), &backup(&cell.snapshot_state())).unwrap();
        content.cell.audit().unwrap();
        assert_eq!(content.from, CELL, "seed {seed}");
        assert_eq!(
            content.cell.snapshot_state(),
            cell.snapshot_state(),
            "seed {seed}: answers and all"
        );
    }
}

#[test]
fn whatever_was_cut_off_or_flipped_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let bytes = backup(&rich_snapshot_state());
    let refused = |bytes: &[u8], what: &str| {
        let error = read(&file, bytes).expect_err(what);
        assert!(error.to_string().contains("backup"), "{what}: {error}");
    };
    for length in 0..bytes.len() {
        refused(&bytes[..length], &format!("{length} bytes"));
    }
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes, &format!("byte {at}"));
    }
    refused(&[&bytes[..], b"x"].concat(), "one byte more");
    assert!(read(&file, &bytes).is_ok());
}

#[test]
fn who_takes_the_bytes_can_refuse_them() {
    let snapshot = rich_snapshot_state();
    for left in 0..3 {
        let mut left = left;
        let written = write_backup(CELL, &snapshot, |_, _| {
            left -= 1;
            if left < 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        });
        assert!(written.is_err() || left >= 0, "{left}");
    }
}

#[test]
fn images_that_are_taken_under_load_are_states_that_there_were() {
    let (kinds, commands) = history::commands(7, 20_000);
    let shared = SharedCell::new(Cell::new(kinds.clone()));
    let snapshots: Vec<SnapshotState> = std::thread::scope(|scope| {
        // Two concurrent backups take turns.
        let takers = [(); 2].map(|()| {
            scope.spawn(|| (0..20).map(|_| shared.snapshot_state()).collect::<Vec<SnapshotState>>())
        });
        commands.iter().for_each(|command| drop(shared.apply(command.clone())));
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    // The state after each command.
    let wanted: BTreeMap<Version, SnapshotState> =
        snapshots.into_iter().map(|snapshot| (snapshot.version, snapshot)).collect();
    let mut cell = Cell::new(kinds);
    let mut found = BTreeSet::new();
    // A cached rejection starts no new version, so a version may have several states.
    let mut compare = |cell: &Cell| {
        let snapshot =
            wanted.get(&cell.version()).filter(|snapshot| !found.contains(&snapshot.version));
        if let Some(snapshot) =
            snapshot.filter(|snapshot| cell.state_hash() == snapshot.state_hash())
        {
            found.insert(snapshot.version);
        }
    };
    compare(&cell);
    for command in commands {
        drop(cell.apply(command));
        compare(&cell);
    }
    assert_eq!(found.len(), wanted.len());
}
