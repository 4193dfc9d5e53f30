//! Log events about a server that does not answer.
//!
//! Each watch tries again on its own, and so do the outbox and the election. So the client, which all of them share,
//! writes these events: one warning, a further one per minute, and one event when the server answers again.

use super::error::CallError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two warnings.
const REPEAT: Duration = Duration::from_secs(60);

/// The last warning that the server does not answer.
#[derive(Debug, Default)]
pub(super) struct OutageLog(Mutex<Warned>);

#[derive(Debug, Default)]
struct Warned {
    at: Option<Instant>,
    /// Whether the server has not answered since.
    is_current: bool,
}

impl OutageLog {
    /// Records the end of a call, with its error if it failed.
    pub(super) fn record(&self, error: Option<&CallError>) {
        match error {
            None => {
                if self.record_reply() {
                    tracing::info!("the API server answers again");
                }
            }
            Some(why) if why.is_no_answer() => {
                if self.record_lost(Instant::now()) {
                    tracing::warn!(%why, "the API server does not answer: trying again");
                }
            }
            Some(_) => {}
        }
    }

    /// Records a call without an answer. Returns whether a warning is due.
    fn record_lost(&self, now: Instant) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned.at.is_none_or(|at| now.saturating_duration_since(at) >= REPEAT);
        if is_due {
            *warned = Warned { at: Some(now), is_current: true };
        }
        is_due
    }

    /// Records an answer. Returns whether it is the first one after a warning.
    fn record_reply(&self) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut warned.is_current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_has_a_warning_per_minute_and_one_end() {
        let (outage_log, begin) = (OutageLog::default(), Instant::now());
        let lost = |second: u64| outage_log.record_lost(begin + Duration::from_secs(second));
        assert!(!outage_log.record_reply(), "nothing was lost");
        assert!(lost(0));
        assert_eq!((1..150).filter(|second| lost(*second)).collect::<Vec<_>>(), [60, 120]);
        assert!(outage_log.record_reply());
        assert!(!outage_log.record_reply());
        // A server that is often lost for a moment does not fill the log, either.
        assert!(!lost(151));
        assert!(!outage_log.record_reply());
        assert!(lost(180));
        assert!(outage_log.record_reply());
    }

    #[test]
    fn an_error_of_the_credentials_or_of_the_length_is_no_outage() {
        let lost = std::io::Error::other("refused");
        assert!(CallError::Connect("10.0.0.1:6443".into(), lost).is_no_answer());
        assert!(CallError::Timeout(REPEAT).is_no_answer());
        assert!(!CallError::Body(1).is_no_answer());
    }
}
