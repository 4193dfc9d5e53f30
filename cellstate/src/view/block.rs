//! A block: 64 machines of a view. Filters and scores evaluate one block at a time.

use crate::index::need::Need;
use crate::index::sets::{Lanes, SetId};
use crate::view::{BLOCK, View};
use omega_core::{KindId, MachineId};

/// Highest number of machines that are evaluated one by one. Evaluating one machine takes one load per kind. Evaluating
/// the whole block takes eight loads of the widest vectors per kind.
pub const FEW: u32 = 4;

/// A block of a view's machines. Words have one bit per machine, and the lowest bit is that of the first machine.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    view: &'a View,
    index: usize,
}

impl<'a> Block<'a> {
    pub(super) fn new(view: &'a View, index: usize) -> Block<'a> {
        Block { view, index }
    }

    /// The view that the block is part of.
    #[must_use]
    pub fn view(&self) -> &'a View {
        self.view
    }

    /// The position of the block among all blocks.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The machines of the block in `among`.
    pub(crate) fn lanes(&self, among: u64) -> Lanes {
        Lanes { block: self.index, among }
    }

    /// The row of the block's first machine.
    #[must_use]
    pub fn first_row(&self) -> usize {
        self.index * BLOCK
    }

    /// The id of one of the block's machines.
    #[must_use]
    pub fn machine_id(&self, lane: usize) -> MachineId {
        self.view.machine_id(self.first_row() + lane)
    }

    /// The free amounts of a kind; zero if the cell does not have the kind.
    #[must_use]
    pub fn free(&self, kind: KindId) -> &'a [i64; BLOCK] {
        match self.view.kinds.get(kind) {
            Some(_) => self.view.rows.columns().lane(self.index, kind.index()),
            None => &[0; BLOCK],
        }
    }

    /// The share of a kind's capacity that would be left on each machine after a request. `None` unless
    /// [`View::keep_inverse`] was called. The shares are zero if the cell does not have the kind.
    #[must_use]
    pub fn left_share(&self, kind: KindId, request: i64) -> Option<LeftShare<'a>> {
        let inverse = match self.view.kinds.get(kind) {
            Some(_) => self.view.plugin_data.inverses(kind, self.first_row())?,
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
        self.view.machine_index.sets.present_word(self.index)
    }

    /// The machines that accept tasks.
    #[must_use]
    pub fn schedulable(&self) -> u64 {
        self.view.rows.schedulable(self.index)
    }

    /// The machines of a set (see [`Need::affinity`], [`Need::tolerated`]).
    #[must_use]
    pub fn set(&self, set: SetId) -> u64 {
        self.view.machine_index.sets.word(set, self.index)
    }

    /// The machines with room for a request.
    #[must_use]
    pub fn fits(&self, request: &[i64]) -> u64 {
        self.view.rows.columns().fit(self.index, request)
    }

    /// The machines in `among` with room for a request.
    #[must_use]
    pub fn fits_among(&self, request: &[i64], among: u64) -> u64 {
        if among.count_ones() > FEW {
            return among & self.fits(request);
        }
        let columns = self.view.rows.columns();
        filter_bits(among, |lane| columns.fits_row(self.first_row() + lane, request))
    }

    /// The machines in `among` with enough left on their devices for a need.
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
    /// Tightens the bounds of a block in which nothing fits. [`View::block_may_fit`] is then exact for the block.
    pub fn tighten_block(&mut self, block: usize) {
        self.rows.tighten_block(block);
    }

    /// Tightens the common bounds of 64 blocks to the bounds of the single blocks, for [`View::blocks_may_fit`].
    pub fn tighten_blocks(&mut self, group: usize) {
        self.rows.tighten_group(group);
    }
}

/// The shares of capacity that the machines of a block would have left. See [`Block::left_share`].
#[derive(Clone, Copy, Debug)]
pub struct LeftShare<'a> {
    free: &'a [i64; BLOCK],
    request: i64,
    inverse: &'a [f32; BLOCK],
}

impl LeftShare<'_> {
    /// The share of the machine in a lane: from 0 to 1, or above 1 if the machine is overcommitted. Call this for all
    /// lanes in one loop, which then compiles to vector instructions.
    ///
    /// # Panics
    /// The block has no such lane.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, lane: usize) -> f32 {
        // An amount below 2^52 is converted to a double by bit operations, because conversions of 64-bit integers would
        // not be vectorised.
        let left = (self.free[lane] - self.request).max(0) as u64;
        let double = f64::from_bits(left | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0;
        (double * f64::from(self.inverse[lane])) as f32
    }
}

/// The bits of a word for which a test is true.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, CellHandle, SharedCell};
    use omega_core::{Amounts, Command, Kinds, Machine, ResourceKind, Unit};

    /// The column of a missing kind would be that of the next block's first kind.
    #[test]
    fn machines_have_nothing_of_a_kind_that_the_cell_lacks() {
        let cpu = ResourceKind { name: "cpu".into(), unit: Unit::Milli, compressible: true };
        let cell = SharedCell::new(Cell::new(Kinds::new(vec![cpu]).unwrap()));
        for i in 0..=BLOCK as u64 {
            let machine = Machine::new(format!("m{i}"), Amounts::new([1000 + i]));
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let (id, number) = cell.register("s".into()).unwrap();
        let mut view = View::new(id, number);
        view.sync(&cell).unwrap();
        for (row, cpu) in [(0, 1000), (BLOCK, 1000 + BLOCK as i64)] {
            assert_eq!(view.free(row, KindId::CPU), cpu);
            assert_eq!(view.free(row, KindId::MEMORY), 0);
            assert_eq!(view.block(row / BLOCK).free(KindId::MEMORY), &[0; BLOCK]);
        }
    }
}
