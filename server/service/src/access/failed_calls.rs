//! A limit on the failed calls of one caller in the audit log. Without it, a caller without any rights could push out
//! the lines of other callers.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Length of a period in seconds, and the number of failed calls of one caller that are logged in it.
const PERIOD_S: u64 = 10;
const LOGGED_MAX: u64 = 100;

/// Number of callers that are counted separately. All other callers count as one.
const CALLERS_MAX: usize = 4096;

/// Name of the callers that are not counted separately.
const OTHERS: &str = "other callers";

/// The failed calls of the present period, by caller.
#[derive(Debug, Default)]
pub(super) struct FailedCalls {
    period: u64,
    callers: BTreeMap<String, u64>,
}

/// Number of a caller's failed calls that were not logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OmittedCalls {
    pub(super) caller: String,
    pub(super) calls: u64,
}

impl FailedCalls {
    /// Ends the period if its time is over. Returns the callers with calls that were not logged.
    pub(super) fn end_period(&mut self, at: SystemTime) -> Vec<OmittedCalls> {
        let period = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / PERIOD_S);
        if period == self.period {
            return Vec::new();
        }
        self.period = period;
        let ended = std::mem::take(&mut self.callers).into_iter();
        let left_out = ended.filter(|(_, calls)| *calls > LOGGED_MAX);
        left_out.map(|(caller, calls)| OmittedCalls { caller, calls: calls - LOGGED_MAX }).collect()
    }

    /// Counts a failed call. Returns whether it is to be logged.
    pub(super) fn count(&mut self, caller: &str) -> bool {
        let is_counted = self.callers.len() < CALLERS_MAX || self.callers.contains_key(caller);
        let caller = if is_counted { caller } else { OTHERS };
        let calls = self.callers.entry(caller.to_owned()).or_default();
        *calls += 1;
        *calls <= LOGGED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn further_failed_calls_of_a_period_are_counted() {
        let mut failed = FailedCalls::default();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(failed.end_period(at(100)), []);
        let logged = (0..250).filter(|_| failed.count("eve")).count();
        assert_eq!(logged, 100);
        assert!(failed.count("ann"));
        assert_eq!(failed.end_period(at(109)), []);
        let left_out = OmittedCalls { caller: "eve".into(), calls: 150 };
        assert_eq!(failed.end_period(at(110)), [left_out]);
        assert!(failed.count("eve"), "a new period has begun");
    }

    #[test]
    fn the_number_of_counted_callers_is_bounded() {
        let mut failed = FailedCalls::default();
        let logged = (0..10_000).filter(|caller| failed.count(&caller.to_string())).count();
        assert_eq!(logged, CALLERS_MAX + 100);
        assert_eq!(failed.callers.len(), CALLERS_MAX + 1);
    }
}
