//! Runs whole cells of replicas under faults, seed after seed: `chaos --seeds 2000`, or one of them
//! again: `chaos --seed 17`.

use omega_tests::cluster;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

const USAGE: &str = "usage: chaos --seeds N [--from M] | chaos --seed N";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let (from, count) = match (number("--seed"), number("--seeds")) {
        (Some(seed), None) => (seed, 1),
        (None, Some(count)) => (number("--from").unwrap_or(0), count),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let failures = run(from, count);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs so many seeds on all processors. The answer is how many failed.
fn run(from: u64, count: u64) -> u64 {
    let next = AtomicU64::new(from);
    let totals = std::sync::Mutex::new((cluster::Report::default(), 0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    let result = cluster::run(seed);
                    let mut totals = totals.lock().expect("nobody panics with it");
                    match result {
                        Ok(report) => totals.0.add(&report),
                        Err(violation) => {
                            totals.1 += 1;
                            println!("{violation}");
                        }
                    }
                }
            });
        }
    });
    let (report, failures) = totals.into_inner().expect("nobody panics with it");
    println!("{count} seeds from {from}, {failures} failed: {report}");
    failures
}
