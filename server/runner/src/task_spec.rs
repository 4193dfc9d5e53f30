//! The description of a task for the driver.

use crate::environment;
use crate::note::Note;
use omega_agent::{Container, Limits, TaskSpec};
use omega_client::agent::{Owner, Task};
use omega_core::{Amounts, HealthCheck, JobKind, Kinds, Probe, TaskId};

/// The name of a task in the driver. Within a cell it is unique, because job numbers are not reused. A restored cell,
/// and a restarted cell in memory, use them again; so a task also has an [`owner`].
pub(crate) fn name(task: TaskId) -> String {
    format!("{}-{}", task.job.0, task.index)
}

/// The owner of a task, as text for the driver.
pub(crate) fn owner(of: &Owner) -> String {
    format!("{:?} {:?}", &*of.tenant, &*of.job)
}

/// The cpu and memory in some amounts.
pub(crate) fn cpu_and_memory(kinds: &Kinds, amounts: &Amounts) -> (u64, u64) {
    let of = |kind: Option<_>| kind.map_or(0, |kind| amounts.get(kind));
    (of(kinds.cpu()), of(kinds.by_name("memory")))
}

/// Describes a task with these limits, which include its exclusive cores. `None` if the task has no program.
pub(crate) fn of(task: &Task, kinds: &Kinds, limits: Limits) -> Option<TaskSpec> {
    let run = task.program.run.as_ref()?;
    let container = |image: &str| Container { image: image.to_owned(), mounts: run.mounts.clone() };
    let (cpu_millis, memory_bytes) = cpu_and_memory(kinds, &task.request);
    Some(TaskSpec {
        id: name(task.id),
        command: run.command.to_string(),
        args: run.args.iter().map(ToString::to_string).collect(),
        env: environment::of(task, kinds, &limits.cores),
        container: run.image.as_deref().map(container),
        working_dir: run.working_dir.as_deref().map(Into::into),
        user: run.user.as_deref().map(Into::into),
        limits: Limits { cpu_millis, memory_bytes, ..limits },
        grace_ms: task.grace_ms,
        restart: run.restart,
        stays_up: task.kind == JobKind::Service,
        health: run.health.clone().map(|check| with_number(check, task)),
        owner: owner(&task.owner()),
        note: Note::of(task).text(),
    })
}

/// Replaces the name of a port in a health check by the port's number. The cell has checked that the task has the port.
fn with_number(mut check: HealthCheck, task: &Task) -> HealthCheck {
    let number = |name: &str| task.port(name).unwrap_or_default();
    check.probe = match check.probe {
        Probe::NamedTcp(name) => Probe::Tcp(number(&name)),
        Probe::NamedHttp { port, path } => Probe::Http { port: number(&port), path },
        other => other,
    };
    check
}
