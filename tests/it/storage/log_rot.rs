//! Logs with damage at any place. Opening such a log yields all entries, or only the entries before an undetectable
//! damage, or an error that names the file. It never yields other entries.

use crate::cell::histories::seeds;
use crate::storage::log::{OWNER, SMALL, create, folder, open};
use omega_cellstate::injected_bugs::{self, Bug};
use omega_store::log::segment::{LogOwner, SegmentLog, SegmentOptions};
use omega_store::log::{
    Batch, Entry, EntryKind, HardState, LogEngine, LogIndex, OpenError, Position, Promise,
    ReadError, ReplicaId, Term,
};
use omega_tests::disk::SimulatedDisk;
use omega_tests::log_reference::{LogContent, Step, Worker, perform};
use omega_tests::random::Dice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log on a disk, and its content after each step; the content after the last step comes first.
struct Case {
    disk: SimulatedDisk,
    states: Vec<LogContent>,
    /// Number of steps that the last sync included.
    last_synced: usize,
}

/// Whether the markers after the last sync exist, or the power failed before they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Written,
    Lost,
}

impl Case {
    /// Runs random operations, all of which are synced.
    fn new(seed: u64, steps: usize, marker: Marker) -> Case {
        let disk = SimulatedDisk::new(seed);
        let mut log = create(&disk).unwrap();
        let (mut worker, mut now) = (Worker::new(seed, 1500), LogContent::default());
        let mut states = vec![now.clone()];
        let (mut since, mut last_synced) = (0, 0);
        for number in 0..steps {
            let step = if number + 1 == steps { Step::Sync } else { worker.next(&now) };
            perform(&mut log, &step).unwrap();
            since += usize::from(!matches!(step, Step::Sync));
            if matches!(step, Step::Sync | Step::Restart(..)) && since > 0 {
                (since, last_synced) = (0, since);
            }
            now.apply(&step);
            states.insert(0, now.clone());
        }
        drop(log);
        if marker == Marker::Lost {
            lose_markers(&disk);
        }
        states.dedup();
        Case { disk, states, last_synced }
    }

    fn damaged(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> SimulatedDisk {
        let disk = self.disk.copy();
        disk.damage(path, change);
        disk
    }

    /// Opens a damaged log. Returns how many of the last steps are missing, or the error.
    fn missing(&self, disk: &SimulatedDisk, what: &str) -> Result<usize, OpenError> {
        let mut log = open(disk)?;
        let found = LogContent::of(&mut log);
        let at = self.states.iter().position(|held| *held == found);
        Ok(at.unwrap_or_else(|| panic!("{what}: what was never there is found")))
    }
}

/// Removes the marker after the last record, as a power failure would. A marker is a record's head without content.
pub(crate) fn lose_markers(disk: &SimulatedDisk) {
    let path = disk.files().into_iter().rfind(|path| {
        let bytes = disk.bytes(path).unwrap_or_default();
        let is_log = path.extension().is_some_and(|ending| ending == "log");
        is_log && bytes.len() > 4096 && bytes[4096..].iter().any(|byte| *byte != 0)
    });
    disk.damage(&path.expect("a log has a segment"), |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty");
        // The last non-zero byte is in the marker's second or third number.
        let start = (end / 8 * 8).saturating_sub(16);
        let start = if bytes[start..start + 4] == [0; 4] { start } else { start + 8 };
        bytes[start..].fill(0);
    });
}

fn is_used(bytes: &[u8]) -> bool {
    bytes[4096..].iter().any(|byte| *byte != 0)
}

/// Flips every bit of every used byte, one at a time.
#[test]
fn a_bit_that_flips_is_found_or_does_no_harm() {
    for seed in seeds(2) {
        let case = Case::new(seed, 25, Marker::Written);
        for path in case.disk.files() {
            let bytes = case.disk.bytes(&path).unwrap();
            for at in 0..bytes.len() {
                let bit = (at + seed as usize) % 8;
                let what = format!("seed {seed}, {}, byte {at}, bit {bit}", path.display());
                let disk = case.damaged(&path, |bytes| bytes[at] ^= 1 << bit);
                match case.missing(&disk, &what) {
                    Ok(missing) => assert_eq!(missing, 0, "{what}"),
                    Err(
                        OpenError::BadSegment(at_path)
                        | OpenError::UnknownFormat { path: at_path, .. },
                    ) => {
                        assert!(at_path == path && at < 56 || at >= 4096, "{what}");
                    }
                    Err(OpenError::OtherReplica { .. }) => {
                        panic!("{what}: it is under the checksum")
                    }
                    Err(OpenError::Corrupt { path: found, offset, .. }) => {
                        assert!(found == path && offset <= at as u64, "{what}: {offset}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
}

/// If the last marker is missing, the records of the last sync may be taken for a torn write. The possible loss is then
/// recorded until the log reaches its former end.
#[test]
fn without_a_marker_only_the_last_writes_can_be_lost() {
    let mut lost = 0;
    for seed in seeds(4) {
        let case = Case::new(seed, 25, Marker::Lost);
        for path in case.disk.files() {
            let bytes = case.disk.bytes(&path).unwrap();
            for at in (0..bytes.len()).step_by(11) {
                let what = format!("seed {seed}, {}, byte {at}", path.display());
                let disk = case.damaged(&path, |bytes| bytes[at] ^= 1);
                if let Ok(missing) = case.missing(&disk, &what) {
                    assert!(missing <= case.last_synced, "{what}: {missing} steps are missing");
                    assert_known_to_be_missing(&case, &disk, &what);
                    lost += missing;
                }
            }
        }
    }
    assert!(lost > 0, "the documents say that this can be");
}

/// Checks that the possible loss is still recorded after the log was opened several times.
fn assert_known_to_be_missing(case: &Case, disk: &SimulatedDisk, what: &str) {
    let promised = &case.states[0];
    for _ in 0..2 {
        let log = open(disk).unwrap();
        let held = Promise { last: log.bounds().last, hard_state: log.hard_state() };
        let known = log.unmet_promise().map_or(held, |doubt| held.joined(doubt));
        assert!(known.last.covers(promised.last()), "{what}: {known:?} of {promised:?}");
        assert!(known.hard_state.term >= promised.hard_state.term, "{what}: {known:?}");
    }
}

/// A possible loss is recorded until the log reaches its former end, or an operator clears it.
#[test]
fn a_torn_end_is_in_doubt_until_the_log_goes_as_far() {
    let entry = |index, term| Entry {
        position: Position { index: LogIndex(index), term: Term(term) },
        kind: EntryKind::Commands,
        data: vec![index as u8; 40].into(),
    };
    let hard_state =
        |term| HardState { term: Term(term), vote: Some(ReplicaId(2)), commit: LogIndex(1) };
    let batch = |entries, term| Batch { entries, hard_state: Some(hard_state(term)) };
    let damaged = || {
        let disk = SimulatedDisk::new(1);
        let mut log = create(&disk).unwrap();
        for index in 1..=3 {
            log.append(&batch(vec![entry(index, index)], index)).unwrap();
            log.sync().unwrap();
        }
        drop(log);
        lose_markers(&disk);
        let path = disk.files()[0].clone();
        disk.damage(&path, |bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[end] ^= 4;
        });
        disk
    };
    let missing = Promise { last: entry(3, 3).position, hard_state: hard_state(3) };

    let disk = damaged();
    let mut log = open(&disk).unwrap();
    assert_eq!(log.bounds().last, entry(2, 2).position);
    let doubt = log.unmet_promise().unwrap();
    assert_eq!((doubt.last, doubt.hard_state.term), (missing.last, Term(3)));
    log.append(&batch(Vec::new(), 3)).unwrap();
    log.sync().unwrap();
    drop(log);
    let mut log = open(&disk).unwrap();
    assert_eq!(
        log.unmet_promise().unwrap().last,
        missing.last,
        "it is remembered beside new records"
    );
    log.append(&batch(vec![entry(3, 4)], 4)).unwrap();
    assert_eq!(log.unmet_promise(), None, "a later leader's entry");
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().unmet_promise(), None);

    let disk = damaged();
    let mut log = open(&disk).unwrap();
    log.accept_torn_tail().unwrap();
    assert_eq!(log.unmet_promise(), None);
    drop(log);
    assert_eq!(open(&disk).unwrap().unmet_promise(), None);

    let disk = damaged();
    let mut log = open(&disk).unwrap();
    log.restart(entry(5, 2).position, hard_state(3)).unwrap();
    assert_eq!(
        log.unmet_promise(),
        None,
        "a snapshot that holds what is missing, or what replaced it"
    );
}

#[test]
fn random_damage_is_never_another_log() {
    for seed in seeds(3000) {
        let mut dice = Dice::new(seed);
        let case = Case::new(seed % 30, 40, Marker::Written);
        let disk = case.disk.copy();
        let mut what = format!("seed {seed}");
        for _ in 0..1 + dice.below(2) {
            what = format!("{what}; {}", disk.rot(&mut dice));
        }
        // Any result is acceptable; `missing` panics if the log has other entries.
        drop(case.missing(&disk, &what));
    }
}

#[test]
fn a_shorter_or_missing_file_is_found() {
    for seed in seeds(20) {
        let case = Case::new(seed, 40, Marker::Written);
        for path in case.disk.files() {
            let bytes = case.disk.bytes(&path).unwrap();
            let what = format!("seed {seed}, {}", path.display());
            for length in [0, 10, 4096, bytes.len() - 1] {
                let cut = case.damaged(&path, |bytes| bytes.truncate(length));
                check_cut(&case, &cut, &path, &format!("{what} cut to {length}"));
            }
            if is_used(&bytes) {
                let gone = case.disk.copy();
                omega_store::Disk::remove(&gone, &path).unwrap();
                match case.missing(&gone, &what) {
                    Ok(missing) => assert_eq!(missing, 0, "{what}: a file that is not needed"),
                    Err(OpenError::SegmentMissing(at)) => assert_eq!(at, path, "{what}"),
                    Err(OpenError::Missing(_)) => assert_eq!(case.disk.files().len(), 1),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
}

fn check_cut(case: &Case, disk: &SimulatedDisk, path: &PathBuf, what: &str) {
    match case.missing(disk, what) {
        // The segment is obsolete, so its damage has no effect.
        Ok(missing) => assert_eq!(missing, 0, "{what}"),
        Err(OpenError::BadSegment(at)) => assert_eq!(at, *path, "{what}"),
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Random bytes after the end, which a file system may leave after a crash, are not part of the log.
#[test]
fn rubbish_behind_the_end_is_cut() {
    for seed in seeds(200) {
        let mut dice = Dice::new(seed);
        let case = Case::new(seed % 20, 20, Marker::Lost);
        let path =
            case.disk.files().into_iter().rfind(|path| is_used(&case.disk.bytes(path).unwrap()));
        let disk = case.damaged(&path.unwrap(), |bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 40;
            let end = end.min(bytes.len());
            bytes[end..].iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
        });
        assert_eq!(case.missing(&disk, "rubbish").unwrap(), 0, "seed {seed}");
    }
}

/// Records of another replica's log are invalid in this one, at any offset.
#[test]
fn records_of_another_log_do_not_count() {
    let (ours, theirs) = (SimulatedDisk::new(1), SimulatedDisk::new(2));
    let other = LogOwner { replica: ReplicaId(4), ..OWNER };
    let mut log = SegmentLog::create(Arc::new(theirs.clone()), folder(), other, SMALL).unwrap();
    let (mut worker, mut now) = (Worker::new(1, 500), LogContent::default());
    for _ in 0..8 {
        let step = worker.next(&now);
        perform(&mut log, &step).unwrap();
        now.apply(&step);
    }
    drop(create(&ours).unwrap());
    let path = ours.files()[0].clone();
    let foreign = theirs.bytes(&path).unwrap();
    ours.damage(&path, |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8;
        bytes[end..].copy_from_slice(&foreign[end..]);
    });
    assert_eq!(LogContent::of(&mut open(&ours).unwrap()), LogContent::default());
}

#[test]
fn damage_after_the_opening_is_found_by_the_read() {
    let options = SegmentOptions { segment_bytes: 64 << 10, ..SMALL };
    let disk = SimulatedDisk::new(1);
    let shared = Arc::new(disk.clone());
    let mut log = SegmentLog::create(shared, folder(), OWNER, options).unwrap();
    let (mut worker, mut now) = (Worker::new(5, 500), LogContent::default());
    while now.entries.len() < 20 {
        let step = Step::Append(loop {
            if let Step::Append(batch) = worker.next(&now) {
                break batch;
            }
        });
        perform(&mut log, &step).unwrap();
        now.apply(&step);
    }
    let wanted = now.entries.iter().find(|entry| entry.data.len() > 8).unwrap();
    let path = disk.files()[0].clone();
    disk.damage(&path, |bytes| {
        let at = bytes.windows(wanted.data.len()).position(|part| *part == wanted.data[..]);
        bytes[at.unwrap()] ^= 1;
    });
    let error = log.read(now.base.index.next(), usize::MAX, &mut Vec::new()).unwrap_err();
    let ReadError::Corrupt { index, .. } = &error else { panic!("{error}") };
    assert_eq!(*index, wanted.position.index);
    assert!(error.to_string().contains("was damaged"), "{error}");
}

/// With the bug `CorruptMiddleCut`, everything after a damaged record is silently lost. The simulation does not find
/// this bug.
#[test]
fn damage_inside_a_log_is_no_torn_end() {
    let lost = |bug| {
        injected_bugs::with(bug, || {
            let case = Case::new(1, 25, Marker::Written);
            let is_log = |path: &PathBuf| {
                case.disk.bytes(path).is_some_and(|bytes| bytes.len() > 4096 && is_used(&bytes))
            };
            let path = case.disk.files().into_iter().rfind(is_log).unwrap();
            let used = case.disk.bytes(&path).unwrap();
            let end = used.iter().rposition(|byte| *byte != 0).unwrap();
            (4096..end).any(|at| {
                let disk = case.damaged(&path, |bytes| bytes[at] ^= 1);
                let missing = case.missing(&disk, &format!("byte {at}"));
                missing.is_ok_and(|missing| missing > 0)
            })
        })
    };
    assert!(!lost(None));
    assert!(lost(Some(Bug::CorruptMiddleCut)), "the mistake shows here");
}
