//! Injected bugs, which the simulation must find within a number of seeds. Without the bug the same seeds must pass.

use omega_cellstate::injected_bugs::Bug;
use omega_tests::cluster::injected_bugs::{Proof, prove};
use rayon::prelude::*;

/// One line of the output.
fn row(bug: Bug, proof: &Proof) -> String {
    let found = match &proof.found {
        Some(violation) => {
            let what: String = violation.what.chars().take(90).collect();
            format!(
                "seed {:4}, the {}.: {}",
                violation.seed,
                proof.passed + 1,
                what.replace('\n', " ")
            )
        }
        None => format!("NOT FOUND in {} seeds", proof.passed),
    };
    let without = proof.without.as_ref().map_or(String::new(), |bad| format!(" WITHOUT IT: {bad}"));
    format!("{:24} {found}{without}", format!("{bug:?}"))
}

/// Bugs that a small number of seeds does not reveal: the first, because a replica with a damaged log reports which
/// entries it may have lost; the second, because other replicas tell a removed replica about its removal. They have
/// their own tests, with and without the bug: `../storage/log_rot.rs`, `damage_inside_a_log_is_no_torn_end`;
/// `elections.rs`, `a_leader_that_commits_its_own_removal_steps_down`.
const RARE: [Bug; 2] = [Bug::CorruptMiddleCut, Bug::RemovedLeaderStays];

#[test]
fn every_injected_bug_is_found_soon() {
    let frequent: Vec<Bug> = Bug::ALL.iter().copied().filter(|bug| !RARE.contains(bug)).collect();
    let proofs: Vec<(Bug, Proof)> = frequent.par_iter().map(|bug| (*bug, prove(*bug))).collect();
    proofs.iter().for_each(|(bug, proof)| println!("{}", row(*bug, proof)));
    let bad = proofs.iter().filter(|(_, proof)| proof.found.is_none() || proof.without.is_some());
    let bad: Vec<String> = bad.map(|(bug, proof)| row(*bug, proof)).collect();
    assert!(bad.is_empty(), "the proof fails:\n{}", bad.join("\n"));
}
