//! Usage of a resource kind, and exact percentages of its capacity.
//!
//! Kubernetes' scores are integer quotients, rounded down. To give the same scores, these plugins need exactly these
//! quotients. Vector units cannot divide integers, so a quotient of doubles is computed, which is wrong by at most one,
//! and the remainder is used to correct it.

use crate::framework::plugin::Tasks;
use omega_cellstate::{BLOCK, Block, View};
use omega_core::{KindId, Kinds};

/// Suffix in the names of nominal resource kinds. If the cell has a nominal kind, scores count a task's request of that
/// kind instead of the real request. (For a container without requests, Kubernetes' scores assume 100 thousandths of a
/// core and 200 MiB.) A machine's capacity of a nominal kind is so large that a request of this kind always fits.
const NOMINAL: &str = " (nominal)";

/// Resource kinds that count in scores even for a task that requests none of them.
const ALWAYS: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "disk"];

/// Name of the resource kind that counts tasks. Scores do not consider it.
const COUNTED: &str = "pods";

/// Amounts that a task adds to the usage in scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// The task's claim.
    Claimed,
    /// The task's request of the nominal kind, if the cell has one, else the claim.
    Nominal,
}

/// A resource kind that a score considers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    /// Kind whose capacity is used for shares.
    kind: KindId,
    /// Kind whose requests are counted as usage.
    used: KindId,
    /// Whether the kind is considered even for tasks that request none of it.
    always: bool,
}

impl Resource {
    /// The kind with this name; `None` if the cell has none, or scores do not consider it.
    pub(super) fn named(name: &str, amount: Amount, kinds: &Kinds) -> Option<Resource> {
        let kind = kinds.by_name(name).filter(|_| name != COUNTED)?;
        let nominal = match amount {
            Amount::Claimed => None,
            Amount::Nominal => kinds.by_name(&format!("{name}{NOMINAL}")),
        };
        Some(Resource { kind, used: nominal.unwrap_or(kind), always: ALWAYS.contains(&name) })
    }

    /// Enables the columns of the view that [`Resource::usage`] reads.
    pub(super) fn keep(self, view: &mut View) {
        view.keep_capacity(self.kind);
        view.keep_capacity(self.used);
    }

    /// Returns the amount that a task adds to the usage.
    #[inline]
    pub(super) fn request(self, tasks: &Tasks<'_>) -> i64 {
        tasks.need.request.get(self.used.index()).copied().unwrap_or(0)
    }

    /// The use of the kind on the machines of a block; `None` if the kind is not considered for these tasks.
    #[inline]
    pub(super) fn usage<'a>(self, tasks: &Tasks<'_>, block: Block<'a>) -> Option<Usage<'a>> {
        let request = self.request(tasks);
        if request == 0 && !self.always {
            return None;
        }
        let (capacity, of) = (block.capacity(self.kind), block.capacity(self.used));
        debug_assert!(capacity.is_some() && of.is_some(), "the profile was prepared for the view");
        Some(Usage { capacity: capacity?, of: of?, free: block.free(self.used), request })
    }
}

/// The use of a kind on the machines of a block, without and with one more task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage<'a> {
    pub(super) capacity: &'a [i64; BLOCK],
    of: &'a [i64; BLOCK],
    free: &'a [i64; BLOCK],
    pub(super) request: i64,
}

// `clamp` is not used, because it panics if its bounds are reversed, and a loop that may panic is not compiled to
// vector instructions.
impl Usage<'_> {
    /// Usage on the machine in a lane, without the task: from 0 to its capacity.
    #[inline(always)]
    pub(super) fn without(&self, lane: usize) -> i64 {
        (self.of[lane] - self.free[lane]).max(0).min(self.capacity[lane])
    }

    /// Usage with the task.
    #[inline(always)]
    pub(super) fn with(&self, lane: usize) -> i64 {
        (self.of[lane] - self.free[lane] + self.request).max(0).min(self.capacity[lane])
    }
}

/// 2^52. If it is added to a smaller number, the low bits of the sum are the smaller number, rounded to an integer.
const TWO_TO_52: f64 = 4_503_599_627_370_496.0;

/// Converts an amount from 0 to below 2^52 to a double by bit operations. A conversion of 64-bit integers would not be
/// compiled to vector instructions for older processors.
#[inline(always)]
pub(super) fn double(amount: i64) -> f64 {
    f64::from_bits(amount as u64 | TWO_TO_52.to_bits()) - TWO_TO_52
}

/// `100 * part / whole`, rounded down. Requires `part <= whole < 2^52`. The result is unspecified if `whole` is 0.
#[inline(always)]
pub(super) fn percent(part: i64, whole: i64) -> i64 {
    let near = double(part) / double(whole) * 100.0 + TWO_TO_52;
    let near = (near.to_bits() & 0xff) as i64;
    let rest = part * 100 - near * whole;
    near + i64::from(rest >= whole) - i64::from(rest < 0)
}

/// `part / whole`, rounded down. Requires a quotient below 2^16, `part < 2^52`, and `0 < whole < 2^47`.
#[inline(always)]
pub(super) fn quotient(part: i64, whole: i64) -> i64 {
    let near = double(part) / double(whole) + TWO_TO_52;
    let near = (near.to_bits() & 0xffff) as i64;
    near - i64::from(part < near * whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quotient_is_rounded_down(whole in 1i64..1 << 47, quotient in 0i64..1 << 16, rest in any::<i64>()) {
            let whole = whole.min(((1 << 52) - 1) / (quotient + 1)).max(1);
            let part = quotient * whole + rest.rem_euclid(whole);
            prop_assert_eq!(super::quotient(part, whole), quotient);
        }

        #[test]
        fn percent_is_the_integer_quotient(whole in 1i64..1 << 52, part in any::<i64>(), k in 0i64..=100) {
            let part = part.rem_euclid(whole + 1);
            prop_assert_eq!(percent(part, whole), part * 100 / whole);
            // These values are close to a whole percentage, where a wrong rounding would show.
            let exact = whole / 100 * k;
            for part in [exact - 1, exact, exact + 1] {
                let part = part.clamp(0, whole);
                prop_assert_eq!(percent(part, whole), part * 100 / whole);
            }
        }
    }

    #[test]
    fn percent_is_right_at_the_ends() {
        for whole in [1, 2, 3, 99, 100, 101, (1 << 50) - 1, 1 << 50, (1 << 52) - 1] {
            for part in [0, 1, whole / 2, whole - 1, whole] {
                let part = part.min(whole);
                assert_eq!(percent(part, whole), part * 100 / whole, "{part} of {whole}");
            }
        }
    }
}
