//! Amount of a machine's devices would lie idle for long: the fragment, seen from more than one task ahead.
//!
//! The expected fragment asks whether the *next* task could use what is left. At a full cell hundreds of tasks
//! pass a machine by before it changes, so that what one task in thirty can use is soon taken, and what none can
//! use is lost: to the fragment the two are nearly the same, 97 % and 100 %. Here a device counts by the chance
//! that none of the next N tasks could use it. N is not known, and is taken to be geometric with mean m; with
//! p the chance of one task that can, the sum over N is closed:
//!
//! ```text
//!              what is left · (1 − p)                     p      0    1/50   1/10   1/2
//!  idle  = ∑  ────────────────────────        of a device:  1      1    0.49   0.15   0.02
//!         devices    (1 − p) + m · p
//! ```
//!
//! With m = 1 it is nearly the expected fragment.
//!
//! **Memory counts, and so do rare shapes.** Memory that is used up strands devices as processors do; the gradient
//! does not look at it, and to do so is a fifth of what is gained. With memory there are so many shapes that
//! none is common; so none is left out.
//!
//! **Scores stay whole percent.** Much of what a full cell does differs by less than the 40 thousandths of a device
//! that one percent is. Of machines that equal each other so, the first in an order that is always the same is
//! taken: they are filled one after another, and others stay whole. Without rounding a fifth of the gain is lost.

use super::machine::{DeviceMachine, Shape};

/// Mean number of future tasks considered. Chosen by experiments on the eight lists of the trace:
/// with 25 and with 100 each of them still gains.
const TASKS_AHEAD: f64 = 50.0;

/// All shapes with devices, by the requested part of a device.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    /// Ascending by part.
    parts: Vec<Part>,
}

/// Shapes with the same requested part of a device.
#[derive(Clone, Debug)]
struct Part {
    milli: i16,
    /// Each with how likely it is.
    shapes: Vec<(Shape, f64)>,
}

impl Ahead {
    /// New distribution from shapes with their counts, and the number of tasks.
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

    /// Expected idle part of its devices with these amounts left.
    #[must_use]
    pub fn idle_of(&self, machine: &DeviceMachine, left: &[i16]) -> f64 {
        let mut by_left: Vec<i16> = left.iter().copied().filter(|left| *left > 0).collect();
        by_left.sort_unstable();
        let mut parts = self.parts.iter().peekable();
        let (mut idle, mut likely) = (0.0, 0.0);
        for (i, left) in by_left.iter().enumerate() {
            // A device with more left is of use to all that this one is of use to. Parts that are met here fit on
            // this device and those behind it, and on none before it.
            while let Some(part) = parts.next_if(|part| part.milli <= *left) {
                likely += part.likely(machine, by_left.len() - i);
            }
            idle += f64::from(*left) * (1.0 - likely) / (1.0 - likely + TASKS_AHEAD * likely);
        }
        idle
    }
}

impl Part {
    /// Probability that a task requests this part of devices, and fits a machine on which this many
    /// have it free.
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
