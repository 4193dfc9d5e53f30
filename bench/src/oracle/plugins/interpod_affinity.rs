//! Suite `interpod_affinity`: InterPodAffinity, which keeps a pod near some pods and away from others.

use crate::oracle::difference::Found;
use crate::oracle::expect::Scoring;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::{InterPodAffinity, Preferences};
use serde::Deserialize;

/// The plugin's arguments.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::oracle) struct Args {
    hard_pod_affinity_weight: Option<u32>,
    ignore_preferred_terms_of_existing_pods: bool,
}

/// Compares the results of filter and score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case<Args>) -> Found {
    let default = InterPodAffinity::default();
    let plugin = InterPodAffinity {
        required_weight: case.args.hard_pod_affinity_weight.unwrap_or(default.required_weight),
        preferences: if case.args.ignore_preferred_terms_of_existing_pods {
            Preferences::OfThosePreferring
        } else {
            Preferences::Everyones
        },
    };
    case.replay(|found, world, group| {
        case.expect.compare_filter(found, world, (&plugin, group));
        case.expect.compare_scores(found, world, (Scoring::Relative(&plugin), group));
        Ok(())
    })
}
