//! Events of jobs, tasks and machines: a bounded record of the recent past, for people.
//!
//! ```text
//!   commands ──▶ state ── note ──▶ ordinary ring: placed, started, finished
//!                          └─────▶ notable ring:  all other events, which are rarer and matter for longer
//! ```
//!
//! The rings are no part of the state: no outcome depends on them, and they are neither hashed nor saved with a snapshot.
//! Replicas derive them from the commands that they apply, so two replicas have equal events as far back as both go.
//! A cell that does not keep events pays one comparison for each.

mod notes;
mod ring;

use omega_core::{JobId, MachineId, RunEnd, SchedulerId, TaskId, TaskReport, Text};
use ring::Ring;

/// Bytes of both rings of a served cell: some 90,000 events.
pub const HISTORY_BYTES: usize = 16 << 20;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position among all events of the cell since this process has it; ascending.
    pub number: u64,
    /// When it happened, by the cell's time.
    pub at_ms: u64,
    /// What happened.
    pub kind: EventKind,
    /// The job concerned.
    pub job: Option<JobId>,
    /// Index of the task concerned; `None`: the job as a whole, or a machine.
    pub index: Option<u32>,
    /// The machine concerned.
    pub machine: Option<MachineId>,
    /// The end of a run, where an agent reported one.
    pub end: Option<Box<RunEnd>>,
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A job came, with so many tasks.
    Submitted {
        /// Number of its tasks.
        tasks: u32,
    },
    /// A group was given another number of tasks.
    Resized {
        /// Position of the group in the job.
        group: u16,
        /// Number before.
        from: u32,
        /// Number from now on.
        to: u32,
    },
    /// The job was killed, or the task, because its group shrank.
    Killed,
    /// All tasks of the job have ended.
    Ended,
    /// A scheduler gave the task a machine.
    Placed {
        /// The scheduler.
        scheduler: SchedulerId,
    },
    /// The task was found running.
    Adopted,
    /// The program runs.
    Started,
    /// The agent starts the program again, on the same machine.
    Restarted,
    /// The task has finished.
    Finished,
    /// The task failed, and is pending again.
    Requeued,
    /// The task failed for good.
    Failed,
    /// The task was lost with its machine or its supervisor, and is pending again.
    Lost,
    /// A scheduler took the task off its machine, to place it elsewhere.
    Released {
        /// The scheduler.
        scheduler: SchedulerId,
    },
    /// A scheduler evicted the task.
    Evicted {
        /// The scheduler.
        scheduler: SchedulerId,
        /// The job whose task got the machine, if the same transaction placed one there.
        by: Option<JobId>,
    },
    /// The gang was not complete in time, so the task gave its machine back.
    GangTimedOut,
    /// A machine came.
    Registered,
    /// The description of a machine changed.
    Updated,
    /// A machine got a taint with this key.
    Tainted(Text),
    /// A taint with this key was removed.
    Untainted(Text),
    /// A machine takes no more tasks.
    Drained,
    /// A machine takes tasks again.
    Resumed,
    /// A machine of this name was removed.
    Removed(Text),
}

impl EventKind {
    /// The event of a report that changes a task as it says.
    pub(crate) fn of_report(report: TaskReport) -> EventKind {
        match report {
            TaskReport::Started => EventKind::Started,
            TaskReport::Finished => EventKind::Finished,
            TaskReport::Failed => EventKind::Failed,
            TaskReport::Lost => EventKind::Lost,
            TaskReport::Restarted => EventKind::Restarted,
        }
    }

    /// Whether it belongs to the ordinary life of every task.
    fn is_ordinary(&self) -> bool {
        matches!(self, EventKind::Placed { .. } | EventKind::Started | EventKind::Finished)
    }
}

impl Event {
    fn new(kind: EventKind) -> Event {
        Event { number: 0, at_ms: 0, kind, job: None, index: None, machine: None, end: None }
    }

    pub(crate) fn of_job(job: JobId, kind: EventKind) -> Event {
        Event { job: Some(job), ..Event::new(kind) }
    }

    pub(crate) fn of_task(task: TaskId, kind: EventKind) -> Event {
        Event { job: Some(task.job), index: Some(task.index), ..Event::new(kind) }
    }

    pub(crate) fn of_machine(machine: MachineId, kind: EventKind) -> Event {
        Event { machine: Some(machine), ..Event::new(kind) }
    }

    /// The event, on this machine.
    pub(crate) fn on(self, machine: MachineId) -> Event {
        Event { machine: Some(machine), ..self }
    }

    /// The event, with the end of a run.
    pub(crate) fn ended(self, end: Option<RunEnd>) -> Event {
        Event { end: end.map(Box::new), ..self }
    }

    /// Bytes that it has beside its own size.
    fn heap_bytes(&self) -> usize {
        self.end
            .as_ref()
            .map_or(0, |_| size_of::<RunEnd>() + omega_core::run_end::END_MESSAGE_BYTES_MAX)
    }
}

/// Both rings. See the head of the file.
#[derive(Clone, Debug)]
pub(crate) struct History {
    ordinary: Ring,
    notable: Ring,
    next: u64,
}

impl History {
    pub(crate) fn new(bytes: usize) -> History {
        History { ordinary: Ring::new(bytes / 2), notable: Ring::new(bytes / 2), next: 0 }
    }

    pub(crate) fn push(&mut self, event: Event, at_ms: u64) {
        let event = Event { number: self.next, at_ms, ..event };
        self.next += 1;
        let ring = if event.kind.is_ordinary() { &mut self.ordinary } else { &mut self.notable };
        ring.push(event);
    }

    /// Events of a job and its tasks, the newest first.
    pub(crate) fn of_job(&self, job: JobId) -> impl Iterator<Item = &Event> {
        newest_first(self.ordinary.of_job(job), self.notable.of_job(job))
    }

    /// Events of a machine and of tasks there, the newest first.
    pub(crate) fn of_machine(&self, machine: MachineId) -> impl Iterator<Item = &Event> {
        newest_first(self.ordinary.of_machine(machine), self.notable.of_machine(machine))
    }
}

/// Merges two descending lists of events.
fn newest_first<'h>(
    one: impl Iterator<Item = &'h Event>,
    other: impl Iterator<Item = &'h Event>,
) -> impl Iterator<Item = &'h Event> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || {
        let is_first = match (one.peek(), other.peek()) {
            (Some(first), Some(second)) => first.number > second.number,
            (first, _) => first.is_some(),
        };
        if is_first { one.next() } else { other.next() }
    })
}
