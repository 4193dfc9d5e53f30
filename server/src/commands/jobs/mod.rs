//! Commands for jobs.

pub(super) mod apply;
pub(crate) mod explain;
pub(crate) mod job;
pub(super) mod list;
pub(super) mod named_job;
mod resize;
mod restart;
mod submission;
pub(super) mod version_list;
pub(super) mod versions;
pub(super) mod wait;
pub(super) mod watch;
