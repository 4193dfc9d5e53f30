//! The simulation of whole cells: some seeds of it, and that a seed is a run and no other.
//!
//! Many more seeds are run by `cargo run -p omega-tests --bin chaos -- --seeds 2000`.

use omega_tests::cluster;

#[test]
fn whole_cells_survive_some_seeds() {
    for seed in 0..40 {
        cluster::run(seed).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    // A hundredth of the seeds that are run before a change lands.
    for seed in (0..2_000).step_by(100) {
        let run = || cluster::run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        let (first, second) = (run().to_string(), run().to_string());
        assert_eq!(first, second, "seed {seed}");
    }
}
