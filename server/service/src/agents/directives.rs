//! Encoding of directives for an agent: each distinct program is sent once, and long lists are split into several
//! messages.

use super::outbox::{Directives, PROGRAM_BYTES, Start};
use omega_client::{convert, proto};
use omega_core::{JobId, JobKind, MachineId, TaskId};
use prost::Message;
use std::collections::BTreeMap;

/// Encodes directives as messages, each when it is requested, because a machine's programs may have many bytes. The flag
/// `more` is set in all messages but the last.
pub(super) fn encode(directives: Directives) -> Messages {
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
    let starts = directives.starts.into_iter();
    Messages { open: Some(first), bytes: 0, starts, programs: BTreeMap::new() }
}

/// The messages for one set of directives.
pub(super) struct Messages {
    /// The message that is being filled; `None` after the last one.
    open: Option<proto::AgentDirectives>,
    /// Bytes of the programs and start directives in the open message.
    bytes: usize,
    /// Tasks to start that are in no message yet.
    starts: std::vec::IntoIter<Start>,
    /// Numbers of the programs in all messages so far, from 1, by job and group.
    programs: BTreeMap<(JobId, usize), u32>,
}

impl Iterator for Messages {
    type Item = proto::AgentDirectives;

    fn next(&mut self) -> Option<proto::AgentDirectives> {
        let mut open = self.open.take()?;
        while let Some(start) = self.starts.next() {
            let next = self.programs.len() as u32 + 1;
            let number = *self.programs.entry((start.task.job, start.group)).or_insert(next);
            let program = (number == next).then(|| program(&start));
            let start = proto::StartTask { program: number, ..start_task(&start) };
            let bytes = program.as_ref().map_or(0, Message::encoded_len) + start.encoded_len();
            let is_full = self.bytes > 0 && self.bytes + bytes > PROGRAM_BYTES;
            let full = is_full.then(|| {
                self.bytes = 0;
                let full = std::mem::take(&mut open);
                proto::AgentDirectives { more: true, ..full }
            });
            self.bytes += bytes;
            open.programs.extend(program);
            open.starts.push(start);
            if full.is_some() {
                self.open = Some(open);
                return full;
            }
        }
        Some(open)
    }
}

/// The program of a task's group.
fn program(start: &Start) -> proto::Program {
    let group = &start.job.groups[start.group];
    proto::Program {
        run: group.run.as_deref().map(Into::into),
        payload: group.payload.as_bytes().to_vec(),
        labels: convert::label_list(&group.labels),
        volumes: group.volumes.iter().map(ToString::to_string).collect(),
        ports: group.rules.ports.iter().map(Into::into).collect(),
        tenant: start.job.tenant.to_string(),
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
    use omega_core::{Amounts, DeviceSet, Job, NodeCores, Run, TaskGroup};
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
        let messages: Vec<_> = encode(Directives { starts, ..Directives::default() }).collect();
        assert_eq!(messages.len(), 1);
        let only = &messages[0];
        assert_eq!((only.programs.len(), only.starts.len(), only.more), (1, 9, false));
        assert!(only.starts.iter().all(|start| start.program == 1));
    }

    #[test]
    fn the_tasks_of_a_full_machine_go_in_several_messages() {
        let starts = (0..300).map(|job| start(job, 0, 64 << 10)).collect();
        let whole = vec![MachineId::first(0)];
        let all = Directives { whole, starts, ..Directives::default() };
        assert!(all.bytes() > PROGRAM_BYTES, "the bytes of a message are charged");
        let messages: Vec<_> = encode(all).collect();
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
