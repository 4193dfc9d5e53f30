//! The directory of a replica: other processes cannot use it, an interrupted creation can be completed, and a replica
//! that lost its vote does not start.

use crate::cell::histories::seeds;
use crate::storage::log::SMALL;
use omega_core::Kinds;
use omega_store::directory::{
    CreateDirectoryError, Directory, EngineKind, Expected, Identity, OpenDirectoryError,
    OpenLogError,
};
use omega_store::log::{Batch, HardState, LogIndex, ReplicaId, Term};
use omega_store::{CellId, Disk, DiskFile, Origin, RealDisk};
use omega_tests::disk::{Operation, SimulatedDisk};
use omega_tests::random::Dice;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

fn identity() -> Identity {
    let origin = Origin { cell: CellId(7), kinds: Kinds::standard() };
    Identity { origin, replica: ReplicaId(3), engine: EngineKind::Segment }
}

fn here() -> &'static Path {
    Path::new("srv/omega")
}

fn create(disk: &SimulatedDisk) -> Result<Directory, CreateDirectoryError> {
    Directory::create_with(Arc::new(disk.clone()), here(), identity(), SMALL)
}

fn open(disk: &SimulatedDisk, expected: Expected) -> Result<Directory, OpenDirectoryError> {
    Directory::open(Arc::new(disk.clone()), here(), expected)
}

fn anything() -> Expected {
    Expected::default()
}

fn vote() -> HardState {
    HardState { term: Term(2), vote: Some(ReplicaId(1)), commit: LogIndex(0) }
}

/// A disk with a directory whose replica has voted.
fn voted() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut log = create(&disk).unwrap().open_log().unwrap();
    log.append(&Batch { entries: Vec::new(), hard_state: Some(vote()) }).unwrap();
    log.sync().unwrap();
    disk
}

#[test]
fn a_directory_is_what_it_was_made() {
    let disk = voted();
    let expected = Expected {
        cell: Some(CellId(7)),
        replica: Some(ReplicaId(3)),
        engine: Some(EngineKind::Segment),
    };
    let directory = open(&disk, expected).unwrap();
    assert_eq!(*directory.identity(), identity());
    assert_eq!(directory.open_log().unwrap().hard_state(), vote());
    assert_eq!(directory.snapshots(), here().join("snapshots"));
    assert!(matches!(open(&disk, anything()), Err(OpenDirectoryError::Locked(_))));
    assert!(matches!(create(&disk), Err(CreateDirectoryError::Locked(_))));
    drop(directory);
    assert!(matches!(create(&disk), Err(CreateDirectoryError::Exists(_))));
}

/// Permissions of a file or folder.
fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn other_users_have_no_access_to_a_new_directory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("r1");
    drop(Directory::create(Arc::new(RealDisk), &path, identity()).unwrap());
    for folder in [path.clone(), path.join("log"), path.join("snapshots")] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    let first = std::fs::read_dir(path.join("log")).unwrap().next().unwrap().unwrap().path();
    for file in [path.join("IDENTITY"), path.join("LOCK"), first] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn a_directory_on_a_real_disk_is_what_it_was_made() {
    make_and_open(&identity());
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_directory_on_rocksdb_is_what_it_was_made() {
    make_and_open(&Identity { engine: EngineKind::RocksDb, ..identity() });
}

/// The directory records its engine: a request for another engine gets an error that names the recorded one.
#[cfg(feature = "rocksdb")]
#[test]
fn a_directory_on_rocksdb_is_opened_with_its_engine_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(omega_store::RealDisk);
    let rocks = Identity { engine: EngineKind::RocksDb, ..identity() };
    drop(Directory::create(disk.clone(), folder.path(), rocks.clone()).unwrap());
    let again = Directory::create(disk.clone(), folder.path(), rocks.clone());
    assert!(matches!(again, Err(CreateDirectoryError::Exists(_))), "{again:?}");
    let open = |expected| Directory::open(disk.clone(), folder.path(), expected);
    let wanted = Expected { engine: Some(EngineKind::Segment), ..anything() };
    let error = open(wanted).unwrap_err();
    assert!(error.to_string().contains("in rocksdb, not in segment"), "{error}");
    let mut log = open(anything()).unwrap().open_log().unwrap();
    log.append(&Batch { entries: Vec::new(), hard_state: Some(vote()) }).unwrap();
    log.sync().unwrap();
    drop(log);
    // A directory is created over a log that contains a vote.
    let identity = std::fs::read(folder.path().join("IDENTITY")).unwrap();
    std::fs::remove_file(folder.path().join("IDENTITY")).unwrap();
    assert!(matches!(open(anything()), Err(OpenDirectoryError::IdentityMissing(_))));
    let over = Directory::create(disk.clone(), folder.path(), rocks);
    assert!(matches!(over, Err(CreateDirectoryError::NotEmpty(_))), "{over:?}");
    std::fs::write(folder.path().join("IDENTITY"), identity).unwrap();
    assert_eq!(open(anything()).unwrap().open_log().unwrap().hard_state(), vote());
    // The vote is lost.
    std::fs::remove_dir_all(folder.path().join("log")).unwrap();
    std::fs::create_dir(folder.path().join("log")).unwrap();
    let error = open(anything()).unwrap().open_log().unwrap_err();
    assert!(matches!(error, OpenLogError::Forgotten(_)), "{error}");
}

#[test]
fn servers_keep_their_logs_in_rocksdb_where_it_is_built_in() {
    let wanted =
        if EngineKind::RocksDb.is_built_in() { EngineKind::RocksDb } else { EngineKind::Segment };
    assert_eq!(EngineKind::of_servers(), wanted);
}

fn make_and_open(identity: &Identity) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let disk = Arc::new(omega_store::RealDisk);
    let directory = Directory::create(disk.clone(), &path, identity.clone()).unwrap();
    let busy = Directory::open(disk.clone(), &path, anything());
    assert!(matches!(busy, Err(OpenDirectoryError::Locked(_))), "{busy:?}");
    drop(directory);
    let directory = Directory::open(disk, &path, anything()).unwrap().with_options(SMALL);
    assert_eq!(directory.open_log().unwrap().hard_state(), HardState::default());
}

#[test]
fn the_directory_of_another_is_refused() {
    let disk = voted();
    let error = open(&disk, Expected { cell: Some(CellId(8)), ..anything() }).unwrap_err();
    assert!(matches!(error, OpenDirectoryError::OtherCell { found: CellId(7), .. }));
    let error = open(&disk, Expected { replica: Some(ReplicaId(4)), ..anything() }).unwrap_err();
    assert!(error.to_string().contains("belongs to replica r3, not to r4"), "{error}");
    let rocks = Expected { engine: Some(EngineKind::RocksDb), ..anything() };
    let error = open(&disk, rocks).unwrap_err();
    assert!(error.to_string().contains("in segment, not in rocksdb"), "{error}");
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let disk = voted();
    disk.damage(&here().join("IDENTITY"), |bytes| bytes[8] = 9);
    let error = open(&disk, anything()).unwrap_err();
    assert!(error.to_string().contains("has format 9, but this program reads 1"), "{error}");
}

#[test]
fn an_identity_that_is_damaged_or_missing_is_refused() {
    let disk = voted();
    let path = here().join("IDENTITY");
    for bit in 0..disk.bytes(&path).unwrap().len() * 8 {
        let damaged = disk.copy();
        damaged.damage(&path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let error = open(&damaged, anything()).unwrap_err();
        let named = matches!(
            error,
            OpenDirectoryError::IdentityDamaged(_) | OpenDirectoryError::UnknownFormat { .. }
        );
        assert!(named, "bit {bit}: {error}");
    }
    for length in 0..disk.bytes(&path).unwrap().len() {
        let cut = disk.copy();
        cut.damage(&path, |bytes| bytes.truncate(length));
        assert!(matches!(open(&cut, anything()), Err(OpenDirectoryError::IdentityDamaged(_))));
    }
    disk.remove(&path).unwrap();
    assert!(matches!(open(&disk, anything()), Err(OpenDirectoryError::IdentityMissing(_))));
    // A new directory cannot be created over a log that contains a vote.
    assert!(matches!(create(&disk), Err(CreateDirectoryError::NotEmpty(_))));
}

#[test]
fn a_replica_that_forgot_its_vote_does_not_start() {
    let disk = voted();
    let log = here().join("log");
    for name in disk.list(&log).unwrap() {
        disk.remove(&log.join(name)).unwrap();
    }
    let error = open(&disk, anything()).unwrap().open_log().unwrap_err();
    assert!(matches!(error, OpenLogError::Forgotten(_)));
    assert!(error.to_string().contains("its vote is lost"), "{error}");
}

/// The disk of this computer, on which each segment of a log is removed as soon as it is opened.
#[derive(Debug)]
struct Removing;

impl Disk for Removing {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = RealDisk.open(path)?;
        if path.extension().is_some_and(|kind| kind == "log") {
            RealDisk.remove(path)?;
        }
        Ok(file)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.create(path)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.create_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }
}

#[test]
fn a_log_that_is_removed_while_it_is_opened_is_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cell");
    drop(Directory::create_with(Arc::new(RealDisk), &path, identity(), SMALL).unwrap());
    let directory = Directory::open(Arc::new(Removing), &path, anything()).unwrap();
    let error = directory.open_log().unwrap_err();
    assert!(matches!(error, OpenLogError::Log(omega_store::log::OpenError::Io { .. })), "{error}");
    assert!(error.to_string().contains("was removed while it was in use"), "{error}");
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn an_engine_that_was_not_built_in_is_refused() {
    let disk = SimulatedDisk::new(1);
    let identity = Identity { engine: EngineKind::RocksDb, ..identity() };
    let error = Directory::create(Arc::new(disk.clone()), here(), identity).unwrap_err();
    assert!(matches!(error, CreateDirectoryError::EngineMissing(EngineKind::RocksDb)), "{error}");
    assert!(disk.files().is_empty());
}

/// The power fails at each operation of a creation. Afterwards the directory exists, or can be created again.
#[test]
fn a_creation_that_was_cut_short_can_be_finished() {
    for cut in 0..40 {
        for seed in seeds(20) {
            let what = format!("cut {cut}, seed {seed}");
            let disk = SimulatedDisk::new(seed);
            disk.fail(Operation::PowerCut, cut);
            let created = create(&disk).is_ok();
            disk.crash(&mut Dice::new(seed));
            match open(&disk, anything()) {
                Ok(directory) => drop(directory.open_log().expect(&what)),
                Err(OpenDirectoryError::Missing(_) | OpenDirectoryError::IdentityMissing(_)) => {
                    assert!(!created, "{what}");
                    let directory = create(&disk).expect(&what);
                    drop(directory.open_log().expect(&what));
                }
                Err(error) => panic!("{what}: {error}"),
            }
            // The directory is durable, so it survives a crash.
            disk.crash(&mut Dice::new(seed));
            let directory = open(&disk, anything()).expect(&what);
            assert_eq!(directory.open_log().expect(&what).hard_state(), HardState::default());
        }
    }
}

/// Each operation of a creation fails in turn. The creation then returns an error, and can be tried again.
#[test]
fn a_creation_that_failed_can_be_tried_again() {
    for kind in [Operation::Write, Operation::Sync, Operation::Name, Operation::FolderSync] {
        for before in 0..12 {
            let disk = SimulatedDisk::new(before);
            disk.fail(kind, before);
            let created = create(&disk);
            let failed = created.is_err();
            drop(created);
            disk.mend();
            if failed && open(&disk, anything()).is_err() {
                create(&disk).unwrap_or_else(|error| panic!("{kind:?} {before}: {error}"));
            }
            drop(open(&disk, anything()).unwrap().open_log().unwrap());
        }
    }
}
