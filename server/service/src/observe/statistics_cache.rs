//! Statistics that a server keeps for its callers.

use crate::observe::submit_index::SubmitIndex;
use crate::observe::summary::Summary;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;

/// Statistics kept for callers.
#[derive(Debug)]
pub(crate) struct StatisticsCache {
    /// Random number, chosen when this process started.
    pub(crate) started: u64,
    pub(crate) began: Instant,
    pub(crate) submit_index: SubmitIndex,
    /// The last summary, and the time at which it was begun. The lock is held while a summary is computed, so that
    /// concurrent readers share the result.
    pub(crate) summary: Mutex<Option<(Instant, Arc<Summary>)>>,
}

impl StatisticsCache {
    /// Starts with empty counters.
    pub(crate) fn begin(next_job: omega_core::JobId) -> StatisticsCache {
        let now = Instant::now();
        StatisticsCache {
            // The keys of the standard library's hasher are random. The number has 53 bits, because JSON readers may
            // not represent larger integers exactly.
            started: RandomState::new().hash_one(std::process::id()) >> 11,
            began: now,
            submit_index: SubmitIndex::begin(next_job, now),
            summary: Mutex::default(),
        }
    }
}
