//! A replica's process, killed repeatedly on a real disk. All changes that it acknowledged must still exist.
//!
//! `OMEGA_KILLS=2000 cargo test -p omega-tests kills` repeats it more often.

use omega_store::RealDisk;
use omega_store::directory::EngineKind;
use omega_store::directory::{Directory, Expected, OpenDirectoryError};
use omega_store::history::{self, HistoryError};
use omega_tests::durable::{Lone, create};
use omega_tests::random::Dice;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A process that commits to a directory and prints the transactions that it acknowledged.
fn victim(path: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_victim"));
    command.arg(path).stdout(Stdio::piped()).spawn().unwrap()
}

fn kill_again_and_again(engine: EngineKind) {
    let rounds = std::env::var("OMEGA_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    create(Arc::new(RealDisk), &path, engine).unwrap();
    let (mut dice, mut safe) = (Dice::new(rounds), 0);
    for round in 0..rounds {
        let mut victim = victim(&path);
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let mut heard = Vec::new();
        heard.extend(lines.by_ref().take(dice.below(300)));
        victim.kill().unwrap();
        heard.extend(lines);
        victim.wait().unwrap();
        let heard = heard.into_iter().filter_map(|line| line.unwrap().parse::<u64>().ok());
        safe = heard.map(|number| number + 1).max().unwrap_or(safe);
        let lone = Lone::open(Arc::new(RealDisk), &path).unwrap();
        assert!(lone.next >= safe, "round {round}: {safe} acknowledged, {} there", lone.next);
    }
    assert!(safe > 0, "something was acknowledged");
}

/// Checks that no second process can open the directory, for writing or for reading.
fn refuse_a_second(engine: EngineKind) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    create(Arc::new(RealDisk), &path, engine).unwrap();
    let mut first = victim(&path);
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let second = Directory::open(Arc::new(RealDisk), &path, Expected::default());
    assert!(matches!(second, Err(OpenDirectoryError::Locked(_))), "{second:?}");
    let looked = history::open(&path).map(drop);
    let locked = matches!(looked, Err(HistoryError::Directory(OpenDirectoryError::Locked(_))));
    assert!(locked, "{looked:?}");
    first.kill().unwrap();
    first.wait().unwrap();
    history::open(&path).unwrap();
    opened(&path).open_log().unwrap();
}

/// Opens a directory that this process has just closed. If another test has forked a process at that moment, the child
/// process shares the lock until it executes its program.
fn opened(path: &Path) -> Directory {
    for _ in 0..1000 {
        match Directory::open(Arc::new(RealDisk), path, Expected::default()) {
            Err(OpenDirectoryError::Locked(_)) => std::thread::sleep(Duration::from_millis(1)),
            other => return other.unwrap(),
        }
    }
    panic!("{} stays locked", path.display());
}

#[test]
fn a_second_process_in_a_directory_is_refused() {
    refuse_a_second(EngineKind::Segment);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_second_process_in_a_directory_on_rocksdb_is_refused() {
    refuse_a_second(EngineKind::RocksDb);
}

/// The file system does not let a file grow beyond a size, as if the disk was full. The write that reaches the limit is
/// torn, and the replica stops. When there is space again, it continues with everything that it acknowledged.
#[cfg(feature = "rocksdb")]
#[test]
fn a_replica_on_rocksdb_without_room_stops_and_goes_on_with_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    create(Arc::new(RealDisk), &path, EngineKind::RocksDb).unwrap();
    let mut safe = 0;
    for blocks in [40, 41, 43, 50] {
        let script = format!("ulimit -f {blocks}; trap '' XFSZ; exec \"$0\" \"$1\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_victim")]).arg(&path);
        let ended = command.stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{blocks} blocks: it has to stop");
        let heard = String::from_utf8_lossy(&ended.stdout).into_owned();
        let heard: Vec<u64> = heard.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(!heard.is_empty(), "{blocks} blocks: {said}");
        safe = heard.last().map_or(safe, |number| number + 1);
        let lone = Lone::open(Arc::new(RealDisk), &path).unwrap();
        assert!(lone.next >= safe, "{blocks} blocks: {safe} acknowledged, {} there", lone.next);
    }
}

#[test]
fn a_killed_replica_keeps_what_it_acknowledged() {
    kill_again_and_again(EngineKind::Segment);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_killed_replica_on_rocksdb_keeps_what_it_acknowledged() {
    kill_again_and_again(EngineKind::RocksDb);
}
