//! Delays before tasks that have failed, or were lost, are started again on the same machine.
//!
//! The cell places such a task again at once. Without a delay, a service whose database is away would use up all of its
//! restarts in seconds, and a task that kills its supervisor would be started again and again. The delay begins with
//! the end of the task. It doubles with each further such end, like the delay of restarts by the supervisor.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Delay after the first failure or loss.
const DELAY: Duration = Duration::from_secs(1);

/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(300);

/// Time without a failure or loss, from the end of the delay, after which the count starts again.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Number of tasks above which the counts of tasks without a present delay are forgotten earlier.
const TASKS_MAX: usize = 1 << 14;

/// The delay of one task.
#[derive(Debug)]
struct StartDelay {
    /// Number of failures and losses in a row.
    count: u32,
    start_at: Instant,
}

impl StartDelay {
    fn is_forgotten(&self, now: Instant) -> bool {
        now >= self.start_at + FORGET_AFTER
    }
}

/// The delays of the tasks that have failed or were lost lately, by their name in the driver.
#[derive(Debug, Default)]
pub(crate) struct StartDelays {
    tasks: BTreeMap<String, StartDelay>,
    /// Number of tasks at which old ones are looked for, so that the cost of each further task is constant.
    forget_at: usize,
}

impl StartDelays {
    /// Begins the delay of a task that has failed or was lost. Returns its duration.
    pub(crate) fn begin(&mut self, name: &str, now: Instant) -> Duration {
        self.forget(now);
        let first = StartDelay { count: 0, start_at: now };
        let task = self.tasks.entry(name.to_owned()).or_insert(first);
        if task.is_forgotten(now) {
            task.count = 0;
        }
        let delay = DELAY.saturating_mul(1 << task.count.min(20)).min(DELAY_MAX);
        task.count = task.count.saturating_add(1);
        task.start_at = now + delay;
        delay
    }

    /// Forgets old tasks if there are many.
    fn forget(&mut self, now: Instant) {
        if self.tasks.len() < self.forget_at {
            return;
        }
        self.tasks.retain(|_, task| !task.is_forgotten(now));
        if self.tasks.len() >= TASKS_MAX {
            self.tasks.retain(|_, task| now < task.start_at);
        }
        let count = self.tasks.len();
        self.forget_at = if count < TASKS_MAX { TASKS_MAX.min(2 * count) } else { 2 * count };
    }

    /// Whether a task must not start yet.
    pub(crate) fn has(&self, name: &str, now: Instant) -> bool {
        self.tasks.get(name).is_some_and(|task| now < task.start_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_five_minutes() {
        let (mut delays, mut now) = (StartDelays::default(), Instant::now());
        assert!(!delays.has("a", now), "it has not failed");
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(delays.begin("a", now), Duration::from_secs(seconds));
            assert!(delays.has("a", now + Duration::from_millis(999)));
            assert!(!delays.has("b", now), "another task");
            now += Duration::from_secs(seconds);
            assert!(!delays.has("a", now));
        }
    }

    #[test]
    fn many_tasks_are_forgotten_when_their_delay_is_over() {
        let (mut delays, mut now) = (StartDelays::default(), Instant::now());
        for task in 0..4 * TASKS_MAX {
            delays.begin(&task.to_string(), now);
            assert!(delays.tasks.len() <= TASKS_MAX);
            now += Duration::from_millis(1);
        }
        assert!(delays.tasks.len() >= 1000, "these still have a delay");
    }

    #[test]
    fn a_long_time_without_a_failure_ends_the_count() {
        let (mut delays, start) = (StartDelays::default(), Instant::now());
        delays.begin("a", start);
        delays.begin("a", start);
        let late = start + 2 * DELAY + FORGET_AFTER;
        assert_eq!(delays.begin("a", late - Duration::from_millis(1)), 4 * DELAY);
        let late = late + 4 * DELAY + FORGET_AFTER;
        assert_eq!(delays.begin("a", late), DELAY);
    }
}
