//! Linearizability of a served cell with faults: replicas are killed, paused and partitioned, and their disks hang. The
//! answers that clients get must be linearizable, and no acknowledged change may be lost. The tools are in
//! `tests/src/fire`.
//!
//! `OMEGA_FIRE_SECONDS=600 cargo test --release -p omega-server --test it fire::` runs for 600 seconds, with a new cell
//! and another seed in each round.

use omega_core::Kinds;
use omega_tests::cluster::damage::{Run, damage_all};
use omega_tests::fire::cell::{Clocks, Disks, Equipment};
use omega_tests::fire::disk::Disk;
use omega_tests::fire::failover::{self, Loss};
use omega_tests::fire::nemesis::Fault;
use omega_tests::fire::watchdog::Watchdog;
use omega_tests::fire::{Plan, Recorded, overload, record, run, verdict};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Plan of a run whose folder is kept only after a failure.
fn plan(seed: u64, faults: &[Fault]) -> Plan {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_omega"));
    let equipment = Equipment::default();
    Plan { program, place: std::env::temp_dir(), seed, faults: faults.to_vec(), equipment }
}

fn burn(seed: u64) -> Recorded {
    let recorded = run(&plan(seed, &Fault::ALL)).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("seed {seed}: {recorded}");
    recorded
}

#[test]
fn a_cell_under_fire_is_linearizable() {
    for seed in rounds() {
        burn(seed);
    }
}

/// Seeds of the rounds of a test: one round, or as many as a long run has time for.
fn rounds() -> impl Iterator<Item = u64> {
    let seconds = std::env::var("OMEGA_FIRE_SECONDS").ok();
    let long = seconds.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let began = Instant::now();
    (1..).take_while(move |round| *round == 1 || began.elapsed() < long.unwrap_or_default())
}

#[test]
fn five_replicas_do_without_any_two() {
    for seed in rounds() {
        let equipment = Equipment { replicas: 5, ..Equipment::default() };
        let plan = Plan { equipment, ..plan(seed, &Fault::OF_MANY) };
        println!("seed {seed}: {}", run(&plan).unwrap_or_else(|wrong| panic!("{wrong}")));
    }
}

#[test]
fn a_cell_whose_clocks_jump_is_linearizable() {
    for seed in rounds() {
        let equipment = Equipment { clocks: Clocks::Own, ..Equipment::default() };
        let plan = Plan { equipment, ..plan(seed, &Fault::OF_CLOCKS) };
        println!("seed {seed}: {}", run(&plan).unwrap_or_else(|wrong| panic!("{wrong}")));
    }
}

#[test]
fn a_rolling_restart_loses_nothing_and_answers_nobody_wrongly() {
    let recorded = run(&plan(7, &[Fault::Roll])).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("rolling restart: {recorded}");
}

/// Minimum ratio of the rate of answers under overload to the peak rate, for clients that respect retry delays.
const GOODPUT_MIN: f64 = 0.8;

/// Each kind of overload takes three seconds, or `OMEGA_OVERLOAD_SECONDS`; rates and deadlines are checked only if this
/// variable is set.
#[test]
fn operators_are_heard_while_far_too_much_is_asked() {
    let plan = plan(0, &[]);
    let long = std::env::var("OMEGA_OVERLOAD_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    let span = Duration::from_secs(long.unwrap_or(3));
    let response = overload::measure(&plan.program, &plan.place, span);
    let response = response.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{response}");
    let seen = &response.seen.1;
    assert_eq!(seen.operator_failed, 0, "{response}");
    assert!(long.is_none() || seen.operator_late == 0, "{response}");
    assert!(seen.operator_ms.0.is_finite(), "no operator was answered: {response}");
    assert_eq!(response.machines_lost, 0, "agents were not heard: {response}");
    // This limit is the memory that other schedulers' benchmarks give a server. Our server uses a fifth of it.
    assert!(seen.resident_mib < 512.0, "{response}");
    // Callers are mostly slowed down instead of rejected: less than half of the calls are rejected.
    assert!(
        response.hostile.answered > 0.0
            && response.hostile.refused < response.hostile.offered / 2.0
    );
    // The rate is per processor time of the server, because other programs on this computer also use the processors.
    let (_, goodput) = response.patient.of(&response.peak);
    assert!(long.is_none() || goodput >= GOODPUT_MIN, "{goodput:.2} of the peak: {response}");
}

/// Whether this computer can give replicas separate disks.
fn has_disks() -> bool {
    let probed = Disk::probe(&std::env::temp_dir());
    if let Err(why) = &probed {
        println!("skipped: disks that hang take the rights of root and loop devices: {why}");
    }
    probed.is_ok()
}

#[test]
fn a_cell_whose_disks_hang_is_linearizable() {
    if has_disks() {
        let equipment = Equipment { disks: Disks::Own, ..Equipment::default() };
        let plan = Plan { equipment, ..plan(5, &Fault::OF_DISKS) };
        println!("{}", run(&plan).unwrap_or_else(|wrong| panic!("{wrong}")));
    }
}

#[test]
fn a_leader_whose_disk_hangs_is_followed_by_another_and_then_follows() {
    if has_disks() {
        let plan = plan(0, &[]);
        let outages = failover::measure(&plan.program, &plan.place, Loss::Stall, 2);
        println!("{:?}", outages.unwrap_or_else(|wrong| panic!("{wrong}")));
    }
}

/// A test that is killed at its time limit runs no destructors; nevertheless, its processes must end.
#[test]
fn what_a_killed_test_leaves_is_cleared_away() {
    let mut left = Command::new("sleep").arg("infinity").spawn().unwrap();
    // This process simulates the killed test: after its end, the pipe has no writer.
    let script = format!("kill -9 {}", left.id());
    let mut shell =
        Command::new("sh").args(["-c", Watchdog::SCRIPT]).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = shell.stdin.take().unwrap();
    writeln!(pipe, "kill -9 1000000000").and_then(|()| writeln!(pipe, "{script}")).unwrap();
    assert_eq!(left.try_wait().unwrap(), None, "it lives as long as the pipe is held");
    drop(pipe);
    assert_eq!(left.wait().unwrap().signal(), Some(9));
    assert!(shell.wait().unwrap().success());
}

#[test]
fn damaged_histories_of_processes_are_noticed() {
    let recorded = record(&plan(0, &[])).unwrap_or_else(|wrong| panic!("{wrong}"));
    recorded.check().unwrap_or_else(|wrong| panic!("a good history is refused: {wrong}"));
    // The task states seen so far.
    let mut seen = 0;
    for at in 0..recorded.looks.len() {
        let mut looks = recorded.looks.clone();
        if looks[at].seen.tasks.pop().is_some() {
            let output = verdict::check_looks(&looks, &recorded.done, &Kinds::standard());
            assert!(output.is_err(), "not noticed: a task was not seen, look {at}");
            seen += 1;
        }
    }
    assert!(seen > 0, "never tried: a task was not seen");
    let run = Run { history: recorded.history, done: recorded.done, kinds: Kinds::standard() };
    let damages = damage_all(&[run]).unwrap_or_else(|error| panic!("{error}"));
    assert!(damages >= 40, "only {damages} damages");
}
