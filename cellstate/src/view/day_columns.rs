//! Columns of the demand profiles on each machine, for scans.
//!
//! ```text
//!   highest point of the day  ─ ─ ─ ─ ─╭──╮─ ─ ─ ─ ─ ─
//!   sum of the profiles       ─────────╯  ╰──╮   ╭────
//!                                            ╰───╯
//!   gap, for each part        |  big   | 0  |  bigger |
//! ```
//!
//! The day has [`DAY_PARTS`] parts. The *gap* of a part is the amount by which the highest point in the part is below
//! that of the day. So in this part, a machine has room for `free` plus the gap. Two bounds decide nearly all machines,
//! with vector instructions:
//!
//! - If in each part, the highest point of a task's profile is at most `free` plus the gap, the task fits.
//! - If in some part, its lowest point is above `free` plus the gap, the task does not fit.
//!
//! For the other machines, [`DemandProfiles::fits`] adds the profile to the sum point by point.

use crate::state::demand_profiles::{
    Curve, DAY_PARTS, DayParts, DemandProfileSum, DemandProfileSums, DemandProfiles,
};
use crate::view::columns::BLOCK;
use omega_core::KindId;
use pulp::Arch;
use smallvec::SmallVec;
use std::sync::Arc;

/// The demand profiles of a view's machines: their sums, and for each kind with a profile, the gaps.
#[derive(Debug)]
pub(super) struct DayColumns {
    sums: DemandProfileSums,
    gaps: Vec<KindGaps>,
    arch: Arch,
}

/// The gaps of one kind, by blocks of rows. The last blocks may be missing.
#[derive(Debug)]
struct KindGaps {
    kind: KindId,
    blocks: Vec<BlockGaps>,
}

/// The gaps of the machines in a block.
#[derive(Clone, Debug)]
struct BlockGaps {
    /// The machines with a sum. The gaps of other machines are zero.
    varying: u64,
    gaps: [[i64; BLOCK]; DAY_PARTS],
}

/// A block in which no machine has a sum.
static CONSTANT: BlockGaps = BlockGaps { varying: 0, gaps: [[0; BLOCK]; DAY_PARTS] };

/// The machines of a block with room for a demand profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// The machines with room.
    pub certain: u64,
    /// The machines that the bounds do not exclude, including those in `certain`.
    pub possible: u64,
}

impl DayColumns {
    pub(super) fn new() -> DayColumns {
        DayColumns { sums: DemandProfileSums::default(), gaps: Vec::new(), arch: Arch::new() }
    }

    /// Whether no machine has a sum.
    pub(super) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    pub(super) fn get(&self, row: usize) -> Option<&Arc<DemandProfileSum>> {
        self.sums.get(row)
    }

    pub(super) fn set(&mut self, row: u32, sum: Arc<DemandProfileSum>) {
        self.sums.set(row, sum);
        self.update_gaps(row as usize);
    }

    pub(super) fn remove(&mut self, row: u32) -> Option<Arc<DemandProfileSum>> {
        let sum = self.sums.remove(row)?;
        self.update_gaps(row as usize);
        Some(sum)
    }

    /// Adds the demand profiles of a task to a machine's sum if `sign` is 1, or subtracts them if it is -1. Returns the
    /// amount of each kind that the task takes or frees.
    pub(super) fn shift(
        &mut self,
        row: usize,
        request: &[i64],
        demand_profiles: &DemandProfiles,
        sign: i64,
    ) -> SmallVec<[i64; 4]> {
        let amounts = self.sums.shift(row, request, demand_profiles, sign);
        self.update_gaps(row);
        amounts
    }

    /// Computes the gaps of a machine from its sum.
    fn update_gaps(&mut self, row: usize) {
        self.gaps.iter_mut().for_each(|gaps| gaps.clear(row));
        let Some(sum) = self.sums.get(row) else { return };
        for (kind, gaps) in sum.gaps() {
            let at = self.gaps.iter().position(|gaps| gaps.kind == kind).unwrap_or_else(|| {
                self.gaps.push(KindGaps { kind, blocks: Vec::new() });
                self.gaps.len() - 1
            });
            self.gaps[at].set(row, &gaps);
        }
    }

    /// The machines of a block with room for a demand profile. `free` has the machines' free amounts of the profile's
    /// kind.
    pub(super) fn room(&self, block: usize, curve: &Curve, free: &[i64; BLOCK]) -> Room {
        let gaps = self.gaps.iter().find(|gaps| gaps.kind == curve.kind());
        let block = gaps.and_then(|gaps| gaps.blocks.get(block)).unwrap_or(&CONSTANT);
        self.arch.dispatch(Bounds { block, curve, free })
    }
}

impl KindGaps {
    fn set(&mut self, row: usize, gaps: &DayParts) {
        let (block, lane) = (row / BLOCK, row % BLOCK);
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, CONSTANT.clone());
        }
        let block = &mut self.blocks[block];
        block.varying |= 1 << lane;
        for (lanes, gap) in block.gaps.iter_mut().zip(gaps) {
            lanes[lane] = *gap;
        }
    }

    fn clear(&mut self, row: usize) {
        let Some(block) = self.blocks.get_mut(row / BLOCK) else { return };
        block.varying &= !(1 << (row % BLOCK));
        for lanes in &mut block.gaps {
            lanes[row % BLOCK] = 0;
        }
    }
}

/// The comparison of both bounds for 64 machines at once. It is dispatched as a type, so that its body is compiled for
/// wide vectors.
struct Bounds<'a> {
    block: &'a BlockGaps,
    curve: &'a Curve,
    free: &'a [i64; BLOCK],
}

impl pulp::NullaryFnOnce for Bounds<'_> {
    type Output = Room;

    #[inline(always)]
    fn call(self) -> Room {
        // A negative entry means that a part of the day has too little: by the bound from above, or by that from below.
        let (mut above, mut below) = ([0i64; BLOCK], [0i64; BLOCK]);
        let parts = self.block.gaps.iter().zip(self.curve.highest()).zip(self.curve.lowest());
        for ((gaps, highest), lowest) in parts {
            for lane in 0..BLOCK {
                let left = self.free[lane] + gaps[lane];
                above[lane] |= left - highest;
                below[lane] |= left - lowest;
            }
        }
        let word = |short: &[i64; BLOCK]| {
            let bits = short.iter().enumerate();
            bits.fold(0u64, |word, (bit, short)| word | u64::from(*short >= 0) << bit)
        };
        let certain = word(&above);
        Room { certain, possible: certain | word(&below) & self.block.varying }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::DemandProfile;
    use proptest::prelude::*;

    /// Rows in two blocks.
    const ROWS: usize = 70;

    fn profiles() -> impl Strategy<Value = Arc<DemandProfiles>> {
        let lengths = prop::sample::select(vec![1usize, 3, 8, 24, 48, 288]);
        let points = lengths.prop_flat_map(|points| prop::collection::vec(0u64..9, points));
        (0u8..2, points).prop_map(|(kind, points)| {
            let profile = DemandProfile { kind: KindId(kind), points };
            let mut request = [0, 0];
            request[usize::from(kind)] = profile.peak() as i64;
            DemandProfiles::of(&[profile], &request).expect("it varies")
        })
    }

    proptest! {
        /// Compares the bounds with the exact check of each row, after random changes.
        #[test]
        fn bounds_agree_with_the_sums(
            profiles in prop::collection::vec(profiles(), 1..6),
            tasks in prop::collection::vec((0..ROWS, any::<prop::sample::Index>()), 0..60),
            moved in prop::collection::vec((0..ROWS as u32, 0..ROWS as u32), 0..9),
            free in prop::collection::vec(-3i64..20, BLOCK),
        ) {
            let free: &[i64; BLOCK] = free.first_chunk().expect("there is one for each lane");
            let mut day = DayColumns::new();
            for (at, (row, which)) in tasks.iter().enumerate() {
                let task = which.get(&profiles);
                day.shift(*row, &[0, 0], task, 1);
                if at % 3 == 2 {
                    let (row, which) = &tasks[at - 1];
                    let task = which.get(&profiles);
                    day.shift(*row, &[0, 0], task, -1);
                }
            }
            for (from, to) in moved {
                if let Some(sum) = day.remove(from) {
                    day.set(to, sum);
                }
            }
            for (block, profiles) in [0, 1, 2].into_iter().flat_map(|block| {
                profiles.iter().map(move |profiles| (block, profiles))
            }) {
                let curve = &profiles.curves()[0];
                let room = day.room(block, curve, free);
                for (lane, free) in free.iter().enumerate() {
                    let sum = day.get(block * BLOCK + lane).map(|sum| &**sum);
                    let fits = profiles.fits(curve.kind(), *free, sum);
                    let [certain, possible] =
                        [room.certain, room.possible].map(|word| word >> lane & 1 == 1);
                    prop_assert!(fits || !certain, "row {} of block {}", lane, block);
                    prop_assert!(possible || !fits, "row {} of block {}", lane, block);
                    let varies = sum.is_some_and(|sum| sum.gaps().any(|(kind, _)| kind == curve.kind()));
                    prop_assert!(varies || certain == possible, "row {} of block {}", lane, block);
                }
            }
        }
    }
}
