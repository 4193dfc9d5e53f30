//! Every log engine compared with the naive log, and the segment engine on a disk that crashes,
//! fails and fills up at every operation. `rocks.rs` tests RocksDB.

use crate::cell::histories::seeds;
use omega_store::CellId;
use omega_store::log::memory::MemoryLog;
use omega_store::log::segment::{LogOwner, SegmentLog, SegmentOptions};
use omega_store::log::{
    Batch, CreateError, HardState, LogEngine, LogIndex, OpenError, Position, ReplicaId, Term,
    WriteError,
};
use omega_tests::disk::{Operation, SimulatedDisk};
use omega_tests::log_reference::{LogContent, NaiveLog, Step, Worker, compare, perform};
use omega_tests::random::Dice;
use std::path::Path;
use std::sync::Arc;

pub(crate) const OWNER: LogOwner = LogOwner { cell: CellId(7), replica: ReplicaId(3) };

/// Small segments, so that a short test has many.
pub(crate) const SMALL: SegmentOptions = SegmentOptions { segment_bytes: 8 << 10, reused_max: 2 };

pub(crate) fn folder() -> &'static Path {
    Path::new("")
}

pub(crate) fn create(disk: &SimulatedDisk) -> Result<SegmentLog, CreateError> {
    SegmentLog::create(Arc::new(disk.clone()), folder(), OWNER, SMALL)
}

pub(crate) fn open(disk: &SimulatedDisk) -> Result<SegmentLog, OpenError> {
    SegmentLog::open(Arc::new(disk.clone()), folder(), OWNER, SMALL)
}

/// Applies random operations to an engine and to the naive log, and compares them after each step. `again` closes and
/// reopens the engine.
pub(crate) fn check(
    seed: u64,
    mut log: Box<dyn LogEngine>,
    again: impl Fn(Box<dyn LogEngine>) -> Box<dyn LogEngine>,
) {
    let mut worker = Worker::new(seed, 3000);
    let mut dice = Dice::new(seed);
    let mut naive = NaiveLog::default();
    for number in 0..150 {
        let step = worker.next(&naive.now);
        perform(&mut *log, &step).unwrap();
        if dice.chance(20) {
            log.prepare().unwrap();
        }
        naive.done(step);
        let told = |error| panic!("seed {seed}, step {number}: {error}");
        compare(&mut *log, &naive.now, &mut dice).unwrap_or_else(told);
        if dice.chance(5) {
            log.sync().unwrap();
            log = again(log);
            compare(&mut *log, &naive.now, &mut dice).unwrap_or_else(told);
        }
    }
    assert!(LogContent::of(&mut *log) == naive.now, "seed {seed}");
}

#[test]
fn a_log_in_memory_is_as_the_naive_one() {
    for seed in seeds(200) {
        check(seed, Box::new(MemoryLog::default()), |log| log);
    }
}

#[test]
fn a_log_in_segments_is_as_the_naive_one() {
    for seed in seeds(200) {
        let disk = SimulatedDisk::new(seed);
        check(seed, Box::new(create(&disk).unwrap()), |log| {
            drop(log);
            Box::new(open(&disk).unwrap())
        });
    }
}

#[test]
fn a_log_in_segments_on_a_real_disk_is_as_the_naive_one() {
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds(10) {
        let path = folder.path().join(seed.to_string());
        std::fs::create_dir(&path).unwrap();
        let disk = Arc::new(omega_store::RealDisk);
        let log = SegmentLog::create(disk.clone(), &path, OWNER, SMALL).unwrap();
        check(seed, Box::new(log), |log| {
            drop(log);
            Box::new(SegmentLog::open(disk.clone(), &path, OWNER, SMALL).unwrap())
        });
    }
}

/// Works until an operation fails, or all steps are done.
fn work(
    log: &mut SegmentLog,
    naive: &mut NaiveLog,
    worker: &mut Worker,
    steps: usize,
) -> Result<(), WriteError> {
    for _ in 0..steps {
        let step = worker.next(&naive.now);
        match perform(log, &step) {
            Ok(()) => naive.done(step),
            Err(WriteError::Full { .. }) => return Err(WriteError::Full { path: "full".into() }),
            Err(error) => {
                naive.perhaps(step);
                return Err(error);
            }
        }
        if naive.now.last().index.0.is_multiple_of(3) {
            log.prepare()?;
        }
    }
    Ok(())
}

/// Opens a log after a fault. If its content is allowed, the naive log gets the same content.
fn reopen(disk: &SimulatedDisk, naive: &mut NaiveLog, what: &str) -> SegmentLog {
    let mut log = open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = LogContent::of(&mut log);
    naive.reopened(found).unwrap_or_else(|error| panic!("{what}: {error}"));
    log
}

/// The power fails at each operation in turn, including those of reopening.
#[test]
fn after_a_crash_at_any_operation_all_that_was_synced_is_there() {
    for seed in seeds(150) {
        let mut dice = Dice::new(seed);
        let disk = SimulatedDisk::new(seed);
        let mut log = create(&disk).unwrap();
        let (mut naive, mut worker) = (NaiveLog::default(), Worker::new(seed, 2500));
        for crash in 0..12 {
            let what = format!("seed {seed}, crash {crash}");
            disk.fail(Operation::PowerCut, dice.below(120) as u64);
            let error = work(&mut log, &mut naive, &mut worker, 100);
            // Without power, the next segment cannot be made either.
            let is_full = matches!(error, Err(WriteError::Full { .. }));
            assert!(!is_full || !disk.has_power(), "{what}: {error:?}");
            disk.crash(&mut dice);
            // The power also fails during opening.
            for _ in 0..dice.below(4) {
                disk.fail(Operation::PowerCut, dice.below(6) as u64);
                drop(open(&disk));
                disk.crash(&mut dice);
            }
            log = reopen(&disk, &mut naive, &what);
        }
    }
}

/// The writes of a killed process are in the page cache: the next process can read them, but they are not durable. So
/// opening a log must sync what it found.
#[test]
fn what_an_opening_found_is_safe() {
    for seed in seeds(100) {
        let disk = SimulatedDisk::new(seed);
        let (mut naive, mut worker) = (NaiveLog::default(), Worker::new(seed, 2500));
        let mut log = create(&disk).unwrap();
        work(&mut log, &mut naive, &mut worker, 40).unwrap();
        drop(log);
        let mut log = reopen(&disk, &mut naive, "killed");
        let before = LogContent::of(&mut log);
        disk.crash(&mut Dice::new(seed));
        let mut log = open(&disk).unwrap();
        assert!(LogContent::of(&mut log) == before, "seed {seed}");
    }
}

/// Each write, sync, rename, and sync of a folder fails in turn. If only the next segment was concerned, the log
/// continues.
#[test]
fn after_a_failure_the_log_refuses_and_what_was_synced_is_there() {
    let mut continued = 0;
    let kinds = [Operation::Write, Operation::Sync, Operation::Name, Operation::FolderSync];
    for kind in kinds {
        for before in 0..60 {
            for seed in seeds(6) {
                let what = format!("{kind:?} {before} fails, seed {seed}");
                let disk = SimulatedDisk::new(seed);
                let mut log = create(&disk).unwrap();
                let (mut naive, mut worker) = (NaiveLog::default(), Worker::new(seed, 2500));
                disk.fail(kind, before);
                match work(&mut log, &mut naive, &mut worker, 100) {
                    Ok(()) => {}
                    Err(WriteError::Full { .. }) => {
                        let again = work(&mut log, &mut naive, &mut worker, 20);
                        again.unwrap_or_else(|error| panic!("{what}: {error}"));
                        continued += 1;
                    }
                    Err(_) => {
                        assert!(matches!(kind, Operation::Write | Operation::Sync), "{what}");
                        let empty = Batch::default();
                        assert!(matches!(log.append(&empty), Err(WriteError::Refused)), "{what}");
                        assert!(matches!(log.sync(), Err(WriteError::Refused)), "{what}");
                    }
                }
                drop(log);
                disk.mend();
                let mut log = reopen(&disk, &mut naive, &what);
                // The entries that were found when the log was opened are durable, even if the operating system marks
                // pages as clean although they were never written.
                let before = LogContent::of(&mut log);
                disk.crash(&mut Dice::new(seed));
                let mut log = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(LogContent::of(&mut log) == before, "{what}");
            }
        }
    }
    assert!(continued > 0, "the next segment could not be made at times");
}

/// A full disk is not a failure: nothing was written, and the log continues when there is space again.
#[test]
fn a_full_disk_stops_nothing_for_ever() {
    let mut full = 0;
    for seed in seeds(100) {
        let mut dice = Dice::new(seed);
        let disk = SimulatedDisk::new(seed);
        let (mut naive, mut worker) = (NaiveLog::default(), Worker::new(seed, 2500));
        let mut log = create(&disk).unwrap();
        disk.set_capacity(Some(disk.used() + dice.below(60_000) as u64));
        for _ in 0..10 {
            if let Err(error) = work(&mut log, &mut naive, &mut worker, 40) {
                assert!(matches!(error, WriteError::Full { .. }), "seed {seed}: {error}");
                full += 1;
                compare(&mut log, &naive.now, &mut dice).unwrap();
                // Compaction is possible at any time, and frees space for the next segment.
                let base = naive.now.last();
                log.compact(base).unwrap();
                naive.done(Step::Compact(base));
                log.sync().unwrap();
                naive.done(Step::Sync);
                if dice.chance(30) {
                    drop(log);
                    log = reopen(&disk, &mut naive, &format!("seed {seed}"));
                }
                if dice.chance(30) {
                    disk.set_capacity(Some(disk.used() + 20_000));
                }
            }
        }
    }
    assert!(full > 100, "the disk was full {full} times");
}

#[test]
fn a_creation_that_was_cut_short_leaves_no_log_or_an_empty_one() {
    for cut in 0..12 {
        for seed in seeds(30) {
            let disk = SimulatedDisk::new(seed);
            disk.fail(Operation::PowerCut, cut);
            let created = create(&disk).is_ok();
            disk.crash(&mut Dice::new(seed));
            match open(&disk) {
                Ok(mut log) => assert_eq!(LogContent::of(&mut log), LogContent::default()),
                Err(OpenError::Missing(_)) => {
                    assert!(!created, "cut {cut}, seed {seed}");
                    create(&disk).unwrap();
                }
                Err(error) => panic!("cut {cut}, seed {seed}: {error}"),
            }
        }
    }
}

#[test]
fn a_log_that_cannot_be_opened_says_why() {
    let disk = SimulatedDisk::new(1);
    assert!(matches!(open(&disk), Err(OpenError::Missing(_))));
    let log = create(&disk).unwrap();
    assert!(matches!(open(&disk), Err(OpenError::Locked(_))));
    drop(log);
    assert!(matches!(create(&disk), Err(CreateError::Exists(_))));
    let other = LogOwner { replica: ReplicaId(4), ..OWNER };
    let error = SegmentLog::open(Arc::new(disk.clone()), folder(), other, SMALL).unwrap_err();
    assert!(matches!(error, OpenError::OtherReplica { .. }));
    assert!(error.to_string().contains("belongs to replica r3 of cell"), "{error}");
    let path = disk.files()[0].clone();
    disk.damage(&path, |bytes| bytes[8] = 9);
    let error = open(&disk).unwrap_err();
    assert!(error.to_string().contains("has format 9, but this program reads 1"), "{error}");
    disk.damage(&path, |bytes| bytes[0] = 9);
    assert!(matches!(open(&disk), Err(OpenError::BadSegment(_))));
}

/// A batch may be larger than a segment.
#[test]
fn a_long_batch_gets_a_segment_of_its_own() {
    let disk = SimulatedDisk::new(1);
    let mut log = create(&disk).unwrap();
    let (mut naive, mut worker) = (NaiveLog::default(), Worker::new(1, 200_000));
    work(&mut log, &mut naive, &mut worker, 60).unwrap();
    assert!(log.bytes_on_disk() > 100_000);
    drop(log);
    let mut log = open(&disk).unwrap();
    assert!(LogContent::of(&mut log) == naive.now);
}

#[test]
fn room_is_used_again() {
    let disk = SimulatedDisk::new(1);
    let mut log = create(&disk).unwrap();
    let mut naive = NaiveLog::default();
    let mut worker = Worker::new(1, 2500);
    let mut most = 0;
    for _ in 0..100 {
        work(&mut log, &mut naive, &mut worker, 20).unwrap();
        let base = naive.now.last();
        log.compact(base).unwrap();
        naive.done(Step::Compact(base));
        log.sync().unwrap();
        naive.done(Step::Sync);
        most = most.max(disk.used());
    }
    assert_eq!(log.bytes_on_disk(), disk.used());
    assert!(most < 400_000, "{most} bytes for {} written", log.bytes_written());
}

#[test]
fn a_restart_is_safe_at_once() {
    let disk = SimulatedDisk::new(1);
    let mut log = create(&disk).unwrap();
    let (mut naive, mut worker) = (NaiveLog::default(), Worker::new(1, 2500));
    work(&mut log, &mut naive, &mut worker, 60).unwrap();
    let base = Position { index: LogIndex(10_000), term: Term(50) };
    let hard_state = HardState { term: Term(51), vote: None, commit: LogIndex(10_000) };
    log.restart(base, hard_state).unwrap();
    disk.crash(&mut Dice::new(1));
    let mut log = open(&disk).unwrap();
    assert_eq!(LogContent::of(&mut log), LogContent { base, entries: Vec::new(), hard_state });
    assert_eq!(log.bytes_on_disk(), disk.used());
}
