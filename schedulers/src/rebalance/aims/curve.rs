//! Load as a convex function of use: straight lines between points.
//!
//! Each point is a use and its cost, both in percent of the machine's claimable amount. Below the first point, the cost
//! is that of the first point. Beyond the last point, the last line continues. Convex means that each line is at least
//! as steep as the line before it, so the last unit of use always costs most.

/// Maximum number of points.
pub const POINTS_MAX: usize = 32;

/// Largest use or cost of a point, in percent of a machine: a hundred machines.
pub const PERCENT_MAX: u32 = 10_000;

/// Point of a curve, in percent of the claimable amount of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Use.
    pub used: u32,
    /// Cost of this use.
    pub cost: u32,
}

/// Error in the points of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// The curve has too few or too many points. Give a permitted number.
    #[error("has {0} points; give it 2 to {POINTS_MAX}")]
    Count(usize),
    /// A use or cost of the point is too large. Lower it.
    #[error("point {0} has a value above {PERCENT_MAX}; lower it")]
    TooLarge(usize),
    /// The use of the point is not above that of the previous point. Sort the points by use.
    #[error("point {0} is not at a higher use than the point before it: sort the points by use")]
    Unsorted(usize),
    /// The cost of the point is below that of the previous point. Raise the cost.
    #[error(
        "point {0} costs less than the point before it: raise its cost, because more use must not \
         cost less"
    )]
    Falls(usize),
    /// The line to the point is less steep than the line before it. Remove the previous point, or raise the cost of
    /// this point.
    #[error(
        "the line to point {0} must be at least as steep as the line before it: remove the \
         previous point, or raise the cost of point {0}"
    )]
    NotConvex(usize),
}

/// A convex curve of load by use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    points: Vec<Point>,
}

impl Curve {
    /// Returns a curve through these points.
    ///
    /// # Errors
    /// If there are too few or too many points, if they are not sorted by use, or if the curve falls or is not convex.
    /// The error counts points from 1.
    pub fn new(points: Vec<Point>) -> Result<Curve, CurveError> {
        if !(2..=POINTS_MAX).contains(&points.len()) {
            return Err(CurveError::Count(points.len()));
        }
        for (number, point) in (1..).zip(&points) {
            if point.used > PERCENT_MAX || point.cost > PERCENT_MAX {
                return Err(CurveError::TooLarge(number));
            }
        }
        for (number, pair) in (2..).zip(points.windows(2)) {
            if pair[1].used <= pair[0].used {
                return Err(CurveError::Unsorted(number));
            }
            if pair[1].cost < pair[0].cost {
                return Err(CurveError::Falls(number));
            }
        }
        for (number, three) in (3..).zip(points.windows(3)) {
            let [a, b, c] = [three[0], three[1], three[2]];
            let rise = |a: Point, b: Point| u64::from(b.cost - a.cost);
            let run = |a: Point, b: Point| u64::from(b.used - a.used);
            if rise(b, c) * run(a, b) < rise(a, b) * run(b, c) {
                return Err(CurveError::NotConvex(number));
            }
        }
        Ok(Curve { points })
    }

    /// The points, sorted by use.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns by how much the cost of the last line rises per hundred units of use, rounded up.
    pub(crate) fn steepest_percent(&self) -> i64 {
        let [.., a, b] = &self.points[..] else { return 0 };
        (i64::from(b.cost - a.cost) * 100).div_euclid(i64::from(b.used - a.used)) + 1
    }

    /// Returns the cost of an amount in use, also as an amount, rounded down.
    pub(crate) fn cost(&self, capacity: i64, used: i64) -> i64 {
        let (capacity, used) = (i128::from(capacity.max(0)), i128::from(used.max(0)) * 100);
        let start = self.points[0];
        if used <= capacity * i128::from(start.used) {
            return (capacity * i128::from(start.cost) / 100) as i64;
        }
        // The last line that begins at or below this use.
        let begun = self.points.partition_point(|p| capacity * i128::from(p.used) <= used);
        let line = begun.saturating_sub(1).min(self.points.len() - 2);
        let (a, b) = (self.points[line], self.points[line + 1]);
        let run = i128::from(b.used - a.used);
        let beyond = used - capacity * i128::from(a.used);
        let cost = capacity * i128::from(a.cost) * run + beyond * i128::from(b.cost - a.cost);
        i64::try_from(cost / (100 * run)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u32, u32)]) -> Result<Curve, CurveError> {
        Curve::new(points.iter().map(|(used, cost)| Point { used: *used, cost: *cost }).collect())
    }

    #[test]
    fn the_cost_follows_the_lines_and_continues_the_last_one() {
        let curve = curve(&[(50, 0), (80, 30), (100, 130)]).unwrap();
        let costs = [0, 100, 101, 130, 160, 190, 200, 220].map(|used| curve.cost(200, used));
        assert_eq!(costs, [0, 0, 1, 30, 60, 210, 260, 360]);
        assert_eq!(curve.cost(0, 10), 50, "a machine without the kind is beyond the last point");
        assert_eq!(curve.cost(i64::MAX, i64::MAX), i64::MAX);
    }

    #[test]
    fn curves_that_fall_or_are_not_convex_are_refused() {
        assert_eq!(curve(&[(50, 0)]), Err(CurveError::Count(1)));
        assert_eq!(curve(&[(1, 1); 33]), Err(CurveError::Count(33)));
        assert_eq!(curve(&[(50, 0), (10_001, 1)]), Err(CurveError::TooLarge(2)));
        assert_eq!(curve(&[(50, 0), (50, 1)]), Err(CurveError::Unsorted(2)));
        assert_eq!(curve(&[(50, 2), (60, 1)]), Err(CurveError::Falls(2)));
        assert_eq!(curve(&[(0, 0), (10, 10), (20, 19)]), Err(CurveError::NotConvex(3)));
        assert!(curve(&[(0, 0), (10, 10), (20, 20)]).is_ok());
    }
}
