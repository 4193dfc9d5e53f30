//! Conversion of raw values to scores: the best machine gets the maximum, the others a proportional part.
//!
//! Scores are whole hundredths of the scale, rounded down, as in Kubernetes.

use crate::framework::plugin::SCORE_MAX;

/// Omega's equivalent of one of Kubernetes' hundred points.
pub(in crate::plugins) const POINT: i32 = SCORE_MAX / 100;

/// More is better: the largest value gets the maximum, and 0 gets 0.
pub(in crate::plugins) fn more_is_better(raw: &[i64], scores: &mut [i32]) {
    let most = raw.iter().copied().max().unwrap_or(0);
    for (score, raw) in scores.iter_mut().zip(raw) {
        *score = points_of(*raw, most);
    }
}

/// Less is better: the largest value gets 0, and 0 gets the maximum.
pub(in crate::plugins) fn less_is_better(raw: &[i64], scores: &mut [i32]) {
    let most = raw.iter().copied().max().unwrap_or(0);
    for (score, raw) in scores.iter_mut().zip(raw) {
        *score = SCORE_MAX - points_of(*raw, most);
    }
}

/// The score of a value, in proportion to the largest.
fn points_of(raw: i64, most: i64) -> i32 {
    if most == 0 { 0 } else { hundredths(raw, most) as i32 * POINT }
}

/// Values below this bound can be computed in doubles: 100 times such a value is exact, and so is the quotient of two
/// of them after rounding down.
const EXACT: u64 = 1 << 46;

/// Value in hundredths of `most`, rounded down. Computed in doubles where these are exact, because processors divide
/// doubles several times faster than integers.
#[inline]
pub(in crate::plugins) fn hundredths(value: i64, most: i64) -> i64 {
    if value.unsigned_abs() < EXACT && most.unsigned_abs() < EXACT {
        ((100 * value) as f64 / most as f64) as i64
    } else {
        (100 * i128::from(value) / i128::from(most)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hundredths_are_those_of_integers(
            value in prop_oneof![-300i64..300, -(1i64 << 47)..1 << 47, any::<i64>()],
            most in prop_oneof![1i64..300, 1i64..1 << 47, 1i64..i64::MAX],
        ) {
            // Rounding errors are most likely close to a whole number of hundredths.
            let beside = (i128::from(value) * i128::from(most) / 100) as i64;
            for value in [value, beside, beside.saturating_add(1), beside.saturating_sub(1)] {
                let exact = (100 * i128::from(value) / i128::from(most)) as i64;
                prop_assert_eq!(hundredths(value, most), exact, "{} of {}", value, most);
            }
        }
    }
}
