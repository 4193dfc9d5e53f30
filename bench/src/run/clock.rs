//! The time, for a library that reads no clock.

use omega_schedulers::{Clock, Nanos};
use std::time::{Duration, Instant};

/// The monotonic clock, from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    start: Instant,
}

impl WallClock {
    pub(crate) fn start() -> WallClock {
        WallClock { start: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

impl Clock for WallClock {
    fn now(&self) -> Nanos {
        self.elapsed().as_nanos() as Nanos
    }
}

/// Processor seconds of this process so far, where the system tells.
pub(crate) fn process_cpu_s() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
