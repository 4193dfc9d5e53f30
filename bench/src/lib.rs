//! Workloads, runs over them, and what is measured.

pub mod workload;
