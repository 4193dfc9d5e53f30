//! The initial machines of the trace, and the changes of machines over 29 days.

use crate::stream::Window;
use crate::stream::order::Order;
use crate::text::decimal::Rounding;
use crate::text::table::{Column, Row, Table};
use crate::trace_files::TraceFiles;
use crate::{LoadError, MachineChange, MachineEvent};
use omega_core::limits::MACHINES_MAX;
use omega_core::{Amounts, Labels, Machine, Overcommit};
use std::collections::HashMap;

/// Thousandths of a core in the largest machine.
pub(super) const CPU_MILLIS: u64 = 64_000;

/// Bytes of memory in the largest machine.
pub(super) const MEMORY_BYTES: u64 = 256 << 30;

/// Bytes of disk in every machine.
pub(super) const DISK_BYTES: u64 = 16 << 40;

/// Time of the trace's clock at which the replay starts.
pub(super) const CLOCK_START_MS: u64 = 600_000;

/// The columns that are read.
struct Columns {
    time: Column,
    id: Column,
    event: Column,
    platform: Column,
    cpu: Column,
    memory: Column,
}

/// The table of machine events: initial machines are read at once, later events as a stream.
pub(super) struct Machines {
    table: Table,
    columns: Columns,
    shared: Shared,
    later: Order<MachineEvent>,
}

/// Common properties of machines.
struct Shared {
    overcommit: Overcommit,
    labels: HashMap<String, Labels>,
}

/// The initial machines.
#[derive(Default)]
pub(super) struct Start {
    pub(super) machines: Vec<Machine>,
    /// Position of each machine, by its id in the trace.
    pub(super) rows: HashMap<u64, u32>,
}

/// Contents of a row.
enum Said {
    /// A machine present at the start.
    There(u64, Machine),
    Later(MachineEvent),
}

impl Machines {
    pub(super) fn open(files: &TraceFiles, overcommit: Overcommit) -> Result<Machines, LoadError> {
        let table = Table::open(&files.path("machines", "machine_events_compact.csv")?)?;
        let [time, id, event] = table.find(["time", "machine", "event"])?;
        let [platform, cpu, memory] = table.find(["platform", "cpu", "mem"])?;
        let columns = Columns { time, id, event, platform, cpu, memory };
        let shared = Shared { overcommit, labels: HashMap::new() };
        Ok(Machines { table, columns, shared, later: Order::new(Window::Bounded) })
    }

    /// Reads the initial machines, which precede all other rows.
    pub(super) fn read_start(&mut self) -> Result<Start, LoadError> {
        let mut start = Start::default();
        while let Some(row) = self.table.next_row()? {
            let (id, machine) = match self.shared.read(&row, &self.columns)? {
                Said::There(id, machine) => (id, machine),
                Said::Later(event) => {
                    let pushed = self.later.push(event.at_ms, event);
                    pushed.map_err(|message| row.error(self.columns.time, message))?;
                    break;
                }
            };
            if start.rows.insert(id, start.machines.len() as u32).is_some() {
                return Err(row.error(self.columns.id, format!("{id} is added twice")));
            }
            if start.machines.len() == MACHINES_MAX {
                return Err(row.error(
                    self.columns.id,
                    format!(
                        "the file has more than {MACHINES_MAX} machines, the maximum of a cell"
                    ),
                ));
            }
            start.machines.push(machine);
        }
        Ok(start)
    }

    /// Returns the next event that is not later than `until_ms`.
    pub(super) fn next_until(&mut self, until_ms: u64) -> Result<Option<MachineEvent>, LoadError> {
        while !self.later.is_full() {
            let Some(row) = self.table.next_row()? else { break };
            let Said::Later(event) = self.shared.read(&row, &self.columns)? else {
                let message = "is 0 after a later time: the rows of machines that exist at the start must \
                     come first";
                return Err(row.error(self.columns.time, message));
            };
            let pushed = self.later.push(event.at_ms, event);
            pushed.map_err(|message| row.error(self.columns.time, message))?;
        }
        let is_due = self.later.earliest_ms().is_some_and(|at_ms| at_ms <= until_ms);
        Ok(if is_due { self.later.pop() } else { None })
    }
}

impl Shared {
    fn read(&mut self, row: &Row<'_>, columns: &Columns) -> Result<Said, LoadError> {
        let time_us = row.integer(columns.time, u64::MAX)?;
        let id = row.integer(columns.id, u64::MAX)?;
        let at_ms = since_start(time_us);
        if row.integer(columns.event, 2)? == 1 {
            let change = MachineChange::Remove(id.to_string().into());
            return Ok(Said::Later(MachineEvent { at_ms, change }));
        }
        // A few machines are listed without a size; these have no capacity.
        let amount = |column, unit| match row.text(column) {
            "" => Ok(0),
            _ => row.amount(column, unit, Rounding::Nearest),
        };
        let cpu = amount(columns.cpu, CPU_MILLIS)?;
        let memory = amount(columns.memory, MEMORY_BYTES)?;
        let capacity = Amounts::new([cpu, memory, DISK_BYTES]);
        let mut machine = Machine::new(id.to_string(), capacity);
        machine.overcommit = self.overcommit.clone();
        machine.labels = self.platform(row.text(columns.platform));
        Ok(match time_us {
            0 => Said::There(id, machine),
            _ => Said::Later(MachineEvent { at_ms, change: MachineChange::Add(machine) }),
        })
    }

    fn platform(&mut self, name: &str) -> Labels {
        if let Some(labels) = self.labels.get(name) {
            return labels.clone();
        }
        let labels = Labels::new([("platform", name)]);
        // The trace has three platforms. If a file has more than the bound, machines of the further platforms do not
        // share labels.
        if self.labels.len() < PLATFORMS_SHARED {
            self.labels.insert(name.to_owned(), labels.clone());
        }
        labels
    }
}

/// Maximum number of platforms whose machines share their labels.
const PLATFORMS_SHARED: usize = 1024;

/// Converts a time of the trace to the time of the replay.
pub(super) fn since_start(time_us: u64) -> u64 {
    (time_us / 1000).saturating_sub(CLOCK_START_MS)
}
