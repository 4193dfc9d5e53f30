//! The times that are written to the cell.

use omega_cellstate::{Cell, SharedCell};
use omega_core::Command;
use omega_store::replica::TIME_AGE_MAX_MS;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Computes the next time of a cell from this computer's clocks.
///
/// Cell time never goes back. If it is ahead of the wall clock, because a leader's wall clock was wrong for a while, it
/// advances at half speed until the wall clock has caught up. So timeouts in the cell still end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CellClock {
    slow_since: Option<SlowSince>,
}

/// Start of the time during which a cell is ahead of the wall clock.
#[derive(Clone, Copy, Debug)]
struct SlowSince {
    at: Instant,
    cell_ms: u64,
}

impl CellClock {
    /// The next time of the cell.
    pub(crate) fn next_ms(&mut self, cell_ms: u64) -> u64 {
        self.next_ms_at(cell_ms, unix_ms(), Instant::now())
    }

    fn next_ms_at(&mut self, cell_ms: u64, wall_ms: u64, now: Instant) -> u64 {
        if wall_ms >= cell_ms {
            self.slow_since = None;
            return wall_ms;
        }
        if self.slow_since.is_none() {
            let ahead_ms = cell_ms - wall_ms;
            tracing::warn!(
                ahead_ms,
                "cell time is ahead of this clock, and advances at half speed until the clock has caught up"
            );
        }
        let since = self.slow_since.get_or_insert(SlowSince { at: now, cell_ms });
        let passed_ms = now.saturating_duration_since(since.at).as_millis() as u64;
        let next_ms = since.cell_ms.saturating_add(passed_ms / 2);
        if next_ms < cell_ms {
            *since = SlowSince { at: now, cell_ms };
        }
        next_ms.max(cell_ms)
    }
}

/// Advances the time of a cell in memory, if something in the cell depends on the time. In a replicated cell, the
/// leader does this.
pub(crate) fn advance_time(cell: &SharedCell) {
    let now_ms = unix_ms();
    let old = |cell: &Cell| cell.now_ms().saturating_add(TIME_AGE_MAX_MS) <= now_ms;
    if cell.read(|cell| cell.depends_on_time() && old(cell)) {
        // The cell never rejects this command.
        let _ = cell.apply(Command::Expire { now_ms });
    }
}

/// The time of this machine, in milliseconds since 1970. A clock before 1970 counts as 1970; the cell never moves its
/// time back.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_ahead_of_the_clock_advances_at_half_speed() {
        let (mut clock, start) = (CellClock::default(), Instant::now());
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(clock.next_ms_at(0, 5_000, start), 5_000);
        // The clock goes back by 4 s.
        assert_eq!(clock.next_ms_at(5_000, 1_000, start), 5_000);
        assert_eq!(clock.next_ms_at(5_000, 3_000, after(2_000)), 6_000);
        assert_eq!(clock.next_ms_at(6_000, 5_000, after(4_000)), 7_000);
        assert_eq!(clock.next_ms_at(7_000, 8_000, after(7_000)), 8_000, "it has caught up");
        // Another leader's time is never set back.
        assert_eq!(clock.next_ms_at(20_000, 9_000, after(8_000)), 20_000);
        assert_eq!(clock.next_ms_at(30_000, 10_000, after(9_000)), 30_000);
        assert_eq!(clock.next_ms_at(30_000, 11_000, after(10_000)), 30_500);
    }
}
