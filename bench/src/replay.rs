//! `omega-bench oracle`: replays files and prints differences.

use crate::oracle::{self, FileReport};
use crate::print::say;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of a replay.
#[derive(Args, Debug)]
pub struct Options {
    /// Files with one decision per line, as a JSON object; may be compressed with gzip or Zstandard.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Maximum number of differences to print for each file.
    #[arg(long, value_name = "N", default_value_t = 5)]
    first: usize,
}

/// Replays each file. The exit code is 0 if all answers are equal, 1 if one differs, and 2 if a file cannot be read.
pub(crate) fn replay(options: &Options) -> ExitCode {
    let mut status = 0;
    for file in &options.files {
        match oracle::replay(file, options.first) {
            Ok(report) => {
                print(&file.display().to_string(), &report);
                status = status.max(u8::from(report.equal < report.cases));
            }
            Err(error) => {
                eprintln!("omega: {error}");
                status = 2;
            }
        }
    }
    ExitCode::from(status)
}

fn print(file: &str, report: &FileReport) {
    say!("{file}: {} cases, {} equal", report.cases, report.equal);
    for difference in &report.first {
        say!("  {difference}");
    }
}
