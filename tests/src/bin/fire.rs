//! Measurements of real processes: `fire failover`, `fire standing`, `fire overload`, `fire programs`. Build the
//! program first (`cargo build --release -p omega-server --features serve`); `--omega FILE` names another program, and
//! `--each N` sets the number of repetitions.

use omega_tests::fire::disk::Disk;
use omega_tests::fire::failover::{Loss, Outage, measure};
use omega_tests::fire::{overload, programs, standing};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: fire failover|standing|overload|programs [--each N] [--omega FILE]";

/// Duration of an overload.
const SPAN: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let each = after("--each").and_then(|each| each.parse().ok()).unwrap_or(10);
    let beside = || PathBuf::from("target/release/omega");
    let program = after("--omega").map_or_else(beside, PathBuf::from);
    let Ok(program) = program.canonicalize() else {
        eprintln!(
            "{}: build it: cargo build --release -p omega-server --features serve",
            program.display()
        );
        return ExitCode::from(2);
    };
    let place = std::env::temp_dir();
    let done = match arguments.first().map(String::as_str) {
        Some("failover") => failover(&program, &place, each),
        Some("standing") => stand(&program, &place, each),
        Some("overload") => {
            overload::measure(&program, &place, SPAN).map(|told| println!("{told}"))
        }
        Some("programs") => {
            programs::measure(&program, &place).map(|measured| println!("{measured:#?}"))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn failover(program: &Path, place: &Path, each: usize) -> Result<(), String> {
    for loss in Loss::ALL {
        if loss == Loss::Stall
            && let Err(why) = Disk::probe(place)
        {
            println!("{loss:?}: skipped: it takes the rights of root and loop devices: {why}");
            continue;
        }
        let outages = measure(program, place, loss, each)?;
        let of = |part: fn(&Outage) -> Duration| {
            let mut all: Vec<u128> =
                outages.iter().map(|outage| part(outage).as_millis()).collect();
            all.sort_unstable();
            let at = |percent: usize| all[(all.len() - 1) * percent / 100];
            format!("p50 {} ms, p90 {} ms, most {} ms", at(50), at(90), at(100))
        };
        let (answer, elected) = (of(|outage| outage.answer), of(|outage| outage.elected));
        println!("{loss:?}, {each} times: first answer {answer}; another leader {elected}");
    }
    Ok(())
}

fn stand(program: &Path, place: &Path, each: usize) -> Result<(), String> {
    for _ in 0..each.min(3) {
        let ready = standing::start(program, place, 100_000, 1_000_000)?;
        println!("100,000 machines, 1,000,000 tasks: {ready:?}");
    }
    for used in standing::idle(program, place)? {
        println!("idle: {used:?}");
    }
    Ok(())
}
