//! Workloads, runs over them, and what is measured.

pub mod report;
pub mod run;
pub mod workload;
