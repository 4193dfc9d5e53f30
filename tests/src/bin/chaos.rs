//! Runs whole cells of replicas under faults, for many seeds (`chaos --seeds 2000`) or for one (`chaos --seed 17`). It
//! can also inject a bug: `chaos --list-bugs`, `chaos --bug AckBeforeSync --seed 17`. With `--digests` it prints a hash
//! of all events of each seed, which is equal on all computers.

use omega_cellstate::injected_bugs::Bug;
use omega_tests::cluster;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

const USAGE: &str = "usage: chaos --seeds N [--from M] [--bug NAME] [--digests] | chaos --seed N [--bug NAME] | chaos --list-bugs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list-bugs") {
        return list_bugs();
    }
    let bug = arguments.iter().position(|argument| argument == "--bug");
    let bug = bug.map(|at| arguments.get(at + 1).map_or("", String::as_str));
    let one = match bug.map_or(Ok(None), |name| find_bug(name).map(Some)) {
        Ok(bug) => move |seed| run_one(bug, seed),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
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
    let digests = arguments.iter().any(|argument| argument == "--digests");
    let told = |seed, report: &cluster::Report| {
        if digests {
            println!("seed {seed}: digest {:016x}", report.digest);
        }
    };
    let failures = run((from, count), &one, &told);
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs this many seeds on all processors. Returns the number of failures.
fn run(
    (from, count): (u64, u64),
    one: &(impl Fn(u64) -> Result<cluster::Report, cluster::Violation> + Sync),
    told: &(impl Fn(u64, &cluster::Report) + Sync),
) -> u64 {
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
                    let result = one(seed);
                    let mut totals = totals.lock().expect("nobody panics with it");
                    match result {
                        Ok(report) => {
                            told(seed, &report);
                            totals.0.add(&report);
                        }
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

fn run_one(bug: Option<Bug>, seed: u64) -> Result<cluster::Report, cluster::Violation> {
    match bug {
        Some(bug) => cluster::injected_bugs::run_with(Some(bug), bug, seed),
        None => cluster::run(seed),
    }
}

fn find_bug(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
    found.copied().ok_or_else(|| format!("there is no bug {name}: see chaos --list-bugs"))
}

fn list_bugs() -> ExitCode {
    for bug in Bug::ALL {
        println!("{:24} {}", format!("{bug:?}"), bug.description());
    }
    ExitCode::SUCCESS
}
