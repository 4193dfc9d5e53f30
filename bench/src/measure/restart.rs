//! Question: how long does a replica of a large cell take to start?
//!
//! The replica has a snapshot, and a log with jobs and transactions that place ten tasks each. It is started as in
//! production. It is ready when it has become leader, applied the whole log, and answered a read. Processor time is
//! that of the whole process.

use crate::measure::Options;
use crate::measure::cells;
use crate::measure::clock::{Figure, timed_on_all_threads};
use crate::measure::show::{Reach, Row, Unit};
use omega_cellstate::{Cell, CellHandle};
use omega_core::{
    Claim, Command, JobId, MachineId, Outcome, SequenceNumber, TaskId, Transaction, TransactionId,
};
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::replica::{Network, ReplicatedCell, Running, Settings, bootstrap_with, start};
use omega_store::{CellId, Origin, RealDisk};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MACHINES: usize = 100_000;
const TASKS: usize = 1_000_000;
const TXNS: usize = 100_000;

/// Number of claims of a transaction.
const CLAIMS: usize = 10;

/// Divisor of the sizes with `--quick`.
const HURRY: usize = 10;

const TICK: Duration = Duration::from_millis(50);
const ID: ReplicaId = ReplicaId(1);

pub(super) fn rows(options: &Options) -> Vec<Row> {
    let less = if options.quick { HURRY } else { 1 };
    let (machines, tasks, txns) = (MACHINES / less, TASKS / less, TXNS / less);
    let folder = tempfile::tempdir_in(options.folder()).expect("the folder can be written");
    let path = folder.path().join("r1");
    let cell = cells::full(machines, tasks, CLAIMS);
    make(&path, &cell);
    let version = write_log(&path, txns);
    drop(cell);
    let figures: Vec<Figure> = (0..options.runs()).map(|_| once(&path, version)).collect();
    let what = format!("restart: {}k machines, {}k txns of 10", machines / 1000, txns / 1000);
    let row = Row::time(what, Unit::Millis, Figure::median(&figures));
    vec![row.reach(Reach::AtMost(3000.0))]
}

/// Creates the directory of the only replica of a cell with this state.
fn make(path: &Path, cell: &Cell) {
    let origin = Origin { cell: CellId(1), kinds: cell.kinds().clone() };
    let identity = Identity { origin, replica: ID, engine: EngineKind::Segment };
    let directory = Directory::create(Arc::new(RealDisk), path, identity);
    let directory = directory.expect("the folder is new");
    bootstrap_with(&directory, &Membership::initial([ID]), cell).expect("the disk has room");
}

/// Starts the replica, configured to take no further snapshots.
fn run(path: &Path) -> (Running, ReplicatedCell) {
    let directory = Directory::open(Arc::new(RealDisk), path, Expected::default());
    let directory = directory.expect("it was made");
    let (snapshot_bytes, log_bytes_max) = (u64::MAX, u64::MAX);
    let settings = Settings { snapshot_bytes, log_bytes_max, ..Settings::default() };
    let started = start(directory, settings).expect("what was kept starts");
    let running = Running::start(started, Network::default().port(ID), TICK);
    let cell = ReplicatedCell::new(&running);
    cell.catch_up_with_all().expect("the only replica leads");
    (running, cell)
}

/// Writes transactions to the log. Returns the cell's version after them.
fn write_log(path: &Path, txns: usize) -> u64 {
    let (running, cell) = run(path);
    let (scheduler, first) = cell.register("restart".into()).expect("a scheduler registers");
    let machines: Vec<MachineId> = cell.read(|cell| cell.machines().map(|m| m.id).collect());
    let jobs = cells::small_jobs(0, txns * CLAIMS, CLAIMS).map(Command::SubmitJob);
    let jobs = cell.apply_all(jobs).into_iter().map(|answer| match answer {
        Ok(Outcome::Job(job)) => job,
        other => panic!("a small job is taken: {other:?}"),
    });
    let txn = |(number, job): (usize, JobId)| {
        let claim = |index: usize| {
            Claim::new(
                TaskId { job, index: index as u32 },
                machines[(number * CLAIMS + index) % machines.len()],
                SequenceNumber(0),
            )
        };
        let id = TransactionId { scheduler, number: first + number as u64 };
        let claims = (0..CLAIMS).map(claim).collect();
        Command::Commit(Transaction::new(id, cell.read(Cell::version), claims))
    };
    let txns: Vec<Command> = jobs.enumerate().map(txn).collect();
    for answer in cell.apply_all(txns) {
        let Ok(Outcome::Commit(commit)) = answer else { panic!("no commit: {answer:?}") };
        assert!(commit.is_complete(), "a small task fits");
    }
    let version = cell.read(|cell| cell.version().0);
    running.end();
    version
}

fn once(path: &Path, version: u64) -> Figure {
    let ((running, cell), span) = timed_on_all_threads(|| run(path));
    assert_eq!(cell.read(|cell| cell.version().0), version, "all of the log is applied");
    running.end();
    span.each(1)
}
