//! Order plugins that use run times and deadlines.

use super::arguments::{ArgumentError, NoArguments};
use super::registry::{Plugin, Point};
use crate::framework::profile::Profile;
use crate::plugins::{LeastSlack, ShortestFirst};
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn plugins() -> [Plugin; 2] {
    let slack = |_: &NoArguments, _: &Kinds| Ok(LeastSlack);
    [
        Plugin::around(Point::Order, "least_slack", slack, Profile::with_order)
            .describe::<NoArguments>()
            .about("The job with the least slack before its deadline is first."),
        Plugin::around(Point::Order, "shortest_first", make, Profile::with_order)
            .describe::<Steps>()
            .about(
                "The shortest job is first, but only a limited number of younger jobs can overtake a job.",
            ),
    ]
}

/// Default of `step_ms`: a minute, in milliseconds.
fn minute() -> u32 {
    60_000
}

/// Default of `unknown_ms`: an hour, in milliseconds.
fn hour() -> u32 {
    3_600_000
}

/// The arguments of `shortest_first`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Steps {
    /// Step in milliseconds: for each such step of its expected run time, a job may be overtaken by one younger job.
    #[serde(default = "minute")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    step_ms: u32,
    /// Run time assumed for a job without an estimate, in milliseconds.
    #[serde(default = "hour")]
    unknown_ms: u32,
}

fn make(steps: &Steps, _: &Kinds) -> Result<ShortestFirst, ArgumentError> {
    if steps.step_ms == 0 {
        return Err(ArgumentError::new("step_ms", "is 0: must be at least 1 millisecond"));
    }
    Ok(ShortestFirst::new(steps.step_ms.into(), steps.unknown_ms.into()))
}
