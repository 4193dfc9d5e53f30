//! Events of jobs, tasks and machines.

use omega_core::{
    EndReason, JobId, MachineId, RunEnd, SchedulerId, TaskId, TaskReport, Text, UpdateResult,
};

/// The job or machine whose events are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsOf {
    /// A job and its tasks.
    Job(JobId),
    /// A machine and the tasks on it.
    Machine(MachineId),
}

/// An event of a job, task or machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the event. Numbers ascend over all events that this process has recorded.
    pub number: u64,
    /// Time of the event, by the cell's clock.
    pub at_ms: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// The job concerned.
    pub job: Option<JobId>,
    /// Index of the task concerned; `None` if the event concerns the whole job, or a machine.
    pub index: Option<u32>,
    /// The machine concerned.
    pub machine: Option<MachineId>,
    /// End of a run of the program, if an agent reported one.
    pub end: Option<Box<RunEnd>>,
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A job was submitted, with this number of tasks.
    Submitted {
        /// Number of the job's tasks.
        tasks: u32,
    },
    /// The size of a group was changed.
    Resized {
        /// Position of the group in the job.
        group: u16,
        /// Former size.
        from: u32,
        /// New size.
        to: u32,
    },
    /// The job was updated.
    NewVersion {
        /// Number of the version.
        number: u32,
    },
    /// The update to a version has a result.
    UpdateEnded {
        /// Number of the version.
        version: u32,
        /// Result of the update.
        result: UpdateResult,
    },
    /// The job was killed, or the task was killed because its group shrank.
    Killed,
    /// All tasks of the job have ended.
    Ended,
    /// A scheduler placed the task on the machine.
    Placed {
        /// Id of the scheduler.
        scheduler: SchedulerId,
    },
    /// The task was adopted: it was found running on the machine.
    Adopted,
    /// The task's program runs.
    Started,
    /// The agent restarts the task's program, on this machine.
    Restarted,
    /// The task has finished.
    Finished,
    /// The task failed, and is pending again.
    Requeued,
    /// The task failed for good.
    Failed,
    /// The task was lost together with its machine or its supervisor, and is pending again.
    Lost,
    /// The task was stopped because its machine must be empty by a set time, and is pending again.
    Moved,
    /// A scheduler released the task, to place it elsewhere.
    Released {
        /// Id of the scheduler.
        scheduler: SchedulerId,
    },
    /// A scheduler evicted the task.
    Evicted {
        /// Id of the scheduler.
        scheduler: SchedulerId,
        /// The job that got the room: the evicting transaction placed a task of this job on the machine. `None` if the
        /// transaction placed no task there.
        by: Option<JobId>,
    },
    /// The gang was incomplete at its timeout, so the task was taken off its machine.
    GangTimedOut,
    /// A machine was registered.
    Registered,
    /// The description of a machine changed.
    Updated,
    /// A machine got a taint with this key.
    Tainted(Text),
    /// A taint with this key was removed.
    Untainted(Text),
    /// A machine no longer accepts tasks.
    Drained,
    /// A machine accepts tasks again.
    Resumed,
    /// A machine of this name was removed.
    Removed(Text),
}

impl EventKind {
    /// Returns the event for a report that changes a task. The report of a lost task gives [`EventKind::Moved`] if the
    /// agent stopped the task on request.
    pub(crate) fn of_report(report: TaskReport, end: Option<&RunEnd>) -> EventKind {
        let is_stopped = end.is_some_and(|end| end.reason == EndReason::Stopped);
        match report {
            TaskReport::Lost if is_stopped => EventKind::Moved,
            TaskReport::Started => EventKind::Started,
            TaskReport::Finished => EventKind::Finished,
            TaskReport::Failed => EventKind::Failed,
            TaskReport::Lost => EventKind::Lost,
            TaskReport::Restarted => EventKind::Restarted,
        }
    }

    /// Whether this event is frequent. Frequent events have a ring of their own, so that they do not displace the others.
    pub(super) fn is_ordinary(&self) -> bool {
        use EventKind::{Finished, Placed, Restarted, Started};
        matches!(self, Placed { .. } | Started | Restarted | Finished)
    }
}

impl Event {
    pub(super) fn new(kind: EventKind) -> Event {
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

    /// Returns the event with its machine set.
    pub(crate) fn on(self, machine: MachineId) -> Event {
        Event { machine: Some(machine), ..self }
    }

    /// Returns the event with the end of a run set.
    pub(crate) fn ended(self, end: Option<RunEnd>) -> Event {
        Event { end: end.map(Box::new), ..self }
    }

    /// Bytes of the event on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.end
            .as_ref()
            .map_or(0, |_| size_of::<RunEnd>() + omega_core::job::run_end::END_MESSAGE_BYTES_MAX)
    }
}
