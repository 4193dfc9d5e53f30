//! The policies: the score of a task on a machine, and the devices that it gets there.
//!
//! A score is a whole number from 0 to 100, rounded like in the published program. Of machines with equal scores, the
//! first by name is chosen.

use super::fragments::Shapes;
use super::machine::{DeviceChoice, DeviceMachine, Shape, WHOLE};
use clap::ValueEnum;

/// Processors of the largest machine of the published program, in thousandths; scores are shares of this amount.
const CPU_MILLI_MAX: f64 = 128_000.0;
const DEVICES_MILLI_MAX: i64 = 8_000;

/// Placement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Random machine and GPU where the task fits
    Random,
    /// Machine with the smallest dot product of its free amounts and the request
    DotProd,
    /// Machine whose tasks request the same number of GPUs as this task
    GpuClustering,
    /// GPUs already in use first, then unused GPUs of machines in use
    GpuPacking,
    /// Machine on which the smallest share of CPU and GPUs remains free
    BestFit,
    /// Machine where the expected amount of unusable free GPU grows least (fragmentation gradient descent)
    Fgd,
    /// Like `fgd`, but considers 50 future tasks on average instead of one, and adds a small cost for free GPUs
    FgdAhead,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 7] = [
        Policy::Random,
        Policy::DotProd,
        Policy::GpuClustering,
        Policy::GpuPacking,
        Policy::BestFit,
        Policy::Fgd,
        Policy::FgdAhead,
    ];

    /// Name of the policy in the published table.
    #[must_use]
    pub fn published_name(self) -> Option<&'static str> {
        Some(match self {
            Policy::Random => "01-Random",
            Policy::DotProd => "02-DotProd",
            Policy::GpuClustering => "03-GpuClustering",
            Policy::GpuPacking => "04-GpuPacking",
            Policy::BestFit => "05-BestFit",
            Policy::Fgd => "06-FGD",
            Policy::FgdAhead => return None,
        })
    }

    /// Score of a machine on which a task fits; higher is better. The random policy gives all machines equal scores.
    #[must_use]
    pub fn score(self, machine: &DeviceMachine, shape: &Shape, shapes: &Shapes) -> i64 {
        match self {
            Policy::Random => 0,
            Policy::DotProd => dot_product(machine, shape),
            Policy::GpuClustering => clustering(machine, shape),
            Policy::GpuPacking => packing(machine, shape),
            Policy::BestFit => best_fit(machine, shape),
            _ => self.gradient(machine, shape, shapes).0,
        }
    }

    /// Chooses the devices that a task gets on a machine. `chance` returns a random choice out of a number of devices,
    /// for the random policy.
    pub fn devices(
        self,
        machine: &DeviceMachine,
        shape: &Shape,
        shapes: &Shapes,
        chance: &mut dyn FnMut(usize) -> usize,
    ) -> DeviceChoice {
        match self {
            Policy::Random if shape.is_share() => {
                let fit = |i: &usize| machine.left()[*i] >= shape.device_milli;
                let fits: Vec<usize> = (0..machine.left().len()).filter(fit).collect();
                DeviceChoice::default().with(fits[chance(fits.len())])
            }
            Policy::Random
            | Policy::DotProd
            | Policy::GpuClustering
            | Policy::GpuPacking
            | Policy::BestFit => machine.fullest(shape),
            _ => self.gradient(machine, shape, shapes).1,
        }
    }

    /// Score of a gradient policy, with the best devices. For a task that shares a device, each device is tried; other
    /// tasks get the fullest devices that fit.
    fn gradient(
        self,
        machine: &DeviceMachine,
        shape: &Shape,
        shapes: &Shapes,
    ) -> (i64, DeviceChoice) {
        let before = self.lost(machine, machine.left(), shapes);
        let mut left = machine.left().to_vec();
        let mut after = machine.clone();
        after.cpu_milli -= shape.cpu_milli;
        after.memory_mib -= shape.memory_mib;
        let left_milli = machine.left_milli() - shape.asked_milli();
        let score = |left: &[i16]| {
            let shrinks = before - self.lost(&after, left, shapes);
            match self {
                Policy::FgdAhead => percent(shrinks - LEFT_COSTS * left_milli as f64),
                _ => percent(shrinks),
            }
        };
        if !shape.is_share() {
            let chosen = machine.fullest(shape);
            for (i, left) in left.iter_mut().enumerate() {
                *left -= if chosen.has(i) { shape.device_milli } else { 0 };
            }
            return (score(&left), chosen);
        }
        let mut best: Option<(i64, usize)> = None;
        for i in 0..left.len() {
            // Devices with equal free parts are equivalent, so only the first of them is tried.
            if left[i] < shape.device_milli || left[..i].contains(&left[i]) {
                continue;
            }
            left[i] -= shape.device_milli;
            let score = score(&left);
            left[i] += shape.device_milli;
            if best.is_none_or(|(other, _)| score > other) {
                best = Some((score, i));
            }
        }
        let (score, device) = best.expect("only tasks that fit are scored");
        (score, DeviceChoice::default().with(device))
    }

    /// Returns the part of a machine that the policy counts as lost if its devices have these free parts.
    fn lost(self, machine: &DeviceMachine, left: &[i16], shapes: &Shapes) -> f64 {
        match self {
            Policy::FgdAhead => shapes.ahead().idle_of(machine, left),
            _ => shapes.fragment_of(machine.cpu_milli, machine.model, left),
        }
    }
}

/// Cost of a thousandth of a free device in [`Policy::FgdAhead`], so that machines in use are filled first. The value
/// was chosen by experiments: half this cost gives the same gain, and twice this cost slightly less. With a quarter of
/// this cost, a list in which all tasks share devices is spread over unused devices, and five percent of the devices
/// are lost.
const LEFT_COSTS: f64 = 1.0 / 80.0;

/// Converts a decrease of the lost part to a score: 50 for no change, 73 for a decrease by a whole device.
fn percent(shrinks: f64) -> i64 {
    (100.0 / (1.0 + (-shrinks / 1000.0).exp())) as i64
}

/// One minus half the dot product of the free amounts and the request. Both are shares of the largest machine.
fn dot_product(machine: &DeviceMachine, shape: &Shape) -> i64 {
    let cpu = machine.cpu_milli as f64 / CPU_MILLI_MAX * (shape.cpu_milli as f64 / CPU_MILLI_MAX);
    let most = DEVICES_MILLI_MAX as f64;
    let devices = machine.left_milli() as f64 / most * (shape.asked_milli() as f64 / most);
    ((1.0 - (cpu + devices) / 2.0) * 100.0) as i64
}

/// Score of the clustering policy: 75 if the machine has only tasks of this size, 50 if it also has others, 25 if it is
/// empty, 0 if it has only others. The score rises by up to 25 with the part of eight devices that is in use; devices
/// that the machine lacks count as used. For a task without devices, all machines have equal scores.
fn clustering(machine: &DeviceMachine, shape: &Shape) -> i64 {
    if shape.devices == 0 {
        return 0;
    }
    let used = 25 * (DEVICES_MILLI_MAX - machine.left_milli()) / DEVICES_MILLI_MAX;
    used + match machine.sizes(shape) {
        (true, false) => 75,
        (true, true) => 50,
        (false, false) => 25,
        (false, true) => 0,
    }
}

/// Score of the packing policy. If the task fits on devices in use, the score is 50 to 100: the less of these devices
/// is left, the higher. If the task needs unused devices of a machine in use, the score is 33 to 50: the fewer it
/// needs, the higher. On a machine without a device in use, the score is below 33: the fewer devices the machine has,
/// the higher.
fn packing(machine: &DeviceMachine, shape: &Shape) -> i64 {
    if shape.devices == 0 {
        return 0;
    }
    let whole = machine.whole();
    if whole == machine.left().len() {
        return (33 - whole as i64).max(whole as i64);
    }
    let chosen = machine.fullest(shape);
    let left = machine.left().iter().enumerate().filter(|(i, _)| chosen.has(*i));
    let whole_used = left.clone().filter(|(_, left)| **left == WHOLE).count() as i64;
    if whole_used > 0 {
        return (50 - whole_used).max(33);
    }
    let percent: i64 = left.map(|(_, left)| i64::from(*left) * 100 / i64::from(WHOLE)).sum();
    (100 - percent / 10).max(50)
}

/// One minus half of the sum of the amounts that would be left. The amounts are shares of the largest machine.
fn best_fit(machine: &DeviceMachine, shape: &Shape) -> i64 {
    let cpu = (machine.cpu_milli - shape.cpu_milli) as f64 / CPU_MILLI_MAX;
    let devices = (machine.left_milli() - shape.asked_milli()) as f64 / DEVICES_MILLI_MAX as f64;
    ((1.0 - (cpu * 0.5 + devices * 0.5)) * 100.0) as i64
}
