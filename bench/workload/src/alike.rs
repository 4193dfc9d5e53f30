//! Identical machines, for a trace that has none: `200,cpu=64,memory=256Gi`.

use crate::csv::forms;
use crate::text::decimal::{Decimal, Rounding};
use omega_core::limits::{AMOUNT_MAX, DEVICES_MAX, MACHINES_MAX};
use omega_core::{Amounts, KindId, Machine};
use std::str::FromStr;

/// Minimum memory, and minimum disk space, of a machine that has any: a mebibyte.
const BYTES_MIN: u64 = 1 << 20;

/// A number of identical machines with the standard kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    count: u32,
    capacity: Amounts,
    devices: u8,
}

impl Alike {
    /// The machines, named `m0`, `m1`, ….
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        let machine = |i| Machine::new(format!("m{i}"), self.capacity.clone());
        (0..self.count).map(|i| machine(i).with_devices(KindId::GPU, self.devices)).collect()
    }
}

impl FromStr for Alike {
    type Err = String;

    fn from_str(text: &str) -> Result<Alike, String> {
        let (count, sizes) = text.split_once(',').unwrap_or((text, ""));
        let count = count.trim().parse::<u32>().ok();
        let count = count.filter(|count| (1..=MACHINES_MAX as u32).contains(count));
        let count = count.ok_or_else(|| {
            format!(
                "must begin with the number of machines, from 1 to {MACHINES_MAX}, as in \
                 200,cpu=64,memory=256Gi"
            )
        })?;
        let mut alike = Alike { count, capacity: Amounts::zero(), devices: 0 };
        let mut given = Vec::new();
        for size in sizes.split(',').map(str::trim) {
            let Some((kind, amount)) = size.split_once('=') else {
                return Err(format!(
                    "{size:?} must be KIND=AMOUNT, such as cpu=64 or memory=256Gi"
                ));
            };
            let kind = kind.trim();
            if given.contains(&kind) {
                return Err(format!("{kind} is given twice: give each kind once"));
            }
            given.push(kind);
            alike.set(kind, amount.trim())?;
        }
        let has = |kind| alike.capacity.get(kind) > 0;
        if !has(KindId::CPU) {
            return Err("cpu=CORES is missing: add it, such as cpu=64".to_owned());
        }
        Ok(alike)
    }
}

impl Alike {
    fn set(&mut self, kind: &str, amount: &str) -> Result<(), String> {
        let bytes = |text: &str| forms::bytes(text, Rounding::Nearest);
        match kind {
            "cpu" => self.capacity.set(KindId::CPU, millis(amount)?),
            "memory" => self.capacity.set(KindId::MEMORY, of_machine(kind, bytes(amount)?)?),
            "disk" => self.capacity.set(KindId::DISK, of_machine(kind, bytes(amount)?)?),
            "gpu" => {
                let devices = amount.parse().ok().filter(|devices| *devices <= DEVICES_MAX);
                self.devices = devices.ok_or_else(|| {
                    format!(
                        "gpu={amount} must be a number of devices from \
                         0 to {DEVICES_MAX}"
                    )
                })?;
            }
            _ => {
                return Err(format!(
                    "there is no kind {kind:?}; the kinds are: cpu, memory, disk, \
                 gpu"
                ));
            }
        }
        Ok(())
    }
}

/// Checks bytes of a machine. An amount of a few bytes is an error, because its unit was probably forgotten.
fn of_machine(kind: &str, bytes: u64) -> Result<u64, String> {
    match bytes {
        0 | BYTES_MIN.. => Ok(bytes),
        _ => Err(format!(
            "{kind}={bytes} is {bytes} bytes, but a machine must have at least {BYTES_MIN}: write a \
             unit, as in {kind}=256Gi"
        )),
    }
}

/// Parses cores as thousandths.
fn millis(text: &str) -> Result<u64, String> {
    let cores = Decimal::parse(text).map_err(|error| format!("{text:?} {error}"))?;
    let millis = cores.times(1000, Rounding::Nearest).filter(|millis| *millis <= AMOUNT_MAX);
    millis.ok_or_else(|| {
        format!("{text:?} is too large: at most 2^50 thousandths of a core are allowed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_and_how_large() {
        let machines = "3,cpu=64,memory=256Gi,gpu=2".parse::<Alike>().unwrap().machines();
        assert_eq!((machines.len(), &*machines[2].name, machines[2].devices), (3, "m2", 2));
        assert_eq!(machines[0].capacity, Amounts::new([64_000, 256 << 30, 0, 2000]));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let cases = [
            ("many,cpu=1", "must begin with the number of machines"),
            ("0,cpu=1", "must begin with the number of machines"),
            ("1048577,cpu=1", "must begin with the number of machines"),
            ("5", "\"\" must be KIND=AMOUNT"),
            ("5,cpu", "\"cpu\" must be KIND=AMOUNT"),
            ("5,memory=1Gi", "cpu=CORES is missing"),
            ("5,cpu=-1", "\"-1\" is negative"),
            ("5,cpu=1,cpu=2", "cpu is given twice"),
            ("5,cpu=1,memory=lots", "\"lots\" is not a number"),
            (
                "5,cpu=1,memory=256",
                "memory=256 is 256 bytes, but a machine must have at least 1048576",
            ),
            ("5,cpu=1,disk=2k", "disk=2000 is 2000 bytes"),
            ("5,cpu=1,gpu=33", "gpu=33 must be a number of devices from 0 to 32"),
            ("5,cpu=1,tape=1", "there is no kind \"tape\""),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Alike>().unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
