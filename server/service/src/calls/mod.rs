//! The calls of clients: a file for each gRPC service, and their parts.

pub(crate) mod backup;
pub(crate) mod cell;
pub(crate) mod commit_log;
pub(crate) mod commits;
pub(crate) mod deltas;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod jobs_page;
pub(crate) mod jobs_watch;
pub(crate) mod machines;
pub(crate) mod names;
pub(crate) mod refs;
pub(crate) mod responses;
pub(crate) mod scheduling;
pub(crate) mod snapshots;
pub(crate) mod tasks;
pub(crate) mod tasks_page;
pub(crate) mod tenants;
pub(crate) mod traces;
pub(crate) mod transactions;
