//! Encoding of directives for an agent: each distinct program is sent once, and long lists are split into several
//! messages.

use super::outbox::{Directives, Start};
use omega_client::{convert, proto};
use omega_core::{JobKind, MachineId, TaskId};
use prost::Message;
use std::collections::BTreeMap;

/// Size limit in bytes for the programs and start directives in one message. A single larger program begins a message
/// of its own, which is still far below the message limit of clients.
const PROGRAM_BYTES: usize = 1 << 20;

/// Encodes directives as messages. The flag `more` is set in all messages but the last.
pub(super) fn encode(directives: Directives) -> Vec<proto::AgentDirectives> {
    let stop = |(task, machine): (TaskId, MachineId)| proto::StopTask {
        task: Some(task.into()),
        machine: Some(machine.into()),
    };
    let first = proto::AgentDirectives {
        whole_slots: directives.whole.iter().map(|id| id.slot).collect(),
        whole_incarnations: directives.whole.iter().map(|id| id.incarnation).collect(),
        stops: directives.stops.into_iter().map(stop).collect(),
        detached_slots: directives.detached.iter().map(|id| id.slot).collect(),
        detached_incarnations: directives.detached.iter().map(|id| id.incarnation).collect(),
        reads: directives.reads,
        ..proto::AgentDirectives::default()
    };
    let mut messages = Messages { done: Vec::new(), open: first, bytes: 0, programs: 0 };
    let mut sent = BTreeMap::new();
    for order in directives.starts {
        let of = (order.task.job, order.group);
        let program = match sent.get(&of) {
            Some(program) => *program,
            None => *sent.entry(of).or_insert(messages.program(&order)),
        };
        messages.start(&order, program);
    }
    messages.finish()
}

/// The messages for one set of directives.
struct Messages {
    done: Vec<proto::AgentDirectives>,
    open: proto::AgentDirectives,
    /// Bytes in the open message.
    bytes: usize,
    /// Number of programs in all messages.
    programs: u32,
}

impl Messages {
    /// Adds the program of a task's group. Returns the program's number, counted from 1 over all messages.
    fn program(&mut self, start: &Start) -> u32 {
        let group = &start.job.groups[start.group];
        let program = proto::Program {
            run: group.run.as_deref().map(Into::into),
            payload: group.payload.as_bytes().to_vec(),
            labels: convert::label_list(&group.labels),
            volumes: group.volumes.iter().map(ToString::to_string).collect(),
            ports: group.rules.ports.iter().map(Into::into).collect(),
            tenant: start.job.tenant.to_string(),
        };
        self.make_room(program.encoded_len());
        self.open.programs.push(program);
        self.programs += 1;
        self.programs
    }

    fn start(&mut self, start: &Start, program: u32) {
        let start = proto::StartTask { program, ..start_task(start) };
        self.make_room(start.encoded_len());
        self.open.starts.push(start);
    }

    /// Starts another message if further `bytes` would make the open message too large.
    fn make_room(&mut self, bytes: usize) {
        if self.bytes > 0 && self.bytes + bytes > PROGRAM_BYTES {
            let mut full = std::mem::take(&mut self.open);
            full.more = true;
            self.done.push(full);
            self.bytes = 0;
        }
        self.bytes += bytes;
    }

    fn finish(mut self) -> Vec<proto::AgentDirectives> {
        self.done.push(self.open);
        self.done
    }
}

fn start_task(start: &Start) -> proto::StartTask {
    let kind = match start.job.kind {
        JobKind::Service => proto::JobKind::Service,
        JobKind::Batch => proto::JobKind::Batch,
    };
    let group = &start.job.groups[start.group];
    proto::StartTask {
        task: Some(start.task.into()),
        machine: Some(start.machine.into()),
        job_name: start.job.name.to_string(),
        group: group.name.to_string(),
        kind: kind.into(),
        runtime_estimate_ms: start.job.runtime_estimate_ms,
        images: group.images.iter().map(ToString::to_string).collect(),
        request: start.allocation.as_slice().to_vec(),
        devices: start.devices.iter().map(|device| device as u32).collect(),
        running: start.is_running,
        grace_ms: group.grace_ms,
        cores: convert::node_list(&start.cores),
        program: 0,
        ports: convert::chosen_ports(group, &start.ports),
        placed_ms: start.placed_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, DeviceSet, Job, JobId, NodeCores, Run, TaskGroup};
    use std::sync::Arc;

    fn start(job: u64, index: u32, payload: usize) -> Start {
        let group = TaskGroup {
            run: Some(Arc::new(Run::new("/bin/true"))),
            payload: vec![7; payload].into(),
            ..TaskGroup::new(9, Amounts::new([100]))
        };
        Start {
            task: TaskId { job: JobId(job), index },
            machine: MachineId::first(0),
            placed_ms: 0,
            job: Arc::new(Job::batch("b", group)),
            group: 0,
            devices: DeviceSet::default(),
            cores: NodeCores::NONE,
            ports: Vec::new(),
            allocation: Amounts::new([100]),
            is_running: false,
        }
    }

    #[test]
    fn the_tasks_of_a_group_share_its_program() {
        let starts = (0..9).map(|index| start(1, index, 1000)).collect();
        let messages = encode(Directives { starts, ..Directives::default() });
        assert_eq!(messages.len(), 1);
        let only = &messages[0];
        assert_eq!((only.programs.len(), only.starts.len(), only.more), (1, 9, false));
        assert!(only.starts.iter().all(|start| start.program == 1));
    }

    #[test]
    fn the_tasks_of_a_full_machine_go_in_several_messages() {
        let starts = (0..300).map(|job| start(job, 0, 64 << 10)).collect();
        let whole = vec![MachineId::first(0)];
        let messages = encode(Directives { whole, starts, ..Directives::default() });
        assert!(messages.len() > 15, "{}", messages.len());
        let (last, others) = messages.split_last().expect("there are some");
        assert!(!last.more && others.iter().all(|message| message.more));
        assert!(messages.iter().all(|message| message.encoded_len() < 2 * PROGRAM_BYTES));
        assert_eq!(messages[1].whole_slots, [0_u32; 0], "it is sent once");
        let programs: Vec<u32> = messages
            .iter()
            .flat_map(|message| &message.starts)
            .map(|start| start.program)
            .collect();
        assert_eq!(programs, (1..=300).collect::<Vec<u32>>());
        assert_eq!(messages.iter().map(|message| message.programs.len()).sum::<usize>(), 300);
    }
}
