//! Delays before tasks are started again after their supervisor was lost.
//!
//! The cell places a lost task again at once. Without a delay, a task that kills its supervisor would be started again
//! and again. The delay begins with the loss. It doubles with each further loss, like the delay of restarts by the
//! supervisor.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Delay after the first loss.
const DELAY: Duration = Duration::from_secs(1);

/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(300);

/// Time without a loss, from the end of the delay, after which the count of losses starts again.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The losses of one task.
#[derive(Debug)]
struct Row {
    count: u32,
    start_at: Instant,
}

/// The tasks that were lost lately, by their name in the driver.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    rows: BTreeMap<String, Row>,
}

impl Losses {
    /// Records that a task was lost. Returns the delay before its next start on this machine.
    pub(crate) fn lost(&mut self, name: &str, now: Instant) -> Duration {
        self.rows.retain(|_, row| now < row.start_at + FORGET_AFTER);
        let row = self.rows.entry(name.to_owned()).or_insert(Row { count: 0, start_at: now });
        let delay = DELAY.saturating_mul(1 << row.count.min(20)).min(DELAY_MAX);
        row.count = row.count.saturating_add(1);
        row.start_at = now + delay;
        delay
    }

    /// Whether a task must not start yet.
    pub(crate) fn delays(&self, name: &str, now: Instant) -> bool {
        self.rows.get(name).is_some_and(|row| now < row.start_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_five_minutes() {
        let (mut losses, mut now) = (Losses::default(), Instant::now());
        assert!(!losses.delays("a", now), "it was never lost");
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(losses.lost("a", now), Duration::from_secs(seconds));
            assert!(losses.delays("a", now + Duration::from_millis(999)));
            assert!(!losses.delays("b", now), "another task");
            now += Duration::from_secs(seconds);
            assert!(!losses.delays("a", now));
        }
    }

    #[test]
    fn a_long_time_without_a_loss_ends_the_row() {
        let (mut losses, start) = (Losses::default(), Instant::now());
        losses.lost("a", start);
        losses.lost("a", start);
        assert_eq!(losses.lost("b", start + DELAY * 2 + FORGET_AFTER), DELAY);
        assert_eq!(losses.rows.len(), 1, "the row of the other task is forgotten");
    }
}
