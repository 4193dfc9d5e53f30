//! Random histories: a cell and its naive reference model must agree at each step.
//!
//! `OMEGA_SEEDS=100000 cargo test -p omega-tests histories` searches longer, `OMEGA_SEEDS_FROM=1000` starts at another
//! seed; `OMEGA_SEED=7` runs a single history.

use omega_core::{Outcome, Rejection};
use omega_tests::history;
use omega_tests::random::Generator;
use omega_tests::reference::Reference;
use std::collections::BTreeMap;

/// Number of commands in a history, which is enough to fill the small cells and to empty them again.
const LENGTH: usize = 60;

/// A number from an environment variable.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Seeds of a search of this size. `OMEGA_SEEDS_TIMES` multiplies their number.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    match setting("OMEGA_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let from = setting("OMEGA_SEEDS_FROM").unwrap_or(0);
            let count = count * setting("OMEGA_SEEDS_TIMES").unwrap_or(1);
            from..from + setting("OMEGA_SEEDS").unwrap_or(count)
        }
    }
}

#[test]
fn a_cell_and_its_reference_agree_at_each_step() {
    for seed in seeds(1000) {
        if let Err(failure) = history::run(seed, LENGTH) {
            let failure = history::shorten(failure);
            panic!(
                "seed {seed}: {failure}\nagain: OMEGA_SEED={seed} cargo test -p omega-tests \
                 a_cell_and_its_reference_agree_at_each_step"
            );
        }
    }
}

/// Random histories must reach each reason for a rejection often.
#[test]
fn random_histories_meet_every_reason() {
    let mut met: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..5000 {
        let generator = Generator::with_holders(seed).with_reservations(seed).with_peaks(seed);
        let generator =
            if seed < 4000 { generator } else { generator.with_held(seed).with_cores(seed) };
        let generator = generator.with_cluster_resources(seed);
        let mut generator = if seed < 4500 { generator } else { generator.with_updates(seed) };
        let mut reference = Reference::new(generator.kinds());
        for _ in 0..LENGTH {
            let command = generator.next(&reference);
            for name in names(&reference.apply(command)) {
                *met.entry(name).or_default() += 1;
            }
        }
    }
    let wanted = "NoRoom NoDevices MachineChanged MachineGone MachineDraining AffinityUnmet Tainted \
                  PortTaken AntiAffinity TaskAffinityUnmet Skew DomainFull NoDomain QuotaExceeded \
                  UnknownTask TaskPlaced TaskEnded TaskNotPlaced PrecedenceTooLow EvictionUnused \
                  GangIncomplete OthersConflict RuntimeAffinityNeeded complete NameTaken BadName UnknownMachine OtherName \
                  UnknownJob UnknownGroup TaskNotThere BadAmount BadJob DevicesInUse Empty \
                  BaseFromFuture UnknownScheduler IdReused AnswerExpired Fenced NumberAhead NameHeld BadLease \
                  BadPolicy NotAdmitted BadReservation UnknownReservation Reserved \
                  NoCores BadMachine CoresInUse NoCoresLeft CellExhausted \
                  BadPeaks UnknownPeaks PeakHours TasksPerMachine NoPorts NoPortsLeft";
    let rare = wanted.split_whitespace().filter(|name| met.get(*name).is_none_or(|n| *n < 3));
    assert_eq!(rare.collect::<Vec<_>>(), [""; 0], "{met:?}");
}

/// Names of the variants in a result, without their fields.
fn names(answer: &Result<Outcome, Rejection>) -> Vec<String> {
    let variant = |debug: String| debug.split(['(', ' ']).next().unwrap_or_default().to_owned();
    match answer {
        Ok(Outcome::Commit(commit)) if commit.is_complete() => vec!["complete".to_owned()],
        Ok(Outcome::Commit(commit)) => {
            commit.conflicts.iter().map(|c| variant(format!("{:?}", c.reason))).collect()
        }
        Ok(_) => Vec::new(),
        Err(Rejection::Transaction(error)) => vec![variant(format!("{error:?}"))],
        Err(rejection) => vec![variant(format!("{rejection:?}"))],
    }
}
