//! The clock of a run; the library itself does not read a clock.

use omega_schedulers::{Clock, Nanos};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The monotonic clock, counted from the creation of this value. The time that schedulers see also includes the
/// workload's time, so that their delays last as long in the workload as in a real cell.
#[derive(Debug)]
pub(crate) struct RunClock {
    start: Instant,
    passed_ns: AtomicU64,
}

impl RunClock {
    pub(crate) fn start() -> RunClock {
        RunClock { start: Instant::now(), passed_ns: AtomicU64::new(0) }
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
