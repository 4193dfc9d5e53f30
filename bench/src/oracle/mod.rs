//! Replays recorded answers of the real kube-scheduler, and reports how Omega's answers differ.
//!
//! ```text
//!  FILE.jsonl.gz ─lines─▶ suite ─▶ case ─objects─▶ the adapter of `kubectl` files ─▶ cell, view
//!                                   │                                                   │
//!                                   └──── what was recorded ──▶ differences ◀── ours ───┘
//! ```
//!
//! A line is a case: a world, a pod, and the answer of kube-scheduler v1.36.2. The world goes
//! through the same adapter as a real cluster's objects, so that a replay tests what a user gets.
//! This code contains no scheduling rule. Every recorded value is compared except the reasons, whose
//! wording differs.
//!
//! The id of a case names its suite, because files may be renamed or split, and several suites have
//! cases with the same fields. The suite of a case without an id is found by its fields, or else by the name of
//! the file.

mod canonical;
mod case;
mod cordon;
mod decision;
mod default_profile;
mod difference;
mod expect;
mod label_selector;
mod line;
mod objects;
mod plugins;
mod pod_requests;
mod preemption;
mod quantity;
mod sequence;
mod suite;
#[cfg(test)]
mod tests;
mod world;

pub use self::difference::{Difference, FileReport};

use self::line::Line;
use self::suite::Suite;
use omega_workload::LoadError;
use omega_workload::kube::input;
use std::path::Path;

/// Replays the cases of one file, plain or compressed, and keeps the first `first` differences.
///
/// # Errors
/// If the file cannot be read, or a line is not a valid case. Unknown fields are errors, because a case of which only a
/// part was read proves nothing.
pub fn replay(file: &Path, first: usize) -> Result<FileReport, LoadError> {
    let text = input::read_text(file).map_err(|fault| fault.of(file))?;
    let mut report = FileReport::default();
    for (text, number) in text.lines().zip(1..) {
        if text.trim().is_empty() {
            continue;
        }
        let line = Line { file, number, text };
        let head = line.parse()?;
        let suite = Suite::of(&head, &line)?;
        let name = head.id.unwrap_or_else(|| format!("line {number}"));
        report.add(&name, suite.replay(&line)?, first);
    }
    if report.cases == 0 {
        return Err(LoadError::new(file, "has no case: each line must be a JSON object"));
    }
    Ok(report)
}
