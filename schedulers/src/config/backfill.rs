//! The plugin `backfill`: plans a start for jobs that find no room.

use super::arguments::ArgumentError;
use super::registry::{Plugin, Point};
use crate::backfill::Backfill;
use crate::framework::profile::Profile;
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn plugin() -> Plugin {
    Plugin::around(Point::Filter, "backfill", make, Profile::with_backfill)
        .describe::<Depth>()
        .about("Plans machines for the first pending jobs; other jobs use these machines until the planned start.")
}

/// Default depth, which gives EASY backfilling.
fn one() -> u32 {
    1
}

/// Default interval: the interval at which a served cell's time advances.
fn ten() -> u32 {
    10
}

/// Maximum number of jobs with plans. With more plans, one round of planning in a busy cell would take longer than the
/// jobs wait.
const DEPTH_MAX: u32 = 1024;

/// The arguments of `backfill`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Depth {
    /// Number of unschedulable jobs that get plans, from the front of the queue.
    #[serde(default = "one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = DEPTH_MAX)))]
    depth: u32,
    /// Minimum time between two searches for a plan of the same job, in seconds of the cell's time.
    #[serde(default = "ten")]
    interval_s: u32,
    /// Latest start of a plan, in seconds of the cell's time from now. By default, a plan may start as late as the
    /// latest expected end of any task.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    window_s: Option<u32>,
}

fn make(arguments: &Depth, _: &Kinds) -> Result<Backfill, ArgumentError> {
    let depth = arguments.depth;
    if !(1..=DEPTH_MAX).contains(&depth) {
        let why = format!("is {depth}: the number of jobs with plans must be 1 to {DEPTH_MAX}");
        return Err(ArgumentError::new("depth", why));
    }
    let backfill =
        Backfill::new(depth as usize).with_interval_ms(u64::from(arguments.interval_s) * 1000);
    match arguments.window_s {
        Some(0) => {
            let why = "is 0: must be at least 1, or no plan would ever be made".to_owned();
            Err(ArgumentError::new("window_s", why))
        }
        Some(window) => Ok(backfill.with_window_ms(u64::from(window) * 1000)),
        None => Ok(backfill),
    }
}
