//! The plugin `delay`: jobs wait for machines that they prefer.

use super::arguments::{ArgumentError, some_text};
use super::registry::{Plugin, Point};
use crate::delay::Delay;
use crate::framework::profile::Profile;
use crate::queue::Nanos;
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

pub(super) fn plugin() -> Plugin {
    Plugin::around(Point::Filter, "delay", make, Profile::with_delay)
        .describe::<Waits>()
        .about("Tasks with preferred machines wait a bounded time for one of them, then for one in the same rack.")
}

/// Default wait for a preferred machine, in milliseconds. In this time, a machine with twenty tasks that run for a
/// minute each gets room for a new task.
fn machine_wait() -> u32 {
    3000
}

/// Default wait for a rack, in milliseconds: a third of the wait for a machine.
fn rack_wait() -> u32 {
    1000
}

/// Longest wait: an hour, in milliseconds. With a longer wait, the preference would in effect be a requirement.
const WAIT_MS_MAX: u32 = 3_600_000;

fn some_wait<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let wait = i64::deserialize(from)?;
    let in_bounds = u32::try_from(wait).ok().filter(|wait| *wait <= WAIT_MS_MAX);
    in_bounds.ok_or_else(|| {
        D::Error::custom(format!("is {wait}: must be 0 to {WAIT_MS_MAX} milliseconds"))
    })
}

/// The arguments of `delay`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Waits {
    /// Time for which a job waits for a preferred machine, in milliseconds. The wait begins when the job could use
    /// another machine.
    #[serde(default = "machine_wait", deserialize_with = "some_wait")]
    #[cfg_attr(feature = "schema", schemars(range(max = WAIT_MS_MAX)))]
    machine_wait_ms: u32,
    /// Time for which the job then waits for a machine in the rack of a preferred machine, in milliseconds.
    #[serde(default = "rack_wait", deserialize_with = "some_wait")]
    #[cfg_attr(feature = "schema", schemars(range(max = WAIT_MS_MAX)))]
    rack_wait_ms: u32,
    /// Key of the label whose value is a machine's rack. Without it, no job waits for a machine in the rack of a
    /// preferred machine.
    #[serde(default, deserialize_with = "some_label")]
    rack: Option<String>,
}

fn some_label<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    some_text(from).map(Some)
}

fn make(waits: &Waits, _: &Kinds) -> Result<Delay, ArgumentError> {
    let nanos = |ms: u32| Nanos::from(ms) * 1_000_000;
    let rack = waits.rack.as_deref().map(|label| (label.into(), nanos(waits.rack_wait_ms)));
    Ok(Delay::new(nanos(waits.machine_wait_ms), rack))
}
