//! The results of a sweep as a table: a row for each scheduler of each point, with settings and
//! results.

use super::file::SETTINGS;
use super::kept::Done;
use crate::scenario::SchedulerReport;
use crate::sheet::{Cell, Kind, Sheet};

/// Names and kinds of a scheduler's results, in the order of [`figures`].
const FIGURES: [(&str, Kind); 18] = [
    ("scheduler", Kind::Text),
    ("jobs", Kind::Count),
    ("jobs_placed", Kind::Count),
    ("busy", Kind::Number),
    ("useful", Kind::Number),
    ("wasted", Kind::Number),
    ("succeeded", Kind::Count),
    ("failed", Kind::Count),
    ("conflict_fraction", Kind::NumberIfAny),
    ("no_room", Kind::Count),
    ("tasks_placed", Kind::Count),
    ("abandoned", Kind::Count),
    ("left_in_queue", Kind::Count),
    ("wait_mean_s", Kind::NumberIfAny),
    ("wait_p50_s", Kind::NumberIfAny),
    ("wait_p90_s", Kind::NumberIfAny),
    ("wait_p99_s", Kind::NumberIfAny),
    ("placed_mean_s", Kind::NumberIfAny),
];

/// Names and kinds of the whole cell's results.
const OF_CELL: [(&str, Kind); 2] = [("cpu_used", Kind::Number), ("memory_used", Kind::Number)];

/// All columns.
fn columns() -> impl Iterator<Item = (&'static str, Kind)> {
    SETTINGS.iter().copied().chain(FIGURES).chain(OF_CELL)
}

/// Contents of each column.
pub(super) fn kinds() -> Vec<Kind> {
    columns().map(|(_, kind)| kind).collect()
}

/// The table.
pub(super) fn sheet(done: &[Done]) -> Sheet {
    let names: Vec<&str> = columns().map(|(name, _)| name).collect();
    let mut sheet = Sheet::new(&names);
    for Done { point, report } in done {
        let of_cell = [report.cpu_used, report.memory_used].map(|share| Cell::Number(share, 6));
        for scheduler in &report.schedulers {
            let cells = point.cells().into_iter().chain(figures(scheduler)).chain(of_cell.clone());
            sheet.push(cells.collect());
        }
    }
    sheet
}

/// Results of a scheduler. A mean of no values is an empty cell of the table, not zero.
fn figures(s: &SchedulerReport) -> [Cell; 18] {
    let if_any = |any: bool, cell: Cell| if any { cell } else { Cell::None };
    let share = |share| Cell::Number(share, 6);
    let waited = |seconds| if_any(s.jobs_tried > 0, Cell::Number(seconds, 4));
    [
        s.name.as_str().into(),
        Cell::Count(s.jobs),
        Cell::Count(s.jobs_placed),
        share(s.busy),
        share(s.useful),
        share(s.wasted),
        Cell::Count(s.succeeded),
        Cell::Count(s.failed),
        s.conflict_fraction.map_or(Cell::None, share),
        Cell::Count(s.no_room),
        Cell::Count(s.tasks_placed),
        Cell::Count(s.abandoned),
        Cell::Count(s.left_in_queue),
        waited(s.wait.mean_s),
        waited(s.wait.p50_s),
        waited(s.wait.p90_s),
        waited(s.wait.p99_s),
        if_any(s.jobs_placed > 0, Cell::Number(s.placed.mean_s, 4)),
    ]
}
