//! The clock of a run; the library itself does not read a clock.

use omega_schedulers::{Clock, Nanos};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The monotonic clock, counted from the creation of this value. The time that schedulers see can be advanced further,
/// to skip time in which nothing happens.
#[derive(Debug)]
pub(crate) struct RunClock {
    start: Instant,
    skipped_s: AtomicU64,
}

impl RunClock {
    pub(crate) fn start() -> RunClock {
        RunClock { start: Instant::now(), skipped_s: AtomicU64::new(0) }
    }

    /// Advances the schedulers' time by a second.
    pub(crate) fn skip_a_second(&self) {
        // Only this number is shared between threads, so no ordering is needed.
        self.skipped_s.fetch_add(1, Ordering::Relaxed);
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
        let skipped = self.skipped_s.load(Ordering::Relaxed) * 1_000_000_000;
        self.elapsed().as_nanos() as Nanos + skipped
    }
}

/// Processor seconds of this process so far; `None` if the system does not report them.
pub(crate) fn process_cpu_s() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}
