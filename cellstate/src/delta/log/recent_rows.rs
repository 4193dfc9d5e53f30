//! The latest changed rows with their amounts, in the order of the changes.
//!
//! A delta of the latest changes copies these lists instead of the machines' rows. The rows of changed machines lie far
//! apart in memory. The processor that made the commits has them in its cache, and would lose them to the processor
//! that reads them for a delta. Each such transfer takes up to 200 nanoseconds, while the cell is locked.

use omega_core::SequenceNumber;

/// Number of rows that are kept. A busy worker syncs before more than a few hundred rows have changed.
const ROWS: usize = 1024;

/// The latest changed rows. See the module documentation.
///
/// Row `n` of all rows ever added is at place `n % ROWS`.
#[derive(Clone, Debug)]
pub struct RecentRows {
    kinds: usize,
    sequences: Vec<SequenceNumber>,
    free: Vec<i64>,
    /// Number of rows that were ever added.
    added: usize,
}

/// Consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsPart<'a> {
    pub sequences: &'a [SequenceNumber],
    /// Free amounts: all kinds of the first row, then all kinds of the second, and so on.
    pub free: &'a [i64],
}

impl RecentRows {
    /// An empty list for a cell with this number of kinds.
    pub fn new(kinds: usize) -> RecentRows {
        RecentRows { kinds, sequences: Vec::new(), free: Vec::new(), added: 0 }
    }

    /// Adds a row in its present state.
    #[inline]
    pub fn push(&mut self, sequence: SequenceNumber, free: &[i64]) {
        let place = self.added % ROWS;
        if self.sequences.len() < ROWS {
            self.sequences.push(sequence);
            self.free.extend_from_slice(free);
        } else {
            self.sequences[place] = sequence;
            self.free[place * self.kinds..][..self.kinds].copy_from_slice(free);
        }
        self.added += 1;
    }

    /// The last `count` rows, oldest first, in two parts; `None` if some of them were overwritten.
    pub fn last(&self, count: usize) -> Option<[RowsPart<'_>; 2]> {
        if count > self.sequences.len() {
            return None;
        }
        let (from, to) = ((self.added - count) % ROWS, self.added % ROWS);
        Some(match count {
            0 => [self.part(0, 0), self.part(0, 0)],
            _ if from < to => [self.part(from, to), self.part(0, 0)],
            _ => [self.part(from, self.sequences.len()), self.part(0, to)],
        })
    }

    fn part(&self, from: usize, to: usize) -> RowsPart<'_> {
        let free = &self.free[from * self.kinds..to * self.kinds];
        RowsPart { sequences: &self.sequences[from..to], free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number of each of the last `count` rows.
    fn last(rows: &RecentRows, count: usize) -> Option<Vec<u64>> {
        let parts = rows.last(count)?;
        let read = |part: RowsPart<'_>| {
            let free = part.free.chunks(2).map(|free| [free[0] as u64, free[1] as u64]);
            let pairs = part.sequences.iter().zip(free);
            pairs
                .map(|(sequence, free)| {
                    assert_eq!(free, [sequence.0 * 2, sequence.0 * 3]);
                    sequence.0
                })
                .collect::<Vec<u64>>()
        };
        Some(parts.into_iter().flat_map(read).collect())
    }

    #[test]
    fn the_last_rows_are_kept_in_order() {
        let mut rows = RecentRows::new(2);
        assert_eq!(last(&rows, 0), Some(vec![]));
        assert_eq!(last(&rows, 1), None);
        for n in 0..3 * ROWS as u64 + 5 {
            rows.push(SequenceNumber(n), &[n as i64 * 2, n as i64 * 3]);
            let known = ROWS.min(n as usize + 1);
            for count in [0, 1, 2, 7, ROWS - 1, ROWS] {
                let expected = (count <= known).then(|| (n + 1 - count as u64..=n).collect());
                assert_eq!(last(&rows, count), expected, "{count} rows of {n}");
            }
        }
    }
}
