//! The table of placements: the machine on which each task runs at the start.

use crate::text::table::Table;
use crate::text::words::plural;
use crate::{Arrival, LoadError};
use omega_core::Machine;
use omega_core::limits::TASKS_PER_JOB_MAX;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Columns of the table.
pub(super) const COLUMNS: [&str; 3] = ["job", "machine", "task"];

/// Placements whose job has not been read yet, by the name of the job.
pub(super) struct Placements {
    table: Table,
    rows: BTreeMap<String, Vec<Placement>>,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Placement {
    line: u64,
    /// Number of the task in its job; `None` stands for the smallest number that no other row of the job has.
    task: Option<u32>,
    /// Position of the machine.
    machine: u32,
}

impl Placements {
    /// Reads all rows.
    pub(super) fn read(mut table: Table, machines: &[Machine]) -> Result<Placements, LoadError> {
        let [job, machine] = table.find(["job", "machine"])?;
        let task = table.optional_column("task");
        let positions: HashMap<&str, u32> =
            machines.iter().map(|machine| &*machine.name).zip(0..).collect();
        let mut rows: BTreeMap<String, Vec<Placement>> = BTreeMap::new();
        while let Some(row) = table.next_row()? {
            let name = row.required(machine)?;
            let position = positions.get(name).copied().ok_or_else(|| {
                let message = format!(
                    "{name:?} is not in the table of machines: correct this row \
                     or that table"
                );
                row.error(machine, message)
            })?;
            let task = match task {
                Some(column) => row.optional_integer(column, u64::from(TASKS_PER_JOB_MAX) - 1)?,
                None => None,
            };
            rows.entry(row.required(job)?.to_owned()).or_default().push(Placement {
                line: row.line(),
                task: task.map(|task| task as u32),
                machine: position,
            });
        }
        Ok(Placements { table, rows })
    }

    /// Adds the placements of a job to that job, whose arrival is counted from the start.
    pub(super) fn place(&mut self, arrival: &mut Arrival) -> Result<(), LoadError> {
        let Some(rows) = self.rows.remove(&*arrival.job.name) else { return Ok(()) };
        let name = &arrival.job.name;
        if arrival.at_ms > 0 {
            let seconds = arrival.at_ms as f64 / 1000.0;
            let message = format!(
                "{name:?} arrives {seconds} s after the start, but only jobs that arrive at \
                 the start can have placements: change its arrival_s, or remove this row"
            );
            return Err(self.error(rows[0].line, "job", message));
        }
        let count: u32 = arrival.job.groups.iter().map(|group| group.count).sum();
        let mut numbers = HashSet::new();
        for row in &rows {
            let Some(task) = row.task else { continue };
            if task >= count {
                let message =
                    format!("{task} must be below {count}, the number of tasks of job {name:?}");
                return Err(self.error(row.line, "task", message));
            }
            if !numbers.insert(task) {
                let message = format!(
                    "task {task} of job {name:?} has two placements: remove one \
                     of them"
                );
                return Err(self.error(row.line, "task", message));
            }
        }
        let mut free = (0..count).filter(|task| !numbers.contains(task));
        for row in &rows {
            let Some(task) = row.task.or_else(|| free.next()) else {
                let message = format!(
                    "{name:?} has {}, but more placements: remove this row",
                    plural(u64::from(count), "task")
                );
                return Err(self.error(row.line, "job", message));
            };
            arrival.placed.push((task, row.machine));
        }
        arrival.placed.sort_unstable();
        Ok(())
    }

    /// Checks that the job of every placement was read.
    pub(super) fn check_used(&self) -> Result<(), LoadError> {
        let first = self.rows.iter().map(|(name, rows)| (rows[0].line, name)).min();
        match first {
            None => Ok(()),
            Some((line, name)) => {
                let message = format!(
                    "{name:?} is not in the table of jobs: correct this row or \
                     that table"
                );
                Err(self.error(line, "job", message))
            }
        }
    }

    fn error(&self, line: u64, field: &str, message: String) -> LoadError {
        LoadError {
            line: Some(line),
            field: Some(field.to_owned()),
            ..LoadError::new(self.table.file(), message)
        }
    }
}
