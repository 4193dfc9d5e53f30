//! The files and values that commands read.

pub(crate) mod amount;
pub(super) mod job_file;
pub(super) mod job_flags;
mod job_name;
pub(super) mod lines;
pub(super) mod machine_file;
pub(super) mod moment;
#[cfg(test)]
pub(super) mod mutated_files_tests;
pub(crate) mod pairs;
pub(super) mod ports_file;
pub(super) mod rules_file;
pub(super) mod run_file;
pub(super) mod time_file;
pub(super) mod txn_file;
