//! Progress of a sweep, on a terminal only.
//!
//! The remaining time is estimated from the points of this run. Points run in parallel and finish in bursts, so the
//! estimate is updated when a point is done, and counts down in between.

use indicatif::style::ProgressTracker;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::time::{Duration, Instant};

/// Interval of redrawing while no point is done, to show that the sweep is running.
const TICK: Duration = Duration::from_millis(500);

/// The progress bar of a sweep, removed on drop.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Progress of `all` points, of which `there` were done before.
    pub(super) fn new(all: usize, there: usize) -> Progress {
        if all == there {
            return Progress { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::new(all as u64).with_position(there as u64);
        let left = Left { there: there as u64, seen: there as u64, at: Duration::ZERO };
        let template = "running {bar:30} {human_pos} of {human_len} points, {left}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("left", left));
        }
        bar.enable_steady_tick(TICK);
        Progress { bar }
    }

    /// Counts a finished point.
    pub(super) fn done(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Estimator of the remaining time.
#[derive(Clone)]
struct Left {
    /// Number of points that an earlier run has done.
    there: u64,
    /// Number of finished points. The next field is the time at which this number last changed.
    seen: u64,
    at: Duration,
}

impl Left {
    /// The remaining time; `None` before the first point.
    fn of(&self, all: u64, now: Duration) -> Option<Duration> {
        let done = self.seen.saturating_sub(self.there);
        if done == 0 {
            return None;
        }
        let left = self.at.mul_f64(all.saturating_sub(self.seen) as f64 / done as f64);
        Some(left.saturating_sub(now.saturating_sub(self.at)))
    }
}

impl ProgressTracker for Left {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, state: &ProgressState, _: Instant) {
        if state.pos() != self.seen {
            (self.seen, self.at) = (state.pos(), state.elapsed());
        }
    }

    fn reset(&mut self, _: &ProgressState, _: Instant) {}

    fn write(&self, state: &ProgressState, to: &mut dyn fmt::Write) {
        // Errors of writing the bar are ignored.
        let _ = match self.of(state.len().unwrap_or(0), state.elapsed()) {
            None => write!(to, "time left is not known yet"),
            Some(left) if left.as_secs() == 0 => write!(to, "nearly done"),
            Some(left) => write!(to, "about {} left", HumanDuration(left)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_counts_down_from_when_a_point_was_done() {
        let second = Duration::from_secs;
        let left = |there, seen, at| Left { there, seen, at: second(at) };
        assert_eq!(left(0, 0, 0).of(10, second(5)), None, "nothing is known before the first");
        assert_eq!(left(0, 2, 10).of(10, second(10)), Some(second(40)));
        assert_eq!(left(0, 2, 10).of(10, second(13)), Some(second(37)), "and counts down");
        assert_eq!(left(0, 2, 10).of(10, second(99)), Some(second(0)), "but not below nothing");
        assert_eq!(left(0, 10, 50).of(10, second(50)), Some(second(0)));
    }

    #[test]
    fn points_that_were_there_say_nothing_of_the_time_left() {
        let left = Left { there: 90, seen: 92, at: Duration::from_secs(10) };
        assert_eq!(left.of(100, left.at), Some(Duration::from_secs(40)));
    }
}
