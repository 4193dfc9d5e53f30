//! A reference file: points, and the expected results of each group of schedulers.

use super::architecture::Architecture;
use super::figure::Figure;
use super::job_list::number;
use crate::engine::{DecisionTime, Kind};
use omega_workload::LoadError;
use omega_workload::table::{Column, Row, Table};
use std::path::Path;

/// Maximum number of machines: a hundred times the largest published cell.
const MACHINES_MAX: u64 = 1 << 20;
/// Maximum number of schedulers of a group: far more than there are concurrent jobs.
const SCHEDULERS_MAX: u64 = 1 << 10;
/// Maximum product of machines and schedulers. Each scheduler has an ordered list of all machines, and the bound limits
/// these lists to a gigabyte in total.
const ORDERS_MAX: u64 = 1 << 28;
/// The longest run, in seconds: ten years. It is limited because the cell is sampled every second of a run.
const RUN_MAX_S: f64 = 10.0 * 366.0 * 86_400.0;

/// Description of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The name of the list of batch jobs.
    pub batch: String,
    /// The name of the list of service jobs.
    pub service: String,
    /// Name of the list of initial tasks.
    pub prefill: String,
    /// Number of machines.
    pub machines: u32,
    /// Duration of the run, in seconds.
    pub end_s: f64,
    /// Scheduler architecture.
    pub architecture: Architecture,
    /// Number of batch schedulers.
    pub batch_schedulers: u32,
    /// Duration of a decision on a service job.
    pub service_decides: DecisionTime,
    /// Duration of a decision on a batch job.
    pub batch_decides: DecisionTime,
    /// The share of the machines on which the service scheduler places no tasks.
    pub pickiness: f64,
    /// Seed of every generator.
    pub seed: i64,
}

/// Schedulers that a row describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group in the file.
    pub name: String,
    /// Kind of the jobs.
    pub kind: Kind,
}

/// An expected value, as printed in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The figure.
    pub figure: Figure,
    /// The value as printed in the file.
    pub text: String,
}

/// One row.
#[derive(Clone, Debug)]
pub struct ReferenceRow {
    /// Line number in the file, from 1.
    pub line: u64,
    /// Index of the row's point in [`ReferenceFile::points`].
    pub point: usize,
    /// The group of schedulers that the row describes.
    pub group: Group,
    /// Expected figures.
    pub expected: Vec<Expected>,
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct ReferenceFile {
    /// Distinct points, in order of first appearance.
    pub points: Vec<Point>,
    /// All rows.
    pub rows: Vec<ReferenceRow>,
}

/// The columns that identify a point.
struct PointColumns {
    lists: [Column; 3],
    machines: Column,
    end: Column,
    architecture: Column,
    batch_schedulers: Column,
    decides: [Column; 4],
    pickiness: Column,
    seed: Column,
}

impl ReferenceFile {
    /// Reads a file, or only its first rows.
    ///
    /// # Errors
    /// If the file cannot be read, or a row is invalid; the error names file, line and field.
    pub fn read(file: &Path, rows: Option<usize>) -> Result<ReferenceFile, LoadError> {
        let mut table = Table::open(file)?;
        let columns = PointColumns::find(&table)?;
        let group = table.column("scheduler_group")?;
        let find = |figure: Figure| table.column(figure.column()).map(|column| (figure, column));
        let figures = Figure::ALL.into_iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let mut read = ReferenceFile::default();
        while rows.is_none_or(|rows| read.rows.len() < rows) {
            let Some(row) = table.next_row()? else { break };
            let point = columns.point(row)?;
            let group = read_group(row, group)?;
            let mut expected = Vec::new();
            for &(figure, column) in &figures {
                if figure.is_compared(point.architecture) {
                    expected.push(read_figure(row, figure, column)?);
                }
            }
            // Rows of a point are close together, so the search starts at the latest points.
            let at = read.points.iter().rposition(|known| *known == point);
            let at = at.unwrap_or_else(|| {
                read.points.push(point);
                read.points.len() - 1
            });
            read.rows.push(ReferenceRow { line: row.line(), point: at, group, expected });
        }
        if read.rows.is_empty() {
            return Err(
                table.error("the file has a header and no rows: there is nothing to compare")
            );
        }
        Ok(read)
    }

    /// The names of all job lists, each once.
    #[must_use]
    pub fn lists(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.points.iter().flat_map(Point::lists).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Point {
    /// The names of the point's job lists.
    fn lists(&self) -> [&str; 3] {
        [&self.batch, &self.service, &self.prefill]
    }
}

impl PointColumns {
    fn find(table: &Table) -> Result<PointColumns, LoadError> {
        Ok(PointColumns {
            lists: table.find(["batch", "service", "prefill"])?,
            machines: table.column("machines")?,
            end: table.column("runtime_s")?,
            architecture: table.column("arch")?,
            batch_schedulers: table.column("n_batch_scheds")?,
            decides: table.find(["tjob_service", "ttask_service", "tjob_batch", "ttask_batch"])?,
            pickiness: table.column("pickiness")?,
            seed: table.column("seed")?,
        })
    }

    fn point(&self, row: Row<'_>) -> Result<Point, LoadError> {
        let [batch, service, prefill] = self.lists;
        let [tjob_service, ttask_service, tjob_batch, ttask_batch] = self.decides;
        let architecture = row.required(self.architecture)?;
        let architecture = Architecture::named(architecture)
            .map_err(|message| row.error(self.architecture, message))?;
        let batch_schedulers = counted(row, self.batch_schedulers, SCHEDULERS_MAX)?;
        if architecture == Architecture::Monolithic && batch_schedulers != 1 {
            let message = format!(
                "is {batch_schedulers}: the monolithic architecture has one \
                 scheduler, so it must be 1"
            );
            return Err(row.error(self.batch_schedulers, message));
        }
        let machines = counted(row, self.machines, MACHINES_MAX)?;
        if u64::from(machines) * u64::from(batch_schedulers) > ORDERS_MAX {
            let message = format!(
                "{batch_schedulers} schedulers on {machines} machines are too many: the product \
                 of the two numbers must be at most {ORDERS_MAX}"
            );
            return Err(row.error(self.batch_schedulers, message));
        }
        let end_s = number(row, self.end)?;
        if end_s > RUN_MAX_S {
            let message = format!("{end_s} is too large: must be at most {RUN_MAX_S}");
            return Err(row.error(self.end, message));
        }
        let pickiness = number(row, self.pickiness)?;
        if pickiness > 1.0 {
            return Err(row.error(
                self.pickiness,
                format!(
                    "is {pickiness}: a share must be from 0 \
                 to 1"
                ),
            ));
        }
        let seed = row.required(self.seed)?;
        let seed = seed.parse().map_err(|_| {
            row.error(self.seed, format!("{seed:?} is not a whole number of 64 bits"))
        })?;
        let time =
            |job, task| Ok(DecisionTime { job_s: number(row, job)?, task_s: number(row, task)? });
        Ok(Point {
            batch: list_name(row, batch)?,
            service: list_name(row, service)?,
            prefill: list_name(row, prefill)?,
            machines,
            end_s,
            architecture,
            batch_schedulers,
            service_decides: time(tjob_service, ttask_service)?,
            batch_decides: time(tjob_batch, ttask_batch)?,
            pickiness,
            seed,
        })
    }
}

/// Reads the name of a list, which must be a plain file name in the data folder.
fn list_name(row: Row<'_>, column: Column) -> Result<String, LoadError> {
    let name = row.required(column)?;
    if name.contains(['/', '\\']) {
        let message = format!(
            "{name:?} has a slash: it must be the name of a file, without a \
             folder"
        );
        return Err(row.error(column, message));
    }
    Ok(name.to_owned())
}

/// Reads a whole number above 0.
fn counted(row: Row<'_>, column: Column, max: u64) -> Result<u32, LoadError> {
    match row.integer(column, max)? {
        0 => Err(row.error(column, "is 0: must be at least 1")),
        number => Ok(number as u32),
    }
}

/// Reads a group: a name that is `Batch` or `Service`, or that ends in one of these after a slash.
fn read_group(row: Row<'_>, column: Column) -> Result<Group, LoadError> {
    let name = row.required(column)?;
    let kind = match name.rsplit('/').next() {
        Some("Batch") => Kind::Batch,
        Some("Service") => Kind::Service,
        _ => {
            let message = format!("{name:?} is not a group: its name must end in Batch or Service");
            return Err(row.error(column, message));
        }
    };
    Ok(Group { name: name.to_owned(), kind })
}

fn read_figure(row: Row<'_>, figure: Figure, column: Column) -> Result<Expected, LoadError> {
    let text = row.required(column)?;
    if text.parse::<f64>().is_err() {
        return Err(row.error(column, format!("{text:?} is not a number")));
    }
    Ok(Expected { figure, text: text.to_owned() })
}
