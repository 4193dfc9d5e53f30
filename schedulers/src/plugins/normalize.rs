//! From raw values to scores: the best machine gets the whole score, the others their part of it.
//!
//! Scores are whole hundredths of the scale, rounded down, as Kubernetes' are.

use crate::plugin::SCORE_MAX;

/// What Kubernetes calls one point of its hundred.
pub(super) const POINT: i32 = SCORE_MAX / 100;

/// The more the better: the most of all is worth everything, and 0 nothing.
pub(super) fn more_is_better(raw: &[i64], scores: &mut [i32]) {
    let most = raw.iter().copied().max().unwrap_or(0);
    for (score, raw) in scores.iter_mut().zip(raw) {
        *score = points_of(*raw, most);
    }
}

/// The less the better: the most of all is worth nothing, and 0 everything.
pub(super) fn less_is_better(raw: &[i64], scores: &mut [i32]) {
    let most = raw.iter().copied().max().unwrap_or(0);
    for (score, raw) in scores.iter_mut().zip(raw) {
        *score = SCORE_MAX - points_of(*raw, most);
    }
}

/// The part that a value is of the most.
fn points_of(raw: i64, most: i64) -> i32 {
    if most == 0 { 0 } else { (100 * raw / most) as i32 * POINT }
}
