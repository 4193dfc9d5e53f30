//! Delays between a client's attempts.
//!
//! A busy server suggests a delay. Many clients may get the suggestion at one time, so each client adds a random time
//! of up to half of the delay. Without a suggestion, a client waits longer each time, so that an overloaded cell gets
//! fewer and fewer calls.

use crate::ApiError;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// First delay if the server suggests none: a tenth of an election timeout.
const PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of doublings. After these, the delay is at most as long as an election.
const DOUBLINGS_MAX: u32 = 4;

/// Returns the delay after a failure with this error. `tries` is the number of failures in a row before this one.
#[must_use]
pub fn before_another_try(error: &ApiError, tries: u32) -> Duration {
    with_chance(error, tries, chance())
}

/// The delay with a given random number, `chance`, from 0 to 1.
fn with_chance(error: &ApiError, tries: u32, chance: f64) -> Duration {
    let usual = || PAUSE * (1 << tries.min(DOUBLINGS_MAX));
    let least = error.retry_after.unwrap_or_else(usual);
    least + least.mul_f64(chance / 2.0)
}

/// A random number from 0 to 1, derived from the random keys of hash maps.
fn chance() -> f64 {
    f64::from(RandomState::new().hash_one(()) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn nobody_comes_before_he_was_told_to_or_much_later() {
        let reported = Duration::from_millis(300);
        let error = ApiError::new(ErrorCode::Limit, "come again").retry_after(reported);
        assert_eq!(with_chance(&error, 7, 0.0), reported);
        assert_eq!(with_chance(&error, 0, 1.0), reported * 3 / 2);
        let drawn: Vec<Duration> = (0..100).map(|_| before_another_try(&error, 0)).collect();
        assert!(
            drawn.iter().all(|pause| (reported..=reported * 3 / 2).contains(pause)),
            "{drawn:?}"
        );
        assert!(drawn.iter().any(|pause| *pause != drawn[0]), "all come at once");
    }

    #[test]
    fn whoever_is_not_told_waits_longer_each_time() {
        let error = ApiError::new(ErrorCode::NoLeader, "nobody leads");
        let waits: Vec<u128> = (0..7).map(|n| with_chance(&error, n, 0.0).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 800, 800]);
    }
}
