//! Receives the directives of a stream: joins their parts, and parses them.

use super::records::DirectiveBatch;
use super::{LogRead, Owner, Program, Task};
use crate::ApiError;
use crate::convert::{self, Malformed};
use crate::proto::{self, AgentDirectives};
use omega_core::{JobKind, MachineId, Run, TaskId};
use std::sync::Arc;
use tonic::Streaming;

/// The incoming directives of a stream, and the parts of a directive that is not complete yet.
pub(super) struct Incoming {
    stream: Streaming<AgentDirectives>,
    joined: AgentDirectives,
}

impl Incoming {
    pub(super) fn new(stream: Streaming<AgentDirectives>) -> Incoming {
        Incoming { stream, joined: AgentDirectives::default() }
    }

    /// Returns the next directives. An error means that the stream has ended, and contains the reason, if known.
    /// Dropping the future early loses no directive.
    pub(super) async fn next(&mut self) -> Result<DirectiveBatch, Option<ApiError>> {
        loop {
            let message = self.stream.message().await.map_err(|status| Some(status.into()))?;
            let message = message.ok_or(None)?;
            let is_last = !message.more;
            join(&mut self.joined, message);
            if is_last {
                let whole = std::mem::take(&mut self.joined);
                // A malformed directive ends the stream. The cell sends the directives again on the next stream.
                return parse(whole).map_err(|malformed| Some(malformed.into()));
            }
        }
    }
}

/// Appends each list of `message` to the same list of `joined`.
fn join(joined: &mut AgentDirectives, mut message: AgentDirectives) {
    joined.whole_slots.append(&mut message.whole_slots);
    joined.whole_incarnations.append(&mut message.whole_incarnations);
    joined.stops.append(&mut message.stops);
    joined.starts.append(&mut message.starts);
    joined.detached_slots.append(&mut message.detached_slots);
    joined.detached_incarnations.append(&mut message.detached_incarnations);
    joined.programs.append(&mut message.programs);
    joined.reads.append(&mut message.reads);
}

fn parse(directives: AgentDirectives) -> Result<DirectiveBatch, Malformed> {
    let stop = |stop: proto::StopTask| {
        let machine = stop.machine.ok_or(Malformed::Missing("stop.machine"))?;
        let task = stop.task.ok_or(Malformed::Missing("stop.task"))?;
        Ok::<(MachineId, TaskId), Malformed>((machine.into(), task.into()))
    };
    let programs = directives.programs.into_iter().map(|one| program(one).map(Arc::new));
    let programs = programs.collect::<Result<Vec<_>, Malformed>>()?;
    let start = |start: proto::StartTask| {
        let is_running = start.running;
        Ok::<(Task, bool), Malformed>((task(start, &programs)?, is_running))
    };
    let reads = directives.reads.into_iter().map(log_read).collect::<Result<_, _>>()?;
    Ok(DirectiveBatch {
        reads,
        whole: machines(&directives.whole_slots, &directives.whole_incarnations).collect(),
        stops: directives.stops.into_iter().map(stop).collect::<Result<_, _>>()?,
        starts: directives.starts.into_iter().map(start).collect::<Result<_, _>>()?,
        detached: machines(&directives.detached_slots, &directives.detached_incarnations).collect(),
    })
}

fn log_read(read: proto::ReadLog) -> Result<LogRead, Malformed> {
    let is_stderr = read.stream() == proto::LogStream::Stderr;
    Ok(LogRead {
        read: read.read,
        task: read.task.ok_or(Malformed::Missing("read.task"))?.into(),
        owner: Owner { tenant: read.tenant.into(), job: read.job_name.into() },
        is_stderr,
        from: read.from,
        tail_lines: read.tail_lines,
        bytes_max: read.bytes_max as usize,
    })
}

fn machines(slots: &[u32], incarnations: &[u32]) -> impl Iterator<Item = MachineId> {
    let incarnations = incarnations.iter().copied().chain(std::iter::repeat(0));
    slots.iter().zip(incarnations).map(|(slot, incarnation)| MachineId { slot: *slot, incarnation })
}

fn program(program: proto::Program) -> Result<Program, Malformed> {
    Ok(Program {
        tenant: program.tenant.into(),
        run: program.run.map(Run::try_from).transpose()?,
        payload: program.payload.into(),
        labels: convert::labels(program.labels),
        volumes: program.volumes.into_iter().map(Into::into).collect(),
        ports: program.ports.into_iter().map(TryFrom::try_from).collect::<Result<_, _>>()?,
    })
}

fn task(start: proto::StartTask, programs: &[Arc<Program>]) -> Result<Task, Malformed> {
    let kind = match start.kind() {
        proto::JobKind::Service => JobKind::Service,
        proto::JobKind::Batch | proto::JobKind::Unspecified => JobKind::Batch,
    };
    let program = match start.program.checked_sub(1) {
        Some(at) => {
            let program = programs.get(at as usize).cloned();
            program.ok_or(Malformed::Missing("the program of a start"))?
        }
        None => Arc::default(),
    };
    Ok(Task {
        id: start.task.ok_or(Malformed::Missing("start.task"))?.into(),
        machine: start.machine.ok_or(Malformed::Missing("start.machine"))?.into(),
        placed_ms: start.placed_ms,
        job_name: start.job_name.into(),
        group: start.group.into(),
        kind,
        runtime_estimate_ms: start.runtime_estimate_ms,
        images: start.images.into_iter().map(Into::into).collect(),
        request: convert::amounts(start.request),
        devices: start.devices,
        cores: start.cores,
        ports: start.ports.into_iter().map(convert::named_port_in).collect::<Result<_, _>>()?,
        grace_ms: start.grace_ms,
        program,
    })
}
