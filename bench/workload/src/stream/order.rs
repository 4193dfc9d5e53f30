//! A window that sorts rows by time.
//!
//! Traces are written by computers with different clocks, or merged from several lists, so rows may be slightly out of
//! order. A window keeps a limited number of rows (or all rows) in memory, and returns the earliest of them; rows with
//! equal times stay in order. A row that is earlier than an already returned row is an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of rows in the window of a streamed file. With a thousand bytes each, they take some megabytes. In the known
/// traces a row is at most a few hundred rows out of order.
pub(crate) const WINDOW_ROWS: usize = 8192;

/// Number of rows that a window may have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A bounded number, so that the file may have any length.
    Bounded,
    /// All rows, for callers that store all rows anyway.
    All,
}

impl Window {
    fn rows(self) -> usize {
        match self {
            Window::Bounded => WINDOW_ROWS,
            Window::All => usize::MAX,
        }
    }
}

/// The rows of a window.
pub(crate) struct Order<T> {
    held: BinaryHeap<Reverse<Row<T>>>,
    rows_max: usize,
    /// Number of rows read.
    count: u64,
    /// Time of the last returned row.
    given_ms: u64,
}

/// A row with its time and its number in the input.
struct Row<T> {
    key: (u64, u64),
    value: T,
}

impl<T> PartialEq for Row<T> {
    fn eq(&self, other: &Row<T>) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Row<T> {}

impl<T> PartialOrd for Row<T> {
    fn partial_cmp(&self, other: &Row<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Row<T> {
    fn cmp(&self, other: &Row<T>) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<T> Order<T> {
    pub(crate) fn new(window: Window) -> Order<T> {
        let rows_max = window.rows();
        Order { held: BinaryHeap::new(), rows_max, count: 0, given_ms: 0 }
    }

    /// Whether a row must be returned before another one is added.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= self.rows_max
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a row with a later time was already returned; the text has the reason.
    pub(crate) fn push(&mut self, at_ms: u64, value: T) -> Result<(), String> {
        if at_ms < self.given_ms {
            return Err(format!(
                "is out of order by more than {WINDOW_ROWS} rows: sort the rows of the file by \
                 this column"
            ));
        }
        self.count += 1;
        self.held.push(Reverse(Row { key: (at_ms, self.count), value }));
        Ok(())
    }

    /// Time of the earliest row in the window.
    pub(crate) fn earliest_ms(&self) -> Option<u64> {
        self.held.peek().map(|row| row.0.key.0)
    }

    /// Removes and returns the earliest row.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let Reverse(row) = self.held.pop()?;
        self.given_ms = row.key.0;
        Some(row.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes rows with these times through a window of `rows_max`.
    fn sorted(rows_max: usize, times: &[u64]) -> Result<Vec<(u64, usize)>, String> {
        let mut order = Order { rows_max, ..Order::new(Window::All) };
        let mut given = Vec::new();
        for (i, at_ms) in times.iter().enumerate() {
            if order.is_full() {
                given.extend(order.pop());
            }
            order.push(*at_ms, (*at_ms, i))?;
        }
        given.extend(std::iter::from_fn(|| order.pop()));
        Ok(given)
    }

    #[test]
    fn rows_come_out_by_time_and_then_as_they_went_in() {
        let given = sorted(3, &[5, 1, 5, 2, 9, 5]).unwrap();
        assert_eq!(given, [(1, 1), (2, 3), (5, 0), (5, 2), (5, 5), (9, 4)]);
    }

    #[test]
    fn a_row_that_is_too_late_for_the_window_is_told() {
        assert_eq!(sorted(2, &[5, 7, 5, 6]).unwrap().len(), 4);
        assert!(sorted(2, &[5, 6, 7, 5]).unwrap_err().contains("out of order"));
        assert_eq!(sorted(usize::MAX, &[5, 6, 7, 8, 5]).unwrap().len(), 5);
    }
}
