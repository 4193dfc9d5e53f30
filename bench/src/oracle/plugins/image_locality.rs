//! Suite `image_locality`: ImageLocality, which scores a node by the number of the pod's images that it has.

use crate::oracle::difference::Found;
use crate::oracle::expect::Scoring;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::ImageLocality;

/// Compares the results of the score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case) -> Found {
    case.replay(|found, world, group| {
        case.expect.compare_no_filter(found, world);
        case.expect.compare_scores(found, world, (Scoring::Local(&ImageLocality), group));
        Ok(())
    })
}
