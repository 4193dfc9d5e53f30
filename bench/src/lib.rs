//! Runs over workloads, what is measured, and replays of another scheduler's answers.

pub mod oracle;
pub mod report;
pub mod run;
