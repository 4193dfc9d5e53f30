//! Columns of free amounts, laid out for scans: blocks of 64 machines, and in each block one run per kind.
//!
//! ```text
//!   block 0                              block 1
//!   ┌ cpu ×64 ┬ memory ×64 ┬ disk ×64 ┐ ┌ cpu ×64 ┬ ...
//! ```
//!
//! A search tests a block at once with vector instructions. The result is a word with one bit per machine. For each
//! kind, each block stores an upper bound of its machines' free amounts, and each group of 64 blocks stores the maximum
//! of these bounds. So a search skips blocks in which nothing fits. The bounds are never too low. After claims they may
//! be too high, until a search that finds nothing tightens them.

use pulp::Arch;

/// Machines per block, and bits per word.
pub const BLOCK: usize = 64;

/// The free amounts of each kind, by blocks of rows.
#[derive(Clone, Debug)]
pub struct Columns {
    kinds: usize,
    rows: usize,
    free: Vec<i64>,
    block_most: Vec<i64>,
    group_most: Vec<i64>,
    /// The stamp of each block: the number of all changes in the view when the block last changed.
    stamps: Vec<u64>,
    /// The stamp of each row, if something reads these stamps.
    row_stamps: Option<Vec<u64>>,
    changes: u64,
    arch: Arch,
}

impl Columns {
    pub fn new(kinds: usize) -> Columns {
        Columns {
            kinds,
            rows: 0,
            free: Vec::new(),
            block_most: Vec::new(),
            group_most: Vec::new(),
            stamps: Vec::new(),
            row_stamps: None,
            changes: 0,
            arch: Arch::new(),
        }
    }

    /// Empty columns to replace these. The new stamps continue above the present stamps.
    pub fn anew(&self, kinds: usize) -> Columns {
        let row_stamps = self.row_stamps.as_ref().map(|_| Vec::new());
        Columns { changes: self.changes + 1, row_stamps, ..Columns::new(kinds) }
    }

    /// Makes the columns keep a stamp for each row.
    pub fn keep_row_stamps(&mut self) {
        self.row_stamps.get_or_insert_with(|| vec![self.changes; self.rows]);
    }

    /// Records a change of a row.
    pub fn touch(&mut self, row: usize) {
        self.changes += 1;
        self.stamps[row / BLOCK] = self.changes;
        if let Some(stamps) = &mut self.row_stamps {
            stamps[row] = self.changes;
        }
    }

    /// The stamp of a block, which rises with each change of the block.
    pub fn stamp(&self, block: usize) -> u64 {
        self.stamps[block]
    }

    /// The stamp of a row, which rises with each change of the row; that of its block if no stamps of rows are kept.
    pub fn row_stamp(&self, row: usize) -> u64 {
        self.row_stamps.as_ref().map_or_else(|| self.stamp(row / BLOCK), |stamps| stamps[row])
    }

    pub fn kinds(&self) -> usize {
        self.kinds
    }

    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(BLOCK)
    }

    /// Grows the columns to `rows` rows.
    pub fn grow(&mut self, rows: usize) {
        if rows <= self.rows {
            return;
        }
        self.rows = rows;
        let blocks = self.blocks();
        self.stamps.resize(blocks, self.changes);
        if let Some(stamps) = &mut self.row_stamps {
            stamps.resize(rows, self.changes);
        }
        self.free.resize(blocks * self.kinds * BLOCK, 0);
        self.block_most.resize(blocks * self.kinds, 0);
        self.group_most.resize(blocks.div_ceil(BLOCK) * self.kinds, 0);
    }

    /// The free amounts of a kind on the machines of a block.
    pub fn lane(&self, block: usize, kind: usize) -> &[i64; BLOCK] {
        let start = (block * self.kinds + kind) * BLOCK;
        self.free[start..].first_chunk().expect("a block has 64 rows")
    }

    /// The free amount of a kind in a row.
    pub fn get(&self, row: usize, kind: usize) -> i64 {
        self.free[((row / BLOCK) * self.kinds + kind) * BLOCK + row % BLOCK]
    }

    /// Sets the free amounts of a row. Returns whether an amount rose.
    pub fn set(&mut self, row: usize, free: &[i64]) -> bool {
        self.touch(row);
        let block = row / BLOCK;
        let column = &mut self.free[block * self.kinds * BLOCK + row % BLOCK..];
        let mut more = false;
        for (kind, amount) in free.iter().enumerate() {
            more |= *amount > column[kind * BLOCK];
            column[kind * BLOCK] = *amount;
        }
        if more {
            self.raise(block, free.iter().copied());
        }
        more
    }

    /// Subtracts a request from a row if `sign` is -1, or adds it back if it is 1.
    pub fn add(&mut self, row: usize, request: &[i64], sign: i64) {
        self.touch(row);
        let block = row / BLOCK;
        let start = block * self.kinds * BLOCK + row % BLOCK;
        for (kind, amount) in request.iter().enumerate() {
            self.free[start + kind * BLOCK] += sign * amount;
        }
        if sign > 0 {
            for kind in 0..request.len() {
                let free = self.free[start + kind * BLOCK];
                self.raise_one(block, kind, free);
            }
        }
    }

    fn raise(&mut self, block: usize, free: impl Iterator<Item = i64>) {
        for (kind, amount) in free.enumerate() {
            self.raise_one(block, kind, amount);
        }
    }

    fn raise_one(&mut self, block: usize, kind: usize, amount: i64) {
        let most = &mut self.block_most[block * self.kinds + kind];
        if amount > *most {
            *most = amount;
            let group = &mut self.group_most[block / BLOCK * self.kinds + kind];
            *group = amount.max(*group);
        }
    }

    /// Whether a machine of this block may have room, according to the block's bounds. `false` is always right.
    pub fn block_may_fit(&self, block: usize, request: &[i64]) -> bool {
        fits(&self.block_most[block * self.kinds..][..self.kinds], request)
    }

    /// Whether any of the 64 blocks from `64 * group` on may have room, according to their common bounds. `false` is
    /// always right.
    pub fn group_may_fit(&self, group: usize, request: &[i64]) -> bool {
        fits(&self.group_most[group * self.kinds..][..self.kinds], request)
    }

    /// Computes the exact bounds of a block, after a scan that found nothing.
    pub fn tighten_block(&mut self, block: usize) {
        for kind in 0..self.kinds {
            let most = self.lane(block, kind).iter().copied().max().unwrap_or(0);
            self.block_most[block * self.kinds + kind] = most;
        }
    }

    /// Lowers the common bounds of 64 blocks to the maximum of their own bounds.
    pub fn tighten_group(&mut self, group: usize) {
        let blocks = group * BLOCK..((group + 1) * BLOCK).min(self.blocks());
        for kind in 0..self.kinds {
            let most = blocks.clone().map(|block| self.block_most[block * self.kinds + kind]).max();
            self.group_most[group * self.kinds + kind] = most.unwrap_or(0);
        }
    }

    /// Whether a row has room. This is the comparison of [`Columns::fit`] for one machine.
    pub fn fits_row(&self, row: usize, request: &[i64]) -> bool {
        let start = (row / BLOCK) * self.kinds * BLOCK + row % BLOCK;
        let kinds = request.iter().enumerate();
        kinds
            .into_iter()
            .all(|(kind, request)| *request <= 0 || self.free[start + kind * BLOCK] >= *request)
    }

    /// The machines of a block that have room. This is the comparison of the placement check for 64 machines at once.
    pub fn fit(&self, block: usize, request: &[i64]) -> u64 {
        let base = block * self.kinds * BLOCK;
        let lanes = &self.free[base..base + self.kinds * BLOCK];
        self.arch.dispatch(Fit { lanes, request })
    }
}

fn fits(most: &[i64], request: &[i64]) -> bool {
    // A kind that is not requested always fits, even if its bound is negative.
    most.iter().zip(request).all(|(most, request)| *request <= 0 || most >= request)
}

/// The computation of one bit for each row of a block, set if the row has enough of every requested kind. Kinds that
/// are not requested are skipped, as in the placement check.
///
/// It is dispatched as a type, not as a closure. The compiler might not inline the body of a closure, and would then
/// compile it for narrow vectors.
struct Fit<'a> {
    lanes: &'a [i64],
    request: &'a [i64],
}

impl pulp::NullaryFnOnce for Fit<'_> {
    type Output = u64;

    #[inline(always)]
    fn call(self) -> u64 {
        // A negative entry means that the machine has too little of some kind.
        let mut short = [0i64; BLOCK];
        let lanes = self.lanes.as_chunks::<BLOCK>().0;
        for (lane, request) in lanes.iter().zip(self.request) {
            if *request > 0 {
                for (short, free) in short.iter_mut().zip(lane) {
                    *short |= free - request;
                }
            }
        }
        let mut word = 0u64;
        for (bit, short) in short.iter().enumerate() {
            word |= u64::from(*short >= 0) << bit;
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_is_the_comparison_of_each_row() {
        let mut columns = Columns::new(3);
        columns.grow(130);
        for row in 0..130 {
            let row_i = row as i64;
            columns.set(row, &[row_i % 7, 100 - row_i, -1]);
        }
        for request in [[3, 50, 0], [0, 0, 0], [7, 0, 0], [0, 101, 0], [1, 1, 1]] {
            for block in 0..columns.blocks() {
                let word = columns.fit(block, &request);
                for lane in 0..BLOCK.min(130 - block * BLOCK) {
                    let row = block * BLOCK + lane;
                    let fits = (0..3).all(|k| request[k] <= 0 || columns.get(row, k) >= request[k]);
                    assert_eq!(word >> lane & 1 == 1, fits, "row {row} request {request:?}");
                    assert_eq!(columns.fits_row(row, &request), fits, "row {row} alone");
                }
            }
        }
    }

    #[test]
    fn bounds_are_never_too_low() {
        let mut columns = Columns::new(2);
        columns.grow(200);
        columns.set(70, &[5, 9]);
        assert!(columns.block_may_fit(1, &[5, 9]) && columns.group_may_fit(0, &[5, 9]));
        columns.add(70, &[2, 2], -1);
        columns.tighten_block(1);
        columns.tighten_group(0);
        assert!(!columns.block_may_fit(1, &[5, 9]) && !columns.group_may_fit(0, &[5, 9]));
        columns.add(70, &[2, 2], 1);
        assert!(columns.block_may_fit(1, &[5, 9]) && columns.group_may_fit(0, &[5, 9]));
    }
}
