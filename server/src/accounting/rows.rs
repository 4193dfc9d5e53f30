//! Rows of the report, and how they are printed: a table, CSV, JSON.

use super::usage::{HOUR_MS, Key, Sums, Totals};
use clap::ValueEnum;
use omega_core::{JobId, Kinds, ResourceKind, Text, Unit};
use omega_run::report::text::clean;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// The subject of a row: each hour has one row for each job, or one for each tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Per {
    /// One row for each job.
    Job,
    /// One row for each tenant, which includes all jobs of the tenant.
    Tenant,
}

/// The report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Start of the report in milliseconds since 1970; `to_ms` is its end. The report covers the part of the requested
    /// range that is in the log.
    from_ms: u64,
    to_ms: u64,
    items: Vec<Row>,
    #[serde(skip)]
    kinds: Vec<Column>,
}

/// Usage of a job or a tenant in one hour.
#[derive(Debug, Serialize)]
struct Row {
    /// Start of the hour: `2026-01-31T14:00:00Z`.
    hour: String,
    tenant: String,
    /// `null` in a report by tenant.
    job: Option<String>,
    /// Id of the job. Unlike a name, an id is never reused.
    id: Option<String>,
    started: u64,
    finished: u64,
    failed: u64,
    /// `cpu_seconds`, `memory_byte_seconds`, and so on.
    allocated: BTreeMap<String, f64>,
    used: Used,
    #[serde(skip)]
    sums: Vec<u128>,
}

/// Measured use in one hour.
#[derive(Debug, Serialize)]
struct Used {
    cpu_seconds: f64,
    memory_byte_seconds: u128,
    #[serde(skip)]
    cpu_us: u128,
}

impl Used {
    fn of(sums: &Sums) -> Used {
        let cpu_us = sums.used_cpu_us;
        let cpu_seconds = (cpu_us / 1000) as f64 / 1000.0;
        Used { cpu_seconds, memory_byte_seconds: sums.used_byte_seconds, cpu_us }
    }

    /// The fields in CSV.
    fn csv(&self) -> String {
        let ms = self.cpu_us / 1000;
        format!("{}.{:03},{}", ms / 1000, ms % 1000, self.memory_byte_seconds)
    }

    /// Core-hours and GiB-hours.
    fn hours(&self) -> [String; 2] {
        let cpu = self.cpu_us as f64 / (1000.0 * HOUR_MS as f64);
        let memory =
            self.memory_byte_seconds as f64 * 1000.0 / ((1u64 << 30) as f64 * HOUR_MS as f64);
        [cpu, memory].map(|hours| format!("{hours:.3}"))
    }
}

/// Position of a row in the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    hour: u64,
    tenant: Text,
    /// None in a report by tenant.
    job: Option<(Text, JobId)>,
}

/// A column of amounts.
#[derive(Debug)]
struct Column {
    name: String,
    unit: Unit,
    /// Position of the resource kind in the cell.
    index: usize,
}

impl Column {
    fn new(index: usize, kind: &ResourceKind) -> Column {
        Column { name: kind.name.clone(), unit: kind.unit, index }
    }

    /// Name of the field: the unit is part of it.
    fn field(&self) -> String {
        match self.unit {
            Unit::Bytes => format!("{}_byte_seconds", self.name),
            Unit::Milli | Unit::Count => format!("{}_seconds", self.name),
        }
    }

    /// Converts a sum of amounts times milliseconds to thousandths of the field's unit.
    fn thousandths(&self, sum: u128) -> u128 {
        match self.unit {
            Unit::Milli => (sum + 500) / 1000,
            Unit::Bytes | Unit::Count => sum,
        }
    }

    /// The sum as a decimal number in the field's unit.
    fn decimal(&self, sum: u128) -> String {
        let thousandths = self.thousandths(sum);
        match self.unit {
            Unit::Bytes => (thousandths / 1000).to_string(),
            Unit::Milli | Unit::Count => {
                format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
            }
        }
    }

    /// The sum as the table shows it: hours of a core, a device, a licence or a GiB.
    fn hours(&self, sum: u128) -> String {
        let per_hour = match self.unit {
            Unit::Milli => 1000.0 * HOUR_MS as f64,
            Unit::Bytes => (1u64 << 30) as f64 * HOUR_MS as f64,
            Unit::Count => HOUR_MS as f64,
        };
        format!("{:.3}", sum as f64 / per_hour)
    }

    fn heading(&self) -> String {
        match self.unit {
            Unit::Bytes => format!("{} GiB-H", self.name.to_uppercase()),
            Unit::Milli | Unit::Count => format!("{}-H", self.name.to_uppercase()),
        }
    }
}

impl Report {
    /// The report of a range of times.
    pub(super) fn new(kinds: &Kinds, times_ms: Range<u64>, totals: Totals, per: Per) -> Report {
        let mut all: BTreeMap<RowKey, Sums> = BTreeMap::new();
        for (Key { hour, job }, sums) in totals.rows {
            let Some(owner) = totals.owners.get(&job) else { continue };
            let named = (per == Per::Job).then(|| (owner.job.clone(), job));
            let key = RowKey { hour, tenant: owner.tenant.clone(), job: named };
            all.entry(key).or_default().add(&sums);
        }
        let is_used = |index: usize| {
            all.values().any(|sums| sums.allocated.get(index).is_some_and(|sum| *sum > 0))
        };
        // cpu and memory always have columns, so that reports of several days can be joined.
        let columns = kinds.iter().map(|(kind, spec)| Column::new(kind.index(), spec));
        let kinds: Vec<Column> =
            columns.filter(|column| column.index < 2 || is_used(column.index)).collect();
        let row = |(RowKey { hour, tenant, job }, sums): (RowKey, Sums)| {
            let sum = |column: &Column| sums.allocated.get(column.index).copied().unwrap_or(0);
            let allocated =
                |column: &Column| (column.field(), column.thousandths(sum(column)) as f64 / 1000.0);
            Row {
                hour: utc(hour * HOUR_MS / 1000),
                tenant: tenant.to_string(),
                id: job.as_ref().map(|(_, id)| id.to_string()),
                job: job.map(|(name, _)| name.to_string()),
                started: sums.started,
                finished: sums.finished,
                failed: sums.failed,
                allocated: kinds.iter().map(allocated).collect(),
                used: Used::of(&sums),
                sums: kinds.iter().map(sum).collect(),
            }
        };
        let items = all.into_iter().map(row).collect();
        Report { from_ms: times_ms.start, to_ms: times_ms.end, items, kinds }
    }

    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("the keys are text, and memory takes all that is written") + "\n"
    }

    pub(super) fn csv(&self) -> String {
        let mut out = "hour,tenant,job,id,started,finished,failed".to_owned();
        for column in &self.kinds {
            out += ",";
            out += &quoted(&column.field());
        }
        out += ",used_cpu_seconds,used_memory_byte_seconds\n";
        for row in &self.items {
            let name = |name: &Option<String>| quoted(name.as_deref().unwrap_or_default());
            let (tenant, job, id) = (quoted(&row.tenant), name(&row.job), name(&row.id));
            let (started, finished, failed) = (row.started, row.finished, row.failed);
            let line =
                write!(out, "{},{tenant},{job},{id},{started},{finished},{failed}", row.hour);
            line.expect("memory takes all that is written");
            for (column, sum) in self.kinds.iter().zip(&row.sums) {
                out += ",";
                out += &column.decimal(*sum);
            }
            out += ",";
            out += &row.used.csv();
            out += "\n";
        }
        out
    }

    pub(super) fn table(&self) -> String {
        let mut head: Vec<String> = ["HOUR", "TENANT", "JOB"].map(str::to_owned).into();
        for column in &self.kinds {
            head.push(column.heading());
            // cpu and memory, which are always the first two kinds, have a column of their use.
            head.extend((column.index < 2).then(|| "USED".to_owned()));
        }
        head.extend(["STARTED", "FINISHED", "FAILED"].map(str::to_owned));
        let row = |row: &Row| {
            let name = row.job.as_deref().unwrap_or("-");
            let hour = row.hour.replace(":00:00Z", ":00");
            let mut cells = vec![hour, clean(&row.tenant), clean(name)];
            let used = row.used.hours();
            for (column, sum) in self.kinds.iter().zip(&row.sums) {
                cells.push(column.hours(*sum));
                cells.extend(used.get(column.index).cloned());
            }
            cells.extend([row.started, row.finished, row.failed].map(|count| count.to_string()));
            cells
        };
        let rows: Vec<Vec<String>> =
            std::iter::once(head).chain(self.items.iter().map(row)).collect();
        format!(
            "{}\nfrom {} to {}, UTC\n",
            columns(&rows, 3),
            utc(self.from_ms / 1000),
            utc(self.to_ms / 1000)
        )
    }
}

/// Formats rows, with two spaces between columns. The columns from `right` on are right-aligned.
fn columns(rows: &[Vec<String>], right: usize) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, width))| {
            if i < right { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Returns a field in the format of CSV (RFC 4180), in quotes if necessary.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A time in UTC, or the number of seconds for a time after the year 9999.
fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok();
    let time = time.and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let Some(time) = time else { return format!("@{seconds}") };
    let (year, month, day) = (time.year(), u8::from(time.month()), time.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::usage::Owner;

    fn report(per: Per) -> Report {
        let sums = |cpu: u128, memory: u128| Sums {
            allocated: vec![cpu, memory],
            used_cpu_us: cpu * 9 / 10,
            used_byte_seconds: memory / 2000,
            started: 2,
            finished: 1,
            failed: 0,
        };
        // Half a core and 256 MiB for an hour; one core and no memory for 100 ms.
        let half = sums(500 * u128::from(HOUR_MS), (256 << 20) * u128::from(HOUR_MS));
        let rows = [(492_000, 7, half.clone()), (492_000, 9, sums(100_000, 0)), (492_001, 7, half)];
        let rows = rows.map(|(hour, job, sums)| (Key { hour, job: JobId(job) }, sums));
        let owner = |job: &str| Owner { job: job.into(), tenant: "shop".into() };
        let owners = [(JobId(7), owner("web")), (JobId(9), owner("a\"b,c"))];
        let times = 492_000 * HOUR_MS..492_002 * HOUR_MS;
        Report::new(
            &Kinds::standard(),
            times,
            Totals { rows: rows.into(), owners: owners.into() },
            per,
        )
    }

    #[test]
    fn csv_has_exact_amounts_and_quotes() {
        assert_eq!(
            report(Per::Job).csv(),
            "hour,tenant,job,id,started,finished,failed,cpu_seconds,memory_byte_seconds,\
             used_cpu_seconds,used_memory_byte_seconds\n\
             2026-02-16T00:00:00Z,shop,\"a\"\"b,c\",j9,2,1,0,0.100,0,0.090,0\n\
             2026-02-16T00:00:00Z,shop,web,j7,2,1,0,1800.000,966367641600,1620.000,483183820800\n\
             2026-02-16T01:00:00Z,shop,web,j7,2,1,0,1800.000,966367641600,1620.000,483183820800\n"
        );
    }

    #[test]
    fn a_table_by_tenant_is_in_hours() {
        assert_eq!(
            report(Per::Tenant).table(),
            "HOUR              TENANT  JOB  CPU-H   USED  MEMORY GiB-H   USED  STARTED  FINISHED  FAILED\n\
             2026-02-16T00:00  shop    -    0.500  0.450         0.250  0.125        4         2       0\n\
             2026-02-16T01:00  shop    -    0.500  0.450         0.250  0.125        2         1       0\n\n\
             from 2026-02-16T00:00:00Z to 2026-02-16T02:00:00Z, UTC\n"
        );
    }

    #[test]
    fn times_beyond_any_calendar_are_numbers() {
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(u64::MAX), format!("@{}", u64::MAX));
    }
}
