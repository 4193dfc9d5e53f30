//! Directives for agents, and the messages that contain them.

use omega_cellstate::Cell;
use omega_client::proto;
use omega_core::{Amounts, DeviceSet, Job, MachineId, NodeCores, TaskId, TaskState, bytes_at_most};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of tasks in a message. Only the tasks of one machine, which stay together, may exceed it.
const ITEMS_MAX: usize = 500;

/// Size limit in bytes for the programs and start directives in one message. A single larger program begins a message
/// of its own, which is still far below the message limit of clients.
pub(super) const PROGRAM_BYTES: usize = 1 << 20;

/// Id of an agent's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// A task that should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) task: TaskId,
    pub(crate) machine: MachineId,
    pub(crate) placed_ms: u64,
    pub(crate) job: Arc<Job>,
    /// The position of the task's group in its job.
    pub(crate) group: usize,
    pub(crate) devices: DeviceSet,
    pub(crate) cores: NodeCores,
    /// Ports that the cell chose, in the order of the group's names.
    pub(crate) ports: Vec<u16>,
    pub(crate) allocation: Amounts,
    pub(crate) is_running: bool,
}

/// Directives for an agent in one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) whole: Vec<MachineId>,
    pub(crate) stops: Vec<(TaskId, MachineId)>,
    pub(crate) starts: Vec<Start>,
    pub(crate) detached: Vec<MachineId>,
    pub(crate) reads: Vec<proto::ReadLog>,
}

impl Directives {
    /// Approximate number of bytes in memory, with one encoded message.
    pub(super) fn bytes(&self) -> usize {
        let ids = self.whole.len() + self.detached.len();
        let mut encoded = 0;
        for start in &self.starts {
            let group = &start.job.groups[start.group];
            encoded +=
                group.payload.as_bytes().len() + group.run.as_deref().map_or(0, bytes_at_most);
            if encoded >= PROGRAM_BYTES {
                break;
            }
        }
        size_of::<Directives>()
            + encoded
            + self.starts.len() * size_of::<Start>()
            + self.stops.len() * size_of::<(TaskId, MachineId)>()
            + ids * size_of::<MachineId>()
            + self.reads.len() * size_of::<proto::ReadLog>()
    }

    fn is_full(&self) -> bool {
        self.whole.len() + self.stops.len() + self.starts.len() + self.detached.len() >= ITEMS_MAX
    }
}

/// The messages to send to each stream, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox(pub(crate) BTreeMap<StreamId, Vec<Directives>>);

impl Outbox {
    /// The message that is being filled for a stream.
    pub(super) fn of(&mut self, stream: StreamId) -> &mut Directives {
        let all = self.0.entry(stream).or_default();
        if all.last().is_none_or(Directives::is_full) {
            all.push(Directives::default());
        }
        let last = all.len() - 1;
        &mut all[last]
    }

    /// Adds a stop. An agent handles the stops in a message before the starts, so a stop that must follow a start of
    /// the same task goes into a new message.
    pub(super) fn stop(&mut self, stream: StreamId, task: TaskId, machine: MachineId) {
        let begun = self.of(stream);
        if begun.starts.iter().any(|start| start.task == task) {
            self.0.entry(stream).or_default().push(Directives::default());
        }
        self.of(stream).stops.push((task, machine));
    }
}

/// The start directive of a placed task; `None` for a task of an incomplete gang.
pub(super) fn start(cell: &Cell, task: TaskId) -> Option<Start> {
    let state = cell.task(task).filter(|_| cell.gang_wait(task.job).is_none())?;
    Some(Start {
        task,
        machine: state.machine()?,
        placed_ms: cell.task_placed_ms(task).unwrap_or_default(),
        job: cell.job(task.job)?.clone(),
        group: cell.task_group(task)?,
        devices: cell.task_devices(task).unwrap_or_default(),
        cores: cell.task_cores(task),
        ports: cell.task_ports(task).to_vec(),
        allocation: cell.task_allocation(task)?,
        is_running: matches!(state, TaskState::Running(_)),
    })
}
