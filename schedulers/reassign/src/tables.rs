//! Tables of the number of tasks by machine, location or neighbourhood. Only jobs that a rule concerns have a row.
//!
//! Most jobs have one task and no dependencies, so they need no row. With a row for every job, a large instance would
//! need gigabytes.

/// Value of `row` for a job without a row.
const NONE: u32 = u32::MAX;

/// The row of each job in a table. Jobs that no rule of the table concerns have no row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    row: Vec<u32>,
    pub(crate) count: usize,
    pub(crate) columns: usize,
}

impl Rows {
    /// Numbers the rows of the jobs for which `needs` is true.
    pub(crate) fn new(needs: impl Iterator<Item = bool>, columns: usize) -> Rows {
        let mut count = 0;
        let number = |is_needed: bool| {
            count += u32::from(is_needed);
            if is_needed { count - 1 } else { NONE }
        };
        let row = needs.map(number).collect();
        Rows { row, count: count as usize, columns }
    }

    /// Returns a table of these rows and columns, filled with zeros.
    pub(crate) fn zeros(&self) -> Vec<u16> {
        vec![0; self.count * self.columns]
    }

    /// Position of a job's count for a column; `None` if the job has no row.
    #[inline]
    pub(crate) fn cell(&self, job: usize, column: usize) -> Option<usize> {
        let row = self.row[job];
        (row != NONE).then(|| row as usize * self.columns + column)
    }
}
