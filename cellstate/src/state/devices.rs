//! Accelerator devices: the choice of a machine's devices for a task.
//!
//! A task may request a share of one device, or several devices. All callers use one rule, which keeps whole devices
//! free for as long as possible: choose the devices with the least free part that suffices, and in a tie the lowest
//! numbers.

use omega_core::limits::{DEVICE_MILLI, DEVICES_MAX};
use omega_core::{DeviceRequest, DeviceSet};

/// The free part of each device of one machine, in thousandths.
///
/// The parts are never negative in a cell. In a view they may become negative: a claim of the view may use the devices
/// of a task to be evicted, and then that task stays after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Devices {
    count: u8,
    left: [i16; DEVICES_MAX as usize],
}

impl Devices {
    /// `count` devices, all of them free.
    #[must_use]
    pub fn new(count: u8) -> Devices {
        let mut left = [0; DEVICES_MAX as usize];
        left[..usize::from(count)].fill(DEVICE_MILLI as i16);
        Devices { count, left }
    }

    /// Builds the value from a delta's list. `None` for more than [`DEVICES_MAX`] devices.
    #[must_use]
    pub fn from_left(given: &[i16]) -> Option<Devices> {
        let mut left = [0; DEVICES_MAX as usize];
        left.get_mut(..given.len())?.copy_from_slice(given);
        Some(Devices { count: given.len() as u8, left })
    }

    /// The free part of each device.
    #[must_use]
    pub fn left(&self) -> &[i16] {
        &self.left[..usize::from(self.count)]
    }

    /// Chooses the devices for a request; `None` if it does not fit. If `wanted` is not empty, the chosen devices must
    /// be exactly `wanted`.
    #[must_use]
    pub fn choose(&self, request: DeviceRequest, wanted: DeviceSet) -> Option<DeviceSet> {
        let fits = |device: usize| {
            self.left()[device] >= share(request)
                && (wanted.is_empty() || wanted.0 >> device & 1 == 1)
        };
        let mut chosen = DeviceSet::default();
        for _ in 0..request.count {
            let candidates = (0..self.left().len())
                .filter(|device| fits(*device) && chosen.0 >> device & 1 == 0);
            chosen = chosen.with(candidates.min_by_key(|device| (self.left[*device], *device))?);
        }
        (wanted.is_empty() || wanted == chosen).then_some(chosen)
    }

    /// Whether these devices are as many as a request needs, and have enough left.
    pub(crate) fn have(&self, request: DeviceRequest, devices: DeviceSet) -> bool {
        let has =
            |device: usize| self.left().get(device).is_some_and(|left| *left >= share(request));
        devices.count() == u32::from(request.count) && devices.iter().all(has)
    }

    /// Subtracts the part of each device that a request takes.
    pub fn take(&mut self, request: DeviceRequest, devices: DeviceSet) {
        for device in devices.iter() {
            self.left[device] -= share(request);
        }
    }

    /// Adds the part of each device that a request took.
    pub fn give_back(&mut self, request: DeviceRequest, devices: DeviceSet) {
        for device in devices.iter() {
            self.left[device] += share(request);
        }
    }
}

/// The part of each device that a request takes, in thousandths. Validation allows at most a whole device.
fn share(request: DeviceRequest) -> i16 {
    request.milli_each as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_device_that_fits_is_taken() {
        let mut devices = Devices::new(3);
        let share = DeviceRequest { count: 1, milli_each: 400 };
        let first = devices.choose(share, DeviceSet::default()).unwrap();
        assert_eq!(first, DeviceSet(0b001));
        devices.take(share, first);
        assert_eq!(devices.choose(share, DeviceSet::default()), Some(DeviceSet(0b001)));
        let whole = DeviceRequest { count: 2, milli_each: 1000 };
        assert_eq!(devices.choose(whole, DeviceSet::default()), Some(DeviceSet(0b110)));
        assert_eq!(devices.choose(whole, DeviceSet(0b011)), None, "device 0 is not whole");
        devices.give_back(share, first);
        assert_eq!(devices, Devices::new(3));
    }

    #[test]
    fn more_devices_than_there_are_do_not_fit() {
        let request = DeviceRequest { count: 3, milli_each: 1 };
        assert_eq!(Devices::new(2).choose(request, DeviceSet::default()), None);
    }
}
