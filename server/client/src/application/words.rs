//! The words of an application and its containers.

use crate::ApiError;
use omega_core::{Amounts, Job, JobKind, Precedence, TaskGroup, Text, Version};
use std::fmt;

/// Settings common to all containers of an application.
#[derive(Clone, Debug)]
pub struct ApplicationSettings {
    /// Its name: the jobs of its containers begin with it and a dot. It has neither a dot nor a `#`.
    pub name: Text,
    /// Tenant that pays.
    pub tenant: Text,
    /// The scheduler that is to place its containers.
    pub scheduler: Text,
    /// Precedence of its containers: those of lower precedence may be preempted.
    pub precedence: Precedence,
    /// Maximum number of containers that have not ended. Requests beyond it are errors.
    pub containers_max: usize,
    /// Maximum number of concurrent calls to the cell. Further ones wait here.
    pub calls_max: usize,
}

impl ApplicationSettings {
    /// Settings for the tenant and the scheduler `default`, with precedence 0, up to a hundred
    /// thousand containers and 64 calls at once: enough to fill log entries, and far below the
    /// server's limit.
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

/// Policy for containers of a previous process of the application.
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
    /// Claim, labels, devices, images and placement rules. Its name is ignored, and its count is 1.
    pub group: TaskGroup,
    /// Whether it runs to its end, or until it is released.
    pub kind: JobKind,
    /// Expected run time in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
}

impl ContainerSpec {
    /// A container with this request that runs to its end on any machine.
    #[must_use]
    pub fn new(request: Amounts) -> ContainerSpec {
        ContainerSpec {
            group: TaskGroup::new(1, request),
            kind: JobKind::Batch,
            runtime_estimate_ms: None,
        }
    }

    /// The job of a container.
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

/// State of a container. Machines are given by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// The container waits for a machine.
    Waiting,
    /// The container has a machine, which has not reported that it runs.
    Placed(Text),
    /// The container runs on this machine.
    Running(Text),
    /// The container has ended.
    Ended(Completed),
}

/// Cause of a container's end, and its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Kind of the end.
    pub ended: Ended,
    /// Its last machine, if this process saw one.
    pub machine: Option<Text>,
}

/// Cause of a container's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The container finished.
    Finished,
    /// The container failed, as often as its group may.
    Failed,
    /// Another caller killed it.
    Killed,
    /// The application released it.
    Released,
    /// The cell no longer has its job: the job was forgotten, or the cell is another one.
    Lost,
    /// The cell rejected the request.
    Refused(ApiError),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Version of the cell with the change; for a change without one, the last known version.
    pub version: Version,
    /// The name of the container, without the application's.
    pub container: Text,
    /// The change.
    pub change: Change,
}

/// Change of a container. Of changes between two readings only the last is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Requested by a previous process, and accepted after this one had registered.
    /// [`super::Application::container`] returns it.
    Recovered(ContainerState),
    /// The container got this machine.
    Placed(Text),
    /// The container runs on this machine.
    Running(Text),
    /// It lost this machine, and waits for another: it was displaced, failed and may try again, or the
    /// machine was lost.
    Displaced(Text),
    /// The container has ended. No further event follows.
    Ended(Completed),
    /// Its release failed; it keeps running.
    NotReleased(ApiError),
    /// A callback of it panicked with this message, and is not called again.
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
