//! Exclusive cores in a view: the free cores of each NUMA node, and columns that filters read. All are empty until some
//! machine has exclusive cores.

use crate::index::need::Need;
use crate::state::cores::CoresLeft;
use crate::view::{BLOCK, Block, View};
use omega_core::{CorePlace, CoreRequest};

/// The columns of exclusive cores, by row; empty until a machine has some.
#[derive(Debug, Default)]
pub(super) struct Cores {
    left: Vec<CoresLeft>,
    /// For each row, the free cores of the node with the most free cores.
    most: Vec<i16>,
    /// For each row, the free cores of all nodes together.
    total: Vec<i16>,
}

impl Cores {
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Grows the columns to `rows` rows, if columns are in use.
    pub(super) fn grow(&mut self, rows: usize) {
        if !self.is_empty() {
            self.resize(rows);
        }
    }

    fn resize(&mut self, rows: usize) {
        let rows = rows.next_multiple_of(BLOCK);
        self.left.resize(rows, CoresLeft::default());
        self.most.resize(rows, 0);
        self.total.resize(rows, 0);
    }

    /// Creates the columns, because a machine has exclusive cores. The machine's free cores are set separately.
    pub(super) fn begin(&mut self, rows: usize) {
        if self.is_empty() {
            self.resize(rows);
        }
    }

    /// Clears the free cores of a row whose machine has no exclusive cores.
    pub(super) fn remove(&mut self, row: usize) {
        self.set(row, CoresLeft::default());
    }

    /// The free cores of a row, if columns are in use.
    #[inline]
    pub(super) fn of(&self, row: usize) -> Option<&CoresLeft> {
        self.left.get(row)
    }

    /// Sets the free cores of a row. Returns whether a node has more than before.
    pub(super) fn set(&mut self, row: usize, left: CoresLeft) -> bool {
        let Some(known) = self.left.get_mut(row) else { return false };
        let more = left.is_more_than(known);
        *known = left;
        self.most[row] = left.most();
        self.total[row] = left.total();
        more
    }

    /// Changes the free cores of a row.
    pub(super) fn change(&mut self, row: usize, change: impl FnOnce(&mut CoresLeft)) {
        if let Some(mut left) = self.left.get(row).copied() {
            change(&mut left);
            self.set(row, left);
        }
    }

    /// The rows of a block with enough free cores for a request.
    fn fit(&self, block: usize, request: CoreRequest) -> u64 {
        let column = match request.place {
            CorePlace::OneNode => &self.most,
            CorePlace::AnyNodes => &self.total,
        };
        let (Some(column), Ok(count)) =
            (column.get(block * BLOCK..(block + 1) * BLOCK), i16::try_from(request.count))
        else {
            return 0;
        };
        let lanes = column.iter().zip(0..);
        lanes.fold(0, |word, (left, lane)| word | u64::from(*left >= count) << lane)
    }
}

impl View {
    /// The free exclusive cores of a row; `None` if its machine has no exclusive cores.
    #[must_use]
    pub fn cores(&self, row: usize) -> Option<&CoresLeft> {
        let left = self.rows.cores().of(row)?;
        self.machine(row).is_some_and(|machine| !machine.numa.is_empty()).then_some(left)
    }
}

impl Block<'_> {
    /// The machines in `among` with enough free cores for a need.
    #[must_use]
    pub fn cores_fit(&self, need: &Need, among: u64) -> u64 {
        let Some(request) = need.cores else { return among };
        among & self.view().rows.cores().fit(self.index(), request)
    }
}
