//! Runs over workloads, what is measured, and replays of another scheduler's answers.

pub mod command;
mod measure;
pub mod oracle;
mod replay;
pub mod report;
pub mod run;
