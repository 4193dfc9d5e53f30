//! Suite `node_affinity`: NodeAffinity, which requires or prefers some machines for a pod.

use crate::oracle::difference::Found;
use crate::oracle::expect::Scoring;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::NodeAffinity;
use omega_workload::kube::api;
use omega_workload::kube::rules::added_affinity;
use serde::Deserialize;

/// The plugin's arguments.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::oracle) struct Args {
    /// The profile's affinity, which applies to every pod in addition to the pod's own.
    added_affinity: Option<api::NodeAffinity>,
}

/// Compares the results of filter and score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case<Args>) -> Found {
    let added = case.args.added_affinity.as_ref();
    let plugin =
        added.map_or_else(NodeAffinity::default, |a| NodeAffinity::with_added(&added_affinity(a)));
    case.replay(|found, world, group| {
        case.expect.compare_filter(found, world, (&plugin, group));
        case.expect.compare_scores(found, world, (Scoring::Relative(&plugin), group));
        Ok(())
    })
}
