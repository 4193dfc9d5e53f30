//! Processor time, which is hardly affected by other load on a shared computer, and wall time.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Time of some work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    /// Processor time of the thread, or the sum over several threads.
    pub(crate) cpu: Duration,
    /// Wall time.
    pub(crate) wall: Duration,
}

impl Span {
    /// Processor nanoseconds per piece of work, for `count` pieces.
    pub(crate) fn nanos_each(self, count: usize) -> f64 {
        self.cpu.as_nanos() as f64 / count as f64
    }

    /// Wall nanoseconds per piece of work, for `count` pieces.
    pub(crate) fn wall_nanos_each(self, count: usize) -> f64 {
        self.wall.as_nanos() as f64 / count as f64
    }

    /// Processor and wall nanoseconds per piece of work, for `count` pieces.
    pub(crate) fn each(self, count: usize) -> Figure {
        Figure { cpu: self.nanos_each(count), wall: self.wall_nanos_each(count) }
    }
}

impl std::ops::AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        self.cpu += other.cpu;
        self.wall += other.wall;
    }
}

/// Nanoseconds per piece of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figure {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

impl Figure {
    /// Median, separately for processor and wall time.
    pub(crate) fn median(figures: &[Figure]) -> Figure {
        Figure {
            cpu: median(figures.iter().map(|figure| figure.cpu).collect()),
            wall: median(figures.iter().map(|figure| figure.wall).collect()),
        }
    }
}

/// The middle value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Processor time that this thread has used.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processor time that this process has used.
fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs some work on this thread, and returns its result and time.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Span) {
    timed_by(thread_time, work)
}

/// Runs some work of several threads, and returns its result and the time of the whole process.
pub(crate) fn timed_on_all_threads<T>(work: impl FnOnce() -> T) -> (T, Span) {
    timed_by(process_time, work)
}

/// Runs some work, and returns its result and time. `clock` returns the processor time so far.
fn timed_by<T>(clock: fn() -> Duration, work: impl FnOnce() -> T) -> (T, Span) {
    let (wall, cpu) = (Instant::now(), clock());
    let result = work();
    let cpu = clock() - cpu;
    (result, Span { cpu, wall: wall.elapsed() })
}

/// Returns the medians of Omega's figures and of the bare loop's figures. Each is run `runs` times, and the two
/// alternate, so that noise affects both.
pub(crate) fn by_turns(
    runs: usize,
    mut ours: impl FnMut() -> Figure,
    mut bare: impl FnMut() -> Figure,
) -> (Figure, Figure) {
    let mut figures = (Vec::new(), Vec::new());
    for _ in 0..runs {
        figures.0.push(ours());
        figures.1.push(bare());
    }
    (Figure::median(&figures.0), Figure::median(&figures.1))
}
