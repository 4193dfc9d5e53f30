//! Device fragmentation: the part of a machine's devices that the expected next task cannot use.
//!
//! Future tasks are assumed to be like those of the list: they have the most frequent shapes that make up 95 % of the
//! list, with their frequencies as probabilities. If a shape does not fit on the machine, all free parts of the devices
//! are a fragment for it. If the shape fits, the fragment is the free parts of those devices that are too small for it.
//! For a shape without devices, all free parts are a fragment, since such a task uses no device. The expected fragment
//! F is the mean over the shapes.

use super::ahead::Ahead;
use super::machine::{DeviceMachine, Shape};
use std::collections::BTreeMap;

/// Share of the list's tasks that the considered shapes cover, in percent, as in the publication.
const POPULAR_PERCENT: usize = 95;

/// The shapes that future tasks are expected to have.
#[derive(Clone, Debug)]
pub struct Shapes {
    /// The requested parts of a device, ascending.
    parts: Vec<i16>,
    shapes: Vec<Expected>,
    /// Probability of a task without devices.
    without: f64,
    ahead: Ahead,
}

/// A shape with devices.
#[derive(Clone, Copy, Debug)]
struct Expected {
    shape: Shape,
    /// Index in [`Shapes::parts`] of the part of a device that the shape requests.
    part: usize,
    likely: f64,
}

/// Fit of one requested part of a device on a machine's devices.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// Number of devices that have this part free.
    devices: usize,
    /// Sum of the free parts of the other devices, which have less free than this part.
    too_small: i64,
}

impl Shapes {
    /// Returns the expected shapes, from a list of tasks.
    #[must_use]
    pub fn of(tasks: &[Shape]) -> Shapes {
        let mut all: BTreeMap<Shape, usize> = BTreeMap::new();
        let mut counts: BTreeMap<Shape, usize> = BTreeMap::new();
        for task in tasks {
            *all.entry(*task).or_default() += 1;
            *counts.entry(Shape { memory_mib: 0, ..*task }).or_default() += 1;
        }
        let ahead = Ahead::of(all, tasks.len());
        let mut by_count: Vec<(usize, Shape)> =
            counts.into_iter().map(|(shape, count)| (count, shape)).collect();
        by_count.sort_unstable();
        let mut popular = Vec::new();
        let mut sum = 0;
        while let Some((count, shape)) = by_count.pop()
            && sum * 100 < tasks.len() * POPULAR_PERCENT
        {
            sum += count;
            popular.push((count, shape));
        }
        let with_devices = popular.iter().filter(|(_, shape)| shape.devices > 0);
        let mut parts: Vec<i16> =
            with_devices.clone().map(|(_, shape)| shape.device_milli).collect();
        parts.sort_unstable();
        parts.dedup();
        let likely = |count: usize| count as f64 / sum.max(1) as f64;
        let shapes: Vec<Expected> = with_devices
            .map(|(count, shape)| Expected {
                shape: *shape,
                part: parts.partition_point(|part| *part < shape.device_milli),
                likely: likely(*count),
            })
            .collect();
        let without = popular.iter().filter(|(_, shape)| shape.devices == 0);
        let without = without.map(|(count, _)| likely(*count)).sum();
        Shapes { parts, shapes, without, ahead }
    }

    /// All shapes, for considering more than one future task.
    #[must_use]
    pub fn ahead(&self) -> &Ahead {
        &self.ahead
    }

    /// The expected fragment of a machine in thousandths of a device.
    #[must_use]
    pub fn fragment(&self, machine: &DeviceMachine) -> f64 {
        self.fragment_of(machine.cpu_milli, machine.model, machine.left())
    }

    /// Returns the expected fragment of a machine with these free amounts, in thousandths of a device.
    #[must_use]
    pub fn fragment_of(&self, cpu_milli: i64, model: u8, left: &[i16]) -> f64 {
        let all: i64 = left.iter().map(|left| i64::from(*left)).sum();
        if all == 0 {
            return 0.0;
        }
        // Many shapes request the same part of a device, so each part is computed once.
        let mut fits = [Fit::default(); PARTS_MAX];
        for (fit, part) in fits.iter_mut().zip(&self.parts) {
            for left in left {
                if left >= part {
                    fit.devices += 1;
                } else {
                    fit.too_small += i64::from(*left);
                }
            }
        }
        let mut fragment = self.without * all as f64;
        for expected in &self.shapes {
            let shape = &expected.shape;
            let fit =
                fits.get(expected.part).copied().unwrap_or_else(|| fit(left, shape.device_milli));
            let usable = shape.cpu_milli <= cpu_milli
                && shape.models >> model & 1 == 1
                && fit.devices >= usize::from(shape.devices);
            fragment += expected.likely * if usable { fit.too_small } else { all } as f64;
        }
        fragment
    }
}

/// Maximum number of parts that are computed once for all shapes; lists of shapes have some 20.
const PARTS_MAX: usize = 64;

fn fit(left: &[i16], part: i16) -> Fit {
    let too_small = left.iter().filter(|left| **left < part);
    Fit {
        devices: left.len() - too_small.clone().count(),
        too_small: too_small.map(|left| i64::from(*left)).sum(),
    }
}
