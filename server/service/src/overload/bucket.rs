//! Token bucket: a rate with a burst.

use crate::overload::call_slots::Need;
use std::time::{Duration, Instant};

/// A token bucket. Tokens are kept as time, so that nothing is lost to rounding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Time at which the bucket was or will be empty. The bucket has a token for each `cost` since then, at most
    /// `burst`.
    empty_at: Instant,
    /// Time to refill one token.
    cost: Duration,
    /// Capacity of the bucket, as the time to fill it.
    burst: Duration,
}

impl Bucket {
    /// Creates a full bucket, with a refill rate and a capacity in tokens.
    pub(crate) fn new(per_second: u32, burst: u32, now: Instant) -> Bucket {
        let cost = Duration::from_secs(1) / per_second.max(1);
        let burst = cost * burst.max(1);
        Bucket { empty_at: now.checked_sub(burst).unwrap_or(now), cost, burst }
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.empty_at) >= self.burst
    }

    /// Takes a token, or returns the time until one is available. Vital calls may overdraw the bucket by a quarter of
    /// the burst.
    pub(crate) fn take(&mut self, need: Need, now: Instant) -> Result<(), Duration> {
        self.forget_surplus(now);
        let next = self.empty_at + self.cost;
        let latest = match need {
            Need::Usual => now,
            Need::Vital => now + self.burst / 4,
        };
        if next <= latest {
            self.empty_at = next;
            Ok(())
        } else {
            Err(next - latest)
        }
    }

    /// Takes any number of tokens unless the bucket is overdrawn, or returns the time until it no longer is. The tokens
    /// may overdraw the bucket, so that no number of tokens is refused for ever.
    pub(crate) fn overdraw(&mut self, tokens: u32, now: Instant) -> Result<(), Duration> {
        self.forget_surplus(now);
        match self.empty_at.saturating_duration_since(now) {
            Duration::ZERO => {
                self.empty_at += self.cost * tokens;
                Ok(())
            }
            pause => Err(pause),
        }
    }

    /// Drops the tokens above the capacity.
    fn forget_surplus(&mut self, now: Instant) {
        if let Some(oldest) = now.checked_sub(self.burst) {
            self.empty_at = self.empty_at.max(oldest);
        }
    }

    /// Time from which a quarter of the burst is available; `None` if it is available now.
    pub(crate) fn spare_at(&self, now: Instant) -> Option<Instant> {
        Some(self.empty_at + self.burst / 4).filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whoever_calls_too_often_is_held_back_before_he_is_refused() {
        let now = Instant::now() + Duration::from_secs(3600);
        let mut bucket = Bucket::new(10, 40, now);
        for _ in 0..30 {
            bucket.take(Need::Usual, now).unwrap();
        }
        assert_eq!(bucket.spare_at(now), None);
        for left in (0..10).rev() {
            bucket.take(Need::Usual, now).unwrap();
            let until = now + Duration::from_millis(100) * (10 - left);
            assert_eq!(bucket.spare_at(now), Some(until), "{left} left");
        }
        assert!(bucket.take(Need::Usual, now).is_err());
        let vital = (0..20).take_while(|_| bucket.take(Need::Vital, now).is_ok());
        assert_eq!(vital.count(), 10);
    }

    #[test]
    fn an_overdrawn_bucket_refuses_until_it_is_refilled() {
        let now = Instant::now() + Duration::from_secs(3600);
        let mut bucket = Bucket::new(10, 40, now);
        assert_eq!(bucket.overdraw(15, now), Ok(()));
        assert_eq!(bucket.overdraw(125, now), Ok(()));
        assert_eq!(bucket.overdraw(1, now), Err(Duration::from_secs(10)));
        let later = now + Duration::from_secs(10);
        assert_eq!(bucket.overdraw(1, later), Ok(()));
        assert_eq!(bucket.overdraw(1, later), Err(Duration::from_millis(100)));
    }

    proptest! {
        /// In any interval, a caller makes at most the calls that its rate allows, plus one burst.
        #[test]
        fn nobody_gets_more_than_the_rate(
            per_second in 1..500_u32,
            burst in 1..50_u32,
            gaps_us in proptest::collection::vec(0..200_000_u64, 1..200),
        ) {
            let begin = Instant::now() + Duration::from_secs(3600);
            let mut bucket = Bucket::new(per_second, burst, begin);
            let mut now = begin;
            let mut taken: Vec<Instant> = Vec::new();
            for gap in gaps_us {
                now += Duration::from_micros(gap);
                match bucket.take(Need::Usual, now) {
                    Ok(()) => taken.push(now),
                    Err(pause) => {
                        let mut later = bucket;
                        prop_assert!(later.take(Need::Usual, now + pause).is_ok(), "it said how long");
                    }
                }
            }
            for (i, from) in taken.iter().enumerate() {
                for (j, to) in taken.iter().enumerate().skip(i) {
                    let allowed = (*to - *from).as_nanos() / bucket.cost.as_nanos()
                        + u128::from(burst) + 1;
                    prop_assert!((j - i + 1) as u128 <= allowed);
                }
            }
        }
    }
}
