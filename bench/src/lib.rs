//! Workloads, runs over them, what is measured, and replays of another scheduler's answers.

pub mod oracle;
pub mod report;
pub mod run;
pub mod workload;
