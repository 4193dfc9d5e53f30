//! Suite `image_locality`: ImageLocality, which scores a node by how many of a pod's images it has.

use super::difference::Found;
use super::expect::Scoring;
use super::plugin::Case;
use omega_schedulers::plugins::ImageLocality;

/// Compares the score.
pub(super) fn replay(case: &Case) -> Found {
    case.replay(|found, world, group| {
        case.expect.compare_no_filter(found, world);
        case.expect.compare_scores(found, world, (Scoring::Local(&ImageLocality), group));
        Ok(())
    })
}
