//! Suite `topology_spread`: PodTopologySpread, even distribution of pods.

use crate::oracle::difference::Found;
use crate::oracle::expect::Scoring;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::PodTopologySpread;

/// Compares the results of filter and score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case) -> Found {
    case.replay(|found, world, group| {
        case.expect.compare_filter(found, world, (&PodTopologySpread, group));
        case.expect.compare_scores(found, world, (Scoring::Relative(&PodTopologySpread), group));
        Ok(())
    })
}
