//! Passes random bytes to every decoder: `fuzz --target segment --seconds 20`, or `--rounds N` for a number of rounds,
//! or `--seed N` to repeat one round. Without a target, all targets are run in turn.

use omega_tests::fuzz::{Fuzzer, Target, Verdict};
use peak_alloc::PeakAlloc;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const USAGE: &str = "usage: fuzz [--target NAME] (--seconds N | --rounds N | --seed N)";

/// Maximum memory of a round in bytes, which is enough for a small replica or cell, and for a multiple of the input.
const MEMORY_MAX: usize = 32 << 20;
const MEMORY_A_BYTE: usize = 64;

/// Maximum memory in bytes for files in which a single word may specify a million machines.
const MACHINES_MEMORY_MAX: usize = 1 << 30;

/// Duration after which a round is considered to hang.
const ROUND_MAX: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    let all = Target::ALL.into_iter();
    let targets: Vec<Target> = match value("--target") {
        Some(name) => all.filter(|target| target.name() == name).collect(),
        None => all.collect(),
    };
    let (seconds, rounds, seed) = (number("--seconds"), number("--rounds"), number("--seed"));
    if targets.is_empty() || [seconds, rounds, seed].iter().flatten().count() != 1 {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = seed.unwrap_or(0);
    let count = rounds.or(seed.map(|_| 1)).unwrap_or(u64::MAX);
    let mut failed = false;
    for target in &targets {
        // Each target gets an equal share of the time.
        let share = seconds.map(|all| Duration::from_secs(all) / targets.len() as u32);
        let until = share.map(|share| Instant::now() + share).or(end);
        failed |= run(*target, (first, count), until).is_err();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn memory_max(target: Target) -> usize {
    match target {
        Target::Tables | Target::Swf | Target::Openb => MACHINES_MEMORY_MAX,
        _ => MEMORY_MAX,
    }
}

/// Runs rounds until their number or the time limit is reached.
fn run(target: Target, (first, count): (u64, u64), until: Option<Instant>) -> Result<(), ()> {
    let mut fuzzer = Fuzzer::new(target);
    let (mut read, mut done, mut most) = (0, 0, 0);
    while done < count && until.is_none_or(|until| Instant::now() < until) {
        let seed = first + done;
        done += 1;
        let input = fuzzer.input(seed);
        let before = PeakAlloc.current_usage();
        PeakAlloc.reset_peak_usage();
        let began = Instant::now();
        let tried = catch_unwind(AssertUnwindSafe(|| fuzzer.check(seed, &input)));
        let memory = PeakAlloc.peak_usage().saturating_sub(before);
        most = most.max(memory);
        let fault = match tried {
            Err(_) => Some("it panicked".to_owned()),
            Ok(_) if memory > memory_max(target) + MEMORY_A_BYTE * input.len() => {
                Some(format!("{memory} bytes of memory for {} bytes", input.len()))
            }
            Ok(_) if began.elapsed() > ROUND_MAX => Some("it took too long".to_owned()),
            Ok(verdict) => {
                read += u64::from(verdict == Verdict::Read);
                None
            }
        };
        if let Some(fault) = fault {
            println!("{}: seed {seed}: {fault}", target.name());
            println!(
                "again: cargo run -p omega-tests --bin fuzz -- --target {} --seed {seed}",
                target.name()
            );
            return Err(());
        }
    }
    println!("{}: {done} rounds, {read} read, at most {} KiB", target.name(), most >> 10);
    Ok(())
}
