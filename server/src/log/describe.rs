//! A command as one short line of text.

use omega_core::{Command, JobId, MachineId, RollStep, TaskReport, Transaction, UpdateResult};
use omega_workload::words::plural;

fn rolled(job: JobId, step: &RollStep) -> String {
    let more: u64 = step.adds.iter().map(|add| u64::from(add.count)).sum();
    let (more, ends) = (plural(more, "task"), plural(step.stops.len() as u64, "task"));
    format!("roll job {job} at version {}: {more} more, {ends} to end", step.version)
}

fn ended(result: UpdateResult) -> &'static str {
    match result {
        UpdateResult::Complete => "complete",
        UpdateResult::Failed => "failed",
    }
}

/// Text of a command: its action and objects.
pub(super) fn command(command: &Command) -> String {
    match command {
        Command::RegisterScheduler { name } => format!("register scheduler {}", clean(name)),
        Command::RegisterMachine(machine) => format!("register machine {}", clean(&machine.name)),
        Command::AddTaint { id, taint } => {
            format!("add taint {} to machine {id}", clean(&taint.key))
        }
        Command::RemoveTaint { id, key } => {
            format!("remove taint {} from machine {id}", clean(key))
        }
        Command::UpdateMachine { id, .. } => format!("update machine {id}"),
        Command::DrainMachine { id, draining: true } => format!("drain machine {id}"),
        Command::DrainMachine { id, draining: false } => format!("resume machine {id}"),
        Command::RemoveMachine { id } => format!("remove machine {id}"),
        Command::ReportLoad { id, .. } => format!("report the load of machine {id}"),
        Command::SubmitJob(job) => {
            format!("submit job {} of {}", clean(&job.name), plural(job.task_count(), "task"))
        }
        Command::ResizeGroup { job, group, count } | Command::ScaleGroup { job, group, count } => {
            format!("resize group {} of job {job} to {count}", clean(group))
        }
        Command::KillJob { job } => format!("kill job {job}"),
        Command::DeleteJob { job } => format!("delete job {job}"),
        Command::UpdateJob { job, .. } => format!("update job {job}"),
        Command::RollJob { job, step } => rolled(*job, step),
        Command::EndUpdate { job, version, result } => {
            format!("update of job {job} to version {version} {}", ended(*result))
        }
        Command::ReportTask { task, machine, report, .. } => {
            format!("task {task} {} on machine {machine}", reported(*report))
        }
        Command::ReportEnd { task, machine, report, end, .. } => {
            let reason = clean(&end.reason.to_string());
            format!("task {task} {} on machine {machine}: {reason}", reported(*report))
        }
        Command::ReportUse { machine, used } => use_reported(*machine, used.len()),
        Command::AdoptTask { task, machine } => format!("adopt task {task} on machine {machine}"),
        Command::SetQuota { tenant, limit: Some(_) } => format!("set quota of {}", clean(tenant)),
        Command::SetQuota { tenant, limit: None } => format!("lift quota of {}", clean(tenant)),
        Command::SetTenant { tenant, tenant_config } => match &tenant_config.parent {
            Some(parent) => format!("tenant_config of {} below {}", clean(tenant), clean(parent)),
            None => format!("tenant_config of {}", clean(tenant)),
        },
        Command::SetAdmission { tenant, limit: Some(_) } => {
            format!("set the request limit of {}", clean(tenant))
        }
        Command::SetAdmission { tenant, limit: None } => {
            format!("remove the request limit of {}", clean(tenant))
        }
        Command::Reserve(reservation) => {
            format!("reserve machines as {}", clean(&reservation.name))
        }
        Command::Unreserve { name } => format!("end reservation {}", clean(name)),
        Command::SetClusterCapacity { kind, amount } => {
            format!("the cell has {amount} of kind {}", kind.0)
        }
        Command::SetPeaks(calendar) => format!("set peaks of {}", clean(&calendar.name)),
        Command::RemovePeaks { name } => format!("remove peaks of {}", clean(name)),
        Command::SetPolicy(_) => "set policy".to_owned(),
        Command::Commit(txn) => commit(txn),
        Command::Expire { now_ms } => format!("expire, the time is {now_ms} ms"),
        Command::GrantLease { name, holder, .. } => {
            format!("give the scheduler's name {} to process {holder}", clean(name))
        }
        Command::RevokeLeases { holder } => format!("revoke all names of process {holder}"),
        _ => "a command that this program does not know".to_owned(),
    }
}

/// Describes a transaction by its numbers of items.
fn commit(txn: &Transaction) -> String {
    let count = |number: usize, thing| plural(number as u64, thing);
    let resizes = match txn.resizes.len() {
        0 => String::new(),
        resizes => format!(", {}", count(resizes, "resize")),
    };
    format!(
        "commit {} of scheduler {}: {}, {}, {}{resizes}",
        txn.id.number,
        txn.id.scheduler.0,
        count(txn.claims.len(), "claim"),
        count(txn.evictions.len(), "eviction"),
        count(txn.releases.len(), "release"),
    )
}

fn use_reported(machine: MachineId, tasks: usize) -> String {
    format!("report the use of {} on machine {machine}", plural(tasks as u64, "task"))
}

fn reported(report: TaskReport) -> &'static str {
    match report {
        TaskReport::Started => "started",
        TaskReport::Finished => "finished",
        TaskReport::Failed => "failed",
        TaskReport::Lost => "was lost",
        TaskReport::Restarted => "was started again",
    }
}

/// A name without characters that could move the reader's cursor.
pub(super) fn clean(name: &str) -> String {
    omega_core::text::shown(name)
}
