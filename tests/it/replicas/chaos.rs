//! Simulation of whole cells: a few seeds, and a check that equal seeds give equal runs.
//!
//! `cargo run -p omega-tests --bin chaos -- --seeds 2000` runs many more seeds.

use omega_tests::cluster;
use std::process::Command;

#[test]
fn whole_cells_survive_some_seeds() {
    for seed in 0..40 {
        cluster::run(seed).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// A bit of the last synced record flips on one replica. Its vote must not elect a leader whose log lacks that record.
#[test]
fn a_damaged_end_of_a_log_elects_nobody_without_it() {
    let original = cluster::run_with_plan(900_002_206, |_| {});
    original.unwrap_or_else(|violation| panic!("{violation}"));
    cluster::run(900_002_206).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A replica that has applied its own removal requests no votes, so no other replica reports the removal to it. Its
/// clients must nevertheless learn of the removal.
#[test]
fn clients_of_a_replica_that_knows_of_its_removal_go_on_elsewhere() {
    cluster::run(7_200_005_933).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    // These are one in a hundred of the seeds that run before a change is merged.
    for seed in (0..2_000).step_by(100) {
        let run = || cluster::run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        let (first, second) = (run().to_string(), run().to_string());
        assert_eq!(first, second, "seed {seed}");
    }
}

/// Output of another process for these seeds, in their order.
fn digests(from: u64, count: u64) -> Vec<String> {
    let numbers = ["--from", &from.to_string(), "--seeds", &count.to_string()].map(str::to_owned);
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_chaos"));
    let output = chaos.args(numbers).arg("--digests").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Seeds run on all processors, so the order of their lines varies.
    let mut lines: Vec<String> =
        text.lines().filter(|line| line.contains(": digest ")).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_seed_gives_the_same_run_in_every_process() {
    // All numbers have three digits, so that the order of the texts is that of the numbers.
    let (from, count) = (300, 12);
    let here: Vec<String> = (from..from + count)
        .map(|seed| {
            let report = cluster::run(seed).unwrap_or_else(|violation| panic!("{violation}"));
            format!("seed {seed}: digest {:016x}", report.digest)
        })
        .collect();
    // Each process has different addresses and hash map keys.
    assert_eq!(digests(from, count), here);
    assert_eq!(digests(from, count), here);
}
