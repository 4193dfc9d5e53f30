//! The clocks of the test kit: those that real processes see, and those of simulated replicas.

use omega_tests::clock::WrongClock;
use omega_tests::cluster::TICK;
use omega_tests::cluster::clock::{BEGIN_MS, Clock};
use omega_tests::random::Dice;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

#[test]
fn a_process_sees_the_clock_that_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let clock = WrongClock::new(dir.path()).unwrap();
    for ahead_s in [0, 7_200, -86_400] {
        clock.set(ahead_s).unwrap();
        let mut date = Command::new("date");
        clock.give_to(&mut date);
        let before = seconds();
        let said = String::from_utf8(date.arg("+%s").output().unwrap().stdout).unwrap();
        let after = seconds();
        let told = said.trim().parse::<i64>().unwrap() - ahead_s;
        assert!(before <= told && told <= after, "{ahead_s}: {before} {told} {after}");
    }
}

#[test]
fn a_clock_drifts_and_jumps_both_ways() {
    let right = Clock::default();
    assert_eq!(right.shows_ms(2_000_000) - right.shows_ms(0), 2_000);
    let mut fast = right;
    fast.tick = TICK / 2;
    assert_eq!(fast.shows_ms(2_000_000) - fast.shows_ms(0), 4_000);
    let mut dice = Dice::new(1);
    let jumps: Vec<u64> = (0..50)
        .map(|_| {
            let mut clock = right;
            clock.jump(&mut dice);
            clock.shows_ms(0)
        })
        .collect();
    assert!(
        jumps.iter().any(|shown| *shown < BEGIN_MS) && jumps.iter().any(|shown| *shown > BEGIN_MS)
    );
}
