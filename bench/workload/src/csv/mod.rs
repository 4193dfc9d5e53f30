//! A cell and its jobs as two tables, for any source that can write CSV.
//!
//! Both tables have a header; the order of columns is free, and all but the first few may be left out, or left
//! empty in a row. A column that is not listed here is an error, so that a mistyped name is not ignored.
//!
//! **Machines.**
//!
//! | column | content | if left out |
//! |---|---|---|
//! | `name` | the machine's name | required |
//! | `cpu` | cores: `32`, `0.5` | required |
//! | `memory` | bytes: `1000000`, `64Gi`, `1.5Ti`, `16G` | required |
//! | `disk` | bytes, as `memory` | none |
//! | `gpu` | whole devices | none |
//! | `count` | number of machines, named `NAME-0`, `NAME-1`, … | one, named `NAME` |
//! | `zone`, `rack` | the labels of these keys | no such label |
//! | `labels` | `KEY=VALUE;KEY=VALUE` | none |
//! | `taints` | `KEY=VALUE:EFFECT;KEY:EFFECT`; an effect is `NoSchedule`, `PreferNoSchedule` or `NoExecute` | none |
//!
//! **Jobs**, each of `count` identical tasks.
//!
//! | column | content | if left out |
//! |---|---|---|
//! | `name` | the job's name | required |
//! | `count` | number of tasks | required |
//! | `cpu`, `memory` | request of each task, as above | required |
//! | `disk`, `gpu` | request of each task, as in the first table | nothing |
//! | `gpu_share` | requested part of each device, in thousandths | 1000 |
//! | `arrival_s` | arrival time of the job, in seconds from the start, or since 1970 if the first is 1,000,000,000 or later | 0 |
//! | `run_s` | run time of each task, in seconds | forever |
//! | `kind` | `service` or `batch`; also the scheduler that places it | batch if it has a `run_s` |
//! | `precedence` | an integer; a job may preempt jobs with lower precedence | 0 |
//! | `tenant` | the tenant that is charged for the job | `default` |
//! | `gang` | `all`, or the number of tasks that must be placed together | no gang |
//! | `labels` | `KEY=VALUE;KEY=VALUE`, of the tasks | none |
//! | `require` | conditions on the machine's labels, all of which must be met: `KEY=VALUE`, `KEY!=VALUE`, `KEY in A\|B`, `KEY notin A\|B`, `KEY>N`, `KEY<N`, `KEY exists`, `KEY absent`, separated by `;` | any machine |
//! | `tolerate` | tolerated taints: `KEY`, `KEY=VALUE`, `KEY:EFFECT`, `KEY=VALUE:EFFECT`, or `*`, separated by `;` | none |
//! | `spread` | `LEVEL:SKEW`: its tasks are spread evenly over racks, zones, …, and the numbers of tasks differ by at most the skew; `LEVEL:SKEW:soft` is a preference | no spread |
//! | `anti_affinity` | levels at which no two of its tasks share a domain | may share |
//! | `ports` | ports that no two tasks on a machine share: `8080;9090/udp` | none |
//!
//! A `LEVEL` is the key of a label, or `machine`. A column `resource:NAME` in either table registers
//! one more resource kind, counted in whole units.
//!
//! **Placements**, if some tasks run at the start: a row for each.
//!
//! | column | content | if left out |
//! |---|---|---|
//! | `job` | the job's name; it arrives at the start | required |
//! | `machine` | the machine's name | required |
//! | `task` | the task's number in its job, from 0 | the least number that no other row has |

mod amounts;
pub(crate) mod forms;
mod jobs;
mod machines;
mod placements;
pub mod write;

use crate::stream::order::Order;
use crate::stream::{Event, Head, JobEvent, JobsAt, Stream, Window, whole};
use crate::text::table::Table;
use crate::{LoadError, Workload};
use amounts::RESOURCE;
use omega_core::{Kinds, Machine, ResourceKind, Unit};
use placements::Placements;
use std::path::Path;

/// Reads a cell and its jobs from two tables, whose rows may have any order.
///
/// # Errors
/// If a file is missing or invalid.
pub fn load(machines: &Path, jobs: &Path) -> Result<Workload, LoadError> {
    whole(&mut open(machines, jobs, Window::All)?)
}

/// Opens two tables as a stream: machines are read at once, and jobs when they are needed.
///
/// # Errors
/// If a file is missing, or the machines are invalid.
pub fn open(machines: &Path, jobs: &Path, window: Window) -> Result<CsvStream, LoadError> {
    open_all(&Tables { machines, jobs, placements: None }, window)
}

/// Files of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// Table of machines.
    pub machines: &'a Path,
    /// Table of jobs.
    pub jobs: &'a Path,
    /// Table of the tasks that run at the start.
    pub placements: Option<&'a Path>,
}

/// Opens tables as a stream: machines and placements are read at once, and jobs when they are needed.
///
/// # Errors
/// If a file is missing, or the machines or placements are invalid.
pub fn open_all(tables: &Tables<'_>, window: Window) -> Result<CsvStream, LoadError> {
    let Tables { machines, jobs, placements } = *tables;
    let mut machine_table = Table::open(machines)?;
    let job_table = Table::open(jobs)?;
    check_columns(&machine_table, &machines::COLUMNS)?;
    check_columns(&job_table, &jobs::COLUMNS)?;
    let kinds = kinds(&[&machine_table, &job_table])?;
    let machines = machines::read(&mut machine_table, &kinds)?;
    let placements = placements.map(|file| open_placements(file, &machines)).transpose()?;
    let columns = jobs::Columns::of(&job_table, &kinds)?;
    let name = jobs.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let jobs_at = JobsAt { file: jobs.to_path_buf(), column: "name" };
    let head = Head::new(name, kinds, machines, jobs_at);
    let (order, origin) = (Order::new(window), Origin::Unknown);
    Ok(CsvStream { head, table: job_table, columns, placements, order, origin })
}

fn open_placements(file: &Path, machines: &[Machine]) -> Result<Placements, LoadError> {
    let table = Table::open(file)?;
    let known = placements::COLUMNS;
    if let Some(name) = table.columns().iter().find(|name| !known.contains(&&***name)) {
        let message = format!("there is no such column; the columns are: {}", known.join(", "));
        return Err(table.error_at(Some(name), message));
    }
    Placements::read(table, machines)
}

/// The tables of a cell, as a stream.
pub struct CsvStream {
    head: Head,
    table: Table,
    columns: jobs::Columns,
    placements: Option<Placements>,
    order: Order<JobEvent>,
    origin: Origin,
}

/// First arrival from which arrivals are considered to be in seconds since 1970: 9 September 2001.
const SINCE_1970_MS: u64 = 1_000_000_000_000;

/// Start of the times of the jobs.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// No job was read yet.
    Unknown,
    /// Times are counted from zero.
    Zero,
    /// Times are in seconds since 1970, and are counted from this one, the first.
    First(u64),
}

impl Origin {
    /// Returns a job's arrival, counted from the origin. The first job decides the origin. The error is half a sentence
    /// that describes what is wrong with the arrival.
    fn arrival(&mut self, at_ms: u64) -> Result<u64, String> {
        if let Origin::Unknown = self {
            *self = if at_ms < SINCE_1970_MS { Origin::Zero } else { Origin::First(at_ms) };
        }
        match self {
            Origin::First(first_ms) => Ok(at_ms.saturating_sub(*first_ms)),
            _ if at_ms < SINCE_1970_MS => Ok(at_ms),
            Origin::Zero | Origin::Unknown => Err(format!(
                "{} is in seconds since 1970, but another job arrives in seconds from the start (0 \
                 if the field is empty): count all arrivals from the same time",
                at_ms as f64 / 1000.0
            )),
        }
    }

    fn notes(self) -> Vec<String> {
        let Origin::First(first_ms) = self else { return Vec::new() };
        let first_s = first_ms as f64 / 1000.0;
        vec![format!("arrivals are seconds since 1970, and are counted from the first, {first_s}")]
    }
}

impl Stream for CsvStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        while !self.order.is_full() {
            let Some(row) = self.table.next_row()? else { break };
            let arrival = jobs::read_arrival(&row, &self.columns)?;
            let job = JobEvent { line: Some(row.line()), arrival };
            let pushed = self.order.push(job.arrival.at_ms, job);
            pushed.map_err(|message| row.error_in("arrival_s", message))?;
        }
        let Some(mut job) = self.order.pop() else {
            self.placements.as_ref().map_or(Ok(()), Placements::check_used)?;
            return Ok(None);
        };
        let arrival = &mut job.arrival;
        arrival.at_ms = self.origin.arrival(arrival.at_ms).map_err(|message| LoadError {
            line: job.line,
            field: Some("arrival_s".to_owned()),
            ..LoadError::new(&self.head.jobs_at.file, message)
        })?;
        if let Some(placements) = &mut self.placements {
            placements.place(arrival)?;
        }
        Ok(Some(Event::Job(job)))
    }

    fn notes(&self) -> Vec<String> {
        self.origin.notes()
    }
}

/// Checks that a table has only these columns, and columns of further resource kinds.
fn check_columns(table: &Table, known: &[&str]) -> Result<(), LoadError> {
    for name in table.columns() {
        if name.is_empty() {
            return Err(table.error_at(None, "a column has no name"));
        }
        if !known.contains(&&**name) && !name.starts_with(RESOURCE) {
            let message = format!(
                "there is no such column; the columns are: {}, {RESOURCE}NAME",
                known.join(", ")
            );
            return Err(table.error_at(Some(name), message));
        }
    }
    Ok(())
}

/// The standard kinds, and the kinds that the tables' headers name.
fn kinds(tables: &[&Table]) -> Result<Kinds, LoadError> {
    let standard = Kinds::standard();
    let mut list: Vec<ResourceKind> = standard.iter().map(|(_, kind)| kind.clone()).collect();
    for table in tables {
        for column in table.columns() {
            let Some(name) = column.strip_prefix(RESOURCE) else { continue };
            let error = |message: String| table.error_at(Some(column), message);
            if name.is_empty() {
                let message = format!(
                    "the header has a column {RESOURCE:?} without the name of a resource kind: \
                     add the name, as in {RESOURCE}fpga"
                );
                return Err(table.error_at(None, message));
            }
            forms::name(name).map_err(error)?;
            if standard.by_name(name).is_some() {
                return Err(error(format!("{name} has a column of its own")));
            }
            if list.iter().all(|kind| kind.name != name) {
                let unit = Unit::Count;
                list.push(ResourceKind { name: name.to_owned(), unit, compressible: false });
                Kinds::new(list.clone()).map_err(|kinds| error(kinds.to_string()))?;
            }
        }
    }
    Ok(Kinds::new(list).expect("each kind was checked as it was added"))
}

#[cfg(test)]
mod tests;
