//! The best machines of a block, by their scores.

use crate::framework::plugin::lanes;
use omega_cellstate::BLOCK;
use pulp::Arch;

/// Returns the best score of the machines in `among`, and the position of the first machine with this score. `among`
/// must not be empty.
pub(crate) fn best_of(scores: &[i32; BLOCK], among: u64) -> (i32, usize) {
    if among.count_ones() <= FEW_LANES {
        let better = |best: (i32, usize), lane: usize| {
            if scores[lane] > best.0 { (scores[lane], lane) } else { best }
        };
        return lanes(among).fold((i32::MIN, 0), better);
    }
    let best = Arch::new().dispatch(Greatest { scores, among });
    ((best >> 32) as i32, (BLOCK as i64 - 1 - (best & i64::from(u32::MAX))) as usize)
}

/// Computes the greatest score of the machines in `among` with vector instructions. The result has the score in its
/// high half. Its low half is the distance of the machine from the end of the block, so of machines with equal scores,
/// the first has the greatest result.
struct Greatest<'a> {
    scores: &'a [i32; BLOCK],
    among: u64,
}

impl pulp::NullaryFnOnce for Greatest<'_> {
    type Output = i64;

    #[inline(always)]
    fn call(self) -> i64 {
        let Greatest { scores, among } = self;
        let mut best = i64::MIN;
        for (lane, score) in scores.iter().enumerate() {
            let ranked = i64::from(*score) << 32 | (BLOCK - 1 - lane) as i64;
            let ranked = if among >> lane & 1 == 1 { ranked } else { i64::MIN };
            best = best.max(ranked);
        }
        best
    }
}

/// Maximum number of machines of a block that are examined one by one. For more machines, a pass over the whole block
/// is as fast.
const FEW_LANES: u32 = 16;

/// The machines whose score is at least `floor`.
pub(crate) fn at_least(scores: &[i32; BLOCK], floor: i32) -> u64 {
    Arch::new().dispatch(AtLeast { scores, floor })
}

/// Compares scores with vector instructions.
struct AtLeast<'a> {
    scores: &'a [i32; BLOCK],
    floor: i32,
}

impl pulp::NullaryFnOnce for AtLeast<'_> {
    type Output = u64;

    #[inline(always)]
    fn call(self) -> u64 {
        let AtLeast { scores, floor } = self;
        let bit = |lane: usize| u64::from(scores[lane] >= floor) << lane;
        (0..BLOCK).fold(0, |bits, lane| bits | bit(lane))
    }
}

#[cfg(test)]
mod tests {
    use super::{at_least, best_of};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_is_the_first_of_the_highest(
            scores in prop::collection::vec(-3i32..4, 64),
            among in prop_oneof![1u64.., (0u32..64).prop_map(|lane| 1 << lane), Just(u64::MAX)],
        ) {
            let scores: [i32; 64] = scores.try_into().unwrap();
            let lanes = (0..64).filter(|lane| among >> lane & 1 == 1);
            let first = lanes.min_by_key(|lane| (std::cmp::Reverse(scores[*lane]), *lane)).unwrap();
            prop_assert_eq!(best_of(&scores, among), (scores[first], first));
            for floor in -4..5 {
                let bits = at_least(&scores, floor);
                prop_assert!((0..64).all(|lane| (bits >> lane & 1 == 1) == (scores[lane] >= floor)));
            }
        }
    }
}
