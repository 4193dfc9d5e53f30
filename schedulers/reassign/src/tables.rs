//! Tables with a row for each job that a rule concerns: numbers of its tasks by machine, location or neighbourhood.
//!
//! Most jobs have one task, and few have dependencies, so most need no row. Rows of a large instance would fill gigabytes.

/// Row of a job that needs none.
const NONE: u32 = u32::MAX;

/// Row of each job in a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    row: Vec<u32>,
    pub(crate) count: usize,
    pub(crate) columns: usize,
}

impl Rows {
    /// Gives a row to each job that needs one.
    pub(crate) fn new(needs: impl Iterator<Item = bool>, columns: usize) -> Rows {
        let mut count = 0;
        let number = |is_needed: bool| {
            count += u32::from(is_needed);
            if is_needed { count - 1 } else { NONE }
        };
        let row = needs.map(number).collect();
        Rows { row, count: count as usize, columns }
    }

    /// A table with zeros.
    pub(crate) fn zeros(&self) -> Vec<u16> {
        vec![0; self.count * self.columns]
    }

    /// Position of a job's number for a column; `None` if it has no row.
    #[inline]
    pub(crate) fn cell(&self, job: usize, column: usize) -> Option<usize> {
        let row = self.row[job];
        (row != NONE).then(|| row as usize * self.columns + column)
    }
}
