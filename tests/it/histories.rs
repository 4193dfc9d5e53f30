//! Random histories: a cell and its naive twin must agree at each step.
//!
//! `OMEGA_SEEDS=100000 cargo test -p omega-tests histories` searches longer;
//! `OMEGA_SEED=7` runs one history alone.

use omega_tests::history;

/// Commands in a history: long enough to fill the small cells and to empty them again.
const LENGTH: usize = 60;

/// A number from the environment.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The seeds that a search of this size runs through.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    match setting("OMEGA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("OMEGA_SEEDS").unwrap_or(count),
    }
}

#[test]
fn a_cell_and_its_twin_agree_at_each_step() {
    for seed in seeds(3000) {
        if let Err(failure) = history::run(seed, LENGTH) {
            let failure = history::shorten(failure);
            panic!(
                "seed {seed}: {failure}\nagain: OMEGA_SEED={seed} cargo test -p omega-tests \
                 a_cell_and_its_twin_agree_at_each_step"
            );
        }
    }
}
