//! The table of virtual machines as Azure publishes it (`vmtable.csv`), with eleven columns and without a header.
//!
//! - **Order.** The table is not sorted by time, so all of it is in memory: about a hundred bytes for each of
//!   its two million rows, and at most [`ROWS_MAX`] rows.
//! - **Jobs.** Virtual machines of one deployment that were created in the same five minutes are a job. Their
//!   subscription is the tenant. Machines of the category `Interactive` are services, all others are batch, and
//!   a deployment with both has two jobs.
//! - **Time** is that of the table. Machines created at 0 existed before, so they are present at the start.
//! - **Lifetime.** Times are whole steps of five minutes, so the run time is the recorded lifetime plus a random part
//!   of a step. If a machine was deleted at the last time of the table, it was still alive then, and runs forever.
//! - **Sizes.** The second version of the table has classes such as `>24` cores. A class is read as its lower
//!   bound.

use super::vm::{STEP_MS, Vm, draw};
use crate::LoadError;
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Row, Table};
use omega_core::{JobKind, Text};
use std::collections::HashMap;

/// Names of the columns, as the publication describes them.
pub(super) const COLUMNS: [&str; 11] = [
    "vmid",
    "subscriptionid",
    "deploymentid",
    "vmcreated",
    "vmdeleted",
    "maxcpu",
    "avgcpu",
    "p95maxcpu",
    "vmcategory",
    "vmcorecount",
    "vmmemory",
];

/// Maximum number of rows: four times the published table, in less than a gibibyte.
const ROWS_MAX: usize = 8 << 20;

/// A row, with numbers instead of its texts.
struct Read {
    line: u64,
    created_ms: u64,
    deleted_ms: u64,
    deployment: u32,
    subscription: u32,
    kind: JobKind,
    size: [u64; 2],
}

/// The number of each text. Texts are numbered in the order in which they first occur.
#[derive(Default)]
struct Numbers(HashMap<String, u32>);

impl Numbers {
    fn of(&mut self, text: &str) -> u32 {
        if let Some(number) = self.0.get(text) {
            return *number;
        }
        let number = self.0.len() as u32;
        self.0.insert(text.to_owned(), number);
        number
    }
}

/// Reads all virtual machines, by time and batch.
pub(super) fn read(table: &mut Table, seed: u64) -> Result<Vec<Vm>, LoadError> {
    let mut rows = read_rows(table)?;
    rows.sort_by_key(|row| (row.created_ms, row.deployment, row.kind, row.line));
    let end_ms = rows.iter().map(|row| row.deleted_ms).max().unwrap_or(0);
    let mut tenants: HashMap<u32, Text> = HashMap::new();
    let mut vms = Vec::with_capacity(rows.len());
    for (batch, same) in (0..).zip(rows.chunk_by(is_one_batch)) {
        vms.extend(same.iter().map(|row| {
            let lives_ms = row.deleted_ms - row.created_ms;
            let name = || format!("subscription-{}", row.subscription).into();
            Vm {
                line: row.line,
                at_ms: row.created_ms,
                batch,
                size: row.size,
                run_ms: (row.deleted_ms < end_ms).then(|| lives_ms + draw(seed, row.line, STEP_MS)),
                kind: row.kind,
                tenant: tenants.entry(row.subscription).or_insert_with(name).clone(),
            }
        }));
    }
    Ok(vms)
}

fn is_one_batch(a: &Read, b: &Read) -> bool {
    let key = |row: &Read| (row.created_ms, row.deployment, row.kind);
    key(a) == key(b)
}

fn read_rows(table: &mut Table) -> Result<Vec<Read>, LoadError> {
    let [deployment, subscription] = table.find(["deploymentid", "subscriptionid"])?;
    let [created, deleted] = table.find(["vmcreated", "vmdeleted"])?;
    let [category, cores, memory] = table.find(["vmcategory", "vmcorecount", "vmmemory"])?;
    let (mut deployments, mut subscriptions) = (Numbers::default(), Numbers::default());
    let mut rows = Vec::new();
    while let Some(row) = table.next_row()? {
        let created_ms = row.amount(created, 1000, Rounding::Nearest)?;
        let deleted_ms = row.amount(deleted, 1000, Rounding::Nearest)?;
        if deleted_ms < created_ms {
            return Err(row.error(deleted, "is before vmcreated"));
        }
        if rows.len() == ROWS_MAX {
            let message = format!("there are more than {ROWS_MAX} virtual machines");
            return Err(row.error(created, message));
        }
        rows.push(Read {
            line: row.line(),
            created_ms,
            deleted_ms,
            deployment: deployments.of(row.required(deployment)?),
            subscription: subscriptions.of(row.required(subscription)?),
            kind: match row.text(category) {
                "Interactive" => JobKind::Service,
                _ => JobKind::Batch,
            },
            size: [size(&row, cores, 1000)?, size(&row, memory, 1 << 30)?],
        });
    }
    Ok(rows)
}

/// An amount, or the lower bound of a class such as `>24`.
fn size(row: &Row<'_>, column: Column, unit: u64) -> Result<u64, LoadError> {
    match row.required(column)?.strip_prefix('>') {
        Some(bound) => row.amount_of(column, bound, (unit, Rounding::Up)),
        None => row.amount(column, unit, Rounding::Up),
    }
}
