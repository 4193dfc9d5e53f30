//! Parts of the sections of the report: expectations, lines and tables.

use crate::page::{Check, Table, figure};
use crate::plot::Line;

/// Swept decision times of a job, in seconds: 10 ms to 100 s.
pub(super) const DECISIONS_S: [f64; 9] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// The longest acceptable wait, by the paper.
pub(super) const OBJECTIVE_S: f64 = 30.0;

/// Conclusion of a section that shows both cells.
pub(super) const TWO_CELLS: &str = "Each point was run twice: on the cell of the reference simulator (random first fit on an exact copy), and \
     on the cell that ships (its check, views kept up by deltas, and the placer with the built-in profiles: best of \
     64 machines that fit, looked for from a random place in the scheduler's home).";

/// An expectation with the figures that show whether it is met.
pub(super) fn check(claim: &str, holds: bool, found: String) -> Check {
    Check { claim: claim.to_owned(), holds, found }
}

/// An expectation for one of two cells.
pub(super) fn check_on(cell: &str, claim: &str, holds: bool, found: String) -> Check {
    check(&format!("{claim} ({cell} cell)"), holds, found)
}

/// A line over the swept values.
pub(super) fn line(name: &str, xs: &[f64], ys: impl Iterator<Item = f64>) -> Line {
    Line::new(name, xs.iter().copied().zip(ys).collect())
}

/// A table of figures with one row for each swept value.
pub(super) fn table(title: &str, over: &str, xs: &[f64], columns: &[(&str, Vec<f64>)]) -> Table {
    let head = std::iter::once(over).chain(columns.iter().map(|(name, _)| *name));
    let row = |(index, x): (usize, &f64)| {
        let cells = columns.iter().map(|(_, values)| figure(values[index]));
        std::iter::once(x.to_string()).chain(cells).collect()
    };
    Table {
        title: title.to_owned(),
        head: head.map(str::to_owned).collect(),
        rows: xs.iter().enumerate().map(row).collect(),
    }
}

/// A table of figures on both cells, side by side.
pub(super) fn pairs(
    title: &str,
    over: &str,
    xs: &[f64],
    columns: &[(&str, [Vec<f64>; 2])],
) -> Table {
    let names: Vec<[String; 2]> = columns
        .iter()
        .map(|(name, _)| [format!("{name}: reference"), format!("{name}: shipped")])
        .collect();
    let both = names.iter().zip(columns);
    let columns: Vec<(&str, Vec<f64>)> = both
        .flat_map(|(names, (_, values))| {
            [0, 1].map(|cell| (names[cell].as_str(), values[cell].clone()))
        })
        .collect();
    table(title, over, xs, &columns)
}
