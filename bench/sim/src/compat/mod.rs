//! Repetition of the reference simulator's runs, with a comparison of the results.
//!
//! A reference file has one row for each group of schedulers of a *point*. A row has the point's settings (job lists by
//! name, machines, architecture, decision times, seed) and the group's results. The code works with any reference file.

mod architecture;
mod figure;
mod job_list;
mod point;
mod reference_file;
pub mod shape;

pub use architecture::Architecture;
pub use figure::{Figure, Got};
pub use job_list::{JobList, JobLists};
pub use point::{Load, Outcome, run_point, run_sized};
pub use reference_file::{Expected, Group, Point, ReferenceFile, ReferenceRow};
