//! Peak hours, in which batch tasks are limited: see [`PeakCalendar`](omega_core::PeakCalendar).

use crate::framework::events::Events;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks};
use omega_cellstate::{Block, PeakLimit};
use omega_core::DAY_MS;

/// Filter: with the task, batch tasks stay within their share of the machine at this hour.
#[derive(Clone, Copy, Debug)]
pub struct PeakHours;

impl Filter for PeakHours {
    fn name(&self) -> &'static str {
        "peak_hours"
    }

    /// Time is not an input, because the begin and end of a peak arrive as changes of the calendars.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::AMOUNTS
    }

    fn wakes_on(&self) -> Events {
        Events::of(self.reads()) | Events::PEAKS_CHANGED
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.peaks_may_reject(tasks.job)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        among & !block.over_peak(tasks.job, tasks.need, among)
    }

    fn why(&self, tasks: &Tasks<'_>, row: usize) -> Option<String> {
        why_held_back(tasks, row)
    }

    fn covers(&self) -> CellChecks {
        CellChecks::PEAKS
    }
}

/// Returns a clause with the end of the peak that keeps these tasks off the machine in a row; `None`
/// if no peak does.
pub(crate) fn why_held_back(tasks: &Tasks<'_>, row: usize) -> Option<String> {
    let limit = tasks.view.peak_over(row, tasks.job, tasks.need)?;
    let PeakLimit { kind, calendar, ends_ms } = limit;
    let kind = tasks.view.kinds().get(kind).map_or("it", |kind| &kind.name);
    let minutes = ends_ms % u64::from(DAY_MS) / 60_000;
    let (hour, minute) = (minutes / 60, minutes % 60);
    Some(format!(
        "in peak hours until {hour:02}:{minute:02} ({calendar}), with no {kind} left for batch \
         tasks"
    ))
}
