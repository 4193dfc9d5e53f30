//! A filter that restricts a scheduler to some machines: those of its partition, or those on which a service scheduler
//! places tasks.

use omega_cellstate::{BLOCK, Block};
use omega_schedulers::{Filter, Reads, Tasks};

/// The machines in a range of the cell's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first row of the range.
    pub from: usize,
    /// The first row after the range.
    pub to: usize,
}

impl Rows {
    /// Returns one of several parts of the rows, whose sizes differ by at most one.
    #[must_use]
    pub fn part(rows: usize, index: usize, of: usize) -> Rows {
        Rows { from: rows * index / of, to: rows * (index + 1) / of }
    }

    /// Returns the bits of a block for rows that are in this range.
    fn bits(self, first: usize) -> u64 {
        let below = |row: usize| match row.saturating_sub(first) {
            0 => 0,
            lanes if lanes >= BLOCK => u64::MAX,
            lanes => (1 << lanes) - 1,
        };
        below(self.to) & !below(self.from)
    }
}

impl Filter for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn filter(&self, _: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        among & self.bits(block.first_row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_together_all() {
        for (rows, of) in [(1, 1), (10, 3), (64, 64), (200, 7)] {
            let mut next = 0;
            for index in 0..of {
                let part = Rows::part(rows, index, of);
                assert_eq!(part.from, next);
                next = part.to;
            }
            assert_eq!(next, rows);
        }
    }

    #[test]
    fn bits_are_those_of_the_rows() {
        let rows = Rows { from: 3, to: 130 };
        assert_eq!(rows.bits(0), u64::MAX << 3);
        assert_eq!(rows.bits(64), u64::MAX);
        assert_eq!(rows.bits(128), 0b11);
        assert_eq!(rows.bits(192), 0);
        assert_eq!(Rows { from: 70, to: 70 }.bits(64), 0);
    }
}
