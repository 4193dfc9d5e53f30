//! Question: what does it cost to sync a batch of log entries to the disk, and with which engine is it cheapest?
//!
//! The bare figure is the disk's time for the same bytes in a preallocated file, with one write and one fdatasync.
//! Processor time is that of the whole process, because some engines have their own threads. The engines alternate, so
//! that other users of the disk disturb all of them; the figures are medians.
//!
//! The segment engine is measured in two states. In the state *growing*, each new segment is filled with zeros. In the
//! state *compacted*, old segments are reused, as after a snapshot.

mod raw;
#[cfg(feature = "engines")]
mod stores;
mod subject;

use crate::measure::Options;
use crate::measure::clock::{Figure, timed_on_all_threads};
use crate::measure::show::{Row, Unit};
use omega_store::RealDisk;
use omega_store::log::Batch;
use omega_store::log::memory::MemoryLog;
use omega_store::log::segment::{SegmentLog, SegmentOptions};
use std::path::Path;
use std::sync::Arc;
use subject::{ENTRY_BYTES, Engine, OWNER, Subject, batch};

pub(crate) const WORKLOAD: &str =
    "batches of 256-byte entries, each synced; bare: a preallocated file";

/// Entries in a batch, and batches in a run. A run writes some tens of MB at most.
const SIZES: [(usize, usize); 4] = [(1, 1000), (16, 600), (256, 400), (4096, 40)];

/// Number of runs. A disk sync is so slow that more runs would take minutes.
const RUNS: usize = 3;

/// Bytes of log after which the compacted engine truncates the log, as after snapshots of a small cell.
const COMPACT_BYTES: usize = 24 << 20;

/// Function that creates a measured log in an empty folder.
type Make = fn(&Path) -> Box<dyn Subject>;

fn subjects() -> Vec<(&'static str, Make)> {
    let ours: [(&'static str, Make); 5] = [
        ("a file, preallocated", |folder| Box::new(raw::RawFile::preallocated(folder))),
        ("a file, appended", |folder| Box::new(raw::RawFile::appended(folder))),
        ("segments, growing", |folder| Box::new(segments(folder, 0))),
        ("segments, compacted", |folder| {
            let mut engine = segments(folder, COMPACT_BYTES);
            engine.fill(SegmentOptions::default().segment_bytes * 3);
            Box::new(engine)
        }),
        ("memory", |_| Box::new(Engine::new(Box::new(MemoryLog::default()), 0))),
    ];
    ours.into_iter().chain(rocks()).chain(foreign()).collect()
}

#[cfg(feature = "rocksdb")]
fn rocks() -> Vec<(&'static str, Make)> {
    vec![("RocksDB", |folder| {
        let log = omega_store::log::rocks::RocksLog::create(&folder.join("log"), OWNER);
        Box::new(Engine::new(Box::new(log.expect("the disk works")), 0))
    })]
}

#[cfg(not(feature = "rocksdb"))]
fn rocks() -> Vec<(&'static str, Make)> {
    Vec::new()
}

#[cfg(feature = "engines")]
fn foreign() -> Vec<(&'static str, Make)> {
    vec![
        ("redb", |folder| Box::new(stores::Redb::create(folder))),
        ("fjall", |folder| Box::new(stores::Fjall::create(folder))),
    ]
}

#[cfg(not(feature = "engines"))]
fn foreign() -> Vec<(&'static str, Make)> {
    Vec::new()
}

fn segments(folder: &Path, compact_bytes: usize) -> Engine {
    let options = SegmentOptions::default();
    let log = SegmentLog::create(Arc::new(RealDisk), folder, OWNER, options);
    Engine::new(Box::new(log.expect("the disk works")), compact_bytes)
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    // The folder is emptied for each run, so it is a separate one.
    let folder = options.folder().join("omega-bench-log");
    let subjects = subjects();
    let mut rows = Vec::new();
    for (entries, batches) in SIZES {
        let figures = by_turns(options, &folder, &subjects, (entries, options.work(batches)));
        let bare = figures[0].append;
        for ((name, _), costs) in subjects.iter().zip(&figures) {
            let plural = if entries == 1 { "entry" } else { "entries" };
            let what = format!("{entries} {plural} a batch: {name}");
            rows.push(Row::time(what, Unit::Micros, costs.append).beside(bare));
        }
        if entries == 256 {
            rows.extend(others(&subjects, &figures));
        }
    }
    // Files that cannot be removed now are removed by the next run.
    drop(std::fs::remove_dir_all(&folder));
    rows
}

/// Costs of one engine.
#[derive(Clone, Copy, Debug)]
struct Costs {
    append: Figure,
    read: Figure,
    compact: Figure,
    /// Bytes on the disk for each byte of data.
    bytes: f64,
}

/// Further figures, for one batch size.
fn others(subjects: &[(&'static str, Make)], figures: &[Costs]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((name, _), costs) in subjects.iter().zip(figures).skip(2) {
        rows.push(Row::time(format!("  to read an entry: {name}"), Unit::Nanos, costs.read));
        let what = format!("  to forget half of it: {name}");
        rows.push(Row::time(what, Unit::Millis, costs.compact));
        let what = format!("  bytes on disk for one of data: {name}");
        rows.push(Row::value(what, Unit::Times, costs.bytes));
    }
    rows
}

/// Medians of each subject, over runs that alternate between the subjects.
fn by_turns(
    options: &Options,
    folder: &Path,
    subjects: &[(&'static str, Make)],
    size: (usize, usize),
) -> Vec<Costs> {
    let mut runs = vec![Vec::new(); subjects.len()];
    for _ in 0..options.runs().min(RUNS) {
        for ((_, make), runs) in subjects.iter().zip(&mut runs) {
            drop(std::fs::remove_dir_all(folder));
            std::fs::create_dir_all(folder).expect("the folder of the measurement can be made");
            runs.push(one_run(&mut *make(folder), size));
        }
    }
    let figure = |runs: &[Costs], part: fn(&Costs) -> Figure| {
        Figure::median(&runs.iter().map(part).collect::<Vec<_>>())
    };
    let costs = |runs: Vec<Costs>| Costs {
        append: figure(&runs, |costs| costs.append),
        read: figure(&runs, |costs| costs.read),
        compact: figure(&runs, |costs| costs.compact),
        bytes: runs[runs.len() / 2].bytes,
    };
    runs.into_iter().map(costs).collect()
}

fn one_run(subject: &mut dyn Subject, (entries, count): (usize, usize)) -> Costs {
    let first = subject.next();
    let batches: Vec<Batch> =
        (0..count).map(|i| batch(first + (i * entries) as u64, entries)).collect();
    let ((), span) =
        timed_on_all_threads(|| batches.iter().for_each(|batch| subject.append(batch)));
    let append = span.each(count);
    let held = subject.held();
    let bytes = subject.bytes_on_disk() as f64 / (held.max(1) * ENTRY_BYTES as u64) as f64;
    let (read, span) = timed_on_all_threads(|| subject.read());
    assert_eq!(read, held, "all entries come back");
    let read = span.each(held.max(1) as usize);
    let ((), span) = timed_on_all_threads(|| subject.forget(held / 2));
    Costs { append, read, compact: span.each(1), bytes }
}
