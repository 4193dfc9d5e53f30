//! A machine with devices, and a task that requests a part of it.

use omega_core::limits::{DEVICE_MILLI, DEVICES_MAX};

/// A whole device, in thousandths.
pub const WHOLE: i16 = DEVICE_MILLI as i16;

/// Set of accepted device models. Each model has one bit, at the model's number in the input.
pub type Models = u64;

/// The request of a task. Tasks with equal requests have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Processors in thousandths.
    pub cpu_milli: i64,
    /// Requested thousandths of each device; 0 for a task without devices.
    pub device_milli: i16,
    /// Number of devices.
    pub devices: u8,
    /// The device models that the task accepts.
    pub models: Models,
    /// Memory in mebibytes.
    pub memory_mib: i64,
}

impl Shape {
    /// Sum of the task's device requests, in thousandths of a device.
    #[must_use]
    pub fn asked_milli(&self) -> i64 {
        i64::from(self.device_milli) * i64::from(self.devices)
    }

    /// Whether the task requests only a part of one device, which it shares with other tasks.
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.devices == 1 && self.device_milli < WHOLE
    }
}

/// Free resources of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMachine {
    /// Processors in thousandths.
    pub cpu_milli: i64,
    /// Memory in mebibytes.
    pub memory_mib: i64,
    /// Number of the machine's device model.
    pub model: u8,
    /// Free thousandths of each device.
    left: Vec<i16>,
    /// Number of the machine's tasks by size. Size 0 is a part of a device; size N is N whole devices.
    sizes: [u16; DEVICES_MAX as usize + 1],
}

impl DeviceMachine {
    /// Creates a machine with unused devices.
    #[must_use]
    pub fn new(cpu_milli: i64, memory_mib: i64, devices: u8, model: u8) -> DeviceMachine {
        let (left, sizes) = (vec![WHOLE; usize::from(devices)], [0; DEVICES_MAX as usize + 1]);
        DeviceMachine { cpu_milli, memory_mib, model, left, sizes }
    }

    /// Free amount of each device.
    #[must_use]
    pub fn left(&self) -> &[i16] {
        &self.left
    }

    /// Free amount of all devices.
    #[must_use]
    pub fn left_milli(&self) -> i64 {
        self.left.iter().map(|left| i64::from(*left)).sum()
    }

    /// Number of unused devices.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.left.iter().filter(|left| **left == WHOLE).count()
    }

    /// Whether a task fits.
    #[must_use]
    pub fn fits(&self, shape: &Shape) -> bool {
        let room = self.cpu_milli >= shape.cpu_milli && self.memory_mib >= shape.memory_mib;
        room && (shape.devices == 0 || shape.models >> self.model & 1 == 1)
            && self.left.iter().filter(|left| **left >= shape.device_milli).count()
                >= usize::from(shape.devices)
    }

    /// Chooses the devices as a cell does: the fullest ones on which the task fits, and of equally full ones the first.
    #[must_use]
    pub fn fullest(&self, shape: &Shape) -> DeviceChoice {
        let mut chosen = DeviceChoice::default();
        for _ in 0..shape.devices {
            let fits = |i: &usize| self.left[*i] >= shape.device_milli && !chosen.has(*i);
            let next = (0..self.left.len()).filter(fits).min_by_key(|i| self.left[*i]);
            chosen = chosen.with(next.expect("only tasks that fit are given devices"));
        }
        chosen
    }

    /// Allocates the task's request on these devices.
    pub fn take(&mut self, shape: &Shape, devices: DeviceChoice) {
        self.cpu_milli -= shape.cpu_milli;
        self.memory_mib -= shape.memory_mib;
        for (i, left) in self.left.iter_mut().enumerate() {
            if devices.has(i) {
                *left -= shape.device_milli;
            }
        }
        if shape.devices > 0 {
            self.sizes[size(shape)] += 1;
        }
    }

    /// Returns whether the machine has tasks of this shape's size, and whether it has tasks of other sizes.
    #[must_use]
    pub fn sizes(&self, shape: &Shape) -> (bool, bool) {
        let own = self.sizes[size(shape)] > 0;
        let others = self.sizes.iter().filter(|count| **count > 0).count() > usize::from(own);
        (own, others)
    }
}

/// Size class of a task: its number of devices, or 0 if it requests only a part of each device.
fn size(shape: &Shape) -> usize {
    if shape.device_milli < WHOLE { 0 } else { usize::from(shape.devices) }
}

/// Some of a machine's devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice(u32);

impl DeviceChoice {
    /// Whether the set has this device.
    #[must_use]
    pub fn has(self, device: usize) -> bool {
        self.0 >> device & 1 == 1
    }

    /// The set with this device added.
    #[must_use]
    pub fn with(self, device: usize) -> DeviceChoice {
        DeviceChoice(self.0 | 1 << device)
    }
}
