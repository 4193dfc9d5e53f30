//! Job lists as the reference reads them: amounts and times as floats, exact to the last bit.
//!
//! `omega_workload::omega_sim` reads the same files for all other purposes, in whole thousandths of a core and in
//! bytes.

use crate::engine::{Job, Kind};
use crate::reference::{ReferenceJob, Request};
use omega_core::limits::TASKS_PER_JOB_MAX;
use omega_workload::LoadError;
use omega_workload::compressed::stored;
use omega_workload::table::{Column, Row, Table};
use std::collections::BTreeMap;
use std::path::Path;

/// The jobs of one file, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct JobList {
    /// Arrivals and numbers of tasks. The kind of the jobs is not in the file; the caller sets it.
    pub jobs: Vec<Job>,
    /// Request and run time of a task of each job.
    pub tasks: Vec<ReferenceJob>,
}

/// Job lists by name.
pub type JobLists = BTreeMap<String, JobList>;

impl JobList {
    /// Reads `NAME.csv` in a folder, uncompressed or compressed.
    ///
    /// # Errors
    /// If the file is missing or invalid; the error names file, line and field.
    pub fn read(dir: &Path, name: &str) -> Result<JobList, LoadError> {
        let mut table = Table::open(&stored(&dir.join(format!("{name}.csv"))))?;
        let [submit, count, duration] = table.find(["submit_s", "num_tasks", "duration_s"])?;
        let [cpu, memory] = table.find(["cpus_per_task", "mem_gb_per_task"])?;
        let mut list = JobList::default();
        while let Some(row) = table.next_row()? {
            let tasks = row.integer(count, u64::from(TASKS_PER_JOB_MAX))? as u32;
            if tasks == 0 {
                return Err(row.error(count, "is 0: a job must have at least one task"));
            }
            let (submit_s, run_s) = (number(row, submit)?, number(row, duration)?);
            let request = Request { cpu: number(row, cpu)?, memory: number(row, memory)? };
            list.jobs.push(Job { submit_s, tasks, kind: Kind::Batch });
            list.tasks.push(ReferenceJob { request, run_s });
        }
        Ok(list)
    }
}

/// Reads a number that is finite and not negative.
pub(super) fn number(row: Row<'_>, column: Column) -> Result<f64, LoadError> {
    let text = row.required(column)?;
    match text.parse::<f64>() {
        Err(_) => Err(row.error(column, format!("{text:?} is not a number"))),
        Ok(number) if !number.is_finite() => {
            Err(row.error(column, format!("{text:?} is not a finite number")))
        }
        Ok(number) if number < 0.0 => Err(row.error(column, format!("{text:?} is negative"))),
        // A negative zero becomes zero, because it would otherwise be sorted after all other numbers.
        Ok(number) => Ok(number.abs()),
    }
}
