//! Streams of workloads, so that a trace of any length takes the same memory.
//!
//! A reader of a format is a [`Stream`]: it returns first the cell's initial state, then machine events and jobs in
//! order of time, and does not keep them. Callers that need everything at once call [`whole`] (`omega run` does,
//! because its report needs earlier jobs). So each format has only one parser.
//!
//! Files need not be strictly sorted. Rows pass through a window that sorts them (`stream/order.rs`). A row that is too
//! late for the window is an error. If such files were sorted on disk instead, a command could take hours instead of
//! seconds, without notice. Each reader documents the size of its window.

pub(crate) mod order;

pub use order::Window;

use crate::volumes::VolumesAtStart;
use crate::{Arrival, LoadError, MachineEvent, Workload};
use omega_core::{Kinds, Machine, Policy, Text};
use omega_schedulers::disruption::DisruptionBudget;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

/// State of a workload before its first event.
#[derive(Clone, Debug)]
pub struct Head {
    /// Source of the workload, in a few words for a heading.
    pub name: String,
    /// The cell's resource kinds.
    pub kinds: Kinds,
    /// The cell's policy.
    pub policy: Policy,
    /// Initial machines; empty if neither the trace nor the options have any.
    pub machines: Vec<Machine>,
    /// The volumes that tasks claim.
    pub volumes: VolumesAtStart,
    /// Disruption budgets that schedulers respect when they evict.
    pub budgets: Vec<DisruptionBudget>,
    /// File and column with the names of the jobs.
    pub jobs_at: JobsAt,
}

/// File and column with the job names of a trace, for errors about duplicates.
#[derive(Clone, Debug)]
pub struct JobsAt {
    /// Path of the file.
    pub file: PathBuf,
    /// Name of the column.
    pub column: &'static str,
}

impl Head {
    /// The head of a stream: a cell with these kinds and machines.
    #[must_use]
    pub fn new(name: String, kinds: Kinds, machines: Vec<Machine>, jobs_at: JobsAt) -> Head {
        Head {
            name,
            kinds,
            policy: Policy::default(),
            machines,
            volumes: VolumesAtStart::default(),
            budgets: Vec::new(),
            jobs_at,
        }
    }
}

/// One event of a workload.
#[derive(Clone, Debug)]
pub enum Event {
    /// A machine event.
    Machine(MachineEvent),
    /// A job's arrival.
    Job(JobEvent),
}

/// A job's arrival.
#[derive(Clone, Debug)]
pub struct JobEvent {
    /// The job, and its arrival time.
    pub arrival: Arrival,
    /// Number of the line with the job's name, if the input has lines.
    pub line: Option<u64>,
}

impl Event {
    /// Time in milliseconds since the start.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        match self {
            Event::Machine(event) => event.at_ms,
            Event::Job(job) => job.arrival.at_ms,
        }
    }
}

/// A workload that is read event by event.
///
/// An implementor returns events in ascending order of time, with machine events before jobs of the same time. It keeps
/// at most a window of events in memory. After an error, the stream is not called again.
pub trait Stream {
    /// The initial state.
    fn head(&self) -> &Head;

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// If the rest cannot be read; the error names file, line and field.
    fn next_event(&mut self) -> Result<Option<Event>, LoadError>;

    /// Notes on input that was not converted, as sentences. They are complete once the end is reached.
    fn notes(&self) -> Vec<String>;
}

/// Reads a stream to its end.
///
/// # Errors
/// If the stream cannot be read, or two jobs have the same name.
pub fn whole(stream: &mut dyn Stream) -> Result<Workload, LoadError> {
    let mut names: HashMap<Text, Option<u64>> = HashMap::new();
    let (mut arrivals, mut machine_events) = (Vec::new(), Vec::new());
    while let Some(event) = stream.next_event()? {
        match event {
            Event::Machine(event) => machine_events.push(event),
            Event::Job(JobEvent { arrival, line }) => {
                if let Some(other) = names.insert(arrival.job.name.clone(), line) {
                    return Err(twice(&stream.head().jobs_at, &arrival.job.name, line, other));
                }
                arrivals.push(arrival);
            }
        }
    }
    let notes = stream.notes();
    let head = stream.head().clone();
    Ok(Workload {
        name: head.name,
        kinds: head.kinds,
        policy: head.policy,
        machines: head.machines,
        machine_events,
        arrivals,
        volumes: head.volumes,
        budgets: head.budgets,
        notes,
    })
}

/// Hashes of the names of earlier jobs, so that the jobs themselves need not be kept. With a hundred million names, the
/// probability that two have the same 64-bit hash is one in four thousand.
#[derive(Debug, Default)]
pub struct Names {
    /// The line of each name, by the hash of the name.
    seen: HashMap<u64, Option<u64>>,
    hasher: std::hash::BuildHasherDefault<std::hash::DefaultHasher>,
}

impl Names {
    /// Records the name of the next job.
    ///
    /// # Errors
    /// If an earlier job has the same name.
    pub fn admit(&mut self, job: &JobEvent, at: &JobsAt) -> Result<(), LoadError> {
        let name = &job.arrival.job.name;
        let number = self.hasher.hash_one(&**name);
        match self.seen.insert(number, job.line) {
            Some(other) => Err(twice(at, name, job.line, other)),
            None => Ok(()),
        }
    }
}

/// The error for a duplicate name. It names the later of the two lines of the file, whichever job arrives first.
fn twice(at: &JobsAt, name: &str, line: Option<u64>, other: Option<u64>) -> LoadError {
    let message = match line.min(other) {
        Some(first) => format!(
            "{name:?} is already the name of the job in line {first}: give \
             each job its own name"
        ),
        None => format!("{name:?} is the name of two jobs"),
    };
    LoadError {
        line: line.max(other),
        field: Some(at.column.to_owned()),
        ..LoadError::new(&at.file, message)
    }
}

/// A workload in memory, as a stream. It is used if the input is one document, such as a cluster's description, or is
/// generated as a whole.
pub struct Held {
    head: Head,
    events: std::iter::Peekable<std::vec::IntoIter<MachineEvent>>,
    arrivals: std::iter::Peekable<std::vec::IntoIter<Arrival>>,
    notes: Vec<String>,
}

impl Held {
    /// Creates the stream of a workload. `file` is the file that the workload was read from, for error messages.
    #[must_use]
    pub fn new(workload: Workload, file: &Path) -> Held {
        let jobs_at = JobsAt { file: file.to_path_buf(), column: "metadata.name" };
        let head = Head {
            policy: workload.policy,
            volumes: workload.volumes,
            budgets: workload.budgets,
            ..Head::new(workload.name, workload.kinds, workload.machines, jobs_at)
        };
        Held {
            head,
            events: workload.machine_events.into_iter().peekable(),
            arrivals: workload.arrivals.into_iter().peekable(),
            notes: workload.notes,
        }
    }
}

impl Stream for Held {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        let job_ms = self.arrivals.peek().map_or(u64::MAX, |arrival| arrival.at_ms);
        if let Some(event) = self.events.next_if(|event| event.at_ms <= job_ms) {
            return Ok(Some(Event::Machine(event)));
        }
        let job = |arrival| Event::Job(JobEvent { arrival, line: None });
        Ok(self.arrivals.next().map(job))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests;
