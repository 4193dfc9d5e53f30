//! The plugin `device_fragments` for tasks that share devices; its arguments give the expected mix of tasks.

use super::arguments::ArgumentError;
use super::described::score;
use super::registry::Plugin;
use crate::plugins::{DeviceFragments, DeviceShape};
use omega_core::DeviceRequest;
use omega_core::limits::{DEVICE_MILLI, DEVICES_MAX};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn plugin() -> Plugin {
    score("device_fragments", |args: &Expected, _| args.shapes().map(DeviceFragments::new))
        .about("Prefers machines where the task least increases the free device capacity that the expected next task cannot use.")
}

/// The arguments of `device_fragments`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Expected {
    /// Expected mix of tasks. The default is the mix in a published trace of a cluster with 6,212 devices.
    #[serde(default)]
    tasks: Option<Vec<ExpectedTask>>,
}

/// Tasks of one shape.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ExpectedTask {
    /// Number of devices that each task requests, from 0 to 32.
    #[serde(default)]
    devices: u32,
    /// Part of each device that a task requests, in thousandths.
    #[serde(default = "whole")]
    milli_each: u32,
    /// CPU that each task requests, in thousandths of a core.
    #[serde(default)]
    cpu_milli: u32,
    /// Frequency of such tasks, relative to the other entries.
    weight: u32,
}

fn whole() -> u32 {
    DEVICE_MILLI
}

impl Expected {
    fn shapes(&self) -> Result<Vec<DeviceShape>, ArgumentError> {
        let Some(tasks) = &self.tasks else { return Ok(DeviceFragments::published()) };
        if tasks.is_empty() {
            let why = "names no tasks: name at least one, or leave the field out to use the tasks \
                 of a published cell";
            return Err(ArgumentError::new("tasks", why));
        }
        tasks.iter().enumerate().map(|(i, task)| task.shape(i)).collect()
    }
}

impl ExpectedTask {
    fn shape(&self, i: usize) -> Result<DeviceShape, ArgumentError> {
        let bounded = |what: &str, given: u32, (least, most): (u32, u32)| {
            let field = format!("tasks[{i}].{what}");
            if (least..=most).contains(&given) {
                Ok(given)
            } else {
                Err(ArgumentError::new(field, format!("is {given}: must be {least} to {most}")))
            }
        };
        let count = bounded("devices", self.devices, (0, u32::from(DEVICES_MAX)))? as u8;
        let milli_each = bounded("milli_each", self.milli_each, (1, DEVICE_MILLI))? as u16;
        let weight = bounded("weight", self.weight, (1, 1_000_000))?;
        let devices = (count > 0).then_some(DeviceRequest { count, milli_each });
        Ok(DeviceShape { devices, cpu_milli: i64::from(self.cpu_milli), weight })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Profiles, Registry};
    use omega_core::Kinds;

    fn told(args: &str) -> String {
        let file = format!(
            "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.score]]\nplugin = 'device_fragments'\n{args}"
        );
        match Profiles::parse(&file, &Registry::built_in()) {
            Err(error) => error.to_string(),
            Ok(all) => match all.get("p").expect("it is there").bind(&Kinds::standard()) {
                Err(error) => error.to_string(),
                Ok(_) => "fine".to_owned(),
            },
        }
    }

    #[test]
    fn bad_arguments_are_told() {
        for (args, expected) in [
            ("", "fine"),
            (
                "args.tasks = [{ devices = 2, weight = 3 }, { weight = 1, cpu_milli = 4000 }]",
                "fine",
            ),
            ("args.tasks = []", "names no tasks"),
            ("args.tasks = [{ devices = 33, weight = 1 }]", "tasks[0].devices"),
            (
                "args.tasks = [{ devices = 1, milli_each = 1001, weight = 1 }]",
                "is 1001: must be 1 to 1000",
            ),
            ("args.tasks = [{ devices = 1, weight = 0 }]", "is 0: must be 1 to 1000000"),
            ("args.tasks = [{ devices = 1 }]", "weight"),
        ] {
            let told = told(args);
            assert!(told.contains(expected), "{args}: {told}");
        }
    }
}
