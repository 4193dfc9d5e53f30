//! Demand profiles: requests that vary over the day.
//!
//! Services with peaks at different hours need less together than the sum of their peaks. A demand profile gives the
//! amount of a kind that a task claims in each part of the day. The cell adds the profiles of a machine's tasks point
//! by point, and compares the highest sum with the capacity.
//!
//! The day begins at the same time for all jobs of a cell. The cell does not need this time, because it checks all
//! parts of the day at once and reads no clock.

use crate::amounts::KindId;
use crate::limits::DEMAND_POINTS_MAX;
use serde::{Deserialize, Serialize};

/// Amount of one kind that a task claims in each part of the day. The parts are of equal length; the amount in each
/// part is a point.
///
/// The number of points must divide [`DEMAND_POINTS_MAX`], so that any two demand profiles can be added point by point.
/// The highest point must equal the group's request, because quotas, agents and scores ignore demand profiles and use
/// the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DemandProfile {
    /// The resource kind.
    pub kind: KindId,
    /// Amount in each part of the day, from the beginning of the day.
    pub points: Vec<u64>,
}

impl DemandProfile {
    /// Highest amount of the profile.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.points.iter().copied().max().unwrap_or(0)
    }

    /// Whether the number of points is valid: it must divide [`DEMAND_POINTS_MAX`].
    #[must_use]
    pub fn divides_the_day(&self) -> bool {
        !self.points.is_empty() && DEMAND_POINTS_MAX.is_multiple_of(self.points.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_as_many_points_as_divide_it() {
        let demand_profile =
            |points: usize| DemandProfile { kind: KindId::CPU, points: vec![1; points] };
        let good = [1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 144, 288];
        assert!(good.into_iter().all(|points| demand_profile(points).divides_the_day()));
        let bad = [0, 5, 7, 10, 60, 100, 287, 289, 576];
        assert!(!bad.into_iter().any(|points| demand_profile(points).divides_the_day()));
    }
}
