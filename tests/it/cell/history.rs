//! Replay of a replica's directory, compared with applying the commands one by one.

use omega_cellstate::Cell;
use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, MachineId, TaskGroup, Version};
use omega_store::directory::{Directory, EngineKind, Identity};
use omega_store::history::{self, HistoryError, ReplayOptions, ReplayScope};
use omega_store::log::ReplicaId;
use omega_store::log::segment::SegmentOptions;
use omega_store::membership::Membership;
use omega_store::replica::{
    Network, ReplicatedCell, RequestError, Running, Settings, bootstrap, start,
};
use omega_store::{CellId, Origin, RealDisk};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A replica that is the only one of its cell, and takes a snapshot every `snapshot_bytes`.
fn replica(path: &Path, engine: EngineKind, snapshot_bytes: u64) -> Running {
    let origin = Origin { cell: CellId(7), kinds: Kinds::standard() };
    let identity = Identity { origin, replica: ReplicaId(1), engine };
    // Segments are small, so that there are many; opening small ones is fast.
    let options = SegmentOptions { segment_bytes: 16 << 10, ..SegmentOptions::default() };
    let directory = Directory::create_with(Arc::new(RealDisk), path, identity, options).unwrap();
    bootstrap(&directory, &Membership::initial([ReplicaId(1)])).unwrap();
    let settings = Settings { snapshot_bytes, log_keep_bytes: 256, ..Settings::default() };
    let port = Network::default().port(ReplicaId(1));
    Running::start(start(directory, settings).unwrap(), port, Duration::from_millis(1))
}

/// Commands that are accepted, and some that are rejected.
fn commands(dice: &mut Pcg64, count: usize) -> Vec<Command> {
    let mut one = |i: usize| match dice.random_range(0..6) {
        0 | 1 => Command::RegisterMachine(Machine::new(format!("m{i}"), Amounts::new([4000]))),
        2 | 3 => {
            let group = TaskGroup::new(dice.random_range(1..4), Amounts::new([500]));
            Command::SubmitJob(Job::batch(format!("j{i}"), group))
        }
        4 => Command::KillJob { job: JobId(dice.random_range(0..30)) },
        _ => {
            let id = MachineId::first(dice.random_range(0..20));
            Command::DrainMachine { id, draining: dice.random() }
        }
    };
    (0..count).map(&mut one).collect()
}

/// The cell at a version, computed by applying the commands.
fn naive(commands: &[Command], version: Version) -> Cell {
    let mut cell = Cell::new(Kinds::standard());
    for command in commands {
        if cell.version() == version {
            break;
        }
        drop(cell.apply(command.clone()));
    }
    cell
}

fn check(seed: u64, engine: EngineKind, snapshot_bytes: u64) {
    let mut dice = Pcg64::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r1");
    let running = replica(&path, engine, snapshot_bytes);
    let cell = ReplicatedCell::new(&running);
    cell.catch_up_with_all().unwrap();
    let all = commands(&mut dice, 200);
    let mut expected = Cell::new(Kinds::standard());
    let mut rest = &all[..];
    while !rest.is_empty() {
        let (now, later) = rest.split_at(dice.random_range(1..=rest.len().min(60)));
        rest = later;
        for (command, answer) in now.iter().zip(cell.apply_all(now.to_vec())) {
            let same = expected.apply(command.clone()).map_err(RequestError::Rejected);
            assert_eq!(answer, same, "seed {seed}: commands of one caller keep their order");
        }
    }
    running.end();
    for to in (0..=expected.version().0).step_by(3).map(Version) {
        let options = ReplayOptions { to: Some(to), scope: ReplayScope::All, audit_every: Some(7) };
        match history::open(&path).unwrap().replay(&options) {
            Ok(replay) => {
                let hash = naive(&all, to).state_hash();
                assert_eq!(replay.cell().state_hash(), hash, "seed {seed} at {to}");
            }
            Err(HistoryError::TooOld { wanted, oldest }) => {
                assert!(snapshot_bytes < 1 << 20, "seed {seed}: nothing was thrown away");
                assert!(wanted == to && oldest > to, "seed {seed}: {oldest} is older than {to}");
            }
            Err(error) => panic!("seed {seed} at {to}: {error}"),
        }
    }
    let late = ReplayOptions { to: Some(Version(100_000)), ..ReplayOptions::default() };
    let late = history::open(&path).unwrap().replay(&late).map(drop);
    assert!(matches!(late, Err(HistoryError::NotReached { .. })), "seed {seed}");
}

#[test]
fn every_version_is_what_the_commands_lead_to() {
    (0..3).for_each(|seed| check(seed, EngineKind::Segment, 64 << 20));
}

#[test]
fn what_snapshots_have_replaced_is_told_and_the_rest_is_there() {
    (0..3).for_each(|seed| check(seed, EngineKind::Segment, 2_000));
}

#[cfg(feature = "rocksdb")]
#[test]
fn every_version_from_a_log_in_rocksdb_is_what_the_commands_lead_to() {
    for snapshot_bytes in [64 << 20, 2_000] {
        check(snapshot_bytes, EngineKind::RocksDb, snapshot_bytes);
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort_unstable();
    all
}

/// Damages a file of a stopped replica and replays the log. The replay must fail, or give the same state.
fn damage_and_replay(engine: EngineKind, rounds: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r1");
    let running = replica(&path, engine, 2_000);
    let cell = ReplicatedCell::new(&running);
    cell.catch_up_with_all().unwrap();
    drop(cell.apply_all(commands(&mut Pcg64::seed_from_u64(1), 300)));
    running.end();
    let all = ReplayOptions { scope: ReplayScope::All, ..ReplayOptions::default() };
    let replay = || Ok::<_, HistoryError>(history::open(&path)?.replay(&all)?.cell().state_hash());
    let hash = replay().unwrap();
    let mut refused = 0;
    for seed in 0..rounds {
        let mut dice = Pcg64::seed_from_u64(seed);
        let files = files(&path);
        let file = &files[dice.random_range(0..files.len())];
        let bytes = std::fs::read(file).unwrap();
        let Some(used) = bytes.iter().rposition(|byte| *byte != 0) else { continue };
        let at = dice.random_range(0..=used);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << dice.random_range(0..8);
        std::fs::write(file, damaged).unwrap();
        match replay() {
            Ok(found) => assert_eq!(found, hash, "seed {seed}: {} at {at}", file.display()),
            Err(_) => refused += 1,
        }
        std::fs::write(file, bytes).unwrap();
    }
    assert!(refused > rounds / 10, "{refused} of {rounds} were refused");
    assert_eq!(replay().unwrap(), hash);
}

#[test]
fn a_damaged_directory_is_refused_or_replayed_to_the_same_state() {
    damage_and_replay(EngineKind::Segment, 500);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_damaged_directory_on_rocksdb_is_refused_or_replayed_to_the_same_state() {
    damage_and_replay(EngineKind::RocksDb, 500);
}
