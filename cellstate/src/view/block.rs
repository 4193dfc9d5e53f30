//! A block: 64 machines of a view, the unit that filters and scores evaluate.

use super::{BLOCK, View};
use crate::facts::Need;
use crate::sets::SetId;
use omega_core::{KindId, MachineId};

/// Up to this many machines are evaluated one by one: each takes as many loads as there are kinds, while a block takes
/// eight times as many of the widest vectors.
pub const FEW: u32 = 4;

/// A block of a view's machines. Words have one bit per machine, the lowest for the first.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    view: &'a View,
    index: usize,
}

impl<'a> Block<'a> {
    pub(super) fn new(view: &'a View, index: usize) -> Block<'a> {
        Block { view, index }
    }

    /// The view that it is part of.
    #[must_use]
    pub fn view(&self) -> &'a View {
        self.view
    }

    /// Its position among the blocks.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The row of its first machine.
    #[must_use]
    pub fn first_row(&self) -> usize {
        self.index * BLOCK
    }

    /// The id of one of its machines.
    #[must_use]
    pub fn machine_id(&self, lane: usize) -> MachineId {
        self.view.machine_id(self.first_row() + lane)
    }

    /// The free amounts of a kind; zero for a kind that the cell does not have.
    #[must_use]
    pub fn free(&self, kind: KindId) -> &'a [i64; BLOCK] {
        match self.view.kinds.get(kind) {
            Some(_) => self.view.rows.columns().lane(self.index, kind.index()),
            None => &[0; BLOCK],
        }
    }

    /// The share of its capacity of a kind that each machine would have left after a request; `None` unless
    /// [`View::keep_inverse`] was called. Zero for a kind that the cell does not have.
    #[must_use]
    pub fn left_share(&self, kind: KindId, request: i64) -> Option<LeftShare<'a>> {
        let inverse = match self.view.kinds.get(kind) {
            Some(_) => self.view.kept.inverses(kind, self.first_row())?,
            None => &[0.0; BLOCK],
        };
        Some(LeftShare { free: self.free(kind), request, inverse })
    }

    /// The description of the machine in a lane.
    #[must_use]
    pub fn machine(&self, lane: usize) -> Option<&'a std::sync::Arc<omega_core::Machine>> {
        self.view.machine(self.first_row() + lane)
    }

    /// The rows with a machine.
    #[must_use]
    pub fn present(&self) -> u64 {
        self.view.facts.sets.present_word(self.index)
    }

    /// The machines that accept tasks.
    #[must_use]
    pub fn schedulable(&self) -> u64 {
        self.view.rows.schedulable(self.index)
    }

    /// Machines of a set (see [`Need::affinity`], [`Need::tolerated`]).
    #[must_use]
    pub fn set(&self, set: SetId) -> u64 {
        self.view.facts.sets.word(set, self.index)
    }

    /// Machines with room for a request.
    #[must_use]
    pub fn fits(&self, request: &[i64]) -> u64 {
        self.view.rows.columns().fit(self.index, request)
    }

    /// Of the machines in `among`, those with room for a request.
    #[must_use]
    pub fn fits_among(&self, request: &[i64], among: u64) -> u64 {
        if among.count_ones() > FEW {
            return among & self.fits(request);
        }
        let columns = self.view.rows.columns();
        filter_bits(among, |lane| columns.fits_row(self.first_row() + lane, request))
    }

    /// Of the machines in `among`, those whose devices have what is needed.
    #[must_use]
    pub fn devices_fit(&self, need: &Need, among: u64) -> u64 {
        let Some(request) = need.devices else { return among };
        filter_bits(among, |lane| {
            let devices = self.view.devices(self.first_row() + lane);
            devices.is_some_and(|devices| devices.choose(request, Default::default()).is_some())
        })
    }
}

impl View {
    /// Makes [`View::block_may_fit`] exact for a block in which nothing fits.
    pub fn tighten_block(&mut self, block: usize) {
        self.rows.tighten_block(block);
    }

    /// Makes [`View::blocks_may_fit`] as exact as the bounds of its blocks.
    pub fn tighten_blocks(&mut self, group: usize) {
        self.rows.tighten_group(group);
    }
}

/// The shares of capacity that the machines of a block would have left: see [`Block::left_share`].
#[derive(Clone, Copy, Debug)]
pub struct LeftShare<'a> {
    free: &'a [i64; BLOCK],
    request: i64,
    inverse: &'a [f32; BLOCK],
}

impl LeftShare<'_> {
    /// The share of the machine in a lane: 0 to 1, or more where it is overcommitted. Call it for all lanes in one
    /// loop, which is then compiled to vector instructions.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, lane: usize) -> f32 {
        // An amount below 2^52 becomes a double by its bits alone. Conversions of 64-bit integers would not be
        // vectorised.
        let left = (self.free[lane] - self.request).max(0) as u64;
        let double = f64::from_bits(left | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0;
        (double * f64::from(self.inverse[lane])) as f32
    }
}

/// The bits of a word for which a test holds.
pub(super) fn filter_bits(word: u64, mut test: impl FnMut(usize) -> bool) -> u64 {
    let mut left = word;
    let mut kept = 0;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        kept |= u64::from(test(lane)) << lane;
    }
    kept
}
