//! Events for the loop of a supervisor.

use std::sync::mpsc::Sender;

/// An event.
#[derive(Debug)]
pub(crate) enum SupervisorEvent {
    /// At least one child has ended.
    Child,
    /// The task is to be stopped.
    Stop,
    /// The task is to be killed.
    Kill,
    /// The command of the health check is to be run. Whether the command exited with 0 is sent through the `Sender`.
    Probe(Sender<bool>),
    /// The health check took too long.
    ProbeIsLate,
    /// The container of a run has started.
    ContainerStarted(u32),
    /// The health check of a run has succeeded for the first time.
    Ready(u32),
    /// The health check of a run has failed too often.
    Unhealthy(u32),
}
