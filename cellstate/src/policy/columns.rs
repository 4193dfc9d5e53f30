//! Columns of policies in a delta. Each policy clears and merges its own columns.

use std::cell::OnceCell;
use std::collections::BTreeSet;

/// The part of a delta that a policy in the cell writes, and its mirror in a view reads.
pub trait Columns: Default {
    /// Empties the columns, and keeps their memory.
    fn clear(&mut self);

    /// Appends the columns of a later delta. `again` has the rows of the later delta, which replace earlier ones.
    fn append(&mut self, later: &Self, again: &RowsAgain<'_>);

    /// The columns of a later delta if nothing changes after this one.
    fn nothing_since(&self) -> Self {
        Self::default()
    }
}

impl Columns for () {
    fn clear(&mut self) {}

    fn append(&mut self, (): &(), _: &RowsAgain<'_>) {}
}

/// The rows of the later of two merged deltas. Each row replaces the whole row of the earlier delta.
pub struct RowsAgain<'a> {
    slots: &'a [u32],
    set: OnceCell<BTreeSet<u32>>,
}

impl<'a> RowsAgain<'a> {
    pub fn new(slots: &'a [u32]) -> RowsAgain<'a> {
        RowsAgain { slots, set: OnceCell::new() }
    }

    /// Whether the later delta has a row.
    pub fn has(&self, slot: u32) -> bool {
        self.set.get_or_init(|| self.slots.iter().copied().collect()).contains(&slot)
    }

    /// Removes the entries of the later delta's rows from a column of the earlier one.
    pub fn forget_in<T>(&self, column: &mut Vec<(u32, T)>) {
        if !column.is_empty() && !self.slots.is_empty() {
            column.retain(|(slot, _)| !self.has(*slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_come_again_are_forgotten() {
        let mut column = vec![(1, 'a'), (2, 'b'), (2, 'c'), (7, 'd')];
        RowsAgain::new(&[2, 9, 2]).forget_in(&mut column);
        assert_eq!(column, [(1, 'a'), (7, 'd')]);
    }
}
