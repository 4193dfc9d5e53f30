//! The clock of a run; the library itself does not read a clock.

use crate::Pace;
use omega_schedulers::{Clock, Nanos};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The monotonic clock, counted from the creation of this value, and the workload's time. The time that schedulers see
/// also includes the workload's time, so that their delays last as long in the workload as in a real cell.
#[derive(Debug)]
pub(crate) struct RunClock {
    start: Instant,
    passed_ns: AtomicU64,
    /// The workload's time of its last event.
    event_ms: AtomicU64,
    /// Seconds of the workload per second; `None` if its time only advances with its events.
    speed: Option<f64>,
}

impl RunClock {
    /// Starts the clock of a run with this pace.
    pub(crate) fn start(pace: Pace) -> RunClock {
        let speed = match pace {
            Pace::Speed(speed) => Some(speed),
            Pace::Fastest | Pace::InTurns => None,
        };
        let start = Instant::now();
        RunClock { start, passed_ns: AtomicU64::new(0), event_ms: AtomicU64::new(0), speed }
    }

    /// Records that the workload has reached an event at this time. Called before the event changes the cell.
    pub(crate) fn reach(&self, event_ms: u64) {
        // A worker that sees the event's changes in the cell also sees this time, because the cell's lock orders them.
        self.event_ms.store(event_ms, Ordering::Relaxed);
    }

    /// The workload's time.
    pub(crate) fn workload_ms(&self) -> u64 {
        let event_ms = self.event_ms.load(Ordering::Relaxed);
        let by_wall_clock = |speed: f64| (self.seconds() * 1000.0 * speed) as u64;
        self.speed.map_or(event_ms, |speed| by_wall_clock(speed).max(event_ms))
    }

    /// Advances the schedulers' time.
    pub(crate) fn pass(&self, time: Duration) {
        // Only this number is shared between threads, so no ordering is needed.
        self.passed_ns.fetch_add(time.as_nanos() as Nanos, Ordering::Relaxed);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

impl Clock for RunClock {
    fn now(&self) -> Nanos {
        let passed = self.passed_ns.load(Ordering::Relaxed);
        (self.elapsed().as_nanos() as Nanos).saturating_add(passed)
    }
}

/// Processor seconds of this process so far; `None` if the system does not report them.
pub(crate) fn process_cpu_s() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
