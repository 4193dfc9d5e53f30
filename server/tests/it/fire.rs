//! A served cell under fire: what clients were told, while replicas are killed, paused and cut off, is
//! linearizable, and nothing that was acknowledged is lost. The kit is `tests/src/fire`.
//!
//! `OMEGA_FIRE_SECONDS=600 cargo test --release -p omega-server --test it fire::` goes on for so long, each
//! round with a cell of its own and other chances.

use omega_core::Kinds;
use omega_tests::cluster::damage::{Run, damage_all};
use omega_tests::fire::nemesis::Fault;
use omega_tests::fire::{Plan, Recorded, overload, record, run, verdict};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A run whose folder is kept only if it goes wrong.
fn plan(seed: u64, faults: &[Fault]) -> Plan {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_omega"));
    Plan { program, place: std::env::temp_dir(), seed, faults: faults.to_vec() }
}

fn burn(seed: u64) -> Recorded {
    let recorded = run(&plan(seed, &Fault::ALL)).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("seed {seed}: {recorded}");
    recorded
}

#[test]
fn a_cell_under_fire_is_linearizable() {
    let seconds = std::env::var("OMEGA_FIRE_SECONDS").ok();
    let long = seconds.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let began = Instant::now();
    for seed in 1.. {
        burn(seed);
        if began.elapsed() >= long.unwrap_or_default() {
            return;
        }
    }
}

#[test]
fn operators_are_heard_while_far_too_much_is_asked() {
    let plan = plan(0, &[]);
    let told = overload::measure(&plan.program, &plan.place, Duration::from_secs(3));
    let told = told.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{told}");
    assert_eq!(told.operator_failed, 0, "{told}");
    assert!(told.operator_ms.0.is_finite(), "no operator was answered: {told}");
    // What a server is given in the scoreboards of others; it takes a fifth of it.
    assert!(told.resident_mib.1 < 512.0, "{told}");
}

#[test]
fn damaged_histories_of_processes_are_noticed() {
    let recorded = record(&plan(0, &[])).unwrap_or_else(|wrong| panic!("{wrong}"));
    recorded.check().unwrap_or_else(|wrong| panic!("a good history is refused: {wrong}"));
    // What was seen of tasks.
    let mut seen = 0;
    for at in 0..recorded.looks.len() {
        let mut looks = recorded.looks.clone();
        if looks[at].seen.tasks.pop().is_some() {
            let said = verdict::check_looks(&looks, &recorded.done, &Kinds::standard());
            assert!(said.is_err(), "not noticed: a task was not seen, look {at}");
            seen += 1;
        }
    }
    assert!(seen > 0, "never tried: a task was not seen");
    let run = Run { history: recorded.history, done: recorded.done, kinds: Kinds::standard() };
    let damages = damage_all(&[run]).unwrap_or_else(|error| panic!("{error}"));
    assert!(damages >= 40, "only {damages} damages");
}
