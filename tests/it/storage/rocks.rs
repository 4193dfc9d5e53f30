//! The log in RocksDB, compared with the naive one, with damaged, truncated or missing files. Opening yields all synced
//! entries or fails; it never yields fewer or other entries.

use crate::cell::histories::seeds;
use crate::storage::log::{OWNER, check};
use omega_store::log::rocks::RocksLog;
use omega_store::log::segment::LogOwner;
use omega_store::log::{Batch, CreateError, LogEngine, OpenError, ReplicaId, WriteError};
use omega_tests::log_reference::{LogContent, NaiveLog, Step, Worker, perform};
use omega_tests::random::Dice;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[test]
fn a_log_in_rocksdb_is_as_the_naive_one() {
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds(20) {
        let path = folder.path().join(seed.to_string());
        check(seed, Box::new(RocksLog::create(&path, OWNER).unwrap()), |log| {
            drop(log);
            Box::new(RocksLog::open(&path, OWNER).unwrap())
        });
    }
}

#[test]
fn a_log_in_rocksdb_that_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().unwrap();
    // The path contains words of RocksDB's lock error. Other errors that contain the path must not be taken for a lock
    // error.
    let path = folder.path().join("lock hold by");
    assert!(matches!(RocksLog::open(&path, OWNER), Err(OpenError::Missing(_))));
    let log = RocksLog::create(&path, OWNER).unwrap();
    assert!(matches!(RocksLog::open(&path, OWNER), Err(OpenError::Locked(_))));
    assert!(matches!(RocksLog::create(&path, OWNER), Err(CreateError::Exists(_))));
    drop(log);
    assert!(matches!(RocksLog::create(&path, OWNER), Err(CreateError::Exists(_))));
    let other = LogOwner { replica: ReplicaId(4), ..OWNER };
    assert!(matches!(RocksLog::open(&path, other), Err(OpenError::OtherReplica { .. })));
    std::fs::remove_file(path.join("CURRENT")).unwrap();
    let error = RocksLog::open(&path, OWNER).unwrap_err();
    assert!(matches!(error, OpenError::Library { .. }), "{error}");
}

/// A log with tables, a manifest and WALs, and its expected content.
struct Case {
    folder: TempDir,
    /// Content of the log since it was last opened.
    naive: NaiveLog,
    /// Length of the WAL in bytes after the last sync.
    synced_bytes: u64,
}

impl Case {
    /// Runs the process three times; the last run has steps after its last sync.
    fn new(seed: u64, unsynced: usize) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let (mut worker, mut naive) = (Worker::new(seed, 80), NaiveLog::default());
        let mut log = RocksLog::create(folder.path(), OWNER).unwrap();
        for _ in 0..2 {
            work(&mut log, &mut naive, &mut worker, 8);
            drop(log);
            log = RocksLog::open(folder.path(), OWNER).unwrap();
            naive.reopened(LogContent::of(&mut log)).unwrap();
        }
        work(&mut log, &mut naive, &mut worker, 8);
        log.sync().unwrap();
        naive.done(Step::Sync);
        let synced_bytes = std::fs::metadata(wal(folder.path())).unwrap().len();
        for _ in 0..unsynced {
            let step = worker.batch(&naive.now);
            perform(&mut log, &step).unwrap();
            naive.done(step);
        }
        drop(log);
        Case { folder, naive, synced_bytes }
    }

    /// Reads the log. Opening must fail, or yield content that a crash may leave.
    fn look(&self, what: &str) -> Result<LogContent, OpenError> {
        let found = LogContent::of(&mut RocksLog::look(self.folder.path(), OWNER)?);
        let allowed = self.naive.clone().reopened(found.clone());
        allowed.unwrap_or_else(|error| panic!("{what}: {error}"));
        Ok(found)
    }

    /// The files whose content affects the log, with their bytes.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        content(self.folder.path())
    }
}

fn work(log: &mut RocksLog, naive: &mut NaiveLog, worker: &mut Worker, steps: usize) {
    for _ in 0..steps {
        let step = worker.next(&naive.now);
        perform(log, &step).unwrap();
        naive.done(step);
    }
}

/// Path of every file in a folder, in the order of names. RocksDB creates and removes files while a log is open, so
/// only names are read.
fn names(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort_unstable();
    files
}

/// Files with their bytes; the log must be closed.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
    names(folder).into_iter().map(read).collect()
}

/// Path of RocksDB's current WAL.
fn wal(folder: &Path) -> PathBuf {
    names(folder).into_iter().rfind(|path| is_wal(path)).unwrap()
}

fn is_wal(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

fn is_refused(result: &Result<LogContent, OpenError>, what: &str) -> bool {
    match result {
        Ok(_) => false,
        Err(OpenError::Library { .. } | OpenError::Io { .. } | OpenError::OtherReplica { .. }) => {
            true
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Checks that changed bytes of each file are detected, in RocksDB's files and in ours, byte by byte.
#[test]
fn a_bit_that_flips_in_any_file_is_found_or_does_no_harm() {
    for seed in seeds(1) {
        let case = Case::new(seed, 0);
        let (before, mut refused) = (case.files(), 0);
        for (path, bytes) in &before {
            let name = path.file_name().unwrap().to_string_lossy();
            // Files that RocksDB only writes are changed in a few places only.
            let is_read = !name.starts_with("LOG") && !name.starts_with("OPTIONS");
            for at in (0..bytes.len()).step_by(if is_read { 1 } else { 4999 }) {
                let what = format!("seed {seed}, {name}, byte {at} of {}", bytes.len());
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                std::fs::write(path, damaged).unwrap();
                refused += usize::from(is_refused(&case.look(&what), &what));
            }
            std::fs::write(path, bytes).unwrap();
        }
        assert!(refused > 300, "{refused} were refused");
        assert_eq!(case.look("mended").unwrap(), case.naive.now);
        assert!(case.files() == before, "to look changes no file");
    }
}

/// The kind of a record is changed to one at which RocksDB would loop forever.
#[test]
fn a_record_that_rocksdb_would_read_for_ever_is_refused() {
    let case = Case::new(1, 0);
    for (path, bytes) in case.files() {
        let name = path.file_name().unwrap().to_string_lossy();
        if !is_wal(&path) && !name.starts_with("MANIFEST") {
            continue;
        }
        let mut at = 0;
        while at < bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at + 6] ^= 4;
            std::fs::write(&path, damaged).unwrap();
            let error = case.look("a bit of a kind").unwrap_err();
            assert!(error.to_string().contains(&format!("{name} is damaged")), "{error}");
            at += 7 + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        }
        std::fs::write(&path, bytes).unwrap();
    }
}

/// Whenever a damaged log is opened for writing, the damage is found before any file is changed.
#[test]
fn a_damaged_log_in_rocksdb_is_refused_as_often_as_it_is_opened() {
    let mut refused = 0;
    for seed in seeds(60) {
        let case = Case::new(seed % 5, 0);
        let mut dice = Dice::new(seed);
        let files = case.files();
        let (path, bytes) = &files[dice.below(files.len())];
        let mut damaged = bytes.clone();
        match dice.below(3) {
            _ if bytes.is_empty() => {}
            0 => damaged.truncate(dice.below(bytes.len())),
            1 => {
                let at = dice.below(bytes.len());
                damaged[at..bytes.len().min(at + 512)].fill(0);
            }
            _ => damaged[dice.below(bytes.len())] ^= 0x10,
        }
        std::fs::write(path, &damaged).unwrap();
        let before = case.files();
        for _ in 0..2 {
            match RocksLog::open(case.folder.path(), OWNER) {
                Ok(mut log) => assert_eq!(LogContent::of(&mut log), case.naive.now, "seed {seed}"),
                Err(_) => {
                    refused += 1;
                    assert!(case.files() == before, "seed {seed}: the evidence is there");
                }
            }
        }
    }
    assert!(refused > 20, "{refused} were refused");
}

#[test]
fn a_file_of_rocksdb_that_is_gone_or_shorter_is_found_or_not_needed() {
    for seed in seeds(4) {
        let case = Case::new(seed, 0);
        for (path, bytes) in &case.files() {
            let what = format!("seed {seed}, {}", path.display());
            for part in 0..16 {
                std::fs::write(path, &bytes[..bytes.len() * part / 16]).unwrap();
                is_refused(&case.look(&what), &what);
            }
            std::fs::remove_file(path).unwrap();
            let gone = is_refused(&case.look(&what), &what);
            assert!(gone || !is_wal(path), "{what}: it is needed");
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// Checks that data which was not synced may be torn anywhere, and that synced data is present.
#[test]
fn a_torn_tail_costs_only_what_was_not_synced() {
    for seed in seeds(3) {
        let case = Case::new(seed, 6);
        let path = wal(case.folder.path());
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() as u64 > case.synced_bytes);
        let mut seen = Vec::new();
        for length in case.synced_bytes as usize..=bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            seen.push(case.look(&format!("seed {seed}, {length} bytes")).unwrap().last());
        }
        seen.dedup();
        assert!(seen.len() > 3, "{seen:?}");
        assert_eq!(seen.last(), Some(&case.naive.now.last()));
        // One byte of the last synced batch is missing.
        std::fs::write(&path, &bytes[..case.synced_bytes as usize - 1]).unwrap();
        let error = RocksLog::open(case.folder.path(), OWNER).unwrap_err();
        assert!(error.to_string().contains("it lost its end"), "{error}");
    }
}

#[test]
fn who_only_looks_writes_nothing() {
    let case = Case::new(1, 2);
    let before = case.files();
    let mut log = RocksLog::look(case.folder.path(), OWNER).unwrap();
    assert!(matches!(log.append(&Batch::default()), Err(WriteError::Refused)));
    assert!(matches!(log.sync(), Err(WriteError::Refused)));
    assert!(matches!(log.compact(case.naive.now.last()), Err(WriteError::Refused)));
    drop(log);
    assert!(case.files() == before);
}

/// The log grows until RocksDB has written its tables and begun new WALs.
#[test]
fn a_log_in_rocksdb_outgrows_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = RocksLog::create(folder.path(), OWNER).unwrap();
    let (mut worker, mut naive) = (Worker::new(1, 4 << 20), NaiveLog::default());
    while log.bytes_written() < 100 << 20 {
        let step = worker.batch(&naive.now);
        perform(&mut log, &step).unwrap();
        naive.done(step);
        log.sync().unwrap();
        naive.done(Step::Sync);
        if naive.now.entries.len() > 40 {
            let base = Step::Compact(naive.now.entries[30].position);
            perform(&mut log, &base).unwrap();
            naive.done(base);
        }
    }
    drop(log);
    let is_table = |path: &PathBuf| path.extension().is_some_and(|end| end == "sst");
    assert!(names(folder.path()).iter().any(is_table));
    assert_eq!(LogContent::of(&mut RocksLog::open(folder.path(), OWNER).unwrap()), naive.now);
}
