//! Tests of the history checker on runs of the simulation: see `tests/src/cluster/damage.rs`.

use omega_tests::cluster::damage::{Run, damage_all};

#[test]
fn every_damage_to_a_history_is_noticed() {
    let runs: Vec<Run> = (0..6).map(Run::record).collect();
    for run in &runs {
        run.check().unwrap_or_else(|error| panic!("a good history is refused: {error}"));
    }
    let total = damage_all(&runs).unwrap_or_else(|error| panic!("{error}"));
    assert!(total >= 200, "only {total} damages");
}
