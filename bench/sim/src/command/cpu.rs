//! Processor time of a simulation, which is shown to the user and does not affect results.

use rustix::time::{ClockId, clock_gettime};

/// Runs some work on this thread, and returns its result and processor seconds.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = thread_seconds();
    let result = work();
    (result, thread_seconds() - before)
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
