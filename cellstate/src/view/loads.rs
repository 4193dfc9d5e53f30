//! Load reports in a view, and columns of their values for scores and filters.

use crate::state::load::LoadReport;
use crate::state::map::FastMap;
use crate::view::{BLOCK, Block, View};
use omega_core::{KindId, Machine};
use std::sync::Arc;

/// Placeholder for the report time of a machine without a report.
pub const NEVER: u64 = u64::MAX;

/// The values of one kind in all reports, by row.
#[derive(Debug, Default)]
struct Column {
    used: Vec<i64>,
    claimed: Vec<i64>,
    capacity: Vec<i64>,
}

/// The load reports. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Loads {
    reports: FastMap<u32, LoadReport>,
    /// A column for each kind that some plugin reads.
    columns: Vec<Option<Column>>,
    /// The time of each row's report; empty while there is no column.
    stamps: Vec<u64>,
}

impl Loads {
    /// Grows the columns to `rows` rows.
    pub(super) fn grow(&mut self, rows: usize) {
        let rows = rows.next_multiple_of(BLOCK);
        for column in self.columns.iter_mut().flatten() {
            column.used.resize(rows, 0);
            column.claimed.resize(rows, 0);
            column.capacity.resize(rows, 0);
            self.stamps.resize(rows, NEVER);
        }
    }

    /// Clears all reports and machines.
    pub(super) fn clear(&mut self) {
        self.reports.clear();
        self.stamps.clear();
        self.columns.iter_mut().flatten().for_each(|column| *column = Column::default());
    }

    /// Records the capacity of a machine.
    pub(super) fn set_machine(&mut self, row: usize, machine: Option<&Machine>) {
        for (kind, column) in (0..).map(KindId).zip(&mut self.columns) {
            if let Some(column) = column {
                column.capacity[row] = capacity(machine, kind);
            }
        }
    }

    /// Sets the report of a row. Returns whether it differs from the previous one.
    pub(super) fn set(&mut self, slot: u32, report: &LoadReport) -> bool {
        self.show(slot as usize, Some(report));
        let before = self.reports.insert(slot, report.clone());
        before.as_ref() != Some(report)
    }

    /// Removes the report of the machine that a row had before.
    pub(super) fn remove(&mut self, slot: u32) {
        if self.reports.remove(&slot).is_some() {
            self.show(slot as usize, None);
        }
    }

    /// The report of a row.
    fn of(&self, row: usize) -> Option<&LoadReport> {
        self.reports.get(&(row as u32))
    }

    /// Creates the column of a kind, for these machines in this number of rows.
    fn keep(&mut self, kind: KindId, machines: &[Option<Arc<Machine>>], rows: usize) {
        let known = self.columns.len();
        self.columns.resize_with(known.max(kind.index() + 1), || None);
        if self.columns[kind.index()].is_some() {
            return;
        }
        self.columns[kind.index()] = Some(Column::default());
        self.grow(rows);
        let Some(column) = &mut self.columns[kind.index()] else { return };
        for row in 0..rows {
            let machine = machines.get(row).and_then(Option::as_deref);
            column.capacity[row] = capacity(machine, kind);
        }
        for (slot, report) in &self.reports {
            let row = *slot as usize;
            column.used[row] = report.used.get(kind) as i64;
            column.claimed[row] = report.claimed.get(kind) as i64;
            self.stamps[row] = report.at_ms;
        }
    }

    /// Writes a report into the columns.
    fn show(&mut self, row: usize, report: Option<&LoadReport>) {
        for (kind, column) in (0..).map(KindId).zip(&mut self.columns) {
            if let Some(column) = column {
                column.used[row] = report.map_or(0, |report| report.used.get(kind) as i64);
                column.claimed[row] = report.map_or(0, |report| report.claimed.get(kind) as i64);
                self.stamps[row] = report.map_or(NEVER, |report| report.at_ms);
            }
        }
    }
}

fn capacity(machine: Option<&Machine>, kind: KindId) -> i64 {
    machine.map_or(0, |machine| machine.capacity.get(kind) as i64)
}

impl View {
    /// The last report of the machine in a row.
    #[must_use]
    pub fn load(&self, row: usize) -> Option<&LoadReport> {
        self.loads.of(row)
    }

    /// The cell's time at the last sync, in milliseconds. In a served cell, `Expire` advances the time every ten
    /// seconds. A remote view gets the new time together with the next change.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.session.now_ms()
    }

    /// The age of the oldest report of all machines. It scans all machines, so it is meant for metrics.
    #[must_use]
    pub fn oldest_load_ms(&self) -> Option<u64> {
        self.loads.reports.values().map(|report| report.age_ms(self.now_ms())).max()
    }

    /// Makes the view keep the loads of a kind in columns.
    pub fn keep_load(&mut self, kind: KindId) {
        self.loads.keep(kind, &self.machine_index.machines, self.rows.len());
    }
}

/// The reports of one kind from the machines of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockLoad<'a> {
    /// Measured use of each machine.
    pub used: &'a [i64; BLOCK],
    /// Claims on each machine at the time of its report.
    pub claimed: &'a [i64; BLOCK],
    /// The cell's time of each report in milliseconds; [`NEVER`] if there is no report.
    pub at_ms: &'a [u64; BLOCK],
    /// Capacity of each machine, without overcommit.
    pub capacity: &'a [i64; BLOCK],
}

impl<'a> Block<'a> {
    /// The reports of a kind; `None` unless [`View::keep_load`] was called.
    #[must_use]
    pub fn load(&self, kind: KindId) -> Option<BlockLoad<'a>> {
        let loads = &self.view().loads;
        let column = loads.columns.get(kind.index())?.as_ref()?;
        let first = self.first_row();
        Some(BlockLoad {
            used: column.used[first..].first_chunk()?,
            claimed: column.claimed[first..].first_chunk()?,
            at_ms: loads.stamps[first..].first_chunk()?,
            capacity: column.capacity[first..].first_chunk()?,
        })
    }
}
