//! A workload: the machines of a cell, and the jobs that arrive over time.
//!
//! Every source of input (a trace, a cluster's description, two tables, a generator) has a reader that makes a
//! [`Workload`]. The rest of the code does not depend on the source. A reader returns either all of its input or one
//! [`LoadError`] that names file, line and field. Input that a reader could read but not convert is listed in
//! [`Workload::notes`]. Traces, which may exceed the memory, are read as a [`stream`]; a whole workload is such a
//! stream read to its end.

pub mod alike;
pub mod azure;
pub mod command_line;
pub mod csv;
pub mod file;
mod foreign;
pub mod fragments;
mod gangs;
pub mod google2011;
pub mod input;
pub mod kube;
mod misplaced;
pub mod objectives;
pub mod omega_sim;
pub mod openb;
pub mod profiles;
mod public_data;
pub mod reopened;
pub mod stream;
pub mod swf;
pub mod synth;
#[cfg(test)]
mod testing;
mod text;
pub mod trace_files;
pub mod volumes;

#[doc(hidden)]
pub use public_data::public_data;

use omega_core::{Job, Kinds, Machine, Policy};
use omega_schedulers::disruption::DisruptionBudget;
use std::path::{Path, PathBuf};
use volumes::VolumesAtStart;

/// Names of schedulers; every reader assigns one to each job.
pub const SCHEDULERS: [&str; 2] = ["service", "batch"];

/// A cell, with its jobs and machine events.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Source of the workload, in a few words for a heading.
    pub name: String,
    /// The cell's resource kinds.
    pub kinds: Kinds,
    /// The cell's policy.
    pub policy: Policy,
    /// Initial machines. Other fields refer to positions in this list.
    pub machines: Vec<Machine>,
    /// Later changes of the machines, ascending by time.
    pub machine_events: Vec<MachineEvent>,
    /// Jobs, ascending by time of arrival. Jobs with time 0 are present at the start.
    pub arrivals: Vec<Arrival>,
    /// The volumes that tasks claim.
    pub volumes: VolumesAtStart,
    /// Disruption budgets that schedulers respect when they evict.
    pub budgets: Vec<DisruptionBudget>,
    /// Notes on parts of the input that were not converted, as sentences for the user.
    pub notes: Vec<String>,
}

/// A job with its arrival time.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Time in milliseconds since the start.
    pub at_ms: u64,
    /// The job. Its `scheduler` is `service` or `batch`.
    pub job: Job,
    /// Tasks that already run when the job arrives: the index in the job (counted over all groups, in order), and the
    /// machine's position in [`Workload::machines`]. The cell adopts these tasks before any scheduler decides. A task
    /// whose machine lacks the devices stays pending, and is reported.
    pub placed: Vec<(u32, u32)>,
    /// Run time of the job's tasks once they are placed.
    pub run: RunTime,
}

/// Run time of the tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunTime {
    /// Longer than the workload.
    Forever,
    /// Equal for all tasks, in milliseconds.
    Same(u64),
    /// A time for each task in milliseconds, by index; `None` means that the task runs forever.
    Each(Vec<Option<u64>>),
}

impl RunTime {
    /// Run time of a task; `None` means that it runs forever.
    #[must_use]
    pub fn of(&self, task: u32) -> Option<u64> {
        match self {
            RunTime::Forever => None,
            RunTime::Same(ms) => Some(*ms),
            RunTime::Each(each) => each.get(task as usize).copied().flatten(),
        }
    }
}

/// A machine event after the start.
#[derive(Clone, Debug)]
pub struct MachineEvent {
    /// Time in milliseconds since the start.
    pub at_ms: u64,
    /// The change.
    pub change: MachineChange,
}

/// Change of a machine.
#[derive(Clone, Debug)]
pub enum MachineChange {
    /// A machine is added to the cell; an existing machine with this name is updated.
    Add(Machine),
    /// The machine with this name is removed from the cell.
    Remove(omega_core::Text),
}

/// Error of reading an input: `FILE:LINE: FIELD: what is wrong`, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct LoadError {
    /// Path of the file.
    pub file: PathBuf,
    /// Number of the line, from 1; `None` for an error of the whole file.
    pub line: Option<u64>,
    /// The column or path of the field; `None` if the error is not in one field.
    pub field: Option<String>,
    /// Description of the error and of the expected input.
    pub message: String,
}

impl LoadError {
    /// An error of a file as a whole.
    pub fn new(file: &Path, message: impl Into<String>) -> LoadError {
        LoadError { file: file.to_path_buf(), line: None, field: None, message: message.into() }
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}
pub use text::{amount, compressed, decimal, readable, table, words};
