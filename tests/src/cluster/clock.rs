//! Wrong clocks of replicas, which are too fast or too slow, and are set forward or back.
//!
//! A replica has two clocks. One counts ticks and never goes back, like the system's monotonic clock; it can jump
//! forward by many ticks, as when a suspended computer wakes up. The other gives the cell's time, and can be set
//! forward and back.

use super::plan::{Clocks, Micros};
use super::{Event, TICK, World};
use crate::random::Dice;

/// Reading of all clocks at the start of a run, in milliseconds. It is large enough that a clock can be set back by an
/// hour.
pub const BEGIN_MS: u64 = 10_000_000_000;

/// Maximum by which a clock of the cell's time is set forward or back, in milliseconds.
const JUMP_MS_MAX: usize = 3_600_000;

/// Maximum number of ticks at once: several election timeouts.
const TICKS_AT_ONCE_MAX: usize = 60;

/// The clock of one host.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time between two ticks.
    pub tick: Micros,
    /// Difference of the clock of the cell's time from the right time, in milliseconds.
    offset_ms: i64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { tick: TICK, offset_ms: 0 }
    }
}

impl Clock {
    /// Creates a clock with its own rate.
    #[must_use]
    pub fn drifting(dice: &mut Dice) -> Clock {
        let tick = TICK / 2 + dice.below(3 * TICK as usize / 2) as Micros;
        Clock { tick, offset_ms: 0 }
    }

    /// Reading of the clock, in milliseconds.
    #[must_use]
    pub fn shows_ms(&self, now: Micros) -> u64 {
        let run_ms = now * TICK / self.tick / 1000;
        (BEGIN_MS + run_ms).saturating_add_signed(self.offset_ms)
    }

    /// Sets the clock of the cell's time forward or back.
    pub fn jump(&mut self, dice: &mut Dice) {
        self.offset_ms = dice.below(2 * JUMP_MS_MAX) as i64 - JUMP_MS_MAX as i64;
    }
}

impl World {
    /// If the plan has wrong clocks, gives each host a wrong clock, and schedules the first jump.
    pub(super) fn wind_clocks(&mut self) {
        if let Clocks::Wrong(every) = self.plan.clocks {
            self.hosts
                .iter_mut()
                .for_each(|host| host.clock = Clock::drifting(&mut self.clock_dice));
            self.after(every, Event::Clock);
        }
    }

    /// Makes one clock jump, and schedules the next jump.
    pub(super) fn clock(&mut self) -> Result<(), String> {
        let Clocks::Wrong(every) = self.plan.clocks else { return Ok(()) };
        if self.calm {
            return Ok(());
        }
        let delay = every / 2 + self.clock_dice.below(every as usize) as Micros;
        self.after(delay, Event::Clock);
        let host = self.clock_dice.below(self.hosts.len());
        *self.report.faults.entry("clock jump").or_default() += 1;
        if self.clock_dice.chance(50) {
            self.hosts[host].clock.jump(&mut self.clock_dice);
            return Ok(());
        }
        let ticks = 1 + self.clock_dice.below(TICKS_AT_ONCE_MAX);
        self.with(host, |running| (0..ticks).for_each(|_| running.replica.tick()))
    }

    /// After the faults, sets the rates of all clocks to the right one. Offsets are not changed.
    pub(super) fn set_clocks_right(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.clock.tick = TICK);
    }
}
