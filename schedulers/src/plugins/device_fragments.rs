//! Device fragmentation: the part of a machine's free devices that the expected next task cannot use.
//!
//! Future tasks are modelled by a list of shapes with weights. The *fragment* of a shape is the free device capacity
//! that tasks of the shape cannot use: all of the capacity if the shape does not fit or requests no devices, else the
//! free parts of devices that are too small for the shape. A task goes to the machine where the mean fragment over all
//! shapes shrinks most, or grows least. This is fragmentation gradient descent, Weng et al., "Beware of
//! Fragmentation", USENIX ATC 2023. (`omega-sim fgd` repeats its published table.)

use crate::framework::plugin::{Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block, Devices};
use omega_core::limits::{DEVICE_MILLI, DEVICES_MAX};
use omega_core::{DeviceRequest, DeviceSet, KindId};

/// Expected tasks of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceShape {
    /// Devices that each task requests; `None` if it requests none.
    pub devices: Option<DeviceRequest>,
    /// Processor that each task requests, in thousandths of a core.
    pub cpu_milli: i64,
    /// Relative frequency.
    pub weight: u32,
}

/// Score: prefers machines where the task reduces the expected fragment most, or raises it least.
#[derive(Clone, Debug)]
pub struct DeviceFragments(Vec<DeviceShape>);

impl DeviceFragments {
    /// A score for tasks of these shapes.
    #[must_use]
    pub fn new(shapes: Vec<DeviceShape>) -> DeviceFragments {
        DeviceFragments(shapes)
    }

    /// The requests in Alibaba's cluster of 6,212 devices, as published: 13.3 % of the tasks request no device, 37.8 %
    /// a part of a device (here half of it), 48.0 % one device, and 0.2, 0.2 and 0.5 % request 2, 4 and 8 devices.
    #[must_use]
    pub fn published() -> Vec<DeviceShape> {
        let shape = |(count, milli_each, weight)| {
            let devices = (count > 0).then_some(DeviceRequest { count, milli_each });
            DeviceShape { devices, cpu_milli: 0, weight }
        };
        let whole = DEVICE_MILLI as u16;
        let shapes = [
            (0, 0, 133),
            (1, 500, 378),
            (1, whole, 480),
            (2, whole, 2),
            (4, whole, 2),
            (8, whole, 5),
        ];
        shapes.map(shape).into()
    }

    /// Free device capacity of a machine that the next task could not use, in thousandths of a device, summed over the
    /// shapes with their weights.
    fn fragment(&self, cpu_milli: i64, left: &[i16]) -> i64 {
        let sum =
            |left: &mut dyn Iterator<Item = &i16>| left.map(|left| i64::from((*left).max(0))).sum();
        let all: i64 = sum(&mut left.iter());
        let lost = |shape: &DeviceShape| {
            let Some(DeviceRequest { count, milli_each }) = shape.devices else { return all };
            let small = |left: &&i16| i32::from(**left) < i32::from(milli_each);
            let fit = left.iter().filter(|left| !small(left)).count();
            if shape.cpu_milli <= cpu_milli && fit >= usize::from(count) {
                sum(&mut left.iter().filter(small))
            } else {
                all
            }
        };
        self.0.iter().map(|shape| i64::from(shape.weight) * lost(shape)).sum()
    }

    /// Amount by which a task reduces the expected fragment, in thousandths of a device times the weights.
    fn shrinks(
        &self,
        cpu_milli: [i64; 2],
        devices: &Devices,
        request: Option<DeviceRequest>,
    ) -> i64 {
        let before = self.fragment(cpu_milli[0], devices.left());
        let mut left = [0; DEVICES_MAX as usize];
        let left = &mut left[..devices.left().len()];
        left.copy_from_slice(devices.left());
        if let Some(request) = request
            && let Some(chosen) = devices.choose(request, DeviceSet::default())
        {
            chosen.iter().for_each(|device| left[device] -= request.milli_each as i16);
        }
        before - self.fragment(cpu_milli[1], left)
    }
}

impl Score for DeviceFragments {
    fn name(&self) -> &'static str {
        "device_fragments"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.any_devices()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let cpu = tasks.need.request.get(KindId::CPU.index()).copied().unwrap_or(0);
        let weights: i64 = self.0.iter().map(|shape| i64::from(shape.weight)).sum();
        let free = block.free(KindId::CPU);
        for lane in lanes(among) {
            let shrinks = match block.view().devices(block.first_row() + lane) {
                None => 0,
                Some(devices) => {
                    self.shrinks([free[lane], free[lane] - cpu], devices, tasks.need.devices)
                }
            };
            scores[lane] = points(shrinks, weights.max(1) * i64::from(DEVICE_MILLI));
        }
    }
}

/// Points for a change: half of the maximum if nothing changes, and close to the maximum if the fragment shrinks by
/// very much. With x the shrinkage in devices, the curve is x / (1 + |x|).
fn points(shrinks: i64, device: i64) -> i32 {
    let half = i128::from(SCORE_MAX) / 2;
    let slope = i128::from(shrinks) * half / (i128::from(device) + i128::from(shrinks).abs());
    (half + slope) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: DeviceRequest = DeviceRequest { count: 1, milli_each: 500 };
    const TWO: DeviceRequest = DeviceRequest { count: 2, milli_each: 1000 };

    fn shape(devices: Option<DeviceRequest>, cpu_milli: i64, weight: u32) -> DeviceShape {
        DeviceShape { devices, cpu_milli, weight }
    }

    #[test]
    fn what_no_shape_can_use_is_a_fragment() {
        let fragments = DeviceFragments::new(vec![
            shape(Some(HALF), 1000, 3),
            shape(Some(TWO), 2000, 1),
            shape(None, 500, 1),
        ]);
        // There are two whole devices. The shape with two devices fits, and the shape without devices uses none of
        // them.
        assert_eq!(fragments.fragment(2000, &[1000, 1000]), 2000);
        // With less processor the shape with two devices does not fit.
        assert_eq!(fragments.fragment(1500, &[1000, 1000]), 2000 + 2000);
        // The second device has 400 thousandths free, too little for half a device.
        assert_eq!(fragments.fragment(4000, &[1000, 400]), 3 * 400 + 1400 + 1400);
        assert_eq!(fragments.fragment(500, &[1000, 400]), 3 * 1400 + 1400 + 1400);
        assert_eq!(fragments.fragment(500, &[0, 0]), 0);
    }

    #[test]
    fn a_task_goes_where_the_next_one_loses_least() {
        let one = DeviceRequest { count: 1, milli_each: 1000 };
        let shapes = [HALF, one, TWO].map(|devices| shape(Some(devices), 0, 1));
        let fragments = DeviceFragments::new(shapes.into());
        let score = |left: &[i16]| {
            let devices = Devices::from_left(left).unwrap();
            points(fragments.shrinks([9000, 8000], &devices, Some(HALF)), 3000)
        };
        let (filled_up, broken, of_one) =
            (score(&[500, 0]), score(&[1000, 1000]), score(&[1000, 0]));
        assert!(filled_up > of_one && of_one > broken, "{filled_up} {of_one} {broken}");
        assert!((0..=SCORE_MAX).contains(&filled_up) && (0..=SCORE_MAX).contains(&broken));
        // Without devices nothing changes.
        let devices = Devices::new(2);
        assert_eq!(points(fragments.shrinks([9000, 8000], &devices, None), 3000), SCORE_MAX / 2);
    }
}
