//! Log of commits for operators: all commits at debug level, and slow ones always. If no subscriber records log events,
//! each commit costs one comparison.

use crate::observe::counters::CheckedTransaction;
use omega_client::ApiError;
use omega_core::SchedulerId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Logs the result of a transaction.
pub(crate) fn log_result(
    number: u64,
    answer: Result<CheckedTransaction<'_>, (SchedulerId, &ApiError)>,
    took: Duration,
) {
    let took_us = took.as_micros() as u64;
    match answer {
        Ok(CheckedTransaction { scheduler, claims, evictions, base, commit }) => tracing::debug!(
            scheduler = scheduler.0,
            transaction = number,
            claims,
            evictions,
            conflicts = commit.conflicts.len(),
            base = base.0,
            version = commit.version.0,
            took_us,
            "commit"
        ),
        Err((scheduler, error)) => tracing::debug!(
            scheduler = scheduler.0,
            transaction = number,
            code = error.code.name(),
            took_us,
            "no commit"
        ),
    }
}

/// Maximum number of slow commits logged per second. The next line has the number of omitted transactions.
const SLOW_LINES_MAX: u32 = 10;

/// Minimum duration of a slow commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowCommit(pub Duration);

impl Default for SlowCommit {
    /// Half a second by default. This is the shortest election timeout, and a delay that people notice.
    fn default() -> SlowCommit {
        SlowCommit(Duration::from_millis(500))
    }
}

/// Logs slow commits.
#[derive(Clone, Debug)]
pub(crate) struct SlowCommits {
    bound: Duration,
    limit: Arc<Mutex<LogLimit>>,
}

/// Number of lines logged in the current second, and number of transactions omitted since the last line.
#[derive(Debug, Default)]
struct LogLimit {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl SlowCommits {
    pub(crate) fn new(SlowCommit(bound): SlowCommit) -> SlowCommits {
        SlowCommits { bound, limit: Arc::default() }
    }

    /// Logs a group of transactions in one line, if their common answer was slow.
    pub(crate) fn log_slow(
        &self,
        (scheduler, first): (SchedulerId, u64),
        (transactions, claims): (usize, usize),
        took: Duration,
    ) {
        if took < self.bound {
            return;
        }
        let Some(left_out) = self.limit.lock().line(Instant::now(), transactions) else { return };
        tracing::warn!(
            scheduler = scheduler.0,
            transaction = first,
            transactions,
            claims,
            took_ms = took.as_millis() as u64,
            left_out,
            "slow commit"
        );
    }
}

impl LogLimit {
    /// Number of transactions omitted before this line; `None` if this line is omitted, too.
    fn line(&mut self, now: Instant, transactions: usize) -> Option<u64> {
        let is_over =
            |since: Instant| now.saturating_duration_since(since) >= Duration::from_secs(1);
        if self.since.is_none_or(is_over) {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines == SLOW_LINES_MAX {
            self.left_out += transactions as u64;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_in_the_next_line() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for line in 0..u64::from(SLOW_LINES_MAX) {
            assert_eq!(limit.line(at(line), 1), Some(0));
        }
        assert_eq!((limit.line(at(500), 3), limit.line(at(999), 4)), (None, None));
        assert_eq!(limit.line(at(1_000), 1), Some(7));
        assert_eq!(limit.line(at(1_001), 1), Some(0));
    }
}
