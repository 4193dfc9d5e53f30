//! The expected idle part of a machine's devices, considering more than one future task.
//!
//! The expected fragment considers whether the *next* task can use the free devices. In a full cell, however,
//! hundreds of tasks are considered for a machine before it changes. So a part that one task in thirty can use
//! is soon allocated, and a part that no task can use is lost. But the expected fragments of these two parts are nearly
//! equal: 97 % and 100 %. Here the weight of a device is the probability that none of the next N tasks could use it. N
//! is unknown, and assumed to be geometrically distributed with mean m. If p is the probability that one task can use
//! the device, the sum over N has a closed form:
//!
//! ```text
//!               free part · (1 − p)
//!  idle  =  ∑  ─────────────────────
//!        devices  (1 − p) + m · p
//! ```
//!
//! With m = 50, a device has the weight 1 for p = 0, 0.49 for p = 1/50, 0.15 for p = 1/10, and 0.02 for p = 1/2. With
//! m = 1, the weight is 1 − p, and the idle part is nearly the expected fragment.
//!
//! **Memory and rare shapes are included.** Exhausted memory makes devices unusable, just like exhausted
//! processors. The gradient policy ignores memory; a fifth of the gain over it comes from including memory.
//! With memory there are so many shapes that no shape is frequent, so rare shapes are not left out.
//!
//! **Scores are whole percent.** Many alternatives in a full cell differ by less than one percent, which is 40
//! thousandths of a device. Of machines with equal scores, the first in a fixed order is chosen, so machines are filled
//! one after another, and others stay empty. Without rounding a fifth of the gain is lost.

use super::machine::{DeviceMachine, Shape};

/// Mean number of future tasks considered. It was chosen by experiments on the eight lists of the trace; means of 25
/// and 100 also improve the allocation on all lists.
const TASKS_AHEAD: f64 = 50.0;

/// All shapes with devices, by the requested part of a device.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Parts in ascending order of the requested amount.
    parts: Vec<Part>,
}

/// Shapes with the same requested part of a device.
#[derive(Clone, Debug)]
struct Part {
    milli: i16,
    /// The shapes with their probabilities.
    shapes: Vec<(Shape, f64)>,
}

impl Ahead {
    /// Creates the distribution from shapes with their counts, and the total number of tasks.
    #[must_use]
    pub fn of(counts: impl IntoIterator<Item = (Shape, usize)>, tasks: usize) -> Ahead {
        let mut parts: Vec<Part> = Vec::new();
        for (shape, count) in counts.into_iter().filter(|(shape, _)| shape.devices > 0) {
            let milli = shape.device_milli;
            let at = parts.partition_point(|part| part.milli < milli);
            if parts.get(at).is_none_or(|part| part.milli != milli) {
                parts.insert(at, Part { milli, shapes: Vec::new() });
            }
            parts[at].shapes.push((shape, count as f64 / tasks.max(1) as f64));
        }
        Ahead { parts }
    }

    /// Expected idle part of a machine, in thousandths of a device.
    #[must_use]
    pub fn idle(&self, machine: &DeviceMachine) -> f64 {
        self.idle_of(machine, machine.left())
    }

    /// Expected idle part of the machine's devices if the devices have these free parts.
    #[must_use]
    pub fn idle_of(&self, machine: &DeviceMachine, left: &[i16]) -> f64 {
        let mut by_left: Vec<i16> = left.iter().copied().filter(|left| *left > 0).collect();
        by_left.sort_unstable();
        let mut parts = self.parts.iter().peekable();
        let (mut idle, mut likely) = (0.0, 0.0);
        for (i, left) in by_left.iter().enumerate() {
            // The parts added here fit on this device and on all following ones, which have at least as much free. They
            // fit on no earlier device.
            while let Some(part) = parts.next_if(|part| part.milli <= *left) {
                likely += part.likely(machine, by_left.len() - i);
            }
            idle += f64::from(*left) * (1.0 - likely) / (1.0 - likely + TASKS_AHEAD * likely);
        }
        idle
    }
}

impl Part {
    /// Returns the probability that a task requests this part of a device and fits on the machine. `devices` is the
    /// number of the machine's devices that have the part free.
    fn likely(&self, machine: &DeviceMachine, devices: usize) -> f64 {
        let fits = |shape: &Shape| {
            shape.cpu_milli <= machine.cpu_milli
                && shape.memory_mib <= machine.memory_mib
                && shape.models >> machine.model & 1 == 1
                && usize::from(shape.devices) <= devices
        };
        self.shapes.iter().filter(|(shape, _)| fits(shape)).map(|(_, likely)| likely).sum()
    }
}
