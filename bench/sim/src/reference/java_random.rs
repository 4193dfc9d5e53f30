//! The generator of `java.util.Random`: a linear congruential generator with 48 bits, as defined by its documentation.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const ADDEND: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;

/// Java's random generator, which returns the same numbers for a seed as in Java.
#[derive(Clone, Debug)]
pub struct JavaRandom(u64);

impl JavaRandom {
    /// Creates a generator with a seed.
    #[must_use]
    pub fn new(seed: i64) -> JavaRandom {
        JavaRandom((seed as u64 ^ MULTIPLIER) & MASK)
    }

    /// The next 31 bits.
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(ADDEND) & MASK;
        (self.0 >> 17) as u32
    }

    /// A number below `bound`, which is from 1 to 2^31 - 1.
    pub fn below(&mut self, bound: u32) -> u32 {
        debug_assert!((1..1 << 31).contains(&bound), "{bound}");
        if bound.is_power_of_two() {
            return ((u64::from(bound) * u64::from(self.next())) >> 31) as u32;
        }
        loop {
            let bits = self.next();
            let value = bits % bound;
            // Another number is drawn if this one is in the last, incomplete range of `bound` numbers, because that
            // range would favour small results.
            if bits - value + (bound - 1) < 1 << 31 {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seed: i64, bound: u32, expected: &[u32]) {
        let mut random = JavaRandom::new(seed);
        let drawn: Vec<u32> = expected.iter().map(|_| random.below(bound)).collect();
        assert_eq!(drawn, expected, "seed {seed}, bound {bound}");
    }

    #[test]
    fn it_draws_what_java_draws() {
        // The known first values of `new Random(42).nextInt(10)` and of `new Random(0).nextInt(100)`.
        check(42, 10, &[0, 3, 8, 4, 0, 5, 5, 8, 9, 3]);
        check(0, 100, &[60, 48, 29, 47, 15, 53, 91, 61, 19, 54]);
    }

    #[test]
    fn every_number_is_below_its_bound_and_all_come() {
        for bound in [1, 2, 3, 7, 8, 1000, (1 << 30) + 1] {
            let mut random = JavaRandom::new(7);
            let drawn: Vec<u32> = (0..5000).map(|_| random.below(bound)).collect();
            assert!(drawn.iter().all(|n| *n < bound), "{bound}");
            assert!(bound > 8 || (0..bound).all(|n| drawn.contains(&n)), "{bound}");
        }
    }
}
