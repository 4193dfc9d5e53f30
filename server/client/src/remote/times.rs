//! Times of retries.

use std::time::Duration;

/// Time for retries before the scheduler gets an error: ten seconds, enough for many elections.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Delay before the next attempt: a tenth of an election.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
