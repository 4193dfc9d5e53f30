//! Question: what does a snapshot of a large cell cost, how long do commands wait for it, and how long does a replica
//! take to start from a snapshot?
//!
//! A pause is one step under the cell's lock: the beginning of the capture, or the capture of some pieces. Between two
//! steps commands are applied, as in a cell under load; some commands copy a page first. The figure is the longest
//! pause.

use crate::measure::cells;
use crate::measure::clock::{Figure, Span, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED, restart};
use omega_cellstate::{Cell, SnapshotState};
use omega_core::{Command, JobId, TaskId, TaskReport, TaskState};
use omega_store::log::{LogIndex, Position, Term};
use omega_store::snapshot::{Meta, Snapshots};
use omega_store::{CellId, RealDisk};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::sync::Arc;

pub(crate) const WORKLOAD: &str = "100,000 machines, 1 M placed tasks; commands in between; files in the folder for temporary files; restart: a tenth in a hurry";

const MACHINES: usize = 100_000;
const TASKS: usize = 1_000_000;

/// Number of pieces that are captured in one step, which takes less than a millisecond.
const PIECES: usize = 16;

/// Number of commands between two steps.
const COMMANDS: usize = 20;

const POSITION: Position = Position { index: LogIndex(1), term: Term(1) };

/// Time that each part of a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) pause: Span,
    capture: Span,
    save: Span,
    restore: Span,
    bytes: f64,
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for each in [5, 1] {
        let mut cell = cells::full(MACHINES, TASKS, each);
        let runs: Vec<Spent> = (0..options.runs()).map(|run| spent(&mut cell, run)).collect();
        let median = |of: fn(&Spent) -> Span| {
            Figure::median(&runs.iter().map(|run| of(run).each(1)).collect::<Vec<_>>())
        };
        let row = |what: &str, of| {
            Row::time(format!("{what}, {each}-task jobs"), Unit::Millis, median(of))
        };
        rows.push(row("longest pause", |run| run.pause).reach(Reach::AtMost(5.0)));
        rows.push(row("capture, all steps", |run| run.capture));
        rows.push(row("write", |run| run.save));
        let both = |run: &Spent| {
            let mut both = run.capture;
            both += run.save;
            both
        };
        rows.push(row("capture and write", both).reach(Reach::AtMost(1000.0)));
        rows.push(row("read and restore", |run| run.restore).reach(Reach::AtMost(2000.0)));
        let bytes = runs[0].bytes / TASKS as f64;
        rows.push(Row::value(format!("file per task, {each}-task jobs"), Unit::Bytes, bytes));
    }
    rows.extend(restart::rows(options));
    rows
}

fn spent(cell: &mut Cell, run: usize) -> Spent {
    let folder = std::env::temp_dir().join(format!("omega-snapshot-{}", std::process::id()));
    let snapshots = Snapshots::open(Arc::new(RealDisk), &folder, CellId(1));
    let snapshots = snapshots.expect("there is a folder for temporary files");
    let mut spent = Spent::default();
    let snapshot = capture(cell, run, &mut spent);
    let meta = Meta { cell: CellId(1), position: POSITION, replica_meta: Default::default() };
    let (saved, save) = timed(|| {
        let saved = snapshots.save(&meta, &snapshot);
        drop(snapshot);
        saved
    });
    saved.expect("there is room for temporary files");
    spent.save = save;
    let (restored, restore) = timed(|| snapshots.restore(POSITION));
    spent.restore = restore;
    let (_, restored) = restored.expect("what was saved is restored");
    assert_eq!(restored.jobs().count(), cell.jobs().count(), "the restored cell is complete");
    let file = std::fs::metadata(snapshots.path(POSITION));
    spent.bytes = file.map_or(f64::NAN, |file| file.len() as f64);
    std::fs::remove_dir_all(&folder).expect("our own folder can be removed");
    spent
}

/// Captures a state while commands continue.
pub(super) fn capture(cell: &mut Cell, run: usize, spent: &mut Spent) -> SnapshotState {
    let mut rng = Pcg64::seed_from_u64(SEED + run as u64);
    let jobs = cell.jobs().count() as u64;
    let mut longest = Span::default();
    let mut step = |span: Span| {
        spent.capture += span;
        if span.cpu > spent.pause.cpu {
            spent.pause = span;
        }
    };
    step(timed(|| cell.begin_capture()).1);
    let captured = loop {
        for _ in 0..COMMANDS {
            let job = JobId(rng.random_range(0..jobs));
            let ((), span) = timed(|| restart(cell, job));
            longest = if span.cpu > longest.cpu { span } else { longest };
        }
        let (captured, span) = timed(|| cell.capture_more(PIECES));
        step(span);
        if let Some(captured) = captured {
            break captured;
        }
    };
    let (snapshot, span) = timed(|| captured.into_snapshot_state());
    spent.capture += span;
    if longest.cpu > spent.pause.cpu {
        spent.pause = longest;
    }
    snapshot
}

/// Reports the first task of a job as lost, and places it again.
fn restart(cell: &mut Cell, job: JobId) {
    let task = TaskId { job, index: 0 };
    let Some(machine) = cell.task(task).and_then(TaskState::machine) else { return };
    let report = TaskReport::Lost;
    cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }).expect("it runs there");
    cell.apply(Command::AdoptTask { task, machine }).expect("it ran there before");
}
