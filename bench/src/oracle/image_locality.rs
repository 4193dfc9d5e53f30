//! Suite `image_locality`: ImageLocality, how much of a pod's images a node holds.

use super::difference::Found;
use super::expect::Scoring;
use super::plugin::Case;
use omega_schedulers::plugins::ImageLocality;

/// Compares the score.
pub(super) fn replay(case: &Case) -> Found {
    case.replay(|found, world, group| {
        case.expect.compare_scores(found, world, (Scoring::Local(&ImageLocality), group));
        Ok(())
    })
}
