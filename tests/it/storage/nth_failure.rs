//! A replica on a disk whose Nth operation fails, on a full disk, or on a disk with damaged files. After a restart, all
//! acknowledged changes exist, or the start fails with a specific error.

use omega_store::directory::EngineKind;
use omega_tests::disk::{Operation, SimulatedDisk};
use omega_tests::durable::{Lone, create};
use omega_tests::random::Dice;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const FOLDER: &str = "/replica";

/// Largest tested N, for each kind of operation.
const N_MAX: u64 = 200;

fn disk_with_replica() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    create(Arc::new(disk.clone()), Path::new(FOLDER), EngineKind::Segment).unwrap();
    disk
}

fn open(disk: &SimulatedDisk) -> Result<Lone, String> {
    Lone::open(Arc::new(disk.clone()), Path::new(FOLDER))
}

/// Works until the replica stops, or until a number of transactions. Returns the number of acknowledged transactions,
/// and the reason for the stop.
fn work(disk: &SimulatedDisk, until: u64) -> (u64, Option<String>) {
    let mut lone = match open(disk) {
        Ok(lone) => lone,
        Err(error) => return (0, Some(error)),
    };
    let mut refused = 0;
    while lone.next < until && lone.stopped().is_none() {
        // A transaction is refused if the next segment of the log could not be made. The next attempt succeeds.
        refused += u64::from(!lone.work() && lone.stopped().is_none());
        assert!(refused <= 2, "it goes on or it stops");
    }
    (lone.next, lone.stopped())
}

#[test]
fn whatever_fails_first_nothing_acknowledged_is_lost() {
    let prepared = disk_with_replica();
    let kinds = [Operation::Write, Operation::Sync, Operation::Name, Operation::FolderSync];
    for kind in kinds {
        let mut stops = 0;
        for before in 0..N_MAX {
            let disk = prepared.copy();
            disk.fail(kind, before);
            let (acknowledged, stopped) = work(&disk, 120);
            let what = format!("{kind:?} {before}, {acknowledged} acknowledged");
            if let Some(why) = stopped {
                stops += 1;
                assert!(why.contains("repair the disk"), "{what}: {why}");
            }
            match before % 2 {
                0 => disk.crash(&mut Dice::new(before)),
                _ => disk.mend(),
            }
            let mut lone = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(lone.next >= acknowledged, "{what}: {} are there", lone.next);
            assert!((0..10).all(|_| lone.work()), "{what}: it goes on");
        }
        // Names concern only new segments and snapshots, without which the replica continues.
        let may_continue = matches!(kind, Operation::Name | Operation::FolderSync);
        assert!(stops > 0 || may_continue, "{kind:?} failures are noticed");
    }
}

#[test]
fn a_full_disk_stops_nobody_and_loses_nothing() {
    let prepared = disk_with_replica();
    let mut refused = 0;
    for room in 0..60 {
        let disk = prepared.copy();
        let mut lone = open(&disk).unwrap();
        disk.set_capacity(Some(disk.used() + room * 700));
        for _ in 0..120 {
            refused += u64::from(!lone.work());
        }
        assert_eq!(lone.stopped(), None, "room for {} bytes", room * 700);
        let acknowledged = lone.next;
        disk.set_capacity(None);
        lone.drive();
        drop(lone);
        let mut lone = open(&disk).unwrap();
        assert!(lone.next >= acknowledged, "room for {} bytes", room * 700);
        assert!((0..10).all(|_| lone.work()));
    }
    assert!(refused > 0, "the disk was full");
}

/// Kind of damage of a file.
#[derive(Clone, Copy, Debug)]
enum Rot {
    Flip,
    Zero,
    Cut,
}

#[test]
fn rot_anywhere_is_named_or_does_no_harm() {
    let disk = disk_with_replica();
    let mut states = BTreeMap::new();
    let mut lone = open(&disk).unwrap();
    for _ in 0..90 {
        assert!(lone.work());
        let state = lone.started.replica.applied().lock();
        states.insert(state.cell.state_hash(), state.position.index);
    }
    drop(lone);
    let (mut refused, mut sound) = (0, 0);
    let last = open(&disk.copy()).unwrap().next;
    for path in disk.files() {
        let length = disk.bytes(&path).unwrap().len();
        for (at, rot) in
            (0..length).step_by(37).zip([Rot::Flip, Rot::Zero, Rot::Cut].iter().cycle())
        {
            let what = format!("{}: {rot:?} at {at}", path.display());
            let damaged = disk.copy();
            damaged.damage(&path, |bytes| match rot {
                Rot::Flip => bytes[at] ^= 1 << (at % 8),
                Rot::Zero => bytes[at..(at + 4096).min(length)].fill(0),
                Rot::Cut => bytes.truncate(at),
            });
            match open(&damaged) {
                Ok(lone) if matches!(rot, Rot::Flip) => assert_eq!(lone.next, last, "{what}"),
                Ok(lone) => {
                    let hash = lone.started.replica.applied().lock().cell.state_hash();
                    assert!(states.contains_key(&hash), "{what}: another state");
                    sound += 1;
                }
                Err(error) => {
                    assert!(error.contains(FOLDER), "{what}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100 && sound > 10, "{refused} refused, {sound} sound");
}
