//! Types of an application and its containers.

use crate::ApiError;
use omega_core::{Amounts, Job, JobKind, Precedence, TaskGroup, Text, Version};
use std::fmt;

/// Settings for all containers of an application.
#[derive(Clone, Debug)]
pub struct ApplicationSettings {
    /// Name of the application. The names of its containers' jobs begin with this name and a dot, so it must not
    /// contain a dot or a `#`.
    pub name: Text,
    /// Tenant whose quota the containers use.
    pub tenant: Text,
    /// Name of the scheduler that places the containers.
    pub scheduler: Text,
    /// Precedence of the containers. They may preempt tasks of lower precedence.
    pub precedence: Precedence,
    /// Maximum number of containers that have not ended. A request for a further one is an error.
    pub containers_max: usize,
    /// Maximum number of concurrent calls to the cell. Further calls wait in this process.
    pub calls_max: usize,
}

impl ApplicationSettings {
    /// Settings for the tenant and the scheduler `default`, with precedence 0, up to a hundred thousand containers, and
    /// up to 64 calls at once. With 64 calls at once, the cell can write many calls in one log entry. The server's
    /// limit is far higher.
    pub fn new(name: impl Into<Text>) -> ApplicationSettings {
        ApplicationSettings {
            name: name.into(),
            tenant: "default".into(),
            scheduler: "default".into(),
            precedence: Precedence(0),
            containers_max: 100_000,
            calls_max: 64,
        }
    }
}

/// Treatment of containers of a former process of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recover {
    /// Existing containers are returned.
    Previous,
    /// Existing containers are ended before registration returns.
    Drop,
}

/// Specification of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// Request, labels, devices, images and placement rules of the container. The group's name is ignored, and its
    /// count is 1.
    pub group: TaskGroup,
    /// Whether the container runs until it ends by itself (batch), or until it is released (service).
    pub kind: JobKind,
    /// Expected run time in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
}

impl ContainerSpec {
    /// A container with this request, which runs on any machine until it ends by itself.
    #[must_use]
    pub fn new(request: Amounts) -> ContainerSpec {
        ContainerSpec {
            group: TaskGroup::new(1, request),
            kind: JobKind::Batch,
            runtime_estimate_ms: None,
        }
    }

    /// Makes the job for one container.
    pub(super) fn job(&self, name: String, settings: &ApplicationSettings) -> Job {
        let group = TaskGroup { name: "main".into(), count: 1, ..self.group.clone() };
        Job {
            tenant: settings.tenant.clone(),
            scheduler: settings.scheduler.clone(),
            precedence: settings.precedence,
            kind: self.kind,
            runtime_estimate_ms: self.runtime_estimate_ms,
            deadline_ms: None,
            ..Job::batch(name, group)
        }
    }
}

/// State of a container. Machines are referred to by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// The container waits for a machine.
    Waiting,
    /// The container was placed on this machine. The machine has not reported yet that the container runs.
    Placed(Text),
    /// The container runs on this machine.
    Running(Text),
    /// The container has ended.
    Ended(Completed),
}

/// Cause of a container's end, and its last machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Cause of the end.
    pub ended: Ended,
    /// Last machine of the container, if this process has received it.
    pub machine: Option<Text>,
}

/// Cause of a container's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The container finished.
    Finished,
    /// The container failed, and its group's restarts are used up.
    Failed,
    /// Another caller killed the container.
    Killed,
    /// The application released the container.
    Released,
    /// The cell no longer has the container's job, because it forgot the job, or because another cell has the address
    /// now.
    Lost,
    /// The cell rejected the container.
    Refused(ApiError),
}

/// A change of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Version of the cell at which the change was made. If that version is unknown, this is the last version that this
    /// process has received.
    pub version: Version,
    /// Name of the container, without the application's name.
    pub container: Text,
    /// Description of the change.
    pub change: Change,
}

/// A change of a container. If its state changed several times between two messages of the cell, only the last state is
/// reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A former process had requested the container, and the cell accepted it after this process had registered.
    /// [`super::Application::container`] returns the container.
    Recovered(ContainerState),
    /// The container was placed on this machine.
    Placed(Text),
    /// The container runs on this machine.
    Running(Text),
    /// The container lost this machine and waits for another one: it was preempted, it failed and has restarts left, or
    /// the machine was lost.
    Displaced(Text),
    /// The container has ended. No further event follows.
    Ended(Completed),
    /// The release of the container failed, so the container keeps running.
    NotReleased(ApiError),
    /// A callback of the container panicked with this message, and is not called again.
    CallbackPanicked(String),
}

impl fmt::Display for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ended)?;
        match &self.machine {
            Some(machine) => write!(f, " on {machine}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Finished => f.write_str("finished"),
            Ended::Failed => f.write_str("failed"),
            Ended::Killed => f.write_str("killed"),
            Ended::Released => f.write_str("released"),
            Ended::Lost => f.write_str("lost"),
            Ended::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.container;
        match &self.change {
            Change::Recovered(_) => write!(f, "{name} comes from before"),
            Change::Placed(machine) => write!(f, "{name} gets {machine}"),
            Change::Running(machine) => write!(f, "{name} runs on {machine}"),
            Change::Displaced(machine) => write!(f, "{name} loses {machine}, and waits"),
            Change::Ended(completed) => write!(f, "{name}: {completed}"),
            Change::NotReleased(why) => write!(f, "{name} is not released: {why}"),
            Change::CallbackPanicked(what) => write!(f, "a callback of {name} panicked: {what}"),
        }
    }
}
