//! Notes of an agent with each task, by which a restarted agent knows which task of the cell it is.

use omega_agent::FoundTask;
use omega_client::agent::{Found, Task};
use omega_core::{Amounts, MachineId, TaskId};
use serde::{Deserialize, Serialize};

/// See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) task: TaskId,
    /// The name of its job; empty in the notes of older agents.
    #[serde(default)]
    job: String,
    pub(super) machine: MachineId,
    request: Amounts,
    devices: Vec<u32>,
    /// Number of cores of each node.
    cores: Vec<u32>,
}

impl Note {
    pub(super) fn of(task: &Task) -> Note {
        Note {
            task: task.id,
            job: task.job_name.to_string(),
            machine: task.machine,
            request: task.request.clone(),
            devices: task.devices.clone(),
            cores: task.cores.clone(),
        }
    }

    /// The name of the task, as people write it.
    pub(super) fn name(&self) -> String {
        match &*self.job {
            "" => self.task.to_string(),
            job => format!("{job}/{}", self.task.index),
        }
    }

    /// Words for the task's folder.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the note of a task that was found.
    pub(super) fn read(found: &FoundTask) -> Option<Note> {
        serde_json::from_str(&found.spec.note).ok()
    }

    /// The task as the cell is told of it.
    pub(super) fn found(self, found: &FoundTask) -> Found {
        let grace_ms = found.spec.grace_ms;
        Found {
            task: self.task,
            machine: self.machine,
            request: self.request,
            devices: self.devices,
            cores: self.cores,
            grace_ms,
            // Its supervisor keeps the rest of the grace; this is the most that can be left.
            kill_in_ms: found.is_ending.then_some(grace_ms),
        }
    }
}
