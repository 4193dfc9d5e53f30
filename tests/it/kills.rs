//! A replica's process is killed again and again, on a real disk: what it acknowledged is there.
//!
//! `OMEGA_KILLS=2000 cargo test -p omega-tests kills` does it more often.

use omega_store::RealDisk;
use omega_store::directory::EngineKind;
use omega_tests::durable::{Lone, create};
use omega_tests::random::Dice;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

fn kill_again_and_again(engine: EngineKind) {
    let rounds = std::env::var("OMEGA_KILLS").map_or(12, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    create(Arc::new(RealDisk), &path, engine).unwrap();
    let (mut dice, mut safe) = (Dice::new(rounds), 0);
    for round in 0..rounds {
        let mut victim = Command::new(env!("CARGO_BIN_EXE_victim"))
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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

#[test]
fn a_killed_replica_keeps_what_it_acknowledged() {
    kill_again_and_again(EngineKind::Segment);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_killed_replica_on_rocksdb_keeps_what_it_acknowledged() {
    kill_again_and_again(EngineKind::RocksDb);
}
