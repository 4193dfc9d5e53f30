//! Limit on the rate of agents' commands, in their streams and in single calls. Each command is replicated, so an agent
//! could otherwise occupy the cell.

use crate::access::identity::{Caller, Role};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Number of commands of a caller per second.
const PER_SECOND: u32 = 5000;

/// Longest pause after which a caller may send the commands that the rate would have allowed meanwhile.
const SAVED_UP: Duration = Duration::from_secs(4);

/// Number of callers above which those are forgotten whose commands are within the rate.
const CALLERS_MAX: usize = 4096;

/// The rates of all callers.
#[derive(Debug, Default)]
pub(super) struct CommandRates {
    /// Time at which the commands so far are within the rate, by caller.
    due: Mutex<HashMap<Arc<str>, Instant>>,
}

impl CommandRates {
    /// Waits until a caller may send this number of commands. Commands of operators are not limited. Returns `false` at
    /// once if the caller may not send them until the deadline. They are then not counted.
    pub(super) async fn wait(
        &self,
        caller: &Caller,
        commands: usize,
        until: Option<Instant>,
    ) -> bool {
        if caller.role == Role::Operator {
            return true;
        }
        let at = self.next(&caller.name, commands, Instant::now(), until);
        match at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => return false,
        }
        true
    }

    /// Counts this number of commands of a caller. Returns the time at which they may be applied; `None` if this is
    /// after the deadline.
    fn next(
        &self,
        caller: &Arc<str>,
        commands: usize,
        now: Instant,
        until: Option<Instant>,
    ) -> Option<Instant> {
        let mut all = self.due.lock();
        if all.len() >= CALLERS_MAX && !all.contains_key(caller) {
            all.retain(|_, due| *due > now);
        }
        let due = all.entry(caller.clone()).or_insert(now);
        let at = due.checked_sub(SAVED_UP).map_or(now, |least| least.max(now));
        if until.is_some_and(|until| at > until) {
            return None;
        }
        *due = (*due).max(now) + commands as u32 * Duration::from_secs(1) / PER_SECOND;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_wait_once_they_exceed_the_rate() {
        let (now, rates) = (Instant::now(), CommandRates::default());
        let [one, other] = ["one", "other"].map(Arc::from);
        let most = PER_SECOND as usize * SAVED_UP.as_secs() as usize;
        let next = |caller: &Arc<str>, commands: usize, now: Instant| {
            rates.next(caller, commands, now, None).unwrap()
        };
        assert_eq!(next(&one, most, now), now);
        assert_eq!(next(&one, PER_SECOND as usize, now), now);
        for _ in 0..9 {
            assert_eq!(rates.next(&one, 1, now, Some(now)), None, "rejected, and not counted");
        }
        assert_eq!(next(&one, 1, now), now + Duration::from_secs(1));
        assert_eq!(next(&other, 1, now), now);
        // After a pause, as many commands as before may come at once.
        let later = now + SAVED_UP * 2;
        assert_eq!(next(&one, most, later), later);
        assert_eq!(next(&one, 1, later), later);
        assert!(next(&one, 1, later) > later);
    }
}
