//! The agent's note in each task's folder. A restarted agent reads the note to learn to which of the cell's tasks a
//! running process belongs.

use omega_agent::FoundTask;
use omega_client::agent::{Owner, RecoveredTask, RunId, Task};
use omega_core::text::shown;
use omega_core::{Amounts, MachineId, TaskId};
use serde::{Deserialize, Serialize};

/// The contents of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) task: TaskId,
    /// The name of the job; empty in notes of older agents.
    #[serde(default)]
    job: String,
    /// The tenant of the job; `None` in notes of older agents.
    #[serde(default)]
    tenant: Option<String>,
    pub(crate) machine: MachineId,
    /// The cell's time of the placement; 0 in notes of older agents.
    #[serde(default)]
    placed_ms: u64,
    request: Amounts,
    devices: Vec<u32>,
    /// Number of the task's exclusive cores on each NUMA node.
    cores: Vec<u32>,
    /// Numbers of the task's ports; empty in notes of older agents.
    #[serde(default)]
    ports: Vec<u16>,
}

impl Note {
    pub(crate) fn of(task: &Task) -> Note {
        Note {
            task: task.id,
            job: task.job_name.to_string(),
            tenant: Some(task.program.tenant.to_string()),
            machine: task.machine,
            placed_ms: task.placed_ms,
            request: task.request.clone(),
            devices: task.devices.clone(),
            cores: task.cores.clone(),
            ports: task.port_numbers().collect(),
        }
    }

    /// Id of the run.
    pub(crate) fn run(&self) -> RunId {
        RunId { task: self.task, machine: self.machine, placed_ms: self.placed_ms }
    }

    /// Name of the task for people, such as `web/0`; the task's ids if the note has no job name. A task that runs as the
    /// agent's user can change its note.
    pub(crate) fn name(&self) -> String {
        match &*self.job {
            "" => self.task.to_string(),
            job => format!("{}/{}", shown(job), self.task.index),
        }
    }

    /// The note as JSON.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the note of a running task.
    pub(crate) fn read(found: &FoundTask) -> Option<Note> {
        serde_json::from_str(&found.spec.note).ok()
    }

    /// Owner of the task; `None` in notes of older agents.
    fn owner(&self) -> Option<Owner> {
        let tenant = self.tenant.as_deref()?;
        Some(Owner { tenant: tenant.into(), job: self.job.as_str().into() })
    }

    /// Converts the note to the report of a running task for the cell.
    pub(crate) fn recovered(self, found: &FoundTask) -> RecoveredTask {
        let grace_ms = found.spec.grace_ms;
        RecoveredTask {
            run: self.run(),
            owner: self.owner(),
            request: self.request,
            devices: self.devices,
            cores: self.cores,
            ports: self.ports,
            grace_ms,
            is_running: found.is_started,
            // Only the supervisor measures the remaining grace period. The full period is an upper bound.
            kill_in_ms: found.is_ending.then_some(grace_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printable() {
        let note = |job: &str| Note {
            task: TaskId { job: omega_core::JobId(7), index: 2 },
            job: job.to_owned(),
            tenant: None,
            machine: MachineId::default(),
            placed_ms: 0,
            request: Amounts::default(),
            devices: Vec::new(),
            cores: Vec::new(),
            ports: Vec::new(),
        };
        assert_eq!(note("web").name(), "web/2");
        assert_eq!(note("web\u{1b}[2K\n").name(), "web\u{fffd}[2K\u{fffd}/2");
    }
}
