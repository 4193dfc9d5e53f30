//! The simulated disk keeps synced data, loses only data that was not synced, and each requested fault occurs.

use omega_store::Disk;
use omega_tests::disk::{Operation, SimulatedDisk};
use omega_tests::random::Dice;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

const SECTORS: usize = 4;

fn disk() -> SimulatedDisk {
    SimulatedDisk::new(1)
}

/// The contents that a file may have after a crash, from many random trials.
fn left(prepare: impl Fn(&SimulatedDisk), path: &str) -> BTreeSet<Option<Vec<u8>>> {
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let disk = disk();
        prepare(&disk);
        disk.crash(&mut Dice::new(seed));
        seen.insert(disk.bytes(Path::new(path)));
    }
    seen
}

#[test]
fn what_was_synced_is_left() {
    let seen = left(
        |disk| {
            let mut file = disk.create(Path::new("a")).unwrap();
            file.write_at(0, b"one").unwrap();
            file.sync().unwrap();
            disk.sync_folder(Path::new("")).unwrap();
        },
        "a",
    );
    assert_eq!(seen, BTreeSet::from([Some(b"one".to_vec())]));
}

#[test]
fn of_what_was_not_synced_anything_is_left() {
    let whole = vec![7; SECTORS * 512];
    let seen = left(
        |disk| {
            let mut file = disk.create(Path::new("a")).unwrap();
            file.allocate(whole.len() as u64).unwrap();
            file.sync().unwrap();
            disk.sync_folder(Path::new("")).unwrap();
            file.write_at(0, &whole).unwrap();
        },
        "a",
    );
    let sectors = |bytes: &[u8]| bytes.chunks(512).map(|sector| sector[0] == 7).collect();
    let patterns: BTreeSet<Vec<bool>> = seen.iter().flatten().map(|bytes| sectors(bytes)).collect();
    assert_eq!(patterns.len(), 1 << SECTORS, "any sectors may be missing");
    assert!(seen.iter().flatten().any(|bytes| bytes[511] != bytes[0]), "a sector is torn");
}

#[test]
fn a_name_is_safe_when_its_folder_was_synced() {
    let file_only = |disk: &SimulatedDisk| {
        let mut file = disk.create(Path::new("a")).unwrap();
        file.write_at(0, b"x").unwrap();
        file.sync().unwrap();
    };
    assert_eq!(left(file_only, "a"), BTreeSet::from([None, Some(b"x".to_vec())]));
    let renamed = |disk: &SimulatedDisk| {
        file_only(disk);
        disk.sync_folder(Path::new("")).unwrap();
        disk.rename(Path::new("a"), Path::new("b")).unwrap();
    };
    let both = BTreeSet::from([None, Some(b"x".to_vec())]);
    assert_eq!((left(renamed, "a"), left(renamed, "b")), (both.clone(), both));
    let removed = |disk: &SimulatedDisk| {
        file_only(disk);
        disk.sync_folder(Path::new("")).unwrap();
        disk.remove(Path::new("a")).unwrap();
    };
    assert_eq!(left(removed, "a"), BTreeSet::from([None, Some(b"x".to_vec())]));
    let in_folder = |disk: &SimulatedDisk| {
        disk.create_folder(Path::new("f/g")).unwrap();
        let mut file = disk.create(Path::new("f/g/a")).unwrap();
        file.sync().unwrap();
        disk.sync_folder(Path::new("f/g")).unwrap();
    };
    assert_eq!(left(in_folder, "f/g/a"), BTreeSet::from([None, Some(vec![])]));
}

#[test]
fn a_file_is_locked_while_it_is_open() {
    let disk = disk();
    let path = Path::new("a");
    let mut file = disk.create(path).unwrap();
    assert_eq!(disk.open(path).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(disk.create(path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    disk.sync_folder(Path::new("")).unwrap();
    disk.crash(&mut Dice::new(1));
    let other = disk.open(path).unwrap();
    assert!(file.write_at(0, b"x").is_err() && file.sync().is_err() && file.length().is_err());
    drop(file);
    assert_eq!(disk.open(path).unwrap_err().kind(), ErrorKind::WouldBlock, "the lock is its own");
    drop(other);
    disk.open(path).unwrap();
}

#[test]
fn room_runs_out_and_comes_back() {
    let disk = disk();
    let mut file = disk.create(Path::new("a")).unwrap();
    disk.set_capacity(Some(10));
    assert_eq!(file.allocate(11).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.length().unwrap(), 0);
    file.allocate(8).unwrap();
    file.write_at(0, &[1; 8]).unwrap();
    assert_eq!(file.write_at(7, &[2; 5]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.used(), 10);
    file.cut(4).unwrap();
    assert_eq!(disk.used(), 4);
    disk.remove(Path::new("a")).unwrap();
    assert_eq!(disk.used(), 4, "it is still open");
    drop(file);
    assert_eq!(disk.used(), 0);
}

#[test]
fn a_fault_comes_when_it_was_asked_for() {
    let disk = disk();
    let mut file = disk.create(Path::new("a")).unwrap();
    disk.fail(Operation::Write, 1);
    disk.fail(Operation::Sync, 0);
    file.write_at(0, b"one").unwrap();
    assert!(file.write_at(3, b"two").is_err());
    file.write_at(3, b"two").unwrap();
    assert!(file.sync().is_err());
    file.sync().unwrap();
    disk.fail(Operation::PowerCut, 1);
    file.write_at(0, b"x").unwrap();
    assert!(disk.create(Path::new("b")).is_err());
    assert!(file.write_at(0, b"x").is_err() && disk.list(Path::new("")).is_err());
    disk.crash(&mut Dice::new(0));
    disk.list(Path::new("")).unwrap();
}

/// After a failed sync, a successful one does not prove that the data is durable.
#[test]
fn a_second_sync_does_not_make_safe_what_the_first_did_not() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        let mut file = disk.create(Path::new("a")).unwrap();
        disk.sync_folder(Path::new("")).unwrap();
        file.write_at(0, b"x").unwrap();
        disk.fail(Operation::Sync, 0);
        assert!(file.sync().is_err());
        let read = disk.bytes(Path::new("a")).unwrap() == b"x";
        file.sync().unwrap();
        disk.crash(&mut Dice::new(seed));
        let left = disk.bytes(Path::new("a")).unwrap() == b"x";
        lost += u32::from(read && !left);
    }
    assert!(lost > 10, "what was read after the second sync is gone in {lost} of 100 cases");
}
