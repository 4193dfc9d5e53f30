//! Statistics and metrics.

pub(crate) mod counters;
pub(crate) mod metrics;
pub mod openmetrics;
pub(crate) mod statistics;
pub(crate) mod statistics_cache;
pub(crate) mod submit_index;
pub(crate) mod summarize;
pub(crate) mod summary;
